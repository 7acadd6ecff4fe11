// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why metadata was refused, and at which place in the file.

/// Metadata that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct MetaError {
    /// The reason, safe to show.
    pub reason: String,
    /// The line of the file, from 1.
    pub line: usize,
    /// The character in this line, from 1.
    pub column: usize,
}
