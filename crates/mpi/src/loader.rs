// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The libraries that a program gets, found as the loader would find them.
//!
//! The loader is not asked, as `cabane explain` does: one below another root must not be
//! run, and for a substitute that is not in place there is nothing to ask yet. The order
//! is that of the GNU loader: libraries that are loaded already, rpath of the one that
//! needs it and of all above it, the variable, runpath, the cache, the directories of the
//! system. `$ORIGIN` is the directory in which a library was *found*: a link to it lies
//! somewhere else, and what it needs is not found beside the link.

use std::cell::OnceCell;
use std::io::Read;
use std::path::{Path, PathBuf};

use cabane_host::{Binary, GlibcVersion, Kind, Links, VersionNeed, library_cache};

use crate::Tree;

/// No program has as many libraries.
const MOST_FILES: usize = 5000;
/// The cache is no larger than this.
const MOST_OF_CACHE: u64 = 64 << 20;

/// How a program is started.
#[derive(Debug)]
pub struct Loader<'a> {
    tree: &'a Tree,
    library_path: Vec<PathBuf>,
    preload: Vec<PathBuf>,
    cache: OnceCell<Vec<u8>>,
}

/// A file that is loaded.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The name that was asked for.
    pub name: String,
    /// Where it was found.
    pub path: PathBuf,
    /// The file without links, and where it is reached.
    pub place: crate::Place,
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
    /// The files, in the order in which they are loaded; the first is what was asked for.
    pub files: Vec<Loaded>,
    /// What is not found.
    pub missing: Vec<Missing>,
}

impl<'a> Loader<'a> {
    /// A start without variables.
    #[must_use]
    pub fn new(tree: &'a Tree) -> Self {
        Self {
            tree,
            library_path: Vec::new(),
            preload: Vec::new(),
            cache: OnceCell::new(),
        }
    }

    /// Sets `LD_LIBRARY_PATH`.
    #[must_use]
    pub fn library_path(mut self, value: &str) -> Self {
        let directories = value.split([':', ';']).filter(|part| !part.is_empty());
        self.library_path = directories.map(PathBuf::from).collect();
        self
    }

    /// Sets `LD_PRELOAD`.
    #[must_use]
    pub fn preload(mut self, libraries: impl IntoIterator<Item = PathBuf>) -> Self {
        self.preload = libraries.into_iter().collect();
        self
    }

    /// Follows a program or library; `None` if the file is neither.
    #[must_use]
    pub fn follow(&self, path: &Path) -> Option<Closure> {
        let place = self.tree.find(path)?;
        let name = path.file_name()?.to_string_lossy().into_owned();
        // The loader is told the file without links where it is started as a program.
        let is_program = self.tree.open(path)?;
        let binary = Binary::open(&is_program).filter(Binary::is_linked)?;
        let at = if binary.interpreter().is_some() {
            place.path
        } else {
            path.to_owned()
        };
        let kind = binary.kind();
        let mut closure = Closure {
            files: vec![self.load(&name, &at, kind, None, Through::Path)?],
            missing: Vec::new(),
        };
        for library in &self.preload {
            let name = library.to_string_lossy();
            match self.load(&name, library, kind, Some(0), Through::Preload) {
                Some(loaded) => closure.files.push(loaded),
                None => closure.missing.push(Missing {
                    name: name.into_owned(),
                    needed_by: at.clone(),
                }),
            }
        }
        let mut next = 0;
        while next < closure.files.len() && next < MOST_FILES {
            self.add_needs(&mut closure, next, kind);
            next += 1;
        }
        Some(closure)
    }

    /// Whether a library is found by its name alone, without the help of whoever needs it.
    pub(crate) fn finds(&self, name: &str, kind: Kind) -> bool {
        let of_variable = self.library_path.iter().map(|one| one.join(name));
        let of_system = Self::of_system().map(|one| one.join(name));
        of_variable
            .chain(library_cache::in_cache(self.cache(), name))
            .chain(of_system)
            .any(|path| {
                self.load(name, &path, kind, None, Through::System)
                    .is_some()
            })
    }

