// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an archive holds.

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
