// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Archives in the formats of tar: what layers are written in, and what is handed to
//! `mksquashfs`.
//!
//! Read are the old format, ustar, GNU's and pax, with long names and all ways to write
//! files with holes. Written is ustar with pax headers where these are needed. It reads
//! streams, keeps no more than one header in memory, and knows nothing of layers.

mod entry;
mod error;
mod pax;
mod read;
mod sparse;
mod write;

pub use entry::{Entry, Kind, Piece};
pub use error::TarError;
pub use read::Reader;
pub(crate) use sparse::Unfolded;
pub(crate) use write::{Head, Writer, fill, member_head};

/// The size of a block, in which everything is measured.
pub(crate) const BLOCK: usize = 512;

/// Returns how many bytes follow content of a size until the next block begins.
fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}
