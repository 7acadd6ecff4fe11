// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Debug information in a program or library, and what the kernel loads of it.
//!
//! Programs of 64 bits with little-endian numbers are read. All others count as files without debug symbols.

use std::fmt::Write;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const HEAD: u64 = 64;
const SECTION: u64 = 64;
const SEGMENT: u64 = 56;
/// The longest table that is read, in bytes.
const LONGEST: u64 = 16 << 20;
/// How much of two files is compared at a time, in bytes.
const PIECE: u64 = 1 << 20;

const SHT_NOTE: u32 = 7;
const SHT_NOBITS: u32 = 8;
const SHF_ALLOC: u64 = 2;
const SHF_EXECINSTR: u64 = 4;
const PT_LOAD: u32 = 1;
const NT_GNU_BUILD_ID: u32 = 3;

/// What a file is for this purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No program or library with debug sections.
    Plain,
    /// One with debug sections. The build ID is in hexadecimal digits.
    Debug { build_id: Option<String> },
}

struct Section {
    name: u32,
    kind: u32,
    flags: u64,
    offset: u64,
    size: u64,
}

/// Finds out whether a file has debug sections that can be split off.
///
/// # Errors
///
/// The file cannot be read.
pub(super) fn look(path: &Path) -> io::Result<Kind> {
    let file = File::open(path)?;
    let Some(head) = head(&file)? else { return Ok(Kind::Plain) };
    let sections = sections(&file, &head)?;
    let Some(names) = sections.get(usize::from(u16_at(&head, 62))) else {
        return Ok(Kind::Plain);
    };
    let Some(names) = table(&file, names.offset, names.size)? else { return Ok(Kind::Plain) };
    let is_code = |section: &Section| section.flags & (SHF_ALLOC | SHF_EXECINSTR) == 6;
    // The files that other tools have split off have no code.
    let is_split = sections.iter().any(|section| is_code(section) && section.kind == SHT_NOBITS);
    let is_debug = |section: &Section| {
        let name = names.get(section.name as usize..).unwrap_or_default();
        let is_named = name.starts_with(b".debug_") || name.starts_with(b".zdebug_");
        is_named && section.kind != SHT_NOBITS && section.flags & SHF_ALLOC == 0 && section.size > 0
    };
    if is_split || !sections.iter().any(is_debug) {
        return Ok(Kind::Plain);
    }
    for section in sections.iter().filter(|section| section.kind == SHT_NOTE) {
        let notes = table(&file, section.offset, section.size)?.unwrap_or_default();
        if let Some(build_id) = build_id(&notes) {
            return Ok(Kind::Debug { build_id: Some(build_id) });
        }
    }
    Ok(Kind::Debug { build_id: None })
}

/// Whether the kernel loads the same bytes of two files to the same addresses.
///
/// # Errors
///
/// A file cannot be read.
pub(super) fn loads_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (File::open(one)?, File::open(other)?);
    let (Some(first), Some(second)) = (head(&one)?, head(&other)?) else { return Ok(false) };
    let (first, second) = (segments(&one, &first)?, segments(&other, &second)?);
    if first.is_none() || first != second {
        return Ok(false);
    }
    let loaded = first.as_deref().unwrap_or_default().chunks_exact(56);
    for segment in loaded.filter(|segment| u32_at(segment, 0) == PT_LOAD) {
        let end = u64_at(segment, 8).saturating_add(u64_at(segment, 32));
        // The head says where the sections are, and is never loaded for that.
        let mut at = u64_at(segment, 8).max(HEAD);
        while at < end {
            let length = PIECE.min(end - at);
            let pieces = (table(&one, at, length)?, table(&other, at, length)?);
            if pieces.0.is_none() || pieces.0 != pieces.1 {
                return Ok(false);
            }
            at += length;
        }
    }
    Ok(true)
}

/// Reads the head of a program or library of the kind that is read here.
fn head(file: &File) -> io::Result<Option<Vec<u8>>> {
    let Some(head) = table(file, 0, HEAD)? else { return Ok(None) };
    let is_wide_and_little = head.starts_with(b"\x7fELF\x02\x01");
    let is_program = matches!(u16_at(&head, 16), 2 | 3);
    Ok(Some(head).filter(|_| is_wide_and_little && is_program))
}

