// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a program, a library or a directory has to do with MPI.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cabane_compat::Binary;
use serde::{Deserialize, Serialize};

use crate::closure::{Closure, Loaded};
use crate::family::{OMPI_MARK, is_object_of_fortran, language_of};
use crate::library::Texts;
use crate::{
    Family, Installation, Language, LauncherKind, Library, Loader, Missing, Name, Protocol,
    Through, Tree, Unmet, find_installation,
};

/// The rights by which a program gets those of its owner or group.
const SET_ID: u32 = 0o6000;

/// What was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inspected {
    /// A program or library.
    File(Box<Inspection>),
    /// A directory.
    Directory(Installation),
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// A program with a loader.
    Program,
    /// A program that brings all of its libraries in itself.
    StaticProgram,
    /// A library, or an extension that a program loads.
    Library,
}

/// What a program or library has to do with MPI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    /// Its path, as it was named.
    pub path: PathBuf,
    /// The file without links.
    pub file: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// For which processors it is.
    pub architecture: String,
    /// The loader that it names.
    pub loader: Option<PathBuf>,
    /// Whether it runs with the rights of its owner or group.
    pub is_set_id: bool,
    /// Whether it is a library of an MPI.
    pub is_mpi: bool,
    /// Whether it has an MPI in itself.
    pub has_mpi_inside: bool,
    /// The family that it needs, or is of.
    pub family: Option<Family>,
    /// The names of the libraries of MPI that are needed, by it or by its other libraries.
    pub names: Vec<String>,
    /// The library of MPI that it gets, or that it is.
    pub library: Option<Library>,
    /// The languages whose functions are needed.
    pub languages: BTreeSet<Language>,
    /// The functions of MPI that are needed, by it or by its other libraries.
    pub functions: BTreeSet<String>,
    /// Its libraries that need MPI, too.
    pub users: Vec<PathBuf>,
    /// Names of MPI libraries in its texts, if it needs none: it may load one while it runs.
    pub mentions: BTreeSet<String>,
    /// Its rpath.
    pub rpath: Option<String>,
    /// Its runpath.
    pub runpath: Option<String>,
    /// Everything that it gets, in the order in which it is loaded.
    pub files: Vec<LoadedFile>,
    /// What is not found.
    pub missing: Vec<Missing>,
    /// Versions that libraries need of each other and do not get.
    pub unmet: Vec<Unmet>,
    /// The oldest GNU C library with which all of it can be loaded.
    pub glibc: Option<String>,
    /// The file that needs this one.
    pub glibc_needed_by: Option<PathBuf>,
}

/// A file that is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedFile {
    /// The name that is needed.
    pub name: String,
    /// Where it was found.
    pub path: PathBuf,
    /// By what.
    pub by: Through,
    /// Which file needs it.
    pub needed_by: Option<PathBuf>,
    /// How it reaches a launcher, if it is a library of PMI.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pmi: Option<PmiOf>,
}

/// How a library of PMI reaches the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PmiOf {
    /// Over a pipe, in the protocol of MPICH: Hydra, and the `pmi2` of Slurm.
    Pipe,
    /// With the requests of Slurm.
    Slurm,
    /// In another way.
    Other,
}

/// Looks at a file or directory. `None` if there is none, or if the file is no program or
/// library.
#[must_use]
pub fn inspect(tree: &Tree, loader: &Loader<'_>, path: &Path) -> Option<Inspected> {
    let place = tree.find(path)?;
    if place.outside.is_dir() {
        return Some(Inspected::Directory(find_installation(tree, path)));
    }
    let file = inspect_file(tree, loader, path)?;
    Some(Inspected::File(Box::new(file)))
}

