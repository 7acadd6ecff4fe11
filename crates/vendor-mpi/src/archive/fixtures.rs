// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Packages for tests, byte by byte: also such as no tool would make.

use std::io::Write as _;

use tar::{Builder, EntryType, Header};

/// Something for an archive: its name, its kind as cpio writes it, and its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) name: String,
    pub(crate) mode: u32,
    pub(crate) content: Vec<u8>,
    pub(crate) inode: u32,
    pub(crate) links: u32,
}

pub(crate) fn file(name: &str, content: &str) -> Made {
    Made { name: name.to_owned(), mode: 0o100_755, content: content.into(), inode: 1, links: 1 }
}

pub(crate) fn link(name: &str, target: &str) -> Made {
    Made { mode: 0o120_777, ..file(name, target) }
}

pub(crate) fn of_mode(name: &str, mode: u32) -> Made {
    Made { mode, ..file(name, "") }
}

pub(crate) fn tar(entries: &[Made]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for entry in entries {
        let kind = match entry.mode & 0o170_000 {
            0o040_000 => EntryType::Directory,
            0o120_000 => EntryType::Symlink,
            0o020_000 => EntryType::Char,
            0o010_000 => EntryType::Fifo,
            _ => EntryType::Regular,
        };
        let mut header = Header::new_gnu();
        // The library refuses such names; those who attack do not use it.
        header.as_old_mut().name[..entry.name.len()].copy_from_slice(entry.name.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(entry.mode & 0o777);
        let is_file = kind == EntryType::Regular;
        if kind == EntryType::Symlink {
            header.as_old_mut().linkname[..entry.content.len()].copy_from_slice(&entry.content);
        }
        let content = if is_file { entry.content.as_slice() } else { &[] };
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }
    builder.into_inner().unwrap()
}

/// A Debian package around the bytes of its archive.
pub(crate) fn deb(data: &[u8]) -> Vec<u8> {
    let mut package = b"!<arch>\n".to_vec();
    for (name, content) in
        [("debian-binary", &b"2.0\n"[..]), ("control.tar", b"odd"), ("data.tar", data)]
    {
        let header =
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100_644, content.len());
        package.extend(header.as_bytes());
        package.extend(content);
        if content.len() % 2 == 1 {
            package.push(b'\n');
        }
    }
    package
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn cpio(entries: &[Made]) -> Vec<u8> {
    let mut archive = Vec::new();
    let last = of_mode("TRAILER!!!", 0);
    for entry in entries.iter().chain([&last]) {
        let numbers = [
            entry.inode,
            entry.mode,
            0,
            0,
            entry.links,
            0,
            u32::try_from(entry.content.len()).unwrap(),
            0,
            0,
            0,
            0,
            u32::try_from(entry.name.len() + 1).unwrap(),
            0,
        ];
        archive.extend(b"070701");
        for number in numbers {
            archive.extend(format!("{number:08x}").bytes());
        }
        archive.extend(entry.name.bytes().chain([0]));
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend(&entry.content);
        archive.resize(archive.len().next_multiple_of(4), 0);
    }
    archive
}

/// An RPM around the bytes of its archive, with headers of an odd size.
pub(crate) fn rpm(payload: &[u8]) -> Vec<u8> {
    let mut package = vec![0xed, 0xab, 0xee, 0xdb];
    package.resize(96, 0);
    let header = |bytes: u8| {
        let mut header = vec![0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, bytes];
        header.resize(16 + 16 + usize::from(bytes), 7);
        header
    };
    package.extend(header(5));
    package.resize(package.len() + 3, 0);
    package.extend(header(6));
    package.extend(payload);
    package
}
