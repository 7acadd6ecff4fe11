// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The packages and needs of images, cached by digest in the cache directory of the user.
//!
//! The content of an image never changes. Each registry has a file of its own, and so have the
//! repositories: what one source claims about a digest is not believed of another. A writer first
//! merges what others have written; if two write at once, the next search asks again for what was
//! lost.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_label::Digest;
use cabane_registry::{sum, write_at_once};
use cabane_site::Context;
use cabane_view::{LineIndex, LineKind, PackageLines, PackagePattern};

/// The directory in the cache with packages.
pub(crate) const PACKAGES: &str = "packages";
/// The directory in the cache with needs.
pub(crate) const NEEDS: &str = "needs";
/// The directory in the cache with what is for people.
pub(crate) const DETAILS: &str = "details";
/// How large a file may be, in bytes. What does not fit is requested each time.
const MAX_BYTES: usize = 64 << 20;

/// What is known of the images of a source.
pub(crate) struct Kept<K> {
    pub(crate) index: LineIndex<K>,
    path: Option<PathBuf>,
}

/// A search for packages, with what is known of images.
pub(crate) struct PackageSearch {
    pub(crate) patterns: Vec<PackagePattern>,
    pub(crate) kept: Kept<PackageLines>,
}

impl PackageSearch {
    /// Reads what is known of the images of a source; `None` if no package is searched for.
    pub(crate) fn new(
        context: &Context,
        patterns: Vec<PackagePattern>,
        source: &str,
    ) -> Option<Self> {
        let is_search = !patterns.is_empty();
        is_search.then(|| Self { patterns, kept: Kept::read(context, PACKAGES, source) })
    }
}

impl<K: LineKind> Kept<K> {
    /// Reads what is known of the images of a source.
    pub(crate) fn read(context: &Context, directory: &str, source: &str) -> Self {
        let cache = context.settings.cache_directory.value.as_ref();
        let name = sum::bytes(source.as_bytes()).id();
        let path = cache.map(|cache| cache.join(directory).join(format!("{name}.index")));
        let index = path.as_deref().and_then(read).unwrap_or_default();
        Self { index, path }
    }

    /// Returns whether the lines of an image have to be requested. With `again`, those that did
    /// not have any are requested again.
    pub(crate) fn is_missing(&self, image: &Digest, again: bool) -> bool {
        !self.index.knows(image) || again && self.index.is_silent(image)
    }

    /// Adds the lines of images, `None` for an image without any, and writes the cache.
    /// `wanted` are the images that stay if not all fit.
    pub(crate) fn add(&mut self, lists: &[(Digest, Option<String>)], wanted: &BTreeSet<&Digest>) {
        if lists.is_empty() {
            return;
        }
        let lists = lists.iter();
        self.index.add(lists.map(|(digest, lines)| (digest.clone(), lines.as_deref())));
        let Some(path) = &self.path else {
            return;
        };
        if let Some(others) = read(path) {
            self.index.merge(&others);
        }
        let bytes = if self.index.size() <= MAX_BYTES {
            self.index.to_bytes()
        } else {
            self.index.only(wanted, MAX_BYTES).to_bytes()
        };
        // Without a cache, the next search asks again.
        let _ = write_at_once(path, &bytes);
    }
}

fn read<K: LineKind>(path: &Path) -> Option<LineIndex<K>> {
    LineIndex::from_bytes(fs::read(path).ok()?)
}
