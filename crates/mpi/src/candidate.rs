// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the files alone show of a program and a substitute: family, languages,
//! functions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::closure::{Closure, Loaded};
use crate::library::number;
use crate::plan::Places;
use crate::plugins::Plugins;
use crate::verdict::Refusal;
use crate::{
    Family, FileKind, Inspection, Installation, Language, Library, Loader, Name, Tree,
    find_installation,
};

/// A program or a substitute, and where it is.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The files that it sees.
    pub tree: &'a Tree,
    /// The program; or the prefix or library of the substitute.
    pub path: &'a Path,
    /// The search path that it is started with.
    pub library_path: &'a str,
}

/// Whether the program can be given anything.
fn check_program(inspection: &Inspection) -> Result<Family, Refusal> {
    let path = || inspection.file.clone();
    if inspection.kind == FileKind::StaticProgram {
        let has_mpi = inspection.has_mpi_inside;
        return Err(Refusal::Static { path: path(), has_mpi });
    }
    if inspection.has_mpi_inside {
        return Err(Refusal::Inside { path: path() });
    }
    if inspection.is_set_id {
        return Err(Refusal::SetId { path: path() });
    }
    let is_user = !inspection.is_mpi && !inspection.names.is_empty();
    inspection.family.filter(|_| is_user).ok_or_else(|| Refusal::NoMpi {
        path: path(),
        mentions: inspection.mentions.iter().cloned().collect(),
    })
}

/// A substitute of the right family, for one program.
pub(crate) struct Candidate<'a> {
    pub(crate) side: Side<'a>,
    pub(crate) installation: Installation,
    pub(crate) core: Library,
    /// Those for other languages that the program needs.
    companions: Vec<Library>,
    /// What the libraries need, each in its own context.
    pub(crate) closures: Vec<Closure>,
    /// What is added to it.
    pub(crate) plugins: Plugins,
}

impl<'a> Candidate<'a> {
    pub(crate) fn find(inspection: &Inspection, side: Side<'a>) -> Result<Self, Refusal> {
        let family = check_program(inspection)?;
        let nothing = || Refusal::NoSubstitute { path: side.path.to_owned() };
        let place = side.tree.find(side.path).ok_or_else(nothing)?;
        let named = if place.outside.is_dir() {
            None
        } else {
            Some(Library::read(side.tree, side.path).ok_or_else(nothing)?)
        };
        let directory = match &named {
            Some(library) => library.path.parent().unwrap_or(Path::new("/")),
            None => side.path,
        };
        let installation = find_installation(side.tree, directory);
        let core = match named {
            Some(library) => Some(library).filter(|library| library.family == family),
            None => installation.library(family).cloned(),
        };
        let Some(core) = core else {
            let found: BTreeSet<Family> =
                installation.libraries.iter().map(|library| library.family).collect();
            if found.is_empty() {
                return Err(nothing());
            }
            return Err(Refusal::OtherFamily {
                program: family,
                found: found.into_iter().collect(),
                path: side.path.to_owned(),
            });
        };
        let companions = companions(inspection, &installation, &core)?;
        let loader = Loader::new(side.tree).library_path(side.library_path);
        let all = std::iter::once(&core).chain(&companions);
        let closures = all.filter_map(|one| loader.follow(&one.path)).collect();
        Ok(Self { side, installation, core, companions, closures, plugins: Plugins::default() })
    }

    /// Checks what needs no search.
    pub(crate) fn check(&self, inspection: &Inspection) -> Result<(), Refusal> {
        if self.core.architecture != inspection.architecture {
            return Err(Refusal::OtherArchitecture {
                program: inspection.architecture.clone(),
                substitute: self.core.architecture.clone(),
            });
        }
        let loader = inspection.loader.as_deref().unwrap_or(Path::new(""));
        if loader.to_string_lossy().contains("ld-musl") {
            return Err(Refusal::OtherLibc);
        }
        self.check_number(inspection)?;
        let is_missing = |name: &&String| !self.libraries().any(|one| one.symbols.contains(*name));
        let missing = inspection.functions.iter().filter(is_missing);
        let names: Vec<String> = missing.cloned().collect();
        if names.is_empty() { Ok(()) } else { Err(Refusal::MissingSymbols { names }) }
    }

    /// Open MPI counts its number up when programs must be linked anew; those of the ABI of
    /// MPICH keep theirs, whatever they are called.
    fn check_number(&self, inspection: &Inspection) -> Result<(), Refusal> {
        if self.core.family == Family::Mpich {
            return Ok(());
        }
        let is_core =
            |name: &&String| Name::of(name).is_some_and(|name| name.language == Language::C);
        let wanted = inspection.names.iter().find(is_core);
        match wanted.filter(|wanted| number(wanted) != number(&self.core.soname)).cloned() {
            Some(wanted) => {
                let (family, found) = (self.core.family, self.core.soname.clone());
                Err(Refusal::OtherNumber { family, wanted, found })
            }
            None => Ok(()),
        }
    }

