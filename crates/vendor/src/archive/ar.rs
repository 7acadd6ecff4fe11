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
            return Ok(file.take(size));
        }
        // What lies between is padded to an even size.
        let padded = size + size % 2;
        if io::copy(&mut file.by_ref().take(padded), &mut io::sink())? != padded {
            break;
        }
    }
    Err(ArchiveError::Damaged {
        what: "there is no member with files in it",
    })
}

/// Reads the header of a member.
fn member(header: &[u8; 60]) -> Result<(&[u8], u64), ArchiveError> {
    let damaged = ArchiveError::Damaged {
        what: "a member has no proper header",
    };
    let (name, size) = (header[..16].trim_ascii_end(), header[48..58].trim_ascii());
    let size = str::from_utf8(size).ok().and_then(|size| size.parse().ok());
    match size {
        Some(size) if header[58..] == *b"`\n" => {
            Ok((name.strip_suffix(b"/").unwrap_or(name), size))
        }
        _ => Err(damaged),
    }
}