fn sections(file: &File, head: &[u8]) -> io::Result<Vec<Section>> {
    if u64::from(u16_at(head, 58)) != SECTION {
        return Ok(Vec::new());
    }
    let size = u64::from(u16_at(head, 60)) * SECTION;
    let table = table(file, u64_at(head, 40), size)?.unwrap_or_default();
    let read = |entry: &[u8]| Section {
        name: u32_at(entry, 0),
        kind: u32_at(entry, 4),
        flags: u64_at(entry, 8),
        offset: u64_at(entry, 24),
        size: u64_at(entry, 32),
    };
    Ok(table.chunks_exact(64).map(read).collect())
}

/// Reads the table of segments; none if it is not of the usual form.
fn segments(file: &File, head: &[u8]) -> io::Result<Option<Vec<u8>>> {
    if u64::from(u16_at(head, 54)) != SEGMENT {
        return Ok(None);
    }
    table(file, u64_at(head, 32), u64::from(u16_at(head, 56)) * SEGMENT)
}

/// Finds the build ID in notes.
fn build_id(mut notes: &[u8]) -> Option<String> {
    while notes.len() >= 12 {
        let padded = |length: u32| (length as usize).checked_next_multiple_of(4);
        let (name, length) = (u32_at(notes, 0), u32_at(notes, 4));
        let start = padded(name)?.checked_add(12)?;
        let content = notes.get(start..start.checked_add(length as usize)?)?;
        let is_it = u32_at(notes, 8) == NT_GNU_BUILD_ID && notes.get(12..16)? == b"GNU\0";
        if is_it && (2..=64).contains(&content.len()) {
            return Some(content.iter().fold(String::new(), |mut text, byte| {
                // Writing into a text cannot fail.
                let _ = write!(text, "{byte:02x}");
                text
            }));
        }
        notes = notes.get(start.checked_add(padded(length)?)?..)?;
    }
    None
}

/// Reads a part of a file; none if it is too long or the file is shorter.
fn table(file: &File, offset: u64, size: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(length) = usize::try_from(size).ok().filter(|_| size <= LONGEST) else {
        return Ok(None);
    };
    let mut bytes = vec![0; length];
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => Ok(Some(bytes)),
        // An offset beyond what a file can have is invalid for the system.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Reads a number; 0 if the bytes end before.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |it| u16::from_le_bytes(*it))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |it| u32::from_le_bytes(*it))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |it| u64::from_le_bytes(*it))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, name: &[u8], content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [u32::try_from(name.len()).unwrap(), content.len().try_into().unwrap(), kind]
        {
            bytes.extend(number.to_le_bytes());
        }
        for part in [name, content] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn the_build_id_is_found_behind_other_notes() {
        let notes =
            [note(1, b"GNU\0", &[0; 16]), note(3, b"Go\0\0", b"x"), note(3, b"GNU\0", b"\xab\x01")];
        assert_eq!(build_id(&notes.concat()).as_deref(), Some("ab01"));
    }

    #[test]
    fn notes_that_do_not_hold_together_have_no_build_id() {
        let mut cut = note(3, b"GNU\0", &[1; 20]);
        cut.truncate(30);
        let huge = [[0xff; 12].as_slice(), b"GNU\0"].concat();
        assert_eq!([build_id(&cut), build_id(&huge)], [None, None]);
    }

    #[test]
    fn texts_and_cut_files_are_plain() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let program = std::fs::read("/bin/sh").unwrap();
        for content in [&b""[..], b"#!/bin/sh\n", &program[..80], &program[..5000]] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(look(&path).unwrap(), Kind::Plain);
        }
    }

    #[test]
    fn a_program_with_another_byte_of_code_is_not_loaded_alike() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut program = std::fs::read("/bin/sh").unwrap();
        let sh = Path::new("/bin/sh");
        std::fs::write(&path, &program).unwrap();
        assert!(loads_same(sh, &path).unwrap());
        program[0x5000] ^= 1;
        std::fs::write(&path, &program).unwrap();
        assert!(!loads_same(sh, &path).unwrap());
    }
}