    fn add_needs(&self, closure: &mut Closure, of: usize, kind: Kind) {
        let Some(needed) = closure.files.get(of).map(|file| file.links.needed.clone()) else {
            return;
        };
        for name in needed {
            if closure.provides(&name) {
                continue;
            }
            if let Some(loaded) = self.search(closure, of, &name, kind) {
                // The same file under another name is loaded once.
                let outside = &loaded.place.outside;
                if !closure
                    .files
                    .iter()
                    .any(|one| &one.place.outside == outside)
                {
                    closure.files.push(loaded);
                }
            } else if !closure.missing.iter().any(|one| one.name == name) {
                closure
                    .missing
                    .extend(closure.files.get(of).map(|file| Missing {
                        name,
                        needed_by: file.path.clone(),
                    }));
            }
        }
    }

    fn search(&self, closure: &Closure, by: usize, name: &str, kind: Kind) -> Option<Loaded> {
        let file = closure.files.get(by)?;
        let load = |path: PathBuf, through| self.load(name, &path, kind, Some(by), through);
        if name.contains('/') {
            return load(PathBuf::from(name), Through::Path);
        }
        let of_variable = self
            .library_path
            .iter()
            .map(|one| (one.clone(), Through::LibraryPath));
        let runpath = list(file.links.runpath.as_deref(), &file.path);
        let runpath = runpath.into_iter().map(|one| (one, Through::Runpath));
        let rpath = closure.rpath_above(by).into_iter();
        let mut before = rpath
            .map(|one| (one, Through::Rpath))
            .chain(of_variable)
            .chain(runpath);
        let found = before.find_map(|(directory, through)| load(directory.join(name), through));
        if found.is_some() || file.links.is_without_default {
            return found;
        }
        library_cache::in_cache(self.cache(), name)
            .find_map(|path| load(path, Through::Cache))
            .or_else(|| {
                Self::of_system().find_map(|directory| load(directory.join(name), Through::System))
            })
    }

    fn load(
        &self,
        name: &str,
        path: &Path,
        kind: Kind,
        needed_by: Option<usize>,
        by: Through,
    ) -> Option<Loaded> {
        let file = self.tree.open(path)?;
        let binary = Binary::open(&file)?;
        // Of another word size the loader takes none, and goes on looking.
        if !binary.is_linked() || binary.kind() != kind {
            return None;
        }
        Some(Loaded {
            name: name.to_owned(),
            path: path.to_owned(),
            place: self.tree.find(path)?,
            links: binary.links().unwrap_or_default(),
            needed_by,
            by,
            needs: binary.needed_versions(),
            has: binary.defined_versions(),
        })
    }

    fn cache(&self) -> &[u8] {
        self.cache.get_or_init(|| {
            let file = self.tree.open(Path::new(library_cache::PLACE));
            let mut text = Vec::new();
            let read = file.map(|file| file.take(MOST_OF_CACHE).read_to_end(&mut text));
            if matches!(read, Some(Ok(_))) {
                text
            } else {
                Vec::new()
            }
        })
    }

    /// The directories that loaders have built in, with those of Debian first.
    fn of_system() -> impl Iterator<Item = PathBuf> {
        let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
        let of_debian = ["/lib", "/usr/lib"].map(|one| Path::new(one).join(&triplet));
        let others = library_cache::DEFAULT.map(PathBuf::from);
        of_debian.into_iter().chain(others)
    }
}

impl Closure {
    /// Returns what was asked for.
    pub fn first(&self) -> Option<&Loaded> {
        self.files.first()
    }

