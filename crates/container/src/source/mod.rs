// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where container images are found on disk.

mod layout;

pub use layout::Layout;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use cabane_label::escape;

use crate::Error;
use crate::layer::normal;
use crate::tar::{Kind, Reader};

/// Where the members of an archive are in it, and how long they are.
pub(crate) type Members = HashMap<Vec<u8>, (u64, u64)>;

/// Finds where the members of an archive are in it. Links lead to what they name.
fn members(path: &Path) -> Result<Members, Error> {
    let file = File::open(path).map_err(Error::io("read", path))?;
    let damaged = |reason: String| Error::NotAnImage {
        place: escape(&path.to_string_lossy()).to_string(),
        reason: format!("it is not an archive as tar writes them: {reason}"),
    };
    let mut reader = Reader::new(BufReader::with_capacity(1 << 20, file));
    let (mut members, mut links) = (Members::new(), Vec::new());
    while let Some(entry) = reader
        .next_entry()
        .map_err(|error| damaged(error.to_string()))?
    {
        let name = normal(&entry.path).map_err(|error| damaged(error.to_string()))?;
        match entry.kind {
            Kind::File if entry.pieces.is_none() => {
                members.insert(name, (reader.place(), entry.size));
            }
            // `docker save` wrote a layer that is in two images once.
            Kind::Symlink => {
                let (directory, _) = crate::layer::split_last(&name);
                let target = [directory, b"/", entry.link.as_slice()].concat();
                links.push((name, lexical(&target)));
            }
            Kind::Link => links.push((name, lexical(&entry.link))),
            _ => {}
        }
    }
    for (name, target) in links {
        if let Some(place) = members.get(&target) {
            members.insert(name, *place);
        }
    }
    Ok(members)
}

/// Resolves `..` in a name of a member without looking.
fn lexical(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join(&b'/')
}

/// A piece of a file.
#[derive(Debug)]
pub(crate) struct Slice {
    file: File,
    place: u64,
    end: u64,
}

impl Slice {
    pub(crate) fn new(file: File, start: u64, length: u64) -> Self {
        Self {
            file,
            place: start,
            end: start.saturating_add(length),
        }
    }
}

impl Read for Slice {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.place)).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let read = self
            .file
            .read_at(buffer.get_mut(..most).unwrap_or_default(), self.place)?;
        self.place += read as u64;
        Ok(read)
    }
}
