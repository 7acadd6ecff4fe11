// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether and how a program can have another MPI.
//!
//! First what can be told from the files alone: family, languages, functions. Then each
//! way is played through as the loader would do it, the simplest first, and the first in
//! which the substitute is loaded with exactly its own libraries is taken. So a way that
//! would load something else without a word is never chosen.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cabane_host::Binary;

use crate::closure::{Closure, Loaded, is_of_glibc};
use crate::inspect::{core_of, inspect_file};
use crate::library::number;
use crate::plan::{self, Places, Plan, Way};
use crate::verdict::{Outcome, Refusal, Verdict, Warning};
use crate::{
    Family, FileKind, Inspection, Installation, Language, Library, Loader, Name, Tree, Unmet,
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

/// Judges whether a program can have a substitute.
#[must_use]
pub fn judge(program: Side<'_>, substitute: Side<'_>, places: &Places) -> Verdict {
    let loader = Loader::new(program.tree).library_path(program.library_path);
    let Some(inspection) = inspect_file(program.tree, &loader, program.path) else {
        let path = program.path.to_owned();
        return Verdict::refused(Refusal::NoProgram { path });
    };
    let mut verdict = Verdict::refused(Refusal::NoProgram {
        path: program.path.to_owned(),
    });
    verdict.from.clone_from(&inspection.library);
    let judged = Candidate::find(&inspection, substitute).and_then(|candidate| {
        verdict.to = Some(candidate.core.clone());
        candidate.check(&inspection)?;
        candidate.choose(program, &inspection, places)
    });
    match judged {
        Ok((plan, warnings)) => {
            verdict.outcome = Outcome::Possible(plan);
            verdict.warnings = warnings;
        }
        Err(refusal) => verdict.outcome = Outcome::Refused(refusal),
    }
    verdict
}

/// Whether the program can be given anything.
fn check_program(inspection: &Inspection) -> Result<Family, Refusal> {
    let path = || inspection.file.clone();
    if inspection.kind == FileKind::StaticProgram || inspection.has_mpi_inside {
        return Err(Refusal::Static { path: path() });
    }
    if inspection.is_set_id {
        return Err(Refusal::SetId { path: path() });
    }
    let is_user = !inspection.is_mpi && !inspection.names.is_empty();
    inspection
        .family
        .filter(|_| is_user)
        .ok_or_else(|| Refusal::NoMpi {
            path: path(),
            mentions: inspection.mentions.iter().cloned().collect(),
        })
}

/// A substitute of the right family.
struct Candidate<'a> {
    side: Side<'a>,
    installation: Installation,
    core: Library,
    /// Those for other languages that the program needs.
    companions: Vec<Library>,
    /// What the libraries need, each in its own context.
    closures: Vec<Closure>,
}

impl<'a> Candidate<'a> {
    fn find(inspection: &Inspection, side: Side<'a>) -> Result<Self, Refusal> {
        let family = check_program(inspection)?;
        let nothing = || Refusal::NoSubstitute {
            path: side.path.to_owned(),
        };
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
            let found: BTreeSet<Family> = installation
                .libraries
                .iter()
                .map(|library| library.family)
                .collect();
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
        Ok(Self {
            side,
            installation,
            core,
            companions,
            closures,
        })
    }

