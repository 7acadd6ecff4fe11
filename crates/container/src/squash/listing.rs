// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is in one directory of an image.

use std::io;

use super::table::{Spot, Table};

/// How many entries share a header.
const MOST_TOGETHER: usize = 256;
/// How many headers can be found without reading those before them.
const MOST_INDEXED: usize = u16::MAX as usize;

/// One name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) name: &'a [u8],
    /// Where its inode is.
    pub(super) inode: Spot,
    pub(super) number: u32,
    /// What it is, as squashfs numbers it.
    pub(super) kind: u16,
}

/// Where the list of a directory is.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) spot: Spot,
    /// How long it is.
    pub(super) length: u32,
    /// How many headers can be found at once, and which: readers look for a name in one block
    /// and not in all.
    pub(super) indexed: u16,
    pub(super) index: Vec<u8>,
}

/// Writes a list; the entries are sorted.
pub(super) fn write(table: &mut Table, entries: &[Entry<'_>]) -> io::Result<Listing> {
    let mut listing = Listing { spot: table.spot()?, ..Listing::default() };
    let mut block = listing.spot.block;
    let mut left = entries;
    while let [first, ..] = left {
        let (together, rest) = left.split_at(count_together(first, left));
        left = rest;
        let here = table.spot()?;
        if here.block != block && usize::from(listing.indexed) < MOST_INDEXED {
            block = here.block;
            listing.indexed += 1;
            for number in [listing.length, here.block, length_of(first)?] {
                listing.index.extend(number.to_le_bytes());
            }
            listing.index.extend(first.name);
        }
        let bytes = header_and_entries(first, together)?;
        let length = u32::try_from(bytes.len()).ok();
        let length = length.and_then(|length| listing.length.checked_add(length));
        listing.length = length.ok_or_else(|| io::Error::other("a directory is too large"))?;
        table.push(&bytes);
    }
    Ok(listing)
}

/// How many entries can go below one header: their inodes are in one block, and their numbers
/// are close to each other.
fn count_together(first: &Entry<'_>, entries: &[Entry<'_>]) -> usize {
    let is_close = |entry: &&Entry<'_>| {
        entry.inode.block == first.inode.block && distance(first, entry).is_some()
    };
    let entries = entries.iter().take(MOST_TOGETHER);
    entries.take_while(is_close).count().max(1)
}

fn distance(first: &Entry<'_>, entry: &Entry<'_>) -> Option<i16> {
    i16::try_from(i64::from(entry.number) - i64::from(first.number)).ok()
}

fn header_and_entries(first: &Entry<'_>, together: &[Entry<'_>]) -> io::Result<Vec<u8>> {
    let count = u32::try_from(together.len()).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    for number in [count - 1, first.inode.block, first.number] {
        bytes.extend(number.to_le_bytes());
    }
    for entry in together {
        let distance = distance(first, entry).unwrap_or_default();
        let length = u16::try_from(length_of(entry)?).map_err(io::Error::other)?;
        bytes.extend(entry.inode.offset.to_le_bytes());
        bytes.extend(distance.to_le_bytes());
        bytes.extend(entry.kind.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(entry.name);
    }
    Ok(bytes)
}

/// The length of a name, less one, as it is stored.
fn length_of(entry: &Entry<'_>) -> io::Result<u32> {
    let length = entry.name.len().checked_sub(1);
    let length = length.and_then(|length| u32::try_from(length).ok());
    length.ok_or_else(|| io::Error::other("a file has no name"))
}
