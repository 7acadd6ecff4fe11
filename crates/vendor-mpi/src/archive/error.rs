// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why a package was refused.

use std::io;

use cabane_label::escape;

/// Why a package cannot be read, or is not read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It is neither a Debian package nor an RPM.
    #[error("it is neither a Debian package nor an RPM")]
    NotAPackage,
    /// It is written in a way that is not known here.
    #[error("{what}, which is not understood")]
    Unknown {
        /// What was found.
        what: &'static str,
    },
    /// It is not what it says to be.
    #[error("it is damaged: {what}")]
    Damaged {
        /// What is wrong.
        what: &'static str,
    },
    /// Something is in it that does not belong there.
    #[error("`{}` {what}", escape(path))]
    Refused {
        /// The path as it is in the package.
        path: String,
        /// Why it is refused.
        what: &'static str,
    },
    /// It holds more than a package may.
    #[error("it holds more than {entries} files or {bytes} bytes")]
    TooLarge {
        /// How many files may be in it.
        entries: u64,
        /// How many bytes may be in it.
        bytes: u64,
    },
    /// It cannot be read, or a decompressor does not understand it.
    #[error("it cannot be read to its end")]
    Io(#[from] io::Error),
}

impl ArchiveError {
    pub(crate) fn refused(path: &[u8], what: &'static str) -> Self {
        Self::Refused { path: String::from_utf8_lossy(path).into_owned(), what }
    }
}
