// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where container images are found on disk.

mod directory;
mod docker;
mod layout;
mod sif;

pub use directory::directory;
pub use docker::DockerArchive;
pub use layout::Layout;
pub use sif::Sif;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::Error;
use crate::budget::MAX_UNPACKED;
use crate::decompress::Decompressed;
use crate::document::MAX_DOCUMENT;
use crate::layer::{Bytes, normal, split_last};
use crate::tar::{Kind, Reader};

/// More members no archive of images has.
const MOST_MEMBERS: usize = 1_000_000;
/// Where the members of an archive are in it, and how long they are.
type Members = HashMap<Vec<u8>, (u64, u64)>;

/// An archive whose members can be read in any order.
#[derive(Debug)]
struct Archive {
    file: File,
    members: Members,
}

impl Archive {
    /// Looks through an archive. One that is compressed is unpacked into a file without a
    /// name in a directory for such, since no one can read it in any order.
    fn open(path: &Path, scratch: &Path) -> Result<Self, Error> {
        let mut file = File::open(path).map_err(Error::io("read", path))?;
        let mut start = [0; 4];
        let length = file.read_at(&mut start, 0);
        length.map_err(Error::io("read", path))?;
        if matches!(start, [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd]) {
            let unpacked = tempfile::tempfile_in(scratch);
            let mut unpacked = unpacked.map_err(Error::io("write to", scratch))?;
            let source = Decompressed::new(&file).map_err(Error::io("read", path))?;
            unpack(source, &mut unpacked, path, scratch)?;
            file = unpacked;
            file.rewind().map_err(Error::io("read", path))?;
        }
        let members = members(&file, path)?;
        Ok(Self { file, members })
    }

    fn member(&self, name: &[u8]) -> io::Result<Bytes<'_>> {
        let place = self.members.get(name);
        let (start, length) = *place.ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(Slice::new(&self.file, start, length)))
    }

    /// Reads a member that is a document.
    fn document(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.member(name)?.take(MAX_DOCUMENT).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Unpacks an archive, and tells whether reading or writing failed.
fn unpack(
    mut source: impl Read,
    unpacked: &mut File,
    path: &Path,
    scratch: &Path,
) -> Result<(), Error> {
    let mut buffer = vec![0; 256 * 1024];
    let mut left = MAX_UNPACKED;
    loop {
        let read = match source.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.raw_os_error().is_some() => {
                return Err(Error::io("read", path)(error));
            }
            Err(error) => {
                return Err(Error::not_an_image(path, format!("it cannot be unpacked: {error}")));
            }
        };
        left = left.checked_sub(read as u64).ok_or_else(|| {
            let reason =
                format!("it unpacks to more than {MAX_UNPACKED} bytes, which is the limit");
            Error::not_an_image(path, reason)
        })?;
        let bytes = buffer.get(..read).unwrap_or_default();
        let written = unpacked.write_all(bytes);
        written.map_err(Error::io("write to", scratch))?;
    }
}

/// Finds where the members of an archive are in it. Links lead to what they name.
fn members(file: &File, path: &Path) -> Result<Members, Error> {
    let damaged = |reason: String| {
        let reason = format!("it is not an archive as tar writes them: {reason}");
        Error::not_an_image(path, reason)
    };
    let mut reader = Reader::new(BufReader::with_capacity(1 << 20, file));
    let (mut members, mut links) = (Members::new(), Vec::new());
    while let Some(entry) = reader.next_entry().map_err(|error| damaged(error.to_string()))? {
        if members.len() + links.len() >= MOST_MEMBERS {
            let reason = format!("it has more than {MOST_MEMBERS} members, which is the limit");
            return Err(damaged(reason));
        }
        let name = normal(&entry.path).map_err(|error| damaged(error.to_string()))?;
        match entry.kind {
            Kind::File if entry.pieces.is_none() => {
                members.insert(name, (reader.place(), entry.size));
            }
            // So `docker save` writes a layer that is in two images.
            Kind::Symlink => {
                let (directory, _) = split_last(&name);
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
pub(crate) struct Slice<'a> {
    file: &'a File,
    place: u64,
    end: u64,
}

impl<'a> Slice<'a> {
    pub(crate) fn new(file: &'a File, start: u64, length: u64) -> Self {
        Self { file, place: start, end: start.saturating_add(length) }
    }
}

impl Read for Slice<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.place)).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let read = self.file.read_at(buffer.get_mut(..most).unwrap_or_default(), self.place)?;
        self.place += read as u64;
        Ok(read)
    }
}
