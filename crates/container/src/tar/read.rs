// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Reading an archive, entry after entry.

use std::io::{self, BufRead, BufReader, Read};

use super::pax::Records;
use super::sparse;
use super::{BLOCK, Entry, Kind, Piece, TarError, padding};

/// How much is read at once: a decompressor is slow when headers are read one by one.
const BUFFER: usize = 256 * 1024;
/// The largest size of long names and PAX records before one entry, in bytes.
const MAX_METADATA: u64 = 1024 * 1024;

/// Reads an archive.
#[derive(Debug)]
pub struct Reader<R> {
    inner: BufReader<R>,
    /// How much was read.
    place: u64,
    /// What is left of the content of the entry.
    left: u64,
    /// What follows that until the next header.
    padding: u64,
    global: Records,
    /// The size of all global headers.
    global_size: u64,
}

impl<R: Read> Reader<R> {
    /// Begins to read.
    pub fn new(inner: R) -> Self {
        Self {
            inner: BufReader::with_capacity(BUFFER, inner),
            place: 0,
            left: 0,
            padding: 0,
            global: Records::default(),
            global_size: 0,
        }
    }

    /// Returns how many bytes were read.
    pub fn place(&self) -> u64 {
        self.place
    }

    /// Gives the source back, of which more may have been read than entries were taken of, and
    /// the end may not.
    pub fn into_inner(self) -> R {
        self.inner.into_inner()
    }

    /// Gives access to the source.
    pub(crate) fn inner(&self) -> &R {
        self.inner.get_ref()
    }

