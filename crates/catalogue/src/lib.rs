// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A static website of the images of a registry or of repositories: a page for each image, package, and system, a search
//! that runs in the browser, a feed of changes, and the same content as JSON.
//!
//! [`gather()`] and [`gather_local()`] read what there is into a [`CatalogueInput`], [`build()`] writes the files, and
//! [`serve()`] shows them on this machine. The same input gives the same bytes. The design is in
//! `docs/design/0020-catalogue.md`.

#![forbid(unsafe_code)]

mod access;
mod api;
mod beside;
mod differences;
mod events;
mod evidence;
mod file_name;
mod gather;
mod html;
mod input;
mod local;
mod model;
mod output;
mod pages;
mod script_data;
mod search_data;
mod serve;
mod site;

use std::path::Path;

use cabane_report::Result;

pub use gather::{GatherRequest, gather};
pub use input::{
    BuiltImage, CatalogueImage, CatalogueInput, Figure, ImageEvidence, Source, TestResult,
};
pub use local::gather_local;
pub use output::{OtherEntries, Written};
pub use serve::serve;

/// Writes a site into a directory: a new or empty one, or that of a site. Only what changed is written,
/// and readers see the old site or the new one.
///
/// # Errors
///
/// The directory has something else in it, another build writes there, or a file cannot be written.
pub fn build(input: &CatalogueInput, directory: &Path, others: OtherEntries) -> Result<Written> {
    site::with_files(input, |files| output::write(files, directory, others))
}

#[cfg(test)]
mod tests;
