// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What `cabane import --json` prints.

use cabane_container::Report;
use cabane_label::Digest;
use serde::Serialize;

/// What would be done, for programs.
#[derive(Serialize)]
pub(super) struct Planned<'a> {
    pub(super) label: String,
    pub(super) reference: &'a str,
    pub(super) platform: String,
    /// The digest of the manifest, where there is one.
    pub(super) manifest: Option<String>,
    pub(super) layers: usize,
    /// What the layers have together as they come; 0 where that is not known.
    pub(super) bytes: u64,
}

/// What was done, for programs.
#[derive(Serialize)]
pub(super) struct Done<'a> {
    pub(super) label: String,
    pub(super) digest: &'a Digest,
    pub(super) size: u64,
    /// Whether the image was there already, under whatever label.
    pub(super) shared: bool,
    pub(super) report: Option<&'a Report>,
}
