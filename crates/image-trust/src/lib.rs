// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which images the kernel may read whoever owns them: their root hashes, signed or in a list.
//!
//! A root hash is always computed from the whole image, never taken from the hash tree beside it.

#![forbid(unsafe_code)]

mod list;
mod sign;

pub use list::{Change, Listed, change, policy_list};
pub use sign::{Signed, SigningKey, sign};

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use cabane_environment::find_image;
use cabane_label::ImageDescription;
use cabane_mount::RootHash;
use cabane_process::Scratch;
use cabane_report::{IoContext, Result};
use cabane_resolve::LocatedImage;
use cabane_site::Context;

/// Finds an image, and computes its root hash.
///
/// # Errors
///
/// Nothing, or several, are what was typed; those of reading; a size that is no multiple of a block.
pub fn root_hash_of(context: &Context, image: &str) -> Result<(LocatedImage, RootHash)> {
    let description: ImageDescription = image.parse()?;
    let located = find_image(context, &description)?;
    let directory = Scratch::new().or_failed(|| "make a temporary directory".to_owned())?;
    let root_hash = write_tree(&located.path, &directory.path().join("tree"))?;
    Ok((located, root_hash))
}

/// Writes the hash tree of an image into a new file, and returns its root hash.
fn write_tree(image: &Path, tree: &Path) -> Result<RootHash> {
    let read = || format!("compute the root hash of {}", image.display());
    let opened = File::open(image).or_failed(read)?;
    let file = File::options().read(true).write(true).create_new(true).open(tree);
    let file = file.or_failed(|| format!("create {}", tree.display()))?;
    cabane_verity::write_tree(&opened, &file).or_failed(read).map(RootHash::new)
}

/// Lets a file appear when it is complete.
fn in_one_step(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    // What a killed process has left.
    let _ = fs::remove_file(&new);
    write(&new)?;
    fs::rename(&new, path).or_failed(|| format!("write {}", path.display()))
}

/// Returns how an image is called in messages: by its label, or else by its path.
fn name_of(image: &LocatedImage) -> String {
    image.label.as_ref().map_or_else(|| image.path.display().to_string(), ToString::to_string)
}
