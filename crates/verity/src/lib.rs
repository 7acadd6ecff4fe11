// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Hash trees of images, as dm-verity has them: with one the kernel checks each block of an image when
//! it reads it.
//!
//! The parameters are fixed, so that a content has one root hash: SHA-256, blocks of 4 KiB, and as salt
//! the number of blocks of the image (8 bytes, the lowest first). The root hash alone does not fix the
//! number of levels. Without the salt, whoever makes an image could take its blocks for hashes later,
//! and so show another image with the same root hash.
//!
//! A tree is a file of its own, with the superblock of `veritysetup`, whose `veritysetup verify IMAGE
//! TREE ROOT_HASH` can check it. The format is that of the kernel's
//! `Documentation/admin-guide/device-mapper/verity.rst` and of cryptsetup's `lib/verity/verity.c`.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

/// The size of a block of an image and of a tree, in bytes.
pub const BLOCK: u64 = 4096;
const BLOCK_SIZE: usize = 4096;
/// What is hashed before each block.
type Salt = [u8; 8];

/// The size of a hash, in bytes.
const HASH: usize = 32;
/// How many hashes a block of a tree holds.
const FANOUT: u64 = 128;
const _: () = assert!(BLOCK_SIZE == HASH * 128);
/// Where it has its UUID.
const UUID: Range<usize> = 16..32;
/// What one thread reads at a time, in bytes: what the hashes of one block of the tree are about.
const PORTION: usize = BLOCK_SIZE * 128;
/// More threads than read an image from memory as fast as its processors can hash it.
const MOST_THREADS: usize = 16;

/// The root of a hash tree.
pub type RootHash = [u8; HASH];

/// A level of a tree: where its blocks begin, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level {
    first: u64,
    count: u64,
}

/// Returns the levels of the tree over a number of blocks, the lowest one first, as numbers of blocks
/// of the tree. The highest one stands first in the file, behind the superblock.
fn levels(blocks: u64) -> Vec<Level> {
    let mut counts = Vec::new();
    let mut below = blocks;
    while below > 1 {
        below = below.div_ceil(FANOUT);
        counts.push(below);
    }
    let mut first = 1;
    let mut levels: Vec<Level> = Vec::with_capacity(counts.len());
    for count in counts.into_iter().rev() {
        levels.push(Level { first, count });
        first += count;
    }
    levels.reverse();
    levels
}

