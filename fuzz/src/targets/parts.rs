// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Inputs that consist of several files: a line `--- name` before each.
//!
//! No fuzzer guesses a digest. Where a file says `@name@`, it has the digest of the earlier file
//! with that name, and where it says `#name#`, the size of that file.

use std::collections::BTreeMap;

use cabane_container::digest;

const BLOCK: usize = 512;
const MOST_PARTS: usize = 64;
const MOST_BYTES: usize = 1 << 20;

/// Returns names and contents, in the order of the input.
pub(super) fn split(bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut parts: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let name = line.strip_prefix(b"--- ");
        if let Some(name) = name.filter(|_| parts.len() < MOST_PARTS) {
            parts.push((name.trim_ascii().to_vec(), Vec::new()));
        } else if let Some((_, content)) = parts.last_mut() {
            content.extend_from_slice(line);
        }
    }
    parts
}

/// The digests and sizes of the files so far.
#[derive(Default)]
pub(super) struct Known {
    arguments: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Known {
    /// Adds a file, and returns its digest.
    pub(super) fn add(&mut self, name: &[u8], content: &[u8]) -> String {
        let digest = digest::of(content).as_str().to_owned();
        let size = content.len().to_string();
        let arguments = [(b"@", digest.as_bytes()), (b"#", size.as_bytes())];
        for (mark, word) in arguments {
            let key = [mark.as_slice(), name, mark].concat();
            self.arguments.insert(key, word.to_vec());
        }
        digest
    }

    /// Puts digests and sizes in place of `@name@` and `#name#`.
    pub(super) fn fill(&self, content: &[u8]) -> Vec<u8> {
        let mut filled = Vec::with_capacity(content.len());
        let mut rest = content;
        while let [first, behind @ ..] = rest {
            let is_mark = matches!(first, b'@' | b'#') && filled.len() < MOST_BYTES;
            let end = || behind.iter().position(|byte| byte == first);
            let key = is_mark.then(end).flatten().map(|end| &rest[..end + 2]);
            if let Some((key, word)) = key.and_then(|key| Some((key, self.arguments.get(key)?))) {
                filled.extend_from_slice(word);
                rest = &rest[key.len()..];
            } else {
                filled.push(*first);
                rest = behind;
            }
        }
        filled
    }
}

/// Writes a member of an archive.
pub(super) fn member(archive: &mut Vec<u8>, name: &[u8], content: &[u8]) {
    let mut header = [0; BLOCK];
    let name = &name[..name.len().min(100)];
    header[..name.len()].copy_from_slice(name);
    header[100..108].copy_from_slice(b"0000644\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    mend(&mut header);
    archive.extend_from_slice(&header);
    archive.extend_from_slice(content);
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
}

/// Gives each block that looks like a header the sum of one.
pub(super) fn mend_all(archive: &mut [u8]) {
    archive.chunks_exact_mut(BLOCK).for_each(mend);
}

fn mend(block: &mut [u8]) {
    if block[257..262] != *b"ustar" {
        return;
    }
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}