    /// Checks what needs no search.
    fn check(&self, inspection: &Inspection) -> Result<(), Refusal> {
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
        let all = std::iter::once(&self.core).chain(&self.companions);
        let all: Vec<&Library> = all.collect();
        let is_missing = |name: &&String| !all.iter().any(|one| one.symbols.contains(name));
        let missing = inspection.functions.iter().filter(is_missing);
        let names: Vec<String> = missing.cloned().collect();
        if names.is_empty() {
            Ok(())
        } else {
            Err(Refusal::MissingSymbols { names })
        }
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
        match wanted.filter(|wanted| number(wanted) != self.core.number()) {
            Some(wanted) => Err(Refusal::OtherNumber {
                family: self.core.family,
                wanted: wanted.clone(),
                found: self.core.soname.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Plays each way through and takes the first that works, with what the parts of the
    /// substitute need, or else without that.
    fn choose(
        &self,
        program: Side<'_>,
        inspection: &Inspection,
        places: &Places,
    ) -> Result<(Plan, Vec<Warning>), Refusal> {
        let parts = if places.private.is_some() {
            let loader = Loader::new(self.side.tree).library_path(self.side.library_path);
            let inside = Loader::new(program.tree).library_path(program.library_path);
            let opened = program.tree.open(program.path);
            let kind = opened.and_then(|file| Some(Binary::open(&file)?.kind()));
            let has = |name: &str| kind.is_some_and(|kind| inside.finds(name, kind));
            plan::loaded_by_parts(self.side.tree, &loader, &self.closures, has)
        } else {
            Vec::new()
        };
        let whole = self.choose_with(program, inspection, places, &parts);
        let Some(reason) = whole.as_ref().err().filter(|_| !parts.is_empty()) else {
            return whole;
        };
        let (plan, mut warnings) = self.choose_with(program, inspection, places, &[])?;
        warnings.push(Warning::WithoutParts {
            reason: reason.to_string(),
        });
        Ok((plan, warnings))
    }

    fn choose_with(
        &self,
        program: Side<'_>,
        inspection: &Inspection,
        places: &Places,
        parts: &[Loaded],
    ) -> Result<(Plan, Vec<Warning>), Refusal> {
        let prefix = plan::prefix_of(&self.installation, &self.core);
        let (variables, mut loaded_later) = plan::needs_of_product(
            places,
            self.side.tree,
            &self.installation,
            &self.core,
            &self.closures,
        );
        loaded_later.extend(plan::to_be_told(places, parts));
        let mut plan = Plan {
            way: Way::Nothing,
            preload: Vec::new(),
            library_path: Vec::new(),
            variables,
            links: Vec::new(),
            carried: Vec::new(),
        };
        if inspection
            .library
            .as_ref()
            .is_some_and(|library| places.private.is_none() && library.file == self.core.file)
            && let Ok(warnings) = self.play(program, &plan)
        {
            // What it finds by itself needs no help of ours.
            plan.variables.clear();
            return Ok((plan, warnings));
        }
        plan.carried = places.carry(self.side.tree, (&self.closures, parts), &prefix);
        let own = self.own_directories(places);
        let all = plan::directories(places, &self.closures);
        let has_name = |name: &String| {
            let all = std::iter::once(&self.core).chain(&self.companions);
            let mut files = all.map(|one| one.path.with_file_name(name));
            files.any(|path| self.side.tree.is_file(&path))
        };
        plan.way = Way::LibraryPath;
        if inspection.names.iter().all(has_name) {
            for directories in [&own, &all] {
                plan.library_path = each_once([directories, &loaded_later]);
                if let Ok(warnings) = self.play(program, &plan) {
                    return Ok((plan, warnings));
                }
            }
        }
        plan.way = Way::Preload;
        let files = std::iter::once(&self.core).chain(&self.companions);
        plan.preload = files.map(|one| places.of(&one.path)).collect();
        plan.links = self.links(inspection, places);
        let first = (!plan.links.is_empty()).then(|| places.links.clone());
        let first: Vec<PathBuf> = first.into_iter().collect();
        plan.library_path = each_once([&first, &loaded_later]);
        if let Ok(warnings) = self.play(program, &plan) {
            return Ok((plan, warnings));
        }
        plan.library_path = each_once([&first, &all, &loaded_later]);
        let warnings = self.play(program, &plan)?;
        Ok((plan, warnings))
    }

    /// The directories of the libraries of MPI themselves.
    fn own_directories(&self, places: &Places) -> Vec<PathBuf> {
        let mut own: Vec<PathBuf> = Vec::new();
        for library in std::iter::once(&self.core).chain(&self.companions) {
            let path = places.of(&library.path);
            let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
            if !own.contains(&directory) {
                own.push(directory);
            }
        }
        own
    }

    /// Names that the program asks for, and that are not those of the substitute.
    fn links(&self, inspection: &Inspection, places: &Places) -> Vec<(PathBuf, PathBuf)> {
        let link = |name: &String| {
            let wanted = Name::of(name)?;
            let mut all = std::iter::once(&self.core).chain(&self.companions);
            let of_language = all.find(|one| one.language == wanted.language)?;
            let is_same = &of_language.soname == name;
            (!is_same).then(|| (places.links.join(name), places.of(&of_language.path)))
        };
        inspection.names.iter().filter_map(link).collect()
    }

    /// Follows the program as the loader would, with the plan carried out.
    fn play(&self, program: Side<'_>, plan: &Plan) -> Result<Vec<Warning>, Refusal> {
        let mut tree = program.tree.clone();
        for one in &plan.carried {
            tree = tree.with(&one.target, &one.source);
        }
        for (link, target) in &plan.links {
            let real = tree.find(target).map(|place| place.outside);
            tree = tree.with(link, real.unwrap_or_else(|| target.clone()));
        }
        let mut search: Vec<String> = plan
            .library_path
            .iter()
            .map(|one| one.to_string_lossy().into_owned())
            .collect();
        search.push(program.library_path.to_owned());
        let loader = Loader::new(&tree)
            .library_path(&search.join(":"))
            .preload(plan.preload.iter().cloned());
        let no_program = || Refusal::NoProgram {
            path: program.path.to_owned(),
        };
        let closure = loader.follow(program.path).ok_or_else(no_program)?;
        self.compare(&tree, &closure)
    }

    /// Compares what would be loaded with what should be.
    fn compare(&self, tree: &Tree, closure: &Closure) -> Result<Vec<Warning>, Refusal> {
        check_versions(closure)?;
        if !closure.missing.is_empty() {
            return Err(Refusal::Incomplete {
                missing: closure.missing.clone(),
            });
        }
        let taken = core_of(tree, closure);
        let taken = taken.and_then(|library| Some((tree.find(&library.path)?, library.path)));
        let own = self.side.tree.find(&self.core.path);
        if let Some((place, path)) = taken
            && own.is_none_or(|own| own.outside != place.outside)
        {
            return Err(Refusal::NotTaken { taken: path });
        }
        let mut warnings = Vec::new();
        for own in &self.closures {
            compare_own(own, closure, &mut warnings)?;
        }
        for file in &closure.files {
            let is_core = Name::of(&file.name).is_some_and(|name| name.language == Language::C);
            let outside = &file.place.outside;
            let is_ours = self
                .closures
                .iter()
                .any(|own| own.files.iter().any(|one| &one.place.outside == outside));
            if is_core && !is_ours {
                let path = file.path.clone();
                warnings.push(Warning::AlsoLoaded { path });
            }
        }
        Ok(warnings)
    }
}

/// Joins lists of directories, each directory once.
fn each_once<const COUNT: usize>(lists: [&Vec<PathBuf>; COUNT]) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    for directory in lists.into_iter().flatten() {
        if !all.contains(directory) {
            all.push(directory.clone());
        }
    }
    all
}

/// Each library of the substitute must be the one that it has by itself.
fn compare_own(
    own: &Closure,
    closure: &Closure,
    warnings: &mut Vec<Warning>,
) -> Result<(), Refusal> {
    for file in own.files.iter().filter(|file| !file.is_of_glibc()) {
        let name = file.links.soname.as_deref().unwrap_or(&file.name);
        let outside = &file.place.outside;
        if closure
            .files
            .iter()
            .any(|one| &one.place.outside == outside)
        {
            continue;
        }
        return Err(match closure.by_name(name) {
            Some(other) => Refusal::NotTaken {
                taken: other.path.clone(),
            },
            None => Refusal::NotTaken {
                taken: file.path.clone(),
            },
        });
    }
    let missing = own.missing.iter();
    for missing in missing.filter(|one| !is_of_glibc(&one.name)) {
        if let Some(file) = closure.by_name(&missing.name) {
            warnings.push(Warning::Borrowed {
                name: missing.name.clone(),
                path: file.path.clone(),
            });
        }
    }
    Ok(())
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
            || names
                .iter()
                .all(|name| found.iter().any(|one| &one.soname == name));
        // Cray has the functions for Fortran in the library for C.
        let wanted = inspection.functions.iter();
        let mut wanted = wanted.filter(|name| crate::family::language_of(name) == Some(language));
        let is_inside = wanted.all(|name| core.symbols.contains(name));
        if (found.len() == before || !is_whole) && !is_inside {
            return Err(Refusal::NoLanguage {
                language,
                family: core.family,
                names,
            });
        }
    }
    Ok(found)
}

/// Versions that are lacking: those of the C library are told apart.
fn check_versions(closure: &Closure) -> Result<(), Refusal> {
    let unmet = closure.unmet();
    let version = |one: &Unmet| {
        let text = one.version.strip_prefix("GLIBC_")?;
        text.parse::<cabane_host::GlibcVersion>().ok()
    };
    let newest = unmet
        .iter()
        .filter_map(|one| Some((version(one)?, one)))
        .max_by_key(|(version, _)| *version);
    if let Some((needed, one)) = newest {
        let has = closure.by_name("libc.so.6").into_iter();
        let has = has.flat_map(|library| &library.has);
        let found = has
            .filter_map(|text| text.strip_prefix("GLIBC_")?.parse().ok())
            .max();
        return Err(Refusal::OldGlibc {
            needed: needed.to_string(),
            needed_by: one.needed_by.clone(),
            found: found.map(|version: cabane_host::GlibcVersion| version.to_string()),
        });
    }
    if unmet.is_empty() {
        Ok(())
    } else {
        Err(Refusal::OldLibraries { unmet })
    }
}
