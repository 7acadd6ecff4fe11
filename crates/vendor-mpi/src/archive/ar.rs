// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The outer archive of a Debian package: members one after the other.

use std::io::{self, BufRead, Read};

use super::ArchiveError;

pub(super) const MAGIC: &[u8] = b"!<arch>\n";
/// Three members are usual; signatures may be more.
const MOST: usize = 16;

/// Returns the bytes of the member with the files.
pub(super) fn data(mut file: impl BufRead) -> Result<impl BufRead, ArchiveError> {
    let mut magic = [0; 8];
    file.read_exact(&mut magic)?;
    for number in 0..MOST {
        let mut header = [0; 60];
        file.read_exact(&mut header)?;
        let (name, size) = member(&header)?;
        if number == 0 && name != b"debian-binary" {
            return Err(ArchiveError::NotAPackage);
        }
        if name.starts_with(b"data.tar") {
            return Ok(Whole { inner: file, left: size });
        }
        // What is between is padded to an even size.
        let padded = size + size % 2;
        if io::copy(&mut file.by_ref().take(padded), &mut io::sink())? != padded {
            break;
        }
    }
    Err(ArchiveError::Damaged("there is no member with files in it"))
}

/// A member that must be there to its end: what is cut off between two files would
/// otherwise look like an archive with fewer of them.
struct Whole<R> {
    inner: R,
    left: u64,
}

impl<R: BufRead> Read for Whole<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Whole<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        if most == 0 {
            return Ok(&[]);
        }
        let available = self.inner.fill_buf()?;
        if available.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(&available[..available.len().min(most)])
    }

    fn consume(&mut self, count: usize) {
        self.inner.consume(count);
        self.left = self.left.saturating_sub(count as u64);
    }
}

/// Reads the header of a member.
fn member(header: &[u8; 60]) -> Result<(&[u8], u64), ArchiveError> {
    let damaged = ArchiveError::Damaged("a member has no proper header");
    let (name, size) = (header[..16].trim_ascii_end(), header[48..58].trim_ascii());
    let size = str::from_utf8(size).ok().and_then(|size| size.parse().ok());
    match size {
        Some(size) if header[58..] == *b"`\n" => {
            Ok((name.strip_suffix(b"/").unwrap_or(name), size))
        }
        _ => Err(damaged),
    }
}
