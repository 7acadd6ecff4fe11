// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! An MPI below a prefix: its libraries, and the launchers beside them.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use memchr::memmem;
use serde::{Deserialize, Serialize};

use crate::{Family, Language, Library, Name, Tree};

/// Where libraries are below a prefix, beside the directories of an architecture.
const LIBRARIES: [&str; 9] = [
    "",
    "lib",
    "lib64",
    "lib/release",
    "usr/lib",
    "usr/lib64",
    "usr/lib64/mpich/lib",
    "usr/lib64/openmpi/lib",
    "usr/local/lib",
];
const PROGRAMS: [&str; 4] = ["bin", "usr/bin", "usr/local/bin", ""];
/// The names that launchers have.
const LAUNCHERS: [&str; 7] = [
    "mpiexec",
    "mpirun",
    "mpiexec.hydra",
    "mpiexec.mpich",
    "mpiexec.openmpi",
    "orterun",
    "prterun",
];
/// How much of a launcher is looked at.
const MOST: u64 = 16 << 20;

/// An MPI below a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installation {
    /// The prefix.
    pub prefix: PathBuf,
    /// Its libraries; the same file under several names once.
    pub libraries: Vec<Library>,
    /// Its launchers.
    pub launchers: Vec<Launcher>,
}

/// A program that starts ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launcher {
    /// The program.
    pub path: PathBuf,
    /// Whose it is.
    pub kind: LauncherKind,
}

/// Whose a launcher is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LauncherKind {
    /// Hydra, of MPICH and those made of it.
    Hydra,
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `srun` of Slurm.
    Slurm,
}

impl LauncherKind {
    /// Returns the name that people know.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hydra => "Hydra",
            Self::OpenMpi => "the launcher of Open MPI",
            Self::Slurm => "srun",
        }
    }

    /// Finds out whose a program is; `None` if it is no launcher.
    #[must_use]
    pub fn of(tree: &Tree, path: &Path) -> Option<Self> {
        if path.file_name()? == "srun" {
            return tree.is_file(path).then_some(Self::Slurm);
        }
        let file = tree.open(path)?;
        let mut text = Vec::new();
        file.take(MOST).read_to_end(&mut text).ok()?;
        let has = |name: &str| memmem::find(&text, name.as_bytes()).is_some();
        if has("hydra_pmi_proxy") || has("mpiexec.hydra") {
            return Some(Self::Hydra);
        }
        let names = ["prterun", "orterun", "ompirun", "libopen-rte.so"];
        names.into_iter().any(has).then_some(Self::OpenMpi)
    }
}

impl Installation {
    /// Returns the library for C of a family.
    #[must_use]
    pub fn library(&self, family: Family) -> Option<&Library> {
        let mut all = self.libraries.iter();
        all.find(|one| one.family == family && one.language == Language::C)
    }
}

/// Looks for an MPI below a prefix, or in a directory of libraries.
#[must_use]
pub fn find_installation(tree: &Tree, prefix: &Path) -> Installation {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let of_debian = ["lib", "usr/lib"].map(|one| format!("{one}/{triplet}"));
    let directories = LIBRARIES.map(str::to_owned).into_iter().chain(of_debian);
    let mut libraries: Vec<Library> = Vec::new();
    for directory in directories.map(|directory| below(prefix, &directory)) {
        for name in tree.names(&directory) {
            let path = directory.join(&name);
            // Names without a number are for linking.
            if Name::of(&name).is_none() || !name.contains(".so.") {
                continue;
            }
            let is_known = |file: &Path| libraries.iter().any(|one| one.file == file);
            if tree.find(&path).is_none_or(|place| is_known(&place.path)) {
                continue;
            }
            let Some(library) = Library::read(tree, &path) else {
                continue;
            };
            // Of several names of one library, the one that programs ask for is reported.
            let requested = directory.join(&library.soname);
            if name == library.soname || !tree.is_file(&requested) {
                libraries.push(library);
            } else if tree.find(&requested).is_some_and(|place| place.path == library.file) {
                libraries.push(Library { path: requested, ..library });
            }
        }
    }
    let all = libraries.clone();
    for library in &mut libraries {
        library.take_product_of(&all);
    }
    libraries.sort_by(|a, b| (a.family, a.language, &a.path).cmp(&(b.family, b.language, &b.path)));
    Installation { prefix: prefix.to_owned(), launchers: launchers(tree, prefix), libraries }
}

impl Library {
    /// One for another language does not tell whose it is; the one for C beside it does.
    fn take_product_of(&mut self, others: &[Self]) {
        if self.language == Language::C {
            return;
        }
        let is_beside = |other: &&Self| {
            other.language == Language::C
                && other.family == self.family
                && other.path.parent() == self.path.parent()
        };
        if let Some(core) = others.iter().find(is_beside) {
            self.product.clone_from(&core.product);
            self.version.clone_from(&core.version);
        }
    }
}

fn launchers(tree: &Tree, prefix: &Path) -> Vec<Launcher> {
    let mut found: Vec<Launcher> = Vec::new();
    let mut seen = BTreeSet::new();
    for directory in PROGRAMS {
        for name in LAUNCHERS {
            let path = below(prefix, directory).join(name);
            let Some(place) = tree.find(&path) else {
                continue;
            };
            if seen.insert(place.path) {
                found.extend(LauncherKind::of(tree, &path).map(|kind| Launcher { path, kind }));
            }
        }
    }
    found
}

fn below(prefix: &Path, directory: &str) -> PathBuf {
    if directory.is_empty() { prefix.to_owned() } else { prefix.join(directory) }
}