    /// Goes to the next entry; `None` at the end. What was not read of the content of the last
    /// one is passed over.
    ///
    /// # Errors
    ///
    /// An archive that is damaged or cut off.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, TarError> {
        self.pass_over()?;
        let mut records = self.global.clone();
        let (mut long_path, mut long_link) = (None, None);
        let mut before = 0;
        loop {
            let at = self.place;
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            if matches!(header.letter(), b'x' | b'X' | b'g' | b'L' | b'K') {
                // One after the other they would add up to any number of bytes.
                let size = header.size(at)?.saturating_add(BLOCK as u64);
                before = u64::saturating_add(before, size);
                if header.letter() == b'g' {
                    self.global_size = self.global_size.saturating_add(size);
                }
                let size = before.max(self.global_size);
                if size > MAX_METADATA {
                    return Err(TarError::TooLong { at, size });
                }
            }
            match header.letter() {
                b'x' | b'X' => {
                    let metadata = self.metadata(&header, at)?;
                    records.read(&metadata)?;
                }
                b'g' => {
                    let metadata = self.metadata(&header, at)?;
                    self.global.read(&metadata)?;
                    records = self.global.clone();
                }
                b'L' => long_path = Some(until_nul(self.metadata(&header, at)?)),
                b'K' => long_link = Some(until_nul(self.metadata(&header, at)?)),
                // The name of the whole archive.
                b'V' => {
                    self.content(header.size(at)?);
                    self.pass_over()?;
                }
                _ => {
                    records.path = records.path.or(long_path);
                    records.link = records.link.or(long_link);
                    return self.entry(&header, records, at).map(Some);
                }
            }
        }
    }

    fn content(&mut self, size: u64) {
        self.left = size;
        self.padding = padding(size);
    }

    fn entry(&mut self, header: &Header, records: Records, at: u64) -> Result<Entry, TarError> {
        let stored = records.size.map_or_else(|| header.size(at), Ok)?;
        let path = records.path.unwrap_or_else(|| header.path());
        let kind = header.kind(&path, at)?;
        let mut entry = Entry {
            kind,
            mode: u32::try_from(header.number(100..108, at)? & 0o7777).unwrap_or_default(),
            uid: records.uid.map_or_else(|| header.number(108..116, at), Ok)?,
            gid: records.gid.map_or_else(|| header.number(116..124, at), Ok)?,
            mtime: records.mtime.map_or_else(|| header.time(at), Ok)?,
            link: records.link.unwrap_or_else(|| header.field(157..257)),
            size: 0,
            pieces: None,
            attributes: records.attributes,
            path,
        };
        if kind != Kind::File {
            // Whatever size they say: nothing follows them.
            return Ok(entry);
        }
        self.content(stored);
        entry.size = stored;
        if header.letter() == b'S' {
            let pieces = self.old_pieces(header, at)?;
            entry.size = header.number(483..495, at)?;
            entry.pieces = Some(pieces);
        } else if records.holes.is_there {
            let real = records.holes.real_size;
            if let Some(name) = records.holes.name {
                entry.path = name;
            }
            entry.size = real.ok_or(TarError::Holes)?;
            let pieces = if records.holes.major == 1 {
                let (pieces, taken) = sparse::pieces_before(&mut self.inner, stored)?;
                self.place += taken;
                self.left -= taken;
                pieces
            } else {
                records.holes.pieces
            };
            entry.pieces = Some(pieces);
        }
        if let Some(pieces) = &entry.pieces {
            sparse::check(pieces, entry.size, self.left)?;
        }
        Ok(entry)
    }

    fn old_pieces(&mut self, header: &Header, at: u64) -> Result<Vec<Piece>, TarError> {
        let number = |field: &[u8]| read_number(field).ok_or(TarError::Number { at });
        let mut pieces = Vec::new();
        sparse::old_pieces(header.bytes(386..482), &mut pieces, number)?;
        let mut goes_on = header.byte(482) != 0;
        while goes_on {
            let mut block = [0; BLOCK];
            if self.read_up_to(&mut block)? < BLOCK {
                return Err(TarError::CutOff);
            }
            sparse::old_pieces(&block[..504], &mut pieces, number)?;
            goes_on = block[504] != 0;
        }
        Ok(pieces)
    }

    /// Reads a header; `None` at the end of the archive.
    fn header(&mut self) -> Result<Option<Header>, TarError> {
        let at = self.place;
        let mut block = [0; BLOCK];
        match self.read_up_to(&mut block)? {
            0 => return Ok(None),
            BLOCK => {}
            _ => return Err(TarError::CutOff),
        }
        if block.iter().all(|byte| *byte == 0) {
            // Two of these are the end, and one at the end of the file is, too.
            let read = self.read_up_to(&mut block)?;
            if block.iter().take(read).all(|byte| *byte == 0) {
                return Ok(None);
            }
            return Err(TarError::NoHeader { at });
        }
        let header = Header(block);
        if header.is_whole() { Ok(Some(header)) } else { Err(TarError::NoHeader { at }) }
    }

    /// Reads until a block is full or nothing follows.
    fn read_up_to(&mut self, block: &mut [u8; BLOCK]) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = block.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.inner.read(rest) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.place += filled as u64;
        Ok(filled)
    }

    /// Reads the metadata that a header has for the next entry.
    fn metadata(&mut self, header: &Header, at: u64) -> Result<Vec<u8>, TarError> {
        self.content(header.size(at)?);
        let mut metadata = Vec::new();
        self.read_to_end(&mut metadata)?;
        self.pass_over()?;
        Ok(metadata)
    }

    /// Passes over what is left of an entry.
    fn pass_over(&mut self) -> Result<(), TarError> {
        let wanted = self.left.saturating_add(self.padding);
        let mut passed = 0;
        while passed < wanted {
            let there = match self.inner.fill_buf() {
                Ok(there) => there.len(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            if there == 0 {
                return Err(TarError::CutOff);
            }
            let part = usize::try_from(wanted - passed).map_or(there, |left| left.min(there));
            self.inner.consume(part);
            passed += part as u64;
            self.place += part as u64;
        }
        (self.left, self.padding) = (0, 0);
        Ok(())
    }
}

/// Reads the content of the entry.
impl<R: Read> Read for Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        if most == 0 {
            return Ok(0);
        }
        let read = self.inner.read(buffer.get_mut(..most).unwrap_or_default())?;
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is cut off"));
        }
        self.left -= read as u64;
        self.place += read as u64;
        Ok(read)
    }
}

