// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Inodes as squashfs has them.

use super::data::Data;
use super::listing::Listing;
use super::pool::Place;

/// What an entry of a directory is.
pub(super) const DIRECTORY: u16 = 1;
pub(super) const FILE: u16 = 2;
pub(super) const SYMLINK: u16 = 3;
/// The same with larger numbers.
const LONG_DIRECTORY: u16 = 8;
const LONG_FILE: u16 = 9;
/// Says that there is no fragment, and that there are no extended attributes.
const NONE: u32 = u32::MAX;
/// What the length of a directory counts beside its list.
const DOTS: u32 = 3;

/// What every inode has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Common {
    pub(super) mode: u32,
    pub(super) mtime: u32,
    pub(super) number: u32,
}

/// Numbers of several sizes, one after the other.
struct Bytes(Vec<u8>);

impl Bytes {
    fn begin(kind: u16, common: Common) -> Self {
        let mode = u16::try_from(common.mode & 0o7777).unwrap_or_default();
        // Everything belongs to root, the only owner there is.
        let owners = 0;
        let (mtime, number) = (common.mtime, common.number);
        Self(Vec::with_capacity(64)).short(kind).short(mode).word(owners).word(mtime).word(number)
    }

    fn short(mut self, number: u16) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn word(mut self, number: u32) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn long(mut self, number: u64) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }
}

/// A file with so many names.
pub(super) fn file(common: Common, place: Place, size: u64, names: u32, data: &[Data]) -> Vec<u8> {
    let hole = Data { sparse: size, blocks: Box::new([0]), ..Data::default() };
    let none = Data::default();
    let (data, fragment, offset) = match place {
        Place::Empty => (&none, NONE, 0),
        Place::Zeros => (&hole, NONE, 0),
        Place::Packed { pack, offset } => (&none, pack, offset),
        Place::Member(member) => {
            let data = usize::try_from(member).ok().and_then(|at| data.get(at));
            (data.unwrap_or(&none), NONE, 0)
        }
    };
    let small = (u32::try_from(data.start), u32::try_from(size));
    let bytes = match small {
        (Ok(start), Ok(size)) if names == 1 && data.sparse == 0 => {
            Bytes::begin(FILE, common).word(start).word(fragment).word(offset).word(size)
        }
        _ => Bytes::begin(LONG_FILE, common)
            .long(data.start)
            .long(size)
            .long(data.sparse)
            .word(names)
            .word(fragment)
            .word(offset)
            .word(NONE),
    };
    data.blocks.iter().fold(bytes, |bytes, block| bytes.word(*block)).0
}

/// A symbolic link.
pub(super) fn symlink(common: Common, target: &[u8]) -> Vec<u8> {
    let length = u32::try_from(target.len()).unwrap_or_default();
    let mut bytes = Bytes::begin(SYMLINK, common).word(1).word(length);
    bytes.0.extend(target);
    bytes.0
}

/// A directory that has so many directories in it.
pub(super) fn directory(common: Common, listing: &Listing, inside: u32, above: u32) -> Vec<u8> {
    let names = inside.saturating_add(2);
    let length = listing.length.saturating_add(DOTS);
    let Listing { spot, .. } = listing;
    if let (Ok(length), 0) = (u16::try_from(length), listing.indexed) {
        return Bytes::begin(DIRECTORY, common)
            .word(spot.block)
            .word(names)
            .short(length)
            .short(spot.offset)
            .word(above)
            .0;
    }
    let mut bytes = Bytes::begin(LONG_DIRECTORY, common)
        .word(names)
        .word(length)
        .word(spot.block)
        .word(above)
        .short(listing.indexed)
        .short(spot.offset)
        .word(NONE);
    bytes.0.extend(&listing.index);
    bytes.0
}