    /// Finds a file by the name that others need.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<&Loaded> {
        self.files.iter().find(|file| file.answers_to(name))
    }

    fn provides(&self, name: &str) -> bool {
        let is_the_loader = name.starts_with("ld-linux") || name.starts_with("linux-vdso");
        is_the_loader || self.by_name(name).is_some()
    }

    /// The rpaths that hold for what a file needs: its own, and of those above it.
    fn rpath_above(&self, by: usize) -> Vec<PathBuf> {
        let mut directories = Vec::new();
        // A runpath switches the rpaths off for what its file needs.
        let mut current = self
            .files
            .get(by)
            .filter(|file| file.links.runpath.is_none());
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
        all.filter_map(|file| Some((file.glibc()?, file)))
            .max_by_key(|(version, _)| *version)
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
        let versions = self.needs.iter();
        let versions = versions.filter_map(|need| need.version.strip_prefix("GLIBC_"));
        versions.filter_map(|text| text.parse().ok()).max()
    }

    /// Whether it belongs to the C library: it must be of the same build as the loader, so
    /// that it can only come from where the program runs.
    #[must_use]
    pub fn is_of_glibc(&self) -> bool {
        let name = self.links.soname.as_deref().unwrap_or(&self.name);
        is_of_glibc(name)
    }
}

/// Whether a library of this name belongs to the C library.
#[must_use]
pub(crate) fn is_of_glibc(name: &str) -> bool {
    const NAMES: [&str; 17] = [
        "libc",
        "libm",
        "libmvec",
        "libpthread",
        "libdl",
        "librt",
        "libutil",
        "libresolv",
        "libnsl",
        "libanl",
        "libBrokenLocale",
        "libthread_db",
        "libnss_files",
        "libnss_dns",
        "libnss_compat",
        "libnss_hesiod",
        "libc_malloc_debug",
    ];
    let stem = name.split_once(".so").map_or(name, |(stem, _)| stem);
    // The nsl of libnsl2 has another number and is no part of it.
    let is_listed = NAMES.contains(&stem) && name != "libnsl.so.2" && name != "libnsl.so.3";
    is_listed || name.starts_with("ld-linux") || name.starts_with("ld64.so")
}

/// Reads a list of directories, with the directory of the file put in.
fn list(value: Option<&str>, file: &Path) -> Vec<PathBuf> {
    let origin = file.parent().unwrap_or(Path::new("/")).to_string_lossy();
    let parts = value.unwrap_or_default().split(':');
    parts
        .filter(|part| !part.is_empty())
        .map(|part| {
            let lib = if cfg!(target_pointer_width = "64") {
                "lib64"
            } else {
                "lib"
            };
            let part = part
                .replace("${ORIGIN}", &origin)
                .replace("$ORIGIN", &origin);
            PathBuf::from(part.replace("${LIB}", lib).replace("$LIB", lib))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use super::*;

    /// What the real loader says of a program.
    fn asked(program: &Path) -> BTreeSet<PathBuf> {
        let answer = Command::new("ldd").arg(program).output().unwrap();
        let text = String::from_utf8(answer.stdout).unwrap();
        let files = text.lines().filter_map(|line| {
            let (_, file) = line.split_once(" => ")?;
            std::fs::canonicalize(file.split(" (0x").next()?).ok()
        });
        files.collect()
    }

    #[test]
    fn programs_of_this_machine_get_what_the_loader_gives_them() {
        let mut compared = 0;
        for program in [
            "/bin/sh",
            "/usr/bin/git",
            "/usr/bin/python3",
            "/usr/bin/curl",
            "/bin/mount",
        ] {
            let path = Path::new(program);
            if !path.exists() {
                continue;
            }
            compared += 1;
            let tree = Tree::here();
            let closure = Loader::new(&tree).follow(path).unwrap();
            let ours: BTreeSet<PathBuf> = closure
                .files
                .iter()
                .skip(1)
                .map(|file| file.place.path.clone())
                .collect();
            assert_eq!(ours, asked(path), "{program}");
            assert_eq!(
                (closure.missing.len(), closure.unmet().len()),
                (0, 0),
                "{program}"
            );
        }
        assert!(compared > 0);
    }

    #[test]
    fn the_origin_is_where_a_file_was_found() {
        let directories = list(
            Some("$ORIGIN/mpich:${ORIGIN}:/opt/lib"),
            Path::new("/a/b.so"),
        );
        let expected: Vec<PathBuf> = ["/a/mpich", "/a", "/opt/lib"].map(PathBuf::from).into();
        assert_eq!(directories, expected);
    }
}