/// Looks at a program or library.
#[must_use]
pub(crate) fn inspect_file(tree: &Tree, loader: &Loader<'_>, path: &Path) -> Option<Inspection> {
    let place = tree.find(path)?;
    let file = tree.open(path)?;
    let binary = Binary::open(&file).filter(Binary::is_linked)?;
    let links = binary.links();
    let interpreter = binary.interpreter();
    let kind = match (&links, &interpreter) {
        (None, _) => FileKind::StaticProgram,
        (Some(_), Some(_)) => FileKind::Program,
        // A static program that may be loaded anywhere has a table without a name in it.
        (Some(links), None) if links.needed.is_empty() && links.soname.is_none() => {
            FileKind::StaticProgram
        }
        (Some(_), None) => FileKind::Library,
    };
    let closure = loader.follow(path)?;
    let own = Library::read(tree, path);
    let needs = Needs::of(tree, &closure);
    let library = own.clone().or_else(|| core_of(tree, &closure));
    let glibc = closure.glibc();
    let names_mpi = needs.names.is_empty() && own.is_none();
    Some(Inspection {
        path: path.to_owned(),
        kind,
        architecture: binary.kind().name().to_owned(),
        loader: interpreter,
        is_set_id: file.metadata().is_ok_and(|found| found.mode() & SET_ID != 0),
        is_mpi: own.is_some(),
        has_mpi_inside: own.is_none() && has_mpi_inside(&binary),
        family: library.as_ref().map(|library| library.family).or_else(|| needs.family()),
        mentions: if names_mpi { mentions(&binary) } else { BTreeSet::new() },
        rpath: links.as_ref().and_then(|links| links.rpath.clone()),
        runpath: links.and_then(|links| links.runpath),
        glibc: glibc.map(|(version, _)| version.to_string()),
        glibc_needed_by: glibc.map(|(_, file)| file.path.clone()),
        unmet: closure.unmet(),
        missing: closure.missing.clone(),
        files: loaded_files(tree, &closure),
        names: needs.names,
        languages: needs.languages,
        functions: needs.functions,
        users: needs.users,
        library,
        file: place.path,
    })
}

impl Inspection {
    /// Returns the launchers by which it can be started.
    #[must_use]
    pub fn launchers(&self) -> Vec<String> {
        let Some(library) = &self.library else {
            return Vec::new();
        };
        let mut all: Vec<String> = Vec::new();
        for protocol in &library.protocols {
            let fitting = match protocol {
                Protocol::Pmi1 | Protocol::Pmi2 => {
                    vec!["Hydra".to_owned(), "srun --mpi=pmi2".to_owned()]
                }
                Protocol::PmiLibrary => self.launchers_of("libpmi.so"),
                Protocol::Pmi2Library => self.launchers_of("libpmi2.so"),
                Protocol::Pmix if library.product == "Open MPI" => {
                    vec!["mpirun of Open MPI".to_owned(), "srun --mpi=pmix".to_owned()]
                }
                Protocol::Pmix => vec!["srun --mpi=pmix".to_owned()],
            };
            all.extend(fitting);
        }
        let mut seen = BTreeSet::new();
        all.retain(|one| seen.insert(one.clone()));
        all
    }

    /// Returns what starts ranks that find each other through a library of PMI.
    fn launchers_of(&self, start: &str) -> Vec<String> {
        let found = self.files.iter().find(|file| file.name.starts_with(start));
        let Some(file) = found else {
            return vec![format!("the launcher that brings {start}")];
        };
        match file.pmi {
            Some(PmiOf::Pipe) => vec!["Hydra".to_owned(), "srun --mpi=pmi2".to_owned()],
            Some(PmiOf::Slurm) => vec!["srun".to_owned()],
            _ => vec![format!("the launcher of {}", file.path.display())],
        }
    }
}

impl Library {
    /// Whether ranks that a launcher starts find each other; `None` if that is not known.
    #[must_use]
    pub fn fits(&self, launcher: LauncherKind) -> Option<bool> {
        let speaks = |protocol| self.protocols.contains(&protocol);
        match launcher {
            _ if self.protocols.is_empty() => None,
            LauncherKind::Hydra if speaks(Protocol::Pmi1) || speaks(Protocol::Pmi2) => Some(true),
            // It depends on whose library is loaded.
            LauncherKind::Hydra
                if speaks(Protocol::PmiLibrary) || speaks(Protocol::Pmi2Library) =>
            {
                None
            }
            LauncherKind::Hydra => Some(false),
            LauncherKind::OpenMpi => Some(self.product == "Open MPI"),
            // What it offers is the choice of the site and of the user.
            LauncherKind::Slurm => None,
        }
    }
}

/// What the files of a closure need of an MPI, but those of the MPI itself.
#[derive(Default)]
struct Needs {
    names: Vec<String>,
    languages: BTreeSet<Language>,
    functions: BTreeSet<String>,
    users: Vec<PathBuf>,
    is_for_openmpi: bool,
}

