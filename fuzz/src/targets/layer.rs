// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Archives, as the layers of container images are.

use std::io::Read;

use cabane_container::tar::{Entry, Reader};

use super::Verdict;
use super::parts::mend_all;

const BLOCK: usize = 512;

/// Reads an archive whose headers have the right sums: a wrong one would end everything.
pub fn run(bytes: &[u8]) -> Verdict {
    let mut bytes = bytes.to_vec();
    mend_all(&mut bytes);
    let mut reader = Reader::new(bytes.as_slice());
    let (mut entries, mut read) = (0, 0);
    loop {
        match reader.next_entry() {
            Ok(Some(entry)) => {
                entries += 1;
                let mut content = Vec::new();
                if reader.read_to_end(&mut content).is_err() {
                    return Verdict::Refused;
                }
                read += content.len();
                if let Some(wrong) = wrong_about(&entry, content.len()) {
                    return Verdict::Wrong(wrong);
                }
            }
            Ok(None) => break,
            Err(error) if error.to_string().chars().any(char::is_control) => {
                return Verdict::Wrong(format!("this cannot be shown: {error:?}"));
            }
            Err(_) => return Verdict::Refused,
        }
    }
    if entries > bytes.len() / BLOCK || read > bytes.len() {
        return Verdict::Wrong(format!("{entries} entries and {read} bytes of content"));
    }
    Verdict::Accepted
}

fn wrong_about(entry: &Entry, read: usize) -> Option<String> {
    let stored: u64 = match &entry.pieces {
        None => entry.size,
        Some(pieces) => {
            let is_inside = pieces.iter().all(|piece| piece.start + piece.length <= entry.size);
            if !is_inside {
                return Some(format!("pieces behind the end: {entry:?}"));
            }
            pieces.iter().map(|piece| piece.length).sum()
        }
    };
    (stored != read as u64).then(|| format!("{read} bytes of {entry:?}"))
}
