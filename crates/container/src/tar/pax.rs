// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The records of pax: `<length> <key>=<value>\n`, which say more than a header can.

use super::{Piece, TarError};

/// What the records before an entry say about it.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) mtime: Option<i64>,
    pub(super) uid: Option<u64>,
    pub(super) gid: Option<u64>,
    /// How many extended attributes it has.
    pub(super) attributes: u32,
    pub(super) holes: HoleRecords,
}

/// What the records say about holes; there are three versions of them.
#[derive(Clone, Debug, Default)]
pub(super) struct HoleRecords {
    pub(super) major: u64,
    pub(super) minor: u64,
    pub(super) name: Option<Vec<u8>>,
    pub(super) real_size: Option<u64>,
    pub(super) pieces: Vec<Piece>,
    /// Whether there is anything.
    pub(super) is_there: bool,
}

impl Records {
    /// Adds what is in the content of a pax header.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Result<(), TarError> {
        // Some writers fill what is left with zeros.
        while bytes.first().is_some_and(|first| *first != 0) {
            let (record, rest) = split_record(bytes).ok_or(TarError::Pax)?;
            bytes = rest;
            let equals = record.iter().position(|byte| *byte == b'=');
            let (key, value) = record.split_at(equals.ok_or(TarError::Pax)?);
            self.take(key, value.get(1..).unwrap_or_default())?;
        }
        Ok(())
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), TarError> {
        // An empty value takes back an earlier one.
        let given = Some(value).filter(|value| !value.is_empty());
        match key {
            b"path" => self.path = given.map(<[u8]>::to_vec),
            b"linkpath" => self.link = given.map(<[u8]>::to_vec),
            b"size" => self.size = given.map(number).transpose()?,
            b"uid" => self.uid = given.map(number).transpose()?,
            b"gid" => self.gid = given.map(number).transpose()?,
            b"mtime" => self.mtime = seconds(value),
            _ if key.starts_with(b"SCHILY.xattr.") || key.starts_with(b"LIBARCHIVE.xattr.") => {
                self.attributes = self.attributes.saturating_add(1);
            }
            _ => {
                if let Some(rest) = key.strip_prefix(b"GNU.sparse.") {
                    self.holes.take(rest, value)?;
                }
            }
        }
        Ok(())
    }
}

impl HoleRecords {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), TarError> {
        self.is_there = true;
        match key {
            b"major" => self.major = number(value)?,
            b"minor" => self.minor = number(value)?,
            b"name" => self.name = Some(value.to_vec()),
            b"realsize" | b"size" => self.real_size = Some(number(value)?),
            // The first version says each number in a record of its own.
            b"offset" => self.pieces.push(Piece { start: number(value)?, length: 0 }),
            b"numbytes" => {
                self.pieces.last_mut().ok_or(TarError::Pax)?.length = number(value)?;
            }
            b"map" => self.pieces = map_of(value)?,
            _ => {}
        }
        Ok(())
    }
}

fn map_of(value: &[u8]) -> Result<Vec<Piece>, TarError> {
    let numbers = value.split(|byte| *byte == b',').map(number);
    let numbers: Vec<u64> = numbers.collect::<Result<_, _>>()?;
    let pairs = numbers.chunks(2).map(|pair| match pair {
        [start, length] => Ok(Piece { start: *start, length: *length }),
        _ => Err(TarError::Pax),
    });
    pairs.collect()
}

fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = bytes.iter().take(20).position(|byte| *byte == b' ')?;
    let length = usize::try_from(number(bytes.get(..space)?).ok()?).ok()?;
    let record = bytes.get(space + 1..length)?.strip_suffix(b"\n")?;
    Some((record, bytes.get(length..)?))
}

pub(super) fn number(text: &[u8]) -> Result<u64, TarError> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_number);
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or(TarError::Pax)
}

/// Reads `1700000000.123` or a negative one; what it cannot read says nothing.
fn seconds(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    text.split('.').next()?.parse().ok()
}