/// A header of 512 bytes.
struct Header([u8; BLOCK]);

impl Header {
    fn bytes(&self, range: std::ops::Range<usize>) -> &[u8] {
        self.0.get(range).unwrap_or_default()
    }

    fn byte(&self, index: usize) -> u8 {
        self.0.get(index).copied().unwrap_or_default()
    }

    fn letter(&self) -> u8 {
        self.byte(156)
    }

    /// Returns a text, which ends where the field ends or a zero is.
    fn field(&self, range: std::ops::Range<usize>) -> Vec<u8> {
        until_nul(self.bytes(range).to_vec())
    }

    fn path(&self) -> Vec<u8> {
        let name = self.field(0..100);
        let has_prefix = self.bytes(257..263) == b"ustar\0" && self.byte(345) != 0;
        if !has_prefix {
            return name;
        }
        let end = if self.bytes(508..512) == b"tar\0" { 476 } else { 500 };
        [&self.field(345..end), b"/".as_slice(), &name].concat()
    }

    fn kind(&self, path: &[u8], at: u64) -> Result<Kind, TarError> {
        Ok(match self.letter() {
            // The oldest format knows a directory by its name.
            b'0' | 0 if path.ends_with(b"/") => Kind::Directory,
            b'0' | 0 | b'7' | b'S' => Kind::File,
            b'1' => Kind::Link,
            b'2' => Kind::Symlink,
            b'3' | b'4' => Kind::Device,
            b'5' => Kind::Directory,
            b'6' => Kind::Pipe,
            kind => return Err(TarError::Kind { at, kind }),
        })
    }

    fn number(&self, range: std::ops::Range<usize>, at: u64) -> Result<u64, TarError> {
        read_number(self.bytes(range)).ok_or(TarError::Number { at })
    }

    fn size(&self, at: u64) -> Result<u64, TarError> {
        self.number(124..136, at)
    }

    fn time(&self, at: u64) -> Result<i64, TarError> {
        let field = self.bytes(136..148);
        // Times before 1970 are negative numbers in binary.
        if field.first() == Some(&0xff) {
            return Ok(0);
        }
        let time = read_number(field).ok_or(TarError::Number { at })?;
        Ok(i64::try_from(time).unwrap_or(i64::MAX))
    }

    /// Whether the sum is right; some old writers took bytes for signed numbers.
    fn is_whole(&self) -> bool {
        let Some(sum) = read_number(self.bytes(148..156)) else {
            return false;
        };
        let without_sum = |(index, byte): (usize, &u8)| match index {
            148..156 => b' ',
            _ => *byte,
        };
        let bytes = || self.0.iter().enumerate().map(without_sum);
        let unsigned: u64 = bytes().map(u64::from).sum();
        let signed: i64 = bytes().map(|byte| i64::from(byte.cast_signed())).sum();
        sum == unsigned || i64::try_from(sum) == Ok(signed)
    }
}

/// Reads octal digits, or a binary number of GNU's.
fn read_number(field: &[u8]) -> Option<u64> {
    match field.first() {
        Some(0x80) => {
            let mut bytes = field.iter().skip(1);
            bytes.try_fold(0_u64, |number, byte| {
                number.checked_mul(256)?.checked_add(u64::from(*byte))
            })
        }
        Some(first) if *first > 0x80 => None,
        _ => {
            let digits = field.iter().skip_while(|byte| **byte == b' ');
            let digits = digits.take_while(|byte| !matches!(**byte, 0 | b' '));
            digits.into_iter().try_fold(0_u64, |number, byte| match byte {
                b'0'..=b'7' => number.checked_mul(8)?.checked_add(u64::from(byte - b'0')),
                _ => None,
            })
        }
    }
}

fn until_nul(mut text: Vec<u8>) -> Vec<u8> {
    let end = text.iter().position(|byte| *byte == 0);
    text.truncate(end.unwrap_or(text.len()));
    text
}
