// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! YAML: from text to a tree of values.
//!
//! This is the only module that knows a YAML crate, and of that crate it uses
//! the events of the parser, not what it makes of serde types. So every value
//! keeps its place and its text as written (`3.10` stays `3.10`, `yes` stays
//! `yes`), a key that is given twice is reported with both places, and the
//! limits below hold before anything is kept.
//!
//! A recipe is a small file of words, lists and sections. Anchors, aliases and
//! merge keys are understood; tags other than `!!str`, keys that are not words
//! and several documents in one file are refused.

mod expand;
mod explain;
mod lines;
mod mistakes;
mod scalar;
mod tree;

use std::rc::Rc;

use crate::node::Node;
use crate::report::Report;

/// The most values in one file, aliases counted as what they stand for.
pub(crate) const MAX_NODES: usize = 20_000;
/// The most anchors in one file.
pub(crate) const MAX_ANCHORS: usize = 200;
/// How deep lists and sections may be nested.
pub(crate) const MAX_DEPTH: usize = 32;
/// The largest scalar, in bytes.
pub(crate) const MAX_SCALAR: usize = 64 * 1024;
/// The largest sum of all scalars, aliases counted as what they stand for.
pub(crate) const MAX_TEXT: usize = 4 * 1024 * 1024;

/// Reads the one document of a file.
///
/// Returns `None` after a problem behind which nothing can be understood. A
/// key that is given twice is a problem too, but reading goes on.
pub(crate) fn parse(report: &Report<'_>) -> Option<Rc<Node>> {
    tree::build(report)
}
