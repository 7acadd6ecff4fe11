// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A program or library with all that it gets: what is missing, and which versions.

use std::path::{Path, PathBuf};

use cabane_compat::{GlibcVersion, Links, VersionNeed};

use crate::Place;

/// The libraries of the C library, but its loader.
pub(crate) const GLIBC_NAMES: [&str; 17] = [
    "libc.so.6",
    "libm.so.6",
    "libmvec.so.1",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "libutil.so.1",
    "libresolv.so.2",
    "libnsl.so.1",
    "libanl.so.1",
    "libBrokenLocale.so.1",
    "libthread_db.so.1",
    "libnss_files.so.2",
    "libnss_dns.so.2",
    "libnss_compat.so.2",
    "libnss_hesiod.so.2",
    "libc_malloc_debug.so.0",
];

/// A file that is loaded.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The name that was requested.
    pub name: String,
    /// Where it was found.
    pub path: PathBuf,
    /// The file without links, and where it is reached.
    pub place: Place,
    /// What it needs.
    pub links: Links,
    /// Which of the others needs it; none needs the first.
    pub needed_by: Option<usize>,
    /// By what it was found.
    pub by: Through,
    /// The versions that it needs of others.
    pub needs: Vec<VersionNeed>,
    /// The versions that it has.
    pub has: Vec<String>,
}

/// By what a library was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Through {
    /// It was named by its path.
    Path,
    /// `LD_PRELOAD`.
    Preload,
    /// An rpath.
    Rpath,
    /// `LD_LIBRARY_PATH`.
    LibraryPath,
    /// A runpath.
    Runpath,
    /// The cache of the loader.
    Cache,
    /// The directories of the system.
    System,
}

/// A library that is not found.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Missing {
    /// Its name.
    pub name: String,
    /// The file that needs it.
    pub needed_by: PathBuf,
}

/// A version that a library does not have.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Unmet {
    /// The version: `FABRIC_1.9`.
    pub version: String,
    /// The library that was found, and does not have it.
    pub library: PathBuf,
    /// The file that needs it.
    pub needed_by: PathBuf,
}

/// A program or library and all that it gets.
#[derive(Clone, Debug)]
pub struct Closure {
    /// The files, in the order in which they are loaded; the first is what was requested.
    pub files: Vec<Loaded>,
    /// What is not found.
    pub missing: Vec<Missing>,
}

impl Closure {
    /// Finds a file by the name that others need.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<&Loaded> {
        self.files.iter().find(|file| file.answers_to(name))
    }

    /// Whether a file is loaded, be it under another name.
    pub(crate) fn holds(&self, file: &Loaded) -> bool {
        self.files.iter().any(|one| one.place.outside == file.place.outside)
    }

    pub(crate) fn provides(&self, name: &str) -> bool {
        let is_the_loader = name.starts_with("ld-linux") || name.starts_with("linux-vdso");
        is_the_loader || self.by_name(name).is_some()
    }

    /// The rpaths that hold for what a file needs: its own, and of those above it.
    pub(crate) fn rpath_above(&self, by: usize) -> Vec<PathBuf> {
        let mut directories = Vec::new();
        // A runpath switches the rpaths off for what its file needs.
        let mut current = self.files.get(by).filter(|file| file.links.runpath.is_none());
        // Each is needed by one before it, so this ends.
        while let Some(file) = current {
            if file.links.runpath.is_none() {
                directories.extend(list(file.links.rpath.as_deref(), &file.path));
            }
            current = file.needed_by.and_then(|above| self.files.get(above));
        }
        directories
    }

    /// Returns versions that the files need of each other and do not get.
    #[must_use]
    pub fn unmet(&self) -> Vec<Unmet> {
        let mut all = Vec::new();
        for file in &self.files {
            for need in file.needs.iter().filter(|need| !need.is_weak) {
                let Some(library) = self.by_name(&need.of) else {
                    continue;
                };
                // One without any versions is taken as it is, with a warning.
                if !library.has.is_empty() && !library.has.contains(&need.version) {
                    all.push(Unmet {
                        version: need.version.clone(),
                        library: library.path.clone(),
                        needed_by: file.path.clone(),
                    });
                }
            }
        }
        all
    }

    /// Returns the oldest C library with which all can be loaded, and the file that needs it.
    #[must_use]
    pub fn glibc(&self) -> Option<(GlibcVersion, &Loaded)> {
        let all = self.files.iter().filter(|file| !file.is_of_glibc());
        all.filter_map(|file| Some((file.glibc()?, file))).max_by_key(|(version, _)| *version)
    }
}

impl Loaded {
    /// Whether another file that needs this name gets this file.
    #[must_use]
    pub fn answers_to(&self, name: &str) -> bool {
        self.links.soname.as_deref() == Some(name) || self.name == name
    }

    /// Returns the oldest C library with which it can be loaded.
    #[must_use]
    pub fn glibc(&self) -> Option<GlibcVersion> {
        self.needs.iter().filter_map(|need| glibc_version(&need.version)).max()
    }

    /// Whether it belongs to the C library: it must be of the same build as the loader, so
    /// that it can only come from where the program runs.
    #[must_use]
    pub fn is_of_glibc(&self) -> bool {
        let name = self.links.soname.as_deref().unwrap_or(&self.name);
        is_of_glibc(name)
    }
}

/// Reads a version of the C library: `GLIBC_2.34`.
pub(crate) fn glibc_version(text: &str) -> Option<GlibcVersion> {
    text.strip_prefix("GLIBC_")?.parse().ok()
}

/// Whether a library of this name belongs to the C library.
#[must_use]
pub(crate) fn is_of_glibc(name: &str) -> bool {
    let stem = name.split_once(".so").map_or(name, |(stem, _)| stem);
    let stem_of = |name: &&str| name.split_once(".so").map(|(stem, _)| stem) == Some(stem);
    // The nsl of libnsl2 has another number and is no part of it.
    let is_listed =
        GLIBC_NAMES.iter().any(stem_of) && name != "libnsl.so.2" && name != "libnsl.so.3";
    is_listed || name.starts_with("ld-linux") || name.starts_with("ld64.so")
}

/// Reads a list of directories, with the directory of the file put in.
pub(crate) fn list(value: Option<&str>, file: &Path) -> Vec<PathBuf> {
    let origin = file.parent().unwrap_or(Path::new("/")).to_string_lossy();
    let parts = value.unwrap_or_default().split(':');
    parts
        .filter(|part| !part.is_empty())
        .map(|part| {
            let lib = if cfg!(target_pointer_width = "64") { "lib64" } else { "lib" };
            let part = part.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
            PathBuf::from(part.replace("${LIB}", lib).replace("$LIB", lib))
        })
        .collect()
}
