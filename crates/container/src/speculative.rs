// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Files that are written while their layer is read for the first time.
//!
//! Which files are left, and under which name, is known for certain when all layers were read.
//! Nearly always it is known before: layers are read from the top down, so that what may
//! hide a file was seen when it comes. Here that is guessed from names alone, and the tree says
//! at the end whether it was right. What was not written is written when its layer is read
//! again; if something was written that is not left, the image is begun anew. Content is written
//! without its name, so that a name which leads elsewhere does no harm.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::budget::Budget;
use crate::layer::{Found, LINKS, LONGEST_PATH, Layer, Listing, Opened, What, list, split_last};
use crate::progress::{Progress, tell};
use crate::squash::{Place, Pool};
use crate::tar::Entry;
use crate::write::{META, store_file};
use crate::{ContainerImage, Error, glibc};

/// Which files were written, and what else is known of them.
#[derive(Default)]
pub(crate) struct Written {
    /// The entries of each layer, in their order, and where their content is.
    entries: Vec<Vec<(u32, Place)>>,
    /// The versions of what looks like the C library, by layer and entry.
    libraries: HashMap<(usize, u32), Option<String>>,
}

impl Written {
    /// How many files were written.
    pub(crate) fn count(&self) -> usize {
        self.entries.iter().map(Vec::len).sum()
    }

    /// Where the content of a file is, if that was written.
    pub(crate) fn place(&self, layer: usize, entry: u32) -> Option<Place> {
        let entries = self.entries.get(layer)?;
        let found = entries.binary_search_by_key(&entry, |(entry, _)| *entry);
        entries.get(found.ok()?).map(|(_, place)| *place)
    }

    /// The version of a file that is the C library; `None` if it was not looked at.
    pub(crate) fn library(&self, layer: usize, entry: u32) -> Option<&Option<String>> {
        self.libraries.get(&(layer, entry))
    }
}

/// Reads layers for the first time.
pub(crate) struct Ahead {
    pub(crate) pool: Pool,
    pub(crate) written: Written,
    above: Above,
    own: Own,
    /// The directories in which something was written.
    directories: HashSet<u64>,
    /// Something was written that is not left: there is no use in writing more.
    is_wrong: bool,
}

/// What the layers above have, by the hashes of names: one that is mistaken for another is read
/// again, and nothing else happens.
#[derive(Default)]
struct Above {
    /// What is no directory, or not there.
    other: HashSet<u64>,
    directories: HashSet<u64>,
    opaque: HashSet<u64>,
}

/// What the same layer had before.
#[derive(Default)]
struct Own {
    written: HashSet<u64>,
    symlinks: HashSet<u64>,
}

impl Ahead {
    pub(crate) fn new(pool: Pool, layers: usize) -> Self {
        Self {
            pool,
            written: Written { entries: vec![Vec::new(); layers], ..Written::default() },
            above: Above::default(),
            own: Own::default(),
            directories: HashSet::new(),
            is_wrong: false,
        }
    }

    /// Reads all layers, the highest first; returns what is in each, the lowest first.
    pub(crate) fn read(
        &mut self,
        image: &ContainerImage<'_>,
        budget: &Budget<'_>,
        progress: &dyn Progress,
    ) -> Result<Vec<Listing>, Error> {
        let total = total_of(image);
        let mut done = 0;
        let mut listings = Vec::new();
        for (index, layer) in image.layers.iter().enumerate().rev() {
            self.own = Own::default();
            let listing = list(layer, budget, |opened, entry, found| {
                if let What::File { .. } = found.what
                    && self.is_left(found)
                {
                    self.write(index, layer, opened, entry, found)?;
                }
                self.note(found);
                tell(progress, done + opened.bytes_read(), total)
            })?;
            done += listing.size;
            self.above.add(&listing.found);
            listings.push(listing);
        }
        listings.reverse();
        Ok(listings)
    }

    /// Whether a file seems to be left when all layers are on top of each other.
    fn is_left(&self, found: &Found) -> bool {
        let path = &*found.path;
        if self.is_wrong || path.is_empty() || path == META.as_bytes() || path.len() > LONGEST_PATH
        {
            return false;
        }
        let name = hash(path);
        !self.own.written.contains(&name)
            && !self.above.other.contains(&name)
            && !self.above.directories.contains(&name)
            // There may be something in it without an entry for the directory itself.
            && !self.directories.contains(&name)
            && parents(path).all(|parent| {
                let name = hash(parent);
                parent != META.as_bytes()
                    && parent != LINKS
                    && !self.own.symlinks.contains(&name)
                    && !self.own.written.contains(&name)
                    && !self.above.other.contains(&name)
                    && !self.above.opaque.contains(&name)
            })
    }

    fn write(
        &mut self,
        index: usize,
        layer: &Layer<'_>,
        opened: &mut Opened<'_, '_>,
        entry: &Entry,
        found: &Found,
    ) -> Result<(), Error> {
        let mut library = glibc::may_be(&found.path, entry.size).then(Vec::new);
        let copy = library.as_mut();
        let place = store_file(&mut self.pool, (layer, opened), entry, copy)?;
        if let Some(entries) = self.written.entries.get_mut(index) {
            entries.push((found.number, place));
        }
        if let Some(library) = library {
            let version = glibc::version_in(&library);
            let key = (index, found.number);
            self.written.libraries.insert(key, version);
        }
        self.own.written.insert(hash(&found.path));
        self.directories.extend(parents(&found.path).map(hash));
        Ok(())
    }

    /// Notes what may lead names of the same layer elsewhere, or those that were written.
    fn note(&mut self, found: &Found) {
        if let What::Symlink(_) = found.what {
            let name = hash(&found.path);
            self.own.symlinks.insert(name);
            self.is_wrong |=
                self.directories.contains(&name) && !self.above.directories.contains(&name);
        }
    }
}

impl Above {
    fn add(&mut self, found: &[Found]) {
        for one in found {
            let names = match one.what {
                What::Directory => &mut self.directories,
                What::Opaque => &mut self.opaque,
                _ => &mut self.other,
            };
            names.insert(hash(&one.path));
        }
    }
}

/// How many bytes all layers have, if that is known.
pub(crate) fn total_of(image: &ContainerImage<'_>) -> Option<u64> {
    let sizes = image.layers.iter().map(|layer| layer.size);
    sizes.into_iter().try_fold(0_u64, |sum, size| Some(sum.saturating_add(size?)))
}

/// Every directory above a name; the last one is the root.
fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = path;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        rest = split_last(rest).0;
        Some(rest)
    })
}

/// The same in each run: the order of the files is seen in the image.
fn hash(path: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}
