// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How a program is started with another MPI: data, which the caller executes.
//!
//! ```text
//! PRIVATE/opt/mpi/lib/libmpi.so.12            what is carried keeps its path, so that what
//! PRIVATE/opt/mpi/lib/mpich/libfabric.so.1    is found beside each other stays so
//! LINKS/libmpich.so.12                        the name that the program asks for
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Tree;
use crate::closure::{Closure, Loaded};

/// Directories beside a library in which it looks for its parts while it runs, and how the names of
/// such libraries begin: in a directory of the system, others are beside them.
const PARTS: [(&str, &[&str]); 9] = [
    ("ucx", &["libuc"]),
    ("libfabric", &["libfabric.", "libmpi"]),
    ("prov", &["libfabric."]),
    ("openmpi", &["libmpi", "libopen-"]),
    ("openmpi3", &["libmpi", "libopen-"]),
    ("pmix", &["libpmix.", "libmpi", "libopen-"]),
    ("pmix2", &["libpmix.", "libmpi", "libopen-"]),
    ("mpich", &["libmpi"]),
    ("hwloc", &["libhwloc."]),
];
/// Directories of a prefix in which Open MPI looks for texts and settings.
const OF_PREFIX: [&str; 6] =
    ["share/openmpi", "share/pmix", "share/prte", "etc/openmpi", "etc", "lib/openmpi"];

/// Where a substitute will be for the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The directory that gets the files; none if the program sees them where they are.
    pub private: Option<PathBuf>,
    /// The directory for names that the program asks for, if some are needed.
    pub links: PathBuf,
}

/// In which way a program gets another library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// It gets this library without any help.
    Nothing,
    /// A directory in front of the search path: the name is the same.
    LibraryPath,
    /// The real file is loaded before all others, with what it needs.
    Preload,
}

/// What is done before a program starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// In which way.
    pub way: Way,
    /// What comes first in `LD_PRELOAD`.
    pub preload: Vec<PathBuf>,
    /// What comes first in `LD_LIBRARY_PATH`.
    pub library_path: Vec<PathBuf>,
    /// Other variables.
    pub variables: BTreeMap<String, String>,
    /// Links to be made: the path and where it leads.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// What must be put into the private directory.
    pub carried: Vec<Carried>,
}

/// A file or directory that is put into the private directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// Where it is, seen from here.
    pub source: PathBuf,
    /// Where it belongs, seen by the program.
    pub target: PathBuf,
}

impl Plan {
    /// Returns every variable with its value, given those of the caller.
    #[must_use]
    pub fn environment(&self, calling: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
        let joined = |name: &str, first: &[PathBuf]| {
            let mut all: Vec<String> =
                first.iter().map(|path| path.to_string_lossy().into_owned()).collect();
            all.extend(calling(name).filter(|value| !value.is_empty()));
            (!first.is_empty()).then(|| (name.to_owned(), all.join(":")))
        };
        let lists =
            [joined("LD_PRELOAD", &self.preload), joined("LD_LIBRARY_PATH", &self.library_path)];
        let others = self.variables.clone().into_iter();
        lists.into_iter().flatten().chain(others).collect()
    }
}

impl Places {
    /// Returns where a file will be for the program.
    #[must_use]
    pub fn of(&self, path: &Path) -> PathBuf {
        match &self.private {
            Some(private) => private.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.to_owned(),
        }
    }

    /// Returns the directories in which files will be for the program, each once.
    pub(crate) fn directories<'a>(&self, files: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
        each_once(files.filter_map(|file| Some(self.of(file).parent()?.to_owned())))
    }

    /// Returns what must be carried: every file of a closure, and what is beside them.
    pub(crate) fn carry(
        &self,
        tree: &Tree,
        (closures, parts): (&[Closure], &[Loaded]),
        prefix: &Path,
    ) -> Vec<Carried> {
        let mut all: Vec<Carried> = Vec::new();
        if self.private.is_none() {
            return all;
        }
        let mut add = |source: PathBuf, path: &Path| {
            let target = self.of(path);
            if !all.iter().any(|one| one.target == target) {
                all.push(Carried { source, target });
            }
        };
        for file in own_files(closures) {
            add(file.place.outside.clone(), &file.path);
            for part in places_of_parts(file) {
                if let Some(place) = tree.find(&part).filter(|place| place.outside.is_dir()) {
                    add(place.outside, &part);
                }
            }
        }
        for file in parts {
            add(file.place.outside.clone(), &file.path);
            // Its parts are beside the real file, to which a link of the system leads.
            let directory = file.place.path.parent().unwrap_or(Path::new("/"));
            let part = directory.join("pmix");
            if let Some(place) = tree.find(&part).filter(|_| file.answers_to("libpmix.so.2")) {
                add(place.outside, &part);
            }
        }
        for part in OF_PREFIX.map(|part| prefix.join(part)) {
            let is_of_mpi = !part.ends_with("etc") || prefix != Path::new("/usr");
            if let Some(place) = tree.find(&part).filter(|_| is_of_mpi) {
                add(place.outside, &part);
            }
        }
        all
    }
}

/// Returns the directories in which a library may look for its parts.
pub(crate) fn places_of_parts(file: &Loaded) -> impl Iterator<Item = PathBuf> + '_ {
    let directory = file.path.parent().unwrap_or(Path::new("/"));
    let name = file.links.soname.as_deref().unwrap_or(&file.name);
    let owned =
        PARTS.iter().filter(move |(_, owners)| owners.iter().any(|start| name.starts_with(start)));
    owned.map(move |(part, _)| directory.join(part))
}

/// Returns the files of closures without the C library, in the order in which they are loaded.
pub(crate) fn own_files(closures: &[Closure]) -> impl Iterator<Item = &Loaded> {
    let files = closures.iter().flat_map(|closure| &closure.files);
    files.filter(|file| !file.is_of_glibc())
}

/// Returns paths in their order, each once.
pub(crate) fn each_once(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    paths.filter(|path| seen.insert(path.clone())).collect()
}
