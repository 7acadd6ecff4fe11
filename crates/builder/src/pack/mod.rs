// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From a tree to an image, reproducibly and without loss.
//!
//! The same tree gives the same bytes, no matter who packs it: owners, times, order and
//! extended attributes are fixed, and modes as far as the format's program can. The
//! image has its name only when it is whole.

mod scan;
mod tool;

pub(crate) use scan::{Census, changed, scan};
pub(crate) use tool::Tool;

use std::fs::{self, File, Metadata, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use cabane_mount::ImageFormat;
use cabane_recipe::Recipe;
use rustix::fs::statvfs;

use crate::build_context::BuildContext;
use crate::layout::{Inside, Layout};
use crate::marker::ImageMark;
use crate::sandbox::Sandbox;
use crate::{BuildError, Result, disk, fingerprint};

/// The directory in an image that holds its metadata.
pub(crate) const META: &str = "meta";

/// The kinds of files, as modes have them.
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;

/// The tree to be packed. Its metadata is the one beside the image.
#[derive(Clone, Debug)]
pub(crate) struct Tree<'a> {
    /// Where it is.
    pub(crate) path: &'a Path,
    /// Whether this build made it, and may change it.
    pub(crate) ours: bool,
}

/// What becomes which image.
#[derive(Clone, Debug)]
pub(crate) struct Packed<'a> {
    pub(crate) tree: Tree<'a>,
    /// Where the metadata are.
    pub(crate) meta: PathBuf,
    /// Where the image is mounted.
    pub(crate) store: &'a Path,
    /// The image in each format.
    pub(crate) image: fn(&Layout, ImageFormat) -> PathBuf,
}

impl<'a> Packed<'a> {
    /// The tree of a build becomes its image.
    pub(crate) fn image(layout: &Layout, recipe: &'a Recipe, tree: &Tree<'a>) -> Self {
        let store = recipe.store.as_path();
        Self { tree: tree.clone(), meta: layout.meta(), store, image: Layout::image }
    }
}

/// Packs a tree and its metadata, and returns what became of them.
pub(crate) fn pack(
    bench: &mut BuildContext<'_>,
    tool: &Tool,
    packed: &Packed<'_>,
) -> Result<ImageMark> {
    let (layout, tree) = (bench.layout, &packed.tree);
    remove_images(layout, packed)?;
    open_to_all(&packed.meta)?;
    if tree.ours {
        open_to_all(tree.path)?;
    }
    let census = census(tool, packed)?;
    warn_of_lack_of_space(bench, &census);
    run(bench, tool, packed)?;
    let new = layout.new_image();
    tool.check(&new, &census)?;
    if !tree.ours && scan(tree.path, Some(META))?.fingerprint != census.fingerprint {
        return Err(scan::changed(tree.path));
    }
    put_in_place(&new, &(packed.image)(layout, tool.format), bench.interrupt)
}

fn remove_images(layout: &Layout, packed: &Packed<'_>) -> Result<()> {
    for format in [ImageFormat::Squashfs, ImageFormat::Erofs] {
        disk::remove(&(packed.image)(layout, format))?;
    }
    disk::remove(&layout.new_image())
}

/// Looks at the tree without its own metadata, and at the metadata instead.
fn census(tool: &Tool, packed: &Packed<'_>) -> Result<Census> {
    let mut census = scan(packed.tree.path, Some(META))?;
    let meta = scan(&packed.meta, None)?;
    if !tool.widens_modes() {
        census.check_public()?;
    }
    census.inodes += meta.inodes;
    census.further_links += meta.further_links;
    census.bytes += meta.bytes;
    Ok(census)
}

fn warn_of_lack_of_space(bench: &mut BuildContext<'_>, census: &Census) {
    let Ok(disk) = statvfs(&bench.layout.root) else {
        return;
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < census.bytes {
        bench.progress.warning(&format!(
            "{} MiB are free in {}, and the tree has {} MiB before it is compressed",
            free >> 20,
            cabane_label::shown(&bench.layout.root),
            census.bytes >> 20
        ));
    }
}

fn run(bench: &mut BuildContext<'_>, tool: &Tool, packed: &Packed<'_>) -> Result<()> {
    let store = packed.store;
    let mut sandbox = Sandbox::new(bench.request, bench.layout);
    // squashfs-tools take the time from the variable or from options, never both.
    sandbox.unset("SOURCE_DATE_EPOCH");
    sandbox.bind(bench.layout.work(), Inside::WORK, false);
    sandbox.bind(packed.tree.path, store, true);
    sandbox.bind(packed.meta.clone(), store.join(META), true);
    let invocation = tool.invocation(&mut sandbox, bench.request, store);
    let outcome = bench.run(&sandbox, &invocation);
    let outcome = outcome.and_then(|()| tool.check_log(&bench.log()));
    if outcome.is_err() {
        // A failed image must not fill the disk until the next build.
        disk::remove(&bench.layout.new_image())?;
    }
    outcome
}

/// Gives an image its name, and returns what became of it.
pub(crate) fn put_in_place(new: &Path, image: &Path, interrupt: &AtomicBool) -> Result<ImageMark> {
    let failed = || BuildError::file("finish", image);
    let file = File::open(new).map_err(failed())?;
    // Now, while the image is still in memory.
    let go_on = || !interrupt.load(Ordering::Relaxed);
    let digest = fingerprint::of_reader(&file, go_on).map_err(|error| match error.kind() {
        ErrorKind::Interrupted => BuildError::Interrupted,
        _ => failed()(error),
    })?;
    file.set_permissions(Permissions::from_mode(0o644))
        .and_then(|()| file.sync_all())
        .map_err(failed())?;
    let found = file.metadata().map_err(failed())?;
    disk::rename(new, image)?;
    Ok(mark(digest, &found))
}

fn mark(digest: cabane_label::Digest, found: &Metadata) -> ImageMark {
    ImageMark { digest, size: found.len(), modified: (found.mtime(), found.mtime_nsec()) }
}

/// Tells whether an image is still the one that was made.
pub(crate) fn is_unchanged(image: &Path, made: &ImageMark) -> bool {
    image.metadata().is_ok_and(|found| mark(made.digest.clone(), &found) == *made)
}

/// Returns the mode, with the kind of file, that a file of ours has in an image.
pub(crate) fn mode_in_image(mode: u32) -> u32 {
    let (kind, mode) = (mode & !0o7777, mode & 0o7777);
    let is_executable = kind == DIRECTORY || mode & 0o111 != 0;
    match kind {
        LINK => kind | mode,
        _ => kind | mode & 0o700 | if is_executable { 0o555 } else { 0o444 },
    }
}

/// Gives everyone the rights to a tree of ours that an image should give: to
/// read, to enter, and to execute what the owner may; to write to the owner alone.
pub(crate) fn open_to_all(path: &Path) -> Result<()> {
    let failed = || BuildError::file("change the mode of", path);
    let found = path.symlink_metadata().map_err(failed())?;
    if found.is_symlink() {
        return Ok(());
    }
    let mode = found.mode() & 0o7777;
    let wanted = mode_in_image(found.mode()) & 0o7777;
    if mode != wanted {
        fs::set_permissions(path, Permissions::from_mode(wanted)).map_err(failed())?;
    }
    if found.is_dir() {
        for entry in disk::entries("change the mode of", path)? {
            open_to_all(&entry.path())?;
        }
    }
    Ok(())
}
