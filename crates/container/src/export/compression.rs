// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How layers are compressed, and what comes of it.

use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

use cabane_label::{Digest, escape};

/// How layers are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// What everything reads.
    #[default]
    Gzip,
    /// Faster and smaller. Takes the program `zstd`, and a newer runtime: Docker reads it
    /// since 23.
    Zstd,
}

/// A text that names no compression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a compression of layers: gzip and zstd are", escape(.text))]
pub struct CompressionError {
    text: String,
}

impl FromStr for Compression {
    type Err = CompressionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "gzip" => Ok(Self::Gzip),
            "zstd" => Ok(Self::Zstd),
            text => Err(CompressionError { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

/// What was compressed.
#[derive(Debug)]
pub(super) struct Compressed {
    /// The digest of what came.
    pub(super) diff_id: Digest,
    /// The digest of what was written.
    pub(super) digest: Digest,
    /// How many bytes were written.
    pub(super) size: u64,
}

/// Why it was not.
#[derive(Debug)]
pub(super) enum Failure {
    Read(io::Error),
    Write(io::Error),
    /// The program that compresses, in its own words.
    Program(String),
    Interrupted,
}

/// What compresses.
#[derive(Clone, Copy, Debug)]
pub(super) enum Method<'a> {
    Gzip,
    /// The program.
    Zstd(&'a Path),
}
