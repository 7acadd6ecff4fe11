// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The libraries that a program gets, found as the loader would find them.
//!
//! The real loader is not run, unlike in `cabane explain`: one below another root must not be
//! run, and a substitute that is not in place cannot be loaded yet. The order
//! is that of the GNU loader: libraries that are loaded already, rpath of the one that
//! needs it and of all above it, the variable, runpath, the cache, the directories of the
//! system. `$ORIGIN` is the directory in which a library was *found*: a link to it lies
//! somewhere else, and what it needs is not found beside the link.

use std::cell::OnceCell;
use std::io::Read;
use std::path::{Path, PathBuf};

use cabane_compat::{Binary, Kind, library_cache};

use crate::Tree;
use crate::closure::{Closure, Loaded, Missing, Through, list};

/// No program has as many libraries.
const MOST_FILES: usize = 5000;
/// The cache is no larger than this.
const MOST_OF_CACHE: u64 = 64 << 20;

/// How a program is started.
#[derive(Debug)]
pub struct Loader<'a> {
    tree: &'a Tree,
    library_path: Vec<PathBuf>,
    /// The value of `LD_PRELOAD`.
    pub(crate) preload: Vec<PathBuf>,
    cache: OnceCell<Vec<u8>>,
}

impl<'a> Loader<'a> {
    /// A start without variables.
    #[must_use]
    pub fn new(tree: &'a Tree) -> Self {
        Self { tree, library_path: Vec::new(), preload: Vec::new(), cache: OnceCell::new() }
    }

    /// Sets `LD_LIBRARY_PATH`.
    #[must_use]
    pub fn library_path(mut self, value: &str) -> Self {
        let directories = value.split([':', ';']).filter(|part| !part.is_empty());
        self.library_path = directories.map(PathBuf::from).collect();
        self
    }

    /// Follows a program or library; `None` if the file is neither.
    #[must_use]
    pub fn follow(&self, path: &Path) -> Option<Closure> {
        let place = self.tree.find(path)?;
        let name = path.file_name()?.to_string_lossy().into_owned();
        // The loader gets the file without links where it is started as a program.
        let is_program = self.tree.open(path)?;
        let binary = Binary::open(&is_program).filter(Binary::is_linked)?;
        let at = if binary.interpreter().is_some() { place.path } else { path.to_owned() };
        let kind = binary.kind();
        let mut closure = Closure {
            files: vec![self.load(&name, &at, kind, None, Through::Path)?],
            missing: Vec::new(),
        };
        for library in &self.preload {
            let name = library.to_string_lossy();
            match self.load(&name, library, kind, Some(0), Through::Preload) {
                Some(loaded) => closure.files.push(loaded),
                None => {
                    closure
                        .missing
                        .push(Missing { name: name.into_owned(), needed_by: at.clone() });
                }
            }
        }
        let mut next = 0;
        while next < closure.files.len() && next < MOST_FILES {
            self.add_needs(&mut closure, next, kind);
            next += 1;
        }
        Some(closure)
    }

    /// Finds a library by its name alone, without the help of the file that needs it.
    pub(crate) fn named(&self, name: &str, kind: Kind) -> Option<Loaded> {
        let of_variable = self.library_path.iter().map(|one| one.join(name));
        let of_system = Self::of_system().map(|one| one.join(name));
        of_variable
            .chain(library_cache::in_cache(self.cache(), name))
            .chain(of_system)
            .find_map(|path| self.load(name, &path, kind, None, Through::System))
    }

    /// Returns each file of a name in the directories of the system, the one that is loaded first.
    pub(crate) fn of_system_named(&self, name: &str, kind: Kind) -> Vec<Loaded> {
        let of_cache = library_cache::in_cache(self.cache(), name);
        let paths = of_cache.chain(Self::of_system().map(|one| one.join(name)));
        let mut found: Vec<Loaded> = Vec::new();
        for file in paths.filter_map(|path| self.load(name, &path, kind, None, Through::System)) {
            if !found.iter().any(|one| one.place == file.place) {
                found.push(file);
            }
        }
        found
    }

    fn add_needs(&self, closure: &mut Closure, of: usize, kind: Kind) {
        let Some(file) = closure.files.get(of) else {
            return;
        };
        let (needed, path) = (file.links.needed.clone(), file.path.clone());
        for name in needed {
            if closure.provides(&name) {
                continue;
            }
            if let Some(loaded) = self.search(closure, of, &name, kind) {
                // The same file under another name is loaded once.
                if !closure.holds(&loaded) {
                    closure.files.push(loaded);
                }
            } else if !closure.missing.iter().any(|one| one.name == name) {
                closure.missing.push(Missing { name, needed_by: path.clone() });
            }
        }
    }

    fn search(&self, closure: &Closure, by: usize, name: &str, kind: Kind) -> Option<Loaded> {
        let file = closure.files.get(by)?;
        let load = |path: PathBuf, through| self.load(name, &path, kind, Some(by), through);
        if name.contains('/') {
            return load(PathBuf::from(name), Through::Path);
        }
        let of_variable = self.library_path.iter().map(|one| (one.clone(), Through::LibraryPath));
        let runpath = list(file.links.runpath.as_deref(), &file.path);
        let runpath = runpath.into_iter().map(|one| (one, Through::Runpath));
        let rpath = closure.rpath_above(by).into_iter();
        let mut before = rpath.map(|one| (one, Through::Rpath)).chain(of_variable).chain(runpath);
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
        // The loader skips files of another word size.
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
            if matches!(read, Some(Ok(_))) { text } else { Vec::new() }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use super::*;

    /// What the real loader says of a program.
    fn requested(program: &Path) -> BTreeSet<PathBuf> {
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
        for program in
            ["/bin/sh", "/usr/bin/git", "/usr/bin/python3", "/usr/bin/curl", "/bin/mount"]
        {
            let path = Path::new(program);
            if !path.exists() {
                continue;
            }
            compared += 1;
            let tree = Tree::here();
            let closure = Loader::new(&tree).follow(path).unwrap();
            let ours: BTreeSet<PathBuf> =
                closure.files.iter().skip(1).map(|file| file.place.path.clone()).collect();
            assert_eq!(ours, requested(path), "{program}");
            assert_eq!((closure.missing.len(), closure.unmet().len()), (0, 0), "{program}");
        }
        assert!(compared > 0);
    }

    #[test]
    fn the_origin_is_where_a_file_was_found() {
        let directories = list(Some("$ORIGIN/mpich:${ORIGIN}:/opt/lib"), Path::new("/a/b.so"));
        let expected: Vec<PathBuf> = ["/a/mpich", "/a", "/opt/lib"].map(PathBuf::from).into();
        assert_eq!(directories, expected);
    }
}
