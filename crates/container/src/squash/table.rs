// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Tables of metadata as squashfs has them: blocks of 8 KiB, of which none is compressed here.

use std::io::{self, Write};

/// The size of a block of metadata.
const METADATA: usize = 8192;
/// A block with its length before it.
const STORED: u64 = METADATA as u64 + 2;
/// Says that a block is not compressed.
const IS_PLAIN: u16 = 0x8000;

/// A place in a table: where the block begins in what is stored, and the byte in the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) block: u32,
    pub(super) offset: u16,
}

impl Spot {
    /// Both in one number, as tables refer to inodes.
    pub(super) fn reference(self) -> u64 {
        u64::from(self.block) << 16 | u64::from(self.offset)
    }
}

/// A table that grows.
#[derive(Debug, Default)]
pub(super) struct Table {
    bytes: Vec<u8>,
}

impl Table {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Where the next byte goes.
    pub(super) fn spot(&self) -> io::Result<Spot> {
        let (blocks, offset) = (self.bytes.len() / METADATA, self.bytes.len() % METADATA);
        let block = u32::try_from(blocks as u64 * STORED);
        let block = block.map_err(|_| {
            io::Error::other("there are too many files and directories for one image")
        })?;
        Ok(Spot { block, offset: u16::try_from(offset).unwrap_or_default() })
    }

    /// Writes all blocks, and returns how many bytes these were.
    pub(super) fn write(&self, output: &mut impl Write) -> io::Result<u64> {
        let mut written = 0;
        for block in self.bytes.chunks(METADATA) {
            let length = u16::try_from(block.len()).unwrap_or_default();
            output.write_all(&(length | IS_PLAIN).to_le_bytes())?;
            output.write_all(block)?;
            written += 2 + block.len() as u64;
        }
        Ok(written)
    }

    /// Writes all blocks, and then where each of them is; `place` is where the first one comes.
    /// Returns where that list begins and where it ends.
    pub(super) fn write_listed(
        &self,
        output: &mut impl Write,
        place: u64,
    ) -> io::Result<(u64, u64)> {
        let list = place + self.write(output)?;
        let blocks = self.bytes.len().div_ceil(METADATA) as u64;
        for block in 0..blocks {
            output.write_all(&(place + block * STORED).to_le_bytes())?;
        }
        Ok((list, list + 8 * blocks))
    }
}
