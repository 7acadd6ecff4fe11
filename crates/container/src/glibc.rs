// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The version of the GNU C library in an image, read from its bytes: nothing is run.

use crate::tree::{Node, Tree};

/// A larger file is not looked into.
pub(crate) const LARGEST: u64 = 64 * 1024 * 1024;
const NAME: &str = "libc.so.6";
/// Where distributions have it; the first one counts.
const DIRECTORIES: &[&str] = &[
    "lib64",
    "usr/lib64",
    "lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib/powerpc64le-linux-gnu",
    "lib/riscv64-linux-gnu",
    "lib",
    "usr/lib",
];

/// Whether a file looks like the library, going by its name: old ones are links to
/// `libc-2.31.so`.
pub(crate) fn may_be(path: &[u8], size: u64) -> bool {
    let name = crate::layer::split_last(path).1;
    size <= LARGEST && (name == NAME.as_bytes() || name.starts_with(b"libc-"))
}

/// Finds the file in which the library is.
pub(crate) fn file_in(tree: &Tree) -> Option<usize> {
    DIRECTORIES.iter().find_map(|directory| {
        let id = tree.look_up(format!("{directory}/{NAME}").as_bytes(), true)?;
        match tree.node(id) {
            Node::File(file) if tree.files.get(*file)?.size <= LARGEST => Some(*file),
            _ => None,
        }
    })
}

/// Finds the version in the bytes of the library.
pub(crate) fn version_in(bytes: &[u8]) -> Option<String> {
    if !bytes.starts_with(b"\x7fELF") {
        return None;
    }
    written(bytes).or_else(|| highest(bytes))
}

/// What the library says when it is run: `… stable release version 2.36.`
fn written(bytes: &[u8]) -> Option<String> {
    let start = b"GNU C Library";
    let line = bytes.get(find(bytes, start)?..)?;
    let line = line.get(..200).unwrap_or(line);
    let marker = b" release version ";
    let place = find(line, marker)? + marker.len();
    number(line.get(place..)?)
}

/// The highest version of which it has symbols: `GLIBC_2.36`.
fn highest(bytes: &[u8]) -> Option<String> {
    let start = b"\0GLIBC_";
    let mut rest = bytes;
    let mut best: Option<(Vec<u32>, String)> = None;
    while let Some(place) = find(rest, start) {
        rest = rest.get(place + start.len()..)?;
        let Some(text) = number(rest) else { continue };
        let parts = text.split('.').map(|part| part.parse().unwrap_or_default());
        let parts: Vec<u32> = parts.collect();
        if best.as_ref().is_none_or(|(best, _)| *best < parts) {
            best = Some((parts, text));
        }
    }
    best.map(|(_, text)| text)
}

fn number(bytes: &[u8]) -> Option<String> {
    let is_part = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
    let digits: Vec<u8> = bytes.iter().take(12).take_while(is_part).copied().collect();
    let text = String::from_utf8(digits).ok()?;
    let text = text.trim_end_matches('.');
    text.contains('.').then(|| text.to_owned())
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    let first = what.first()?;
    let mut from = 0;
    loop {
        let next = bytes.get(from..)?.iter().position(|byte| byte == first)? + from;
        if bytes.get(next..)?.starts_with(what) {
            return Some(next);
        }
        from = next + 1;
    }
}