/// Returns how many blocks an image of a size has.
fn blocks_of(size: u64) -> io::Result<u64> {
    if size == 0 || !size.is_multiple_of(BLOCK) {
        let problem = format!("the size of the image, {size} bytes, is no multiple of {BLOCK}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    Ok(size / BLOCK)
}

/// Writes the hash tree of an image into an empty file, and returns its root. Reads the whole image,
/// with several threads.
///
/// # Errors
///
/// Those of reading and writing; `InvalidInput` if the size of the image is no multiple of [`BLOCK`].
pub fn write_tree(image: &File, tree: &File) -> io::Result<RootHash> {
    let blocks = blocks_of(image.metadata()?.len())?;
    let salt = blocks.to_le_bytes();
    let (mut below, mut of) = (image, Level { first: 0, count: blocks });
    for level in levels(blocks) {
        hash_level(below, of, tree, level, salt)?;
        (below, of) = (tree, level);
    }
    let root = hash_of_block(below, of.first, salt)?;
    tree.write_all_at(&superblock(blocks, &root), 0)?;
    Ok(root)
}

/// Returns the root of the tree of an image, as the topmost block of the tree has it. Nothing is said
/// about the other blocks, nor about the image.
///
/// # Errors
///
/// Those of reading; `InvalidInput` if it is no tree for an image of this size.
pub fn root_of(image: &File, tree: &File) -> io::Result<RootHash> {
    let blocks = blocks_of(image.metadata()?.len())?;
    let mut found = [0; BLOCK_SIZE];
    tree.read_exact_at(&mut found, 0)?;
    // Each has a UUID of its own where another tool has made it.
    let plain = |mut block: [u8; BLOCK_SIZE]| {
        block.iter_mut().take(UUID.end).skip(UUID.start).for_each(|byte| *byte = 0);
        block
    };
    if plain(found) != plain(superblock(blocks, &RootHash::default())) {
        let problem = "it is no hash tree for an image of this size";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    let (file, number) = if blocks == 1 { (image, 0) } else { (tree, 1) };
    hash_of_block(file, number, blocks.to_le_bytes())
}

fn hash_of(block: &[u8], salt: Salt) -> RootHash {
    Sha256::new().chain_update(salt).chain_update(block).finalize().into()
}

fn hash_of_block(file: &File, number: u64, salt: Salt) -> io::Result<RootHash> {
    let mut block = [0; BLOCK_SIZE];
    file.read_exact_at(&mut block, number * BLOCK)?;
    Ok(hash_of(&block, salt))
}

/// Writes the hashes of the blocks of a level, which begin at a place of a file, into the next one.
fn hash_level(below: &File, of: Level, tree: &File, level: Level, salt: Salt) -> io::Result<()> {
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let threads = usize::try_from(level.count).unwrap_or(threads).min(threads);
    let work = || {
        let mut portion = vec![0; PORTION];
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= level.count {
                return Ok(());
            }
            let begin = number * FANOUT;
            let count = FANOUT.min(of.count - begin);
            portion.resize(usize::try_from(count * BLOCK).map_err(io::Error::other)?, 0);
            below.read_exact_at(&mut portion, (of.first + begin) * BLOCK)?;
            let mut hashes = [0; BLOCK_SIZE];
            let blocks = portion.chunks_exact(BLOCK_SIZE);
            for (place, block) in hashes.chunks_exact_mut(HASH).zip(blocks) {
                place.copy_from_slice(&hash_of(block, salt));
            }
            tree.write_all_at(&hashes, (level.first + number) * BLOCK)?;
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        let panicked = |_| Err(io::Error::other("a thread that computes hashes has panicked"));
        others
            .into_iter()
            .fold(own, |so_far, other| so_far.and(other.join().unwrap_or_else(panicked)))
    })
}

/// Returns the first block of a tree, the superblock (`struct verity_sb`). Its UUID follows from the root.
fn superblock(blocks: u64, root: &RootHash) -> [u8; BLOCK_SIZE] {
    let mut bytes = [0; BLOCK_SIZE];
    let mut put = |at: usize, field: &[u8]| {
        for (place, byte) in bytes.iter_mut().skip(at).zip(field) {
            *place = *byte;
        }
    };
    let block = u32::try_from(BLOCK).unwrap_or_default().to_le_bytes();
    put(0, b"verity");
    // The version of the superblock, and the type of the hashes.
    put(8, &1_u32.to_le_bytes());
    put(12, &1_u32.to_le_bytes());
    let (uuid, _) = root.split_at(UUID.len());
    put(UUID.start, uuid);
    put(32, b"sha256");
    put(64, &block);
    put(68, &block);
    put(72, &blocks.to_le_bytes());
    // The size of the salt, and the salt.
    put(80, &8_u16.to_le_bytes());
    put(88, &blocks.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(size: u64) -> (File, File, io::Result<RootHash>) {
        let image = tempfile::tempfile().unwrap();
        for block in 0..size / BLOCK {
            image.write_all_at(&block.to_le_bytes(), block * BLOCK).unwrap();
        }
        image.set_len(size).unwrap();
        let tree = tempfile::tempfile().unwrap();
        let root = write_tree(&image, &tree);
        (image, tree, root)
    }

    #[test]
    fn the_highest_level_stands_first() {
        let of = |blocks| levels(blocks).into_iter().map(|one| (one.first, one.count)).collect();
        let found: [Vec<_>; 5] = [1, 2, 128, 129, 16385].map(of);
        let expected = [
            vec![],
            vec![(1, 1)],
            vec![(1, 1)],
            vec![(2, 2), (1, 1)],
            vec![(4, 129), (2, 2), (1, 1)],
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_root_is_found_in_the_tree() {
        for blocks in [1, 2, 129, 20_000] {
            let (image, tree, root) = made(blocks * BLOCK);
            assert_eq!(root_of(&image, &tree).unwrap(), root.unwrap(), "{blocks}");
        }
    }

    #[test]
    fn another_content_has_another_root() {
        let (image, tree, root) = made(200 * BLOCK);
        image.write_all_at(b"x", 150 * BLOCK + 77).unwrap();
        assert_ne!(write_tree(&image, &tree).unwrap(), root.unwrap());
    }

    #[test]
    fn a_part_of_a_block_has_no_hash() {
        let (_, _, root) = made(5000);
        assert_eq!(root.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn the_tree_of_a_larger_image_is_none() {
        let (image, tree, _) = made(200 * BLOCK);
        image.set_len(201 * BLOCK).unwrap();
        assert_eq!(root_of(&image, &tree).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
