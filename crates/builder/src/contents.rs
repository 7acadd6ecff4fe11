// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Looking through a finished tree: how large its packages are, which C library its
//! programs need, and where its links lead out of it.
//!
//! What cannot be read is passed over here. Packing looks at everything again, and tells.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, DirEntry, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cabane_compat::{GlibcVersion, needed_glibc};
use cabane_mpi::{Language, Library, Name, Tree};

/// This brings a C library.
const C_LIBRARY: &str = "libc.so.6";
/// Where links may lead on every system.
const EVERYWHERE: [&str; 3] = ["/dev", "/proc", "/sys"];

/// What was found in a tree.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// The oldest C library that all programs and libraries can be loaded with.
    pub(crate) glibc: Option<GlibcVersion>,
    /// What starts the ranks of the MPIs in it, as `srun --mpi` names it; `None` if there is no MPI.
    pub(crate) launchers: Option<BTreeSet<&'static str>>,
    /// Where links of the tree lead out of it.
    pub(crate) links: BTreeSet<PathBuf>,
    /// How many bytes there are below each of the directories that were requested.
    pub(crate) sizes: Vec<u64>,
}

/// Looks through the tree in `root` that will be mounted at `mount_point`. `prefixes` are
/// directories in it, none below another.
pub(crate) fn look_through(root: &Path, mount_point: &Path, prefixes: &[PathBuf]) -> Contents {
    let numbers = prefixes.iter().enumerate();
    let mut look = Look {
        root,
        mount_point,
        prefixes: numbers.map(|(n, path)| (path.as_path(), n)).collect(),
        brings_library: false,
        contents: Contents { sizes: vec![0; prefixes.len()], ..Contents::default() },
    };
    look.directory(root, None);
    let mut contents = look.contents;
    contents.glibc = contents.glibc.filter(|_| !look.brings_library);
    contents
}

struct Look<'a> {
    root: &'a Path,
    mount_point: &'a Path,
    prefixes: HashMap<&'a Path, usize>,
    brings_library: bool,
    contents: Contents,
}

impl Look<'_> {
    fn directory(&mut self, directory: &Path, within: Option<usize>) {
        let within = self.prefixes.get(directory).copied().or(within);
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                self.directory(&entry.path(), within);
            } else if kind.is_symlink() {
                self.link(&entry, within);
            } else if kind.is_file() {
                self.file(&entry, within);
            }
        }
    }

    fn link(&mut self, entry: &DirEntry, within: Option<usize>) {
        let Ok(target) = fs::read_link(entry.path()) else {
            return;
        };
        self.add(within, target.as_os_str().len() as u64);
        let is_everywhere = EVERYWHERE.iter().any(|path| target.starts_with(path));
        if target.is_absolute() && !target.starts_with(self.mount_point) && !is_everywhere {
            self.contents.links.insert(target);
        }
    }

    fn file(&mut self, entry: &DirEntry, within: Option<usize>) {
        let Ok(found) = entry.metadata() else {
            return;
        };
        self.add(within, found.len());
        let name = entry.file_name();
        let is_library = name.as_bytes().windows(3).any(|part| part == b".so");
        if !is_library && found.mode() & 0o111 == 0 {
            return;
        }
        self.brings_library |= name == C_LIBRARY;
        if is_library {
            self.mpi(&entry.path());
        }
        let needed = File::open(entry.path()).ok().and_then(|file| needed_glibc(&file));
        self.contents.glibc = self.contents.glibc.max(needed);
    }

    /// Looks whether a library is one of an MPI.
    fn mpi(&mut self, path: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if Name::of(&name).is_none_or(|name| name.language != Language::C) {
            return;
        }
        let inside = path.strip_prefix(self.root).unwrap_or(path);
        if let Some(library) = Library::read(&Tree::below(self.root), inside) {
            let protocols = library.protocols.iter();
            let launchers = self.contents.launchers.get_or_insert_default();
            launchers.extend(protocols.map(|protocol| protocol.slurm_name()));
        }
    }

    fn add(&mut self, within: Option<usize>, bytes: u64) {
        if let Some(size) = within.and_then(|number| self.contents.sizes.get_mut(number)) {
            *size += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn look(make: impl FnOnce(&Path)) -> Contents {
        let tree = tempfile::tempdir().unwrap();
        make(tree.path());
        look_through(tree.path(), Path::new("/env"), &[tree.path().join("a")])
    }

    #[test]
    fn a_link_out_of_the_tree_is_named_and_one_into_it_is_not() {
        let contents = look(|tree| {
            symlink("/usr/bin/gcc", tree.join("gcc")).unwrap();
            symlink("/env/bin/tool", tree.join("tool")).unwrap();
            symlink("../elsewhere", tree.join("near")).unwrap();
        });
        assert_eq!(Vec::from_iter(contents.links), [Path::new("/usr/bin/gcc")]);
    }

    #[test]
    fn the_size_of_a_package_is_that_of_all_below_its_prefix() {
        let contents = look(|tree| {
            fs::create_dir_all(tree.join("a/bin")).unwrap();
            fs::write(tree.join("a/bin/tool"), "12345").unwrap();
            fs::write(tree.join("a/note"), "678").unwrap();
            fs::write(tree.join("beside"), "90").unwrap();
        });
        assert_eq!(contents.sizes, [8]);
    }

    #[test]
    fn a_program_of_this_machine_needs_its_c_library() {
        let contents = look(|tree| {
            fs::copy("/bin/sh", tree.join("sh")).unwrap();
        });
        let found = (contents.glibc.is_some(), contents.glibc <= cabane_compat::glibc());
        assert_eq!(found, (cabane_compat::glibc().is_some(), true));
    }

    #[test]
    fn an_image_with_a_c_library_needs_none() {
        let contents = look(|tree| {
            fs::copy("/bin/sh", tree.join("sh")).unwrap();
            fs::copy("/bin/sh", tree.join(C_LIBRARY)).unwrap();
        });
        assert_eq!(contents.glibc, None);
    }
}
