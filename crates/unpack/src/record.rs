// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is known of an unpacked image.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The name of the file beside the tree.
pub(crate) const RECORD: &str = "record";

/// What is known of an unpacked image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The label under which it was unpacked.
    pub label: Option<String>,
    /// How many files it has.
    pub files: u64,
    /// The size of these files, in bytes.
    pub bytes: u64,
    /// When it was unpacked.
    pub unpacked: Timestamp,
}

impl Record {
    /// Reads the record of a tree. One that cannot be read is no reason to keep a tree for ever.
    pub(crate) fn read(directory: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(directory.join(RECORD)).ok()?).ok()
    }
}
