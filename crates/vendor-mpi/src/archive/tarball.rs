// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The files of a Debian package: a tar archive.
//!
//! Long names are put together here and not by the library, which would keep names of
//! any size in memory.

use std::borrow::Cow;
use std::io::Read;

use tar::{Archive, EntryType};

use super::{ArchiveError, Counted, Entry, Kind, checked};

/// The longest name, and the longest list of additions to a header.
const LONGEST: u64 = 64 << 10;

/// What precedes a header and belongs to it.
#[derive(Default)]
struct Before {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

pub(super) fn visit(archive: impl Read, counted: &mut Counted<'_, '_>) -> Result<(), ArchiveError> {
    let mut archive = Archive::new(archive);
    let mut before = Before::default();
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        match entry.header().entry_type() {
            EntryType::GNULongName => before.path = Some(long(&mut entry)?),
            EntryType::GNULongLink => before.link = Some(long(&mut entry)?),
            EntryType::XHeader => additions(&long(&mut entry)?, &mut before)?,
            EntryType::XGlobalHeader => {}
            kind => {
                let Before { path, link } = std::mem::take(&mut before);
                let path = path.unwrap_or_else(|| entry.path_bytes().into_owned());
                let link = link.or_else(|| entry.link_name_bytes().map(Cow::into_owned));
                let size = entry.header().entry_size()?;
                let is_executable = entry.header().mode()? & 0o111 != 0;
                let kind = kind_of(kind, &path, link, size, is_executable)?;
                let path = checked(&path)?;
                if !path.is_empty() {
                    counted.show(&Entry { path, kind }, &mut entry)?;
                }
            }
        }
    }
    Ok(())
}

fn long(entry: &mut impl Read) -> Result<Vec<u8>, ArchiveError> {
    let mut text = Vec::new();
    entry.by_ref().take(LONGEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(ArchiveError::Damaged("a name in it is longer than any name"));
    }
    while text.last() == Some(&0) {
        text.pop();
    }
    Ok(text)
}

/// Reads the additions to a header: lines of `length key=value`.
fn additions(mut text: &[u8], before: &mut Before) -> Result<(), ArchiveError> {
    let damaged = || ArchiveError::Damaged("the additions to a header are none");
    while !text.is_empty() {
        let space = text.iter().position(|&byte| byte == b' ').ok_or_else(damaged)?;
        let length = str::from_utf8(&text[..space]).ok();
        let length: usize = length.and_then(|text| text.parse().ok()).ok_or_else(damaged)?;
        let line = text.get(space + 1..length).ok_or_else(damaged)?;
        let line = line.strip_suffix(b"\n").ok_or_else(damaged)?;
        let equals = line.iter().position(|&byte| byte == b'=').ok_or_else(damaged)?;
        let value = line[equals + 1..].to_vec();
        match &line[..equals] {
            b"path" => before.path = Some(value),
            b"linkpath" => before.link = Some(value),
            key if key == b"size" || key.starts_with(b"GNU.sparse") => {
                return Err(ArchiveError::Unknown(
                    "it has sparse files, or files of more than 8 GiB",
                ));
            }
            _ => {}
        }
        text = &text[length..];
    }
    Ok(())
}

fn kind_of(
    kind: EntryType,
    path: &[u8],
    link: Option<Vec<u8>>,
    size: u64,
    is_executable: bool,
) -> Result<Kind, ArchiveError> {
    match (kind, link) {
        (EntryType::Regular | EntryType::Continuous, _) => {
            Ok(Kind::File { size, is_executable, inode: None })
        }
        (EntryType::Directory, _) => Ok(Kind::Directory),
        (EntryType::Symlink, Some(link)) => String::from_utf8(link)
            .map(Kind::Link)
            .map_err(|_| ArchiveError::refused(path, "leads to what is not UTF-8")),
        (EntryType::Link, Some(link)) => checked(&link).map(Kind::HardLink),
        (EntryType::Char | EntryType::Block | EntryType::Fifo, _) => {
            Err(ArchiveError::refused(path, "is a device or something like it"))
        }
        _ => Err(ArchiveError::refused(path, "is of a kind that no package has")),
    }
}
