// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What can be wrong with an archive.

use std::io;

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