impl Needs {
    fn of(tree: &Tree, closure: &Closure) -> Self {
        let mut needs = Self::default();
        for (place, file) in closure.files.iter().enumerate() {
            if is_part_of_mpi(file) || file.is_of_glibc() {
                continue;
            }
            let before = needs.functions.len();
            if let Some(opened) = tree.open(&file.path)
                && let Some(binary) = Binary::open(&opened)
            {
                needs.add(&binary);
            }
            if place > 0 && needs.functions.len() > before {
                needs.users.push(file.path.clone());
            }
            for name in file.links.needed.iter().filter(|name| Name::of(name).is_some()) {
                if !needs.names.contains(name) {
                    needs.names.push(name.clone());
                }
            }
        }
        needs
    }

    fn add(&mut self, binary: &Binary<'_>) {
        binary.each_symbol(|symbol| {
            if symbol.is_defined && !is_object_of_fortran(symbol.name) {
                return;
            }
            self.is_for_openmpi |= symbol.name == OMPI_MARK || symbol.name == "ompi_mpi_comm_null";
            // A weak symbol is looked for, and can be missing.
            if let Some(language) = language_of(symbol.name).filter(|_| !symbol.is_weak) {
                self.languages.insert(language);
                self.functions.insert(symbol.name.to_owned());
            }
        });
    }

    /// The family for which a program was linked, if its library is not there.
    fn family(&self) -> Option<Family> {
        if self.is_for_openmpi {
            return Some(Family::OpenMpi);
        }
        let mut names = self.names.iter();
        names.find_map(|name| Some(Name::of(name)?.family))
    }
}

/// Whether a file belongs to an MPI and not to those who use it.
fn is_part_of_mpi(file: &Loaded) -> bool {
    const COMPANIONS: [&str; 5] =
        ["libopen-rte", "libopen-pal", "libopen_mpi", "liboshmem", "libmca_common"];
    let name = file.links.soname.as_deref().unwrap_or(&file.name);
    let stem = name.split(".so").next().unwrap_or(name);
    Name::of(name).is_some() || COMPANIONS.iter().any(|start| stem.starts_with(start))
}

/// Finds the library of MPI among the files that are loaded: the first one counts.
pub(crate) fn core_of(tree: &Tree, closure: &Closure) -> Option<Library> {
    let files = closure.files.iter();
    let named = files.filter(|file| file.needed_by.is_some() && is_part_of_mpi(file));
    named
        .filter_map(|file| Library::read(tree, &file.path))
        .find(|library| library.language == Language::C)
}

fn has_mpi_inside(binary: &Binary<'_>) -> bool {
    let mut is_inside = false;
    let mut see = |symbol: cabane_compat::SymbolSeen<'_>| {
        is_inside |= symbol.is_defined && symbol.name == "PMPI_Init";
    };
    binary.each_symbol(&mut see);
    binary.each_inner_symbol(&mut see);
    // Of a program without its table only the texts are left. Errors name the function.
    is_inside || binary.links().is_none() && has_texts_of_mpi(binary)
}

fn has_texts_of_mpi(binary: &Binary<'_>) -> bool {
    let texts = Texts::of(binary);
    texts.has("MPI_Init") && (texts.has("PMI_FD") || texts.has("PMIX_"))
}

/// Names of libraries in the texts of a file.
fn mentions(binary: &Binary<'_>) -> BTreeSet<String> {
    Texts::of(binary)
        .each()
        .filter(|text| text.contains(".so"))
        .filter_map(|text| text.rsplit('/').next())
        .filter(|name| Name::of(name).is_some())
        .map(str::to_owned)
        .collect()
}

fn loaded_files(tree: &Tree, closure: &Closure) -> Vec<LoadedFile> {
    let of = |file: &Loaded| LoadedFile {
        name: file.name.clone(),
        path: file.path.clone(),
        by: file.by,
        needed_by: file
            .needed_by
            .and_then(|above| closure.files.get(above))
            .map(|above| above.path.clone()),
        pmi: pmi_of(tree, file),
    };
    closure.files.iter().skip(1).map(of).collect()
}

/// Finds out how a library of PMI reaches the launcher; `None` if it is not one.
fn pmi_of(tree: &Tree, file: &Loaded) -> Option<PmiOf> {
    let mut names = ["libpmi.so", "libpmi2.so"].iter();
    names.find(|start| file.name.starts_with(*start))?;
    let opened = tree.open(&file.path)?;
    let texts = Texts::of(&Binary::open(&opened)?);
    Some(if texts.has("PMI_FD") {
        PmiOf::Pipe
    } else if texts.has("SLURM_") {
        PmiOf::Slurm
    } else {
        PmiOf::Other
    })
}
