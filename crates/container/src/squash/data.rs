// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where `mksquashfs` has put the members of the archive: read from its table of inodes, which
//! is not compressed.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;

use super::pool::BLOCK;

/// The size of the head of an image.
pub(super) const SUPERBLOCK: usize = 96;
/// Says that a block of metadata is not compressed.
const IS_PLAIN: u16 = 0x8000;
const DIRECTORY: u16 = 1;
const FILE: u16 = 2;
const LONG_DIRECTORY: u16 = 8;
const LONG_FILE: u16 = 9;

/// Where the content of one member is.
#[derive(Clone, Debug, Default)]
pub(super) struct Data {
    pub(super) start: u64,
    /// How many bytes of it are holes.
    pub(super) sparse: u64,
    /// The sizes of its blocks as they are stored.
    pub(super) blocks: Box<[u32]>,
}

/// The head of the image that the program made.
#[derive(Clone, Debug)]
pub(super) struct Superblock(pub(super) [u8; SUPERBLOCK]);

impl Superblock {
    pub(super) fn read(image: &File) -> io::Result<Self> {
        let mut bytes = [0; SUPERBLOCK];
        image.read_exact_at(&mut bytes, 0)?;
        Ok(Self(bytes))
    }

    fn number(&self, place: usize) -> u64 {
        let field = self.0.get(place..place + 8).unwrap_or_default();
        field.try_into().map(u64::from_le_bytes).unwrap_or_default()
    }

    pub(super) fn inodes(&self) -> u64 {
        self.number(0) >> 32
    }

    pub(super) fn inode_table(&self) -> u64 {
        self.number(64)
    }

    fn directory_table(&self) -> u64 {
        self.number(72)
    }

    pub(super) fn flags(&self) -> u16 {
        u16::try_from(self.number(24) & 0xffff).unwrap_or_default()
    }

    pub(super) fn put(&mut self, place: usize, bytes: &[u8]) {
        if let Some(field) = self.0.get_mut(place..place + bytes.len()) {
            field.copy_from_slice(bytes);
        }
    }
}

/// Reads where the members are, in the order of their numbers.
pub(super) fn read(image: &File, head: &Superblock, members: u32) -> io::Result<Vec<Data>> {
    let mut all = vec![None; usize::try_from(members).map_err(io::Error::other)?];
    let mut table = Table {
        image,
        place: head.inode_table(),
        end: head.directory_table(),
        block: Vec::new(),
        taken: 0,
    };
    let mut inodes = BufReader::new(&mut table);
    for _ in 0..head.inodes() {
        if let Some((number, data)) = inode(&mut inodes)?
            && let Some(place) = usize::try_from(number).ok().and_then(|number| all.get_mut(number))
        {
            *place = Some(data);
        }
    }
    let all: Option<Vec<Data>> = all.into_iter().collect();
    all.ok_or_else(|| odd("a file is missing in it"))
}

/// Reads one inode; of a file its number and where it is.
fn inode(table: &mut impl Read) -> io::Result<Option<(u32, Data)>> {
    let kind = short(table)?;
    skip(table, 6)?;
    let number = word(table)?;
    skip(table, 4)?;
    let (start, size, sparse, fragment) = match kind {
        DIRECTORY => return skip(table, 16).map(|()| None),
        LONG_DIRECTORY => {
            skip(table, 16)?;
            let count = short(table)?;
            skip(table, 6)?;
            for _ in 0..count {
                skip(table, 8)?;
                let length = word(table)?;
                skip(table, u64::from(length) + 1)?;
            }
            return Ok(None);
        }
        FILE => {
            let start = word(table)?;
            let fragment = word(table)?;
            skip(table, 4)?;
            (u64::from(start), u64::from(word(table)?), 0, fragment)
        }
        LONG_FILE => {
            let start = long(table)?;
            let size = long(table)?;
            let sparse = long(table)?;
            skip(table, 4)?;
            let fragment = word(table)?;
            skip(table, 8)?;
            (start, size, sparse, fragment)
        }
        _ => return Err(odd("it has an inode of an unknown kind")),
    };
    if fragment != u32::MAX {
        return Err(odd("it has a fragment"));
    }
    let count = size.div_ceil(BLOCK as u64);
    let blocks = (0..count).map(|_| word(table));
    let data = Data { start, sparse, blocks: blocks.collect::<io::Result<_>>()? };
    Ok(Some((number, data)))
}

/// The content of a table of metadata, block after block.
struct Table<'a> {
    image: &'a File,
    place: u64,
    end: u64,
    block: Vec<u8>,
    taken: usize,
}

impl Read for Table<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken >= self.block.len() {
            if self.place >= self.end {
                return Ok(0);
            }
            let mut head = [0; 2];
            self.image.read_exact_at(&mut head, self.place)?;
            let head = u16::from_le_bytes(head);
            if head & IS_PLAIN == 0 {
                return Err(odd("its inodes are compressed"));
            }
            self.block = vec![0; usize::from(head & !IS_PLAIN)];
            self.image.read_exact_at(&mut self.block, self.place + 2)?;
            self.place += 2 + self.block.len() as u64;
            self.taken = 0;
        }
        let read = self.block.get(self.taken..).unwrap_or_default();
        let read = { read }.read(buffer)?;
        self.taken += read;
        Ok(read)
    }
}

fn skip(table: &mut impl Read, bytes: u64) -> io::Result<()> {
    let skipped = io::copy(&mut table.take(bytes), &mut io::sink())?;
    if skipped < bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

fn short(table: &mut impl Read) -> io::Result<u16> {
    let mut bytes = [0; 2];
    table.read_exact(&mut bytes)?;
    Ok(u16::from_le_bytes(bytes))
}

fn word(table: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    table.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

fn long(table: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    table.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn odd(reason: &str) -> io::Error {
    let text = format!("the image that mksquashfs wrote cannot be read: {reason}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}
