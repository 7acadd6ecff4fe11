// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Looking through a finished tree: how large its packages are, what its programs and libraries
//! need of the host, and where its links lead out of it.
//!
//! What cannot be read is passed over here. Packing looks at everything again, and tells.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, DirEntry};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cabane_compat::GlibcVersion;
use cabane_mpi::{Language, Library, Name, Tree};
use cabane_view::{HostNeeds, ProvidedMpi};

mod linkage;

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
    /// What its files need of the host and offer.
    pub(crate) needs: HostNeeds,
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
        real_root: root.canonicalize().unwrap_or_else(|_| root.to_owned()),
        mount_point,
        prefixes: numbers.map(|(n, path)| (path.as_path(), n)).collect(),
        brings_library: false,
        names: BTreeSet::new(),
        candidates: Vec::new(),
        mpi: BTreeSet::new(),
        contents: Contents { sizes: vec![0; prefixes.len()], ..Contents::default() },
    };
    look.directory(root, None);
    let Look { brings_library, names, candidates, mpi, mut contents, .. } = look;
    let found = linkage::read_all(root, mount_point, &each_once(candidates));
    contents.glibc = found.glibc.filter(|_| !brings_library);
    contents.needs = HostNeeds::gather(found.files, &names);
    contents.needs.mpi = mpi.into_iter().collect();
    contents
}

/// What may be a program or library, and which file it is if that has several names.
type Candidate = (PathBuf, Option<(u64, u64)>);

/// Leaves out further names of files: which one is kept does not depend on the order of entries.
fn each_once(mut candidates: Vec<Candidate>) -> Vec<PathBuf> {
    candidates.sort();
    let mut seen = HashSet::new();
    candidates.retain(|(_, file)| file.is_none_or(|file| seen.insert(file)));
    candidates.into_iter().map(|(path, _)| path).collect()
}

struct Look<'a> {
    root: &'a Path,
    real_root: PathBuf,
    mount_point: &'a Path,
    prefixes: HashMap<&'a Path, usize>,
    brings_library: bool,
    /// The names of files and links that may be libraries.
    names: BTreeSet<String>,
    candidates: Vec<Candidate>,
    mpi: BTreeSet<ProvidedMpi>,
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
        if is_named_as_library(entry) && self.is_inside(entry, &target) {
            self.remember_name(entry);
        }
        let is_everywhere = EVERYWHERE.iter().any(|path| target.starts_with(path));
        if target.is_absolute() && !target.starts_with(self.mount_point) && !is_everywhere {
            self.contents.links.insert(target);
        }
    }

    /// Whether a link leads to something in the tree.
    fn is_inside(&self, entry: &DirEntry, target: &Path) -> bool {
        if let Ok(inside) = target.strip_prefix(self.mount_point) {
            return self.root.join(inside).symlink_metadata().is_ok();
        }
        let real = entry.path().canonicalize();
        real.is_ok_and(|real| real.starts_with(&self.real_root))
    }

    fn remember_name(&mut self, entry: &DirEntry) {
        self.names.extend(entry.file_name().into_string());
    }

    fn file(&mut self, entry: &DirEntry, within: Option<usize>) {
        let Ok(found) = entry.metadata() else {
            return;
        };
        self.add(within, found.len());
        let is_library = is_named_as_library(entry);
        if !is_library && found.mode() & 0o111 == 0 {
            return;
        }
        self.brings_library |= entry.file_name() == C_LIBRARY;
        if is_library {
            self.remember_name(entry);
            self.mpi(&entry.path());
        }
        let file = (found.nlink() > 1).then(|| (found.dev(), found.ino()));
        self.candidates.push((entry.path(), file));
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
            let names: BTreeSet<&str> = protocols.map(|protocol| protocol.slurm_name()).collect();
            self.contents.launchers.get_or_insert_default().extend(&names);
            self.mpi.insert(ProvidedMpi {
                family: library.family.key().to_owned(),
                product: library.product,
                version: library.version,
                srun: names.into_iter().map(str::to_owned).collect(),
            });
        }
    }

    fn add(&mut self, within: Option<usize>, bytes: u64) {
        if let Some(size) = within.and_then(|number| self.contents.sizes.get_mut(number)) {
            *size += bytes;
        }
    }
}

fn is_named_as_library(entry: &DirEntry) -> bool {
    entry.file_name().as_bytes().windows(3).any(|part| part == b".so")
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

    fn needed(contents: &Contents) -> Vec<&str> {
        contents.needs.libraries.iter().map(|one| one.name.as_str()).collect()
    }

    #[test]
    fn a_file_with_several_names_is_read_once() {
        let contents = look(|tree| {
            fs::copy("/bin/sh", tree.join("sh")).unwrap();
            fs::hard_link(tree.join("sh"), tree.join("dash")).unwrap();
        });
        let library = &contents.needs.libraries[0];
        assert_eq!((contents.needs.files, library.users.as_slice()), (1, &["dash".to_owned()][..]));
    }

    #[test]
    fn a_link_to_a_library_of_the_host_is_no_library_of_the_image() {
        let inside = look(|tree| {
            fs::copy("/bin/sh", tree.join("sh")).unwrap();
            fs::write(tree.join("own"), "").unwrap();
            symlink("own", tree.join(C_LIBRARY)).unwrap();
        });
        let outside = look(|tree| {
            fs::copy("/bin/sh", tree.join("sh")).unwrap();
            symlink("/usr/lib/own", tree.join(C_LIBRARY)).unwrap();
        });
        let has = [inside, outside].map(|contents| needed(&contents).contains(&C_LIBRARY));
        assert_eq!(has, [false, true]);
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
