// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Archives in the formats of tar: what layers are written in, and what is handed to
//! `mksquashfs`.
//!
//! Read are the old format, ustar, GNU's and pax, with long names and all ways to write
//! files with holes. Written is ustar with pax headers where these are needed. It reads
//! streams, keeps no more than one header in memory, and knows nothing of layers.

mod pax;
mod read;
mod sparse;
mod write;

pub use read::Reader;
pub(crate) use sparse::Unfolded;
pub(crate) use write::{Head, Writer, fill, member_head};

use std::io;

/// The size of a block, in which everything is measured.
pub(crate) const BLOCK: usize = 512;

/// Returns how many bytes follow content of a size until the next block begins.
fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Another name of a file that came before.
    Link,
    /// A device.
    Device,
    /// A named pipe.
    Pipe,
}

/// One entry, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name as it is written.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Permissions.
    pub mode: u32,
    /// The owner.
    pub uid: u64,
    /// The group.
    pub gid: u64,
    /// When it was changed, in seconds since 1970.
    pub mtime: i64,
    /// Where a link leads, as it is written.
    pub link: Vec<u8>,
    /// The size of the file, with its holes.
    pub size: u64,
    /// The pieces that are there, if the file has holes.
    pub pieces: Option<Vec<Piece>>,
    /// How many extended attributes it has.
    pub attributes: u32,
}

/// A piece of a file that is there; what is between pieces is a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub start: u64,
    /// How long it is.
    pub length: u64,
}

/// What is wrong with an archive.
#[derive(Debug, thiserror::Error)]
pub enum TarError {
    /// It cannot be read, or not be decompressed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It ends in the middle.
    #[error("it is cut off")]
    CutOff,
    /// What is where a header should has another sum than it says.
    #[error("at {at} there is no header of an entry")]
    NoHeader {
        /// Where it is.
        at: u64,
    },
    /// A number that is none.
    #[error("at {at} there is a header with a number that is none")]
    Number {
        /// Where the header stands.
        at: u64,
    },
    /// A long name, or records, that are too long.
    #[error("at {at} there are headers of {size} bytes, and 1 MiB is the limit")]
    TooLong {
        /// Where it is.
        at: u64,
        /// How long it is.
        size: u64,
    },
    /// A record of pax that is none.
    #[error("there is a pax header that cannot be understood")]
    Pax,
    /// Holes of a file that do not fit.
    #[error("there is a file with holes that cannot be understood")]
    Holes,
    /// A kind of entry that is not known.
    #[error("at {at} there is an entry of the unknown kind `{}`", char::from(*kind).escape_default())]
    Kind {
        /// Where it is.
        at: u64,
        /// The letter of the kind.
        kind: u8,
    },
}
