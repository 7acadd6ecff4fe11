// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Packs: files with bytes that several images share.
//!
//! A pack is named by its sha256 and never changes. It stays as long as the list of parts of an image
//! names it, or the image is there whose file it is. The order of two steps keeps images and packs
//! together where there is no lock: a writer of a list looks for the packs *afterwards*, before it
//! removes the file of the image; and a process that removes a pack first takes it out of sight and
//! *afterwards* looks for lists that name it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use cabane_label::{Digest, shown};

use crate::disk;
use crate::layout::Layout;
use crate::parts::PartList;
use crate::staging::Temporary;
use crate::transfer::digest_of;
use crate::writer::Writer;

/// Marks a pack whose content was found to be damaged: new images do not refer to it.
const DAMAGED: &str = "damaged";

/// Opens a pack.
pub(crate) fn open(layout: &Layout, pack: &Digest) -> io::Result<File> {
    let file = disk::open(&layout.pack(pack))?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Returns the names of the packs that are there.
pub(crate) fn names(layout: &Layout) -> Vec<Digest> {
    let names = disk::names(&layout.packs()).unwrap_or_default();
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// Returns where the chunks of a pack are listed.
pub(crate) fn chunk_list(layout: &Layout, pack: &Digest) -> PathBuf {
    layout.pack_directory(pack).join("chunks")
}

/// Returns whether a pack was found to be damaged.
pub(crate) fn is_damaged(layout: &Layout, pack: &Digest) -> bool {
    layout.pack_directory(pack).join(DAMAGED).exists()
}

/// Returns what is wrong with the packs of a deduplicated image. With `read` the image is summed;
/// `report` gets how many bytes were read.
pub(crate) fn problem_of(
    layout: &Layout,
    digest: &Digest,
    read: bool,
    report: &mut dyn FnMut(u64),
) -> Option<String> {
    let path = layout.parts(digest);
    let list = match PartList::read(&path) {
        Ok(list) => list,
        Err(error) => return Some(format!("{} cannot be read: {error}", shown(&path))),
    };
    for (pack, end) in list.ends() {
        let path = layout.pack(pack);
        match open(layout, pack).and_then(|file| file.metadata()) {
            Ok(found) if found.len() >= end => {}
            Ok(_) => return Some(format!("{} is cut off", shown(&path))),
            Err(error) => return Some(format!("{} cannot be read: {error}", shown(&path))),
        }
    }
    if !read || list.digest(&|pack| open(layout, pack), report).is_ok_and(|sum| sum == *digest) {
        return None;
    }
    let damaged = mark_damaged(layout, &list);
    Some(damaged.unwrap_or_else(|| format!("{} names other bytes", shown(&path))))
}

/// Reads the packs of an image that could not be assembled, marks the first damaged one, and says which
/// it is.
fn mark_damaged(layout: &Layout, list: &PartList) -> Option<String> {
    list.packs.iter().find_map(|pack| {
        let path = layout.pack(pack);
        let what = match digest_of(&path, &mut |_| ()) {
            Ok((found, _)) if found == *pack => return None,
            Ok((found, _)) => format!("{} is damaged: its sha256 is {found}", shown(&path)),
            Err(error) => format!("{} is damaged: {error}", shown(&path)),
        };
        // Without the right to write here, a later writer finds the same.
        let _ = disk::create_new(&layout.pack_directory(pack).join(DAMAGED));
        Some(what)
    })
}

/// Returns the packs that some list of parts names, also those of images on their way out.
fn named(layout: &Layout) -> io::Result<BTreeSet<Digest>> {
    let mut needed = BTreeSet::new();
    let images = disk::names(&layout.images())?;
    let mut lists: Vec<PathBuf> = Vec::new();
    for digest in images.iter().filter_map(|name| name.parse().ok()) {
        lists.push(layout.parts(&digest));
        if layout.image(&digest).exists() {
            needed.insert(digest);
        }
    }
    let leaving = disk::names(&layout.tmp())?;
    let leaving =
        leaving.iter().filter(|name| matches!(Temporary::from_name(name), Temporary::Trash(..)));
    lists.extend(leaving.map(|name| layout.tmp().join(name).join("parts")));
    for list in lists {
        if let Some(list) = disk::if_there(PartList::read(&list))? {
            needed.extend(list.packs);
        }
    }
    Ok(needed)
}

impl Writer<'_> {
    /// Removes the packs that no image needs, and returns how many bytes that freed. If a list cannot be
    /// read, nothing is removed.
    pub(crate) fn collect_packs(&self) -> u64 {
        let layout = self.layout;
        let mut packs = names(layout);
        if packs.is_empty() {
            return 0;
        }
        let Ok(needed) = named(layout) else { return 0 };
        packs.retain(|pack| !needed.contains(pack));
        let mut freed = 0;
        for pack in packs {
            let (place, gone) = (layout.pack_directory(&pack), self.staging.free_name("pack"));
            let size = fs::metadata(layout.pack(&pack)).map_or(0, |found| found.len());
            if fs::rename(&place, &gone).is_err() {
                continue;
            }
            if named(layout).is_ok_and(|needed| !needed.contains(&pack)) {
                freed += size;
                let _ = disk::remove_all(&gone);
            } else {
                let _ = fs::rename(&gone, &place);
            }
        }
        freed
    }
}