    /// Returns the variables that a product needs where it was not installed, and directories
    /// with what it loads by itself.
    pub(crate) fn needs_of_product(
        &self,
        places: &Places,
        parts: &[Loaded],
    ) -> (BTreeMap<String, String>, Vec<PathBuf>) {
        let mut variables = BTreeMap::new();
        let mut directories = Vec::new();
        let prefix = self.prefix();
        let text = |path: &Path| places.of(path).to_string_lossy().into_owned();
        match self.core.product.as_str() {
            "Open MPI" => {
                variables.insert("OPAL_PREFIX".to_owned(), text(&prefix));
            }
            "Intel MPI" => {
                variables.insert("I_MPI_ROOT".to_owned(), text(&prefix));
                // It loads libfabric by name, and brings one.
                for below in ["lib/libfabric", "libfabric/lib", "opt/mpi/libfabric/lib"] {
                    let directory = prefix.join(below);
                    if self.side.tree.is_file(&directory.join("libfabric.so.1")) {
                        directories.push(directory);
                    }
                }
            }
            _ => {}
        }
        // Where it was installed, the container may have parts of another one.
        if let Some(directory) = self.pmix_with_parts(parts).filter(|_| places.private.is_some()) {
            // Either of them alone leaves one place where it was installed.
            variables.insert("PMIX_LIBDIR".to_owned(), text(&directory));
            let name = "PMIX_MCA_mca_base_component_path".to_owned();
            variables.insert(name, text(&directory.join("pmix")));
        }
        let mut homes: Vec<PathBuf> = directories.clone();
        let loaded = self.closures.iter().filter_map(|closure| closure.by_name("libfabric.so.1"));
        homes.extend(loaded.filter_map(|file| Some(file.path.parent()?.to_owned())));
        let mut providers =
            homes.iter().flat_map(|home| ["prov", "libfabric"].map(|one| home.join(one)));
        let has_providers = |directory: &PathBuf| {
            self.side.tree.names(directory).iter().any(|name| name.ends_with("-fi.so"))
        };
        if let Some(directory) = providers.find(has_providers) {
            variables.insert("FI_PROVIDER_PATH".to_owned(), text(&directory));
        }
        self.plugins.add_variables(&mut variables, places);
        let directories = directories.iter().map(|one| places.of(one)).collect();
        (variables, directories)
    }

    /// Returns the directory of the `libpmix.so.2` that is loaded, if its parts are there.
    fn pmix_with_parts(&self, parts: &[Loaded]) -> Option<PathBuf> {
        let mut loaded = self.closures.iter().flat_map(|closure| &closure.files).chain(parts);
        let library = loaded.find(|file| file.answers_to("libpmix.so.2"))?;
        let directory = library.place.path.parent()?;
        self.side.tree.find(&directory.join("pmix")).map(|_| directory.to_owned())
    }

    /// Returns the prefix to which the library belongs.
    pub(crate) fn prefix(&self) -> PathBuf {
        prefix_of(&self.core.path).unwrap_or(&self.installation.prefix).to_owned()
    }

    /// All of its libraries that a program may name.
    pub(crate) fn libraries(&self) -> impl Iterator<Item = &Library> {
        std::iter::once(&self.core).chain(&self.companions)
    }
}

/// Returns the prefix to which a library belongs.
fn prefix_of(library: &Path) -> Option<&Path> {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    library.ancestors().skip(1).find(|above| {
        let name = above.file_name().unwrap_or_default().to_string_lossy();
        name != "lib" && name != "lib64" && name != "release" && name != *triplet
    })
}

/// Finds the libraries for other languages that the program needs.
fn companions(
    inspection: &Inspection,
    installation: &Installation,
    core: &Library,
) -> Result<Vec<Library>, Refusal> {
    let mut found: Vec<Library> = Vec::new();
    for language in [Language::Fortran, Language::Cxx] {
        let names: Vec<String> = inspection
            .names
            .iter()
            .filter(|name| Name::of(name).is_some_and(|name| name.language == language))
            .cloned()
            .collect();
        if !inspection.languages.contains(&language) {
            continue;
        }
        let beside = installation.libraries.iter().filter(|one| {
            one.language == language
                && one.family == core.family
                && one.path.parent() == core.path.parent()
        });
        // Open MPI has several for Fortran, and their names are part of its ABI.
        let is_meant =
            |one: &&Library| core.family != Family::OpenMpi || names.contains(&one.soname);
        let before = found.len();
        found.extend(beside.filter(is_meant).cloned());
        let is_whole = core.family != Family::OpenMpi
            || names.iter().all(|name| found.iter().any(|one| &one.soname == name));
        // Cray has the functions for Fortran in the library for C.
        let wanted = inspection.functions.iter();
        let mut wanted = wanted.filter(|name| crate::family::language_of(name) == Some(language));
        let is_inside = wanted.all(|name| core.symbols.contains(name));
        if (found.len() == before || !is_whole) && !is_inside {
            return Err(Refusal::NoLanguage { language, family: core.family, names });
        }
    }
    Ok(found)
}
