// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What precedes the files of an RPM.

use std::io::{self, BufRead, Read};

use super::ArchiveError;

pub(super) const MAGIC: &[u8] = &[0xed, 0xab, 0xee, 0xdb];
const LEAD: u64 = 96;
const HEADER: &[u8] = &[0x8e, 0xad, 0xe8, 1];
/// The largest header that RPM itself writes.
const LARGEST: u64 = 256 << 20;

/// Returns the bytes of the archive with the files, still compressed.
pub(super) fn payload(mut file: impl BufRead) -> Result<impl BufRead, ArchiveError> {
    skip(&mut file, LEAD)?;
    let signatures = header(&mut file)?;
    // Only this one is padded.
    skip(&mut file, signatures.next_multiple_of(8) - signatures)?;
    header(&mut file)?;
    Ok(file)
}

/// Skips a header and returns its size.
fn header(file: &mut impl Read) -> Result<u64, ArchiveError> {
    let mut start = [0; 16];
    file.read_exact(&mut start)?;
    let number =
        |at: usize| start[at..at + 4].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    let size = number(8) * 16 + number(12);
    if !start.starts_with(HEADER) || size > LARGEST {
        return Err(ArchiveError::Damaged("it has no proper header"));
    }
    skip(file, size)?;
    Ok(size)
}

fn skip(file: &mut impl Read, bytes: u64) -> Result<(), ArchiveError> {
    if io::copy(&mut file.take(bytes), &mut io::sink())? == bytes {
        return Ok(());
    }
    Err(ArchiveError::Damaged("it ends too early"))
}
