// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The files of an RPM: a cpio archive in the new ASCII format.

use std::io::{self, Read};

use super::{ArchiveError, Counted, Entry, Kind, checked};

const HEADER: usize = 110;
const LAST: &[u8] = b"TRAILER!!!";
const LONGEST_NAME: u64 = 4097;

/// The numbers of an entry that matter.
struct Header {
    inode: u64,
    mode: u64,
    links: u64,
    size: u64,
    device: u64,
    name_size: u64,
}

pub(super) fn visit(
    mut archive: impl Read,
    counted: &mut Counted<'_, '_>,
) -> Result<(), ArchiveError> {
    loop {
        let header = header(&mut archive)?;
        let name = name(&mut archive, header.name_size)?;
        if name == LAST {
            return Ok(());
        }
        let path = checked(&name)?;
        let padding = header.size.next_multiple_of(4) - header.size;
        let mut content = archive.by_ref().take(header.size);
        let kind = kind(&header, &name, &mut content)?;
        if !path.is_empty() {
            counted.show(&Entry { path, kind }, &mut content)?;
        }
        skip(&mut content)?;
        if content.limit() > 0 {
            return Err(ends_early());
        }
        skip(&mut archive.by_ref().take(padding))?;
    }
}

fn header(archive: &mut impl Read) -> Result<Header, ArchiveError> {
    let mut bytes = [0; HEADER];
    archive.read_exact(&mut bytes)?;
    match &bytes[..6] {
        b"070701" | b"070702" => {}
        b"07070X" => {
            return Err(ArchiveError::Unknown("it has files of more than 4 GiB"));
        }
        _ => {
            return Err(ArchiveError::Damaged("the archive in it is not in cpio's new format"));
        }
    }
    let damaged = || ArchiveError::Damaged("a number in the archive is none");
    let number = |index: usize| {
        let digits = &bytes[6 + 8 * index..14 + 8 * index];
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(damaged());
        }
        let digits = str::from_utf8(digits).map_err(|_| damaged())?;
        u64::from_str_radix(digits, 16).map_err(|_| damaged())
    };
    Ok(Header {
        inode: number(0)?,
        mode: number(1)?,
        links: number(4)?,
        size: number(6)?,
        device: number(7)? << 32 | number(8)?,
        name_size: number(11)?,
    })
}

/// Reads a name, with the zero behind it and what fills it up.
fn name(archive: &mut impl Read, size: u64) -> Result<Vec<u8>, ArchiveError> {
    let damaged = ArchiveError::Damaged("a name is too long, or has no end");
    if size > LONGEST_NAME {
        return Err(damaged);
    }
    let before = HEADER as u64 + size;
    let padding = before.next_multiple_of(4) - before;
    let mut name = Vec::new();
    archive.by_ref().take(size).read_to_end(&mut name)?;
    skip(&mut archive.take(padding))?;
    match name.split_last() {
        Some((0, name)) if !name.contains(&0) => Ok(name.to_vec()),
        _ => Err(damaged),
    }
}

fn kind(header: &Header, name: &[u8], content: &mut impl Read) -> Result<Kind, ArchiveError> {
    match header.mode & 0o170_000 {
        0o100_000 => Ok(Kind::File {
            size: header.size,
            is_executable: header.mode & 0o111 != 0,
            // The last of several names has the bytes, and a package has one device.
            inode: (header.links > 1).then_some(header.inode ^ header.device << 32),
        }),
        0o040_000 => Ok(Kind::Directory),
        0o120_000 => {
            let mut target = Vec::new();
            content.take(LONGEST_NAME).read_to_end(&mut target)?;
            String::from_utf8(target)
                .map(Kind::Link)
                .map_err(|_| ArchiveError::refused(name, "leads to what is not UTF-8"))
        }
        _ => Err(ArchiveError::refused(name, "is a device or something like it")),
    }
}

fn skip(content: &mut impl Read) -> Result<(), ArchiveError> {
    io::copy(content, &mut io::sink())?;
    Ok(())
}

fn ends_early() -> ArchiveError {
    ArchiveError::Damaged("it ends too early")
}
