// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an engine knows about the packages in its tree.

use std::path::PathBuf;

use cabane_view::PackageRecord;

/// A package in the tree, or one of the system that it uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    /// By which the others name it.
    pub(crate) key: String,
    /// As it is in the metadata, but for the size.
    pub(crate) record: PackageRecord,
    /// Where it is now, if it has a directory of its own in the tree.
    pub(crate) here: Option<PathBuf>,
    /// Where its source came from.
    pub(crate) source: Option<SourceFile>,
    /// Its license, as its package says.
    pub(crate) licence: Option<String>,
    /// The parts that it needs.
    pub(crate) needs: Vec<Need>,
}

/// What a package was made from.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// Its address.
    pub(crate) url: String,
    /// The sha256 of the file.
    pub(crate) sha256: Option<String>,
}

/// A part that another one needs.
#[derive(Clone, Debug)]
pub(crate) struct Need {
    /// Its key.
    pub(crate) key: String,
    /// What for.
    pub(crate) kind: NeedKind,
}

/// What a part is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeedKind {
    /// To be used.
    Run,
    /// To be built.
    Build,
    /// To be tested.
    Test,
}
