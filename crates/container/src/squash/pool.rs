// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The content of files on its way into an image.
//!
//! `mksquashfs` looks for a name in a list of all names of its directory, and for equal content
//! in a list of all small files of that size: with many of either it takes the square of their
//! number. So it gets neither names nor small files. Small files are gathered here into packs
//! that have the size of a block, equal ones once, and each pack becomes a fragment block.

use std::collections::HashMap;
use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

use super::Input;
use crate::tar::{Head, Writer};

/// The size of a block in the image.
pub(super) const BLOCK: usize = 128 * 1024;
/// How many members a directory of the archive has: this list is short.
const SHARD: u32 = 512;

/// Where the content of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It has none.
    Empty,
    /// It is nothing but zeros, and less than a block.
    Zeros,
    /// In a pack, from this byte on.
    Packed { pack: u32, offset: u32 },
    /// A member of the archive of its own.
    Member(u32),
}

/// Takes the content of files.
pub(crate) struct Pool {
    output: Writer<Input>,
    /// How many members were written.
    members: u32,
    /// The members that are packs.
    packs: Vec<u32>,
    /// The pack that is being filled.
    pack: Vec<u8>,
    /// The small files that are there.
    known: HashMap<[u8; 32], Place>,
}

/// What was written into the archive.
#[derive(Debug)]
pub(super) struct Archived {
    pub(super) input: Input,
    pub(super) members: u32,
    pub(super) packs: Vec<u32>,
}

impl Pool {
    pub(super) fn new(input: Input) -> Self {
        Self {
            output: Writer::new(input),
            members: 0,
            packs: Vec::new(),
            pack: Vec::with_capacity(BLOCK),
            known: HashMap::new(),
        }
    }

    /// Takes the content of a file of a size.
    pub(crate) fn add(&mut self, size: u64, content: &mut impl Read) -> io::Result<Place> {
        match usize::try_from(size) {
            Ok(0) => Ok(Place::Empty),
            Ok(small) if small < BLOCK => self.add_small(small, content),
            _ => self.member(size, content).map(Place::Member),
        }
    }

    fn add_small(&mut self, size: usize, content: &mut impl Read) -> io::Result<Place> {
        if self.pack.len() + size > BLOCK {
            self.end_pack()?;
        }
        let offset = self.pack.len();
        let read = content.take(size as u64).read_to_end(&mut self.pack)?;
        let bytes = self.pack.get(offset..).unwrap_or_default();
        if read < size {
            return Err(cut_off());
        }
        if bytes.iter().all(|byte| *byte == 0) {
            self.pack.truncate(offset);
            return Ok(Place::Zeros);
        }
        let sum = Sha256::digest(bytes).into();
        if let Some(place) = self.known.get(&sum) {
            self.pack.truncate(offset);
            return Ok(*place);
        }
        let place = Place::Packed {
            pack: u32::try_from(self.packs.len()).map_err(io::Error::other)?,
            offset: u32::try_from(offset).map_err(io::Error::other)?,
        };
        self.known.insert(sum, place);
        Ok(place)
    }

    fn end_pack(&mut self) -> io::Result<()> {
        if self.pack.is_empty() {
            return Ok(());
        }
        let pack = std::mem::take(&mut self.pack);
        let member = self.member(pack.len() as u64, &mut pack.as_slice())?;
        self.packs.push(member);
        self.pack = pack;
        self.pack.clear();
        Ok(())
    }

    /// Writes a member. Its time is its number, by which it is found in what the program made.
    fn member(&mut self, size: u64, content: &mut impl Read) -> io::Result<u32> {
        let number = self.members;
        let path = format!("{:x}/{number:x}", number / SHARD);
        let head = Head { path: path.as_bytes(), mode: 0o644, mtime: number };
        self.output.file(head, size, content)?;
        let next = number.checked_add(1);
        self.members = next.ok_or_else(|| io::Error::other("there are too many files"))?;
        Ok(number)
    }

    /// Writes the end.
    pub(super) fn finish(mut self) -> io::Result<Archived> {
        self.end_pack()?;
        Ok(Archived { members: self.members, packs: self.packs, input: self.output.finish()? })
    }
}

fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it is cut off")
}
