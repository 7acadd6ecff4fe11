// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Repositories of uenv: what is in them, and bringing it into ours.
//!
//! Such a repository is a directory with a database, `index.db`, and the images in
//! `images/<sha256>/store.squashfs`, with their metadata in `images/<sha256>/meta/`. It is only
//! read, never changed.

#![forbid(unsafe_code)]

mod contents;
mod import;

pub use contents::{Contents, Corruption, UenvImage, UenvRepository};
pub use import::{Fate, Import, ImportProgress, Imported, InnerMeta, Plan, Planned, import, plan};
