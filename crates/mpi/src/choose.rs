// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! In which way a program gets a substitute.
//!
//! Each way is played through as the loader would do it, the simplest first, and the first in
//! which the substitute is loaded with exactly its own libraries is taken. So a way that
//! would silently load something else is never chosen.

use std::path::PathBuf;

use cabane_compat::Binary;

use crate::c_library::{CLibrary, release};
use crate::candidate::{Candidate, Side};
use crate::closure::{Closure, Loaded, glibc_version, is_of_glibc};
use crate::inspect::core_of;
use crate::parts::{LoadedByParts, Parts};
use crate::plan::{self, Places, Plan, Way, each_once};
use crate::verdict::{Refusal, Warning};
use crate::{Inspection, Language, Loader, Name, Through, Tree};

/// What a substitute gets beside what it needs to be loaded.
#[derive(Clone, Copy)]
struct Extras<'a> {
    /// What its parts need.
    parts: &'a [Loaded],
    /// A newer C library.
    c_library: Option<&'a CLibrary>,
}

impl Candidate<'_> {
    /// Plays each way through and takes the first that works, with what the parts of the
    /// substitute need, or else without that. Where the C library is too old, that of the
    /// substitute's system is tried.
    pub(crate) fn choose(
        &self,
        program: Side<'_>,
        inspection: &Inspection,
        places: &Places,
    ) -> Result<(Plan, Vec<Warning>), Refusal> {
        let inside = Loader::new(program.tree).library_path(program.library_path);
        let opened = program.tree.open(program.path);
        let kind = opened.and_then(|file| Some(Binary::open(&file)?.kind()));
        let there = |name: &str| inside.named(name, kind?);
        let parts = if places.private.is_some() {
            let loader = Loader::new(self.side.tree).library_path(self.side.library_path);
            let parts = Parts::new(self.side.tree, program.tree);
            parts.loaded(&loader, &self.closures, &self.plugins.files, there)
        } else {
            LoadedByParts::default()
        };
        let (plan, mut warnings) = self.choose_whole(program, inspection, places, &parts)?;
        warnings.extend(self.plugins.warnings(self.side, |name| there(name).is_some()));
        Ok((plan, warnings))
    }

    /// With what parts need, or else without that.
    fn choose_whole(
        &self,
        program: Side<'_>,
        inspection: &Inspection,
        places: &Places,
        parts: &LoadedByParts,
    ) -> Result<(Plan, Vec<Warning>), Refusal> {
        let whole = self.choose_c_library(program, inspection, places, parts);
        let Some(reason) = whole.as_ref().err().filter(|_| !parts.files.is_empty()) else {
            return whole;
        };
        let none = LoadedByParts::default();
        let (plan, mut warnings) = self.choose_c_library(program, inspection, places, &none)?;
        warnings.push(Warning::WithoutParts { reason: reason.to_string() });
        Ok((plan, warnings))
    }

    /// With the C library that is there, or with a newer one.
    fn choose_c_library(
        &self,
        program: Side<'_>,
        inspection: &Inspection,
        places: &Places,
        parts: &LoadedByParts,
    ) -> Result<(Plan, Vec<Warning>), Refusal> {
        let extras = Extras { parts: &parts.files, c_library: None };
        let as_it_is = self.choose_with(program, inspection, places, extras);
        let is_too_old = matches!(as_it_is, Err(Refusal::OldGlibc { .. }));
        if as_it_is.is_err() && !is_too_old {
            return as_it_is;
        }
        let needs = (self.closures.as_slice(), places);
        let loader = inspection.loader.as_deref();
        let Some(newer) = CLibrary::newer(program, loader, self.side, needs) else {
            return as_it_is;
        };
        // What is loaded later fails without a word.
        if !is_too_old && parts.glibc.is_none_or(|needed| needed <= newer.from) {
            return as_it_is;
        }
        let extras = Extras { c_library: Some(&newer), ..extras };
        let with_newer = self.choose_with(program, inspection, places, extras);
        let (plan, mut warnings) = match with_newer {
            Err(_) if !is_too_old => return as_it_is,
            other => other?,
        };
        let (from, to) = (newer.from.to_string(), newer.to.to_string());
        warnings.push(Warning::NewerCLibrary { from, to });
        Ok((plan, warnings))
    }

    fn choose_with(
        &self,
        program: Side<'_>,
        inspection: &Inspection,
        places: &Places,
        extras: Extras<'_>,
    ) -> Result<(Plan, Vec<Warning>), Refusal> {
        let Extras { parts, c_library } = extras;
        let (variables, mut loaded_later) = self.needs_of_product(places, parts);
        // What is not found through other files, the loader finds only with a search path.
        let is_searched = |file: &&Loaded| !matches!(file.by, Through::Rpath | Through::Runpath);
        let searched = parts.iter().filter(is_searched);
        loaded_later.extend(places.directories(searched.map(|file| file.path.as_path())));
        loaded_later.extend(self.plugins.directories(places));
        if places.private.is_none() && !self.plugins.files.is_empty() {
            let search = self.side.library_path.split(':').filter(|one| !one.is_empty());
            loaded_later.extend(search.map(PathBuf::from));
        }
        loaded_later.extend(c_library.iter().flat_map(|library| library.directories(places)));
        let mut plan = Plan {
            way: Way::Nothing,
            preload: Vec::new(),
            library_path: Vec::new(),
            variables,
            links: Vec::new(),
            carried: Vec::new(),
        };
        if self.plugins.files.is_empty()
            && inspection
                .library
                .as_ref()
                .is_some_and(|library| places.private.is_none() && library.file == self.core.file)
            && let Ok(warnings) = self.play(program, &plan, c_library)
        {
            // What it finds by itself needs no help of ours.
            plan.variables.clear();
            return Ok((plan, warnings));
        }
        let added = c_library.map_or([].as_slice(), |library| &library.added);
        let parts = [parts, added].concat();
        plan.carried = places.carry(self.side.tree, (&self.closures, &parts), &self.prefix());
        plan.carried.extend(self.plugins.carry(self.side.tree, places));
        plan.carried.extend(c_library.iter().flat_map(|library| library.carried.clone()));
        let own = places.directories(self.libraries().map(|one| one.path.as_path()));
        let all = plan::own_files(&self.closures).map(|file| file.path.as_path());
        let all = places.directories(all);
        let has_name = |name: &String| {
            let mut files = self.libraries().map(|one| one.path.with_file_name(name));
            files.any(|path| self.side.tree.is_file(&path))
        };
        plan.way = Way::LibraryPath;
        if inspection.names.iter().all(has_name) {
            for directories in [&own, &all] {
                plan.library_path = each_once(directories.iter().chain(&loaded_later).cloned());
                if let Ok(warnings) = self.play(program, &plan, c_library) {
                    return Ok((plan, warnings));
                }
            }
        }
        plan.way = Way::Preload;
        plan.preload = self.libraries().map(|one| places.of(&one.path)).collect();
        plan.links = self.links(inspection, places);
        let first = (!plan.links.is_empty()).then(|| places.links.clone());
        plan.library_path = each_once(first.iter().chain(&loaded_later).cloned());
        if let Ok(warnings) = self.play(program, &plan, c_library) {
            return Ok((plan, warnings));
        }
        plan.library_path = each_once(first.iter().chain(&all).chain(&loaded_later).cloned());
        let warnings = self.play(program, &plan, c_library)?;
        Ok((plan, warnings))
    }

    /// Names that the program asks for, and that are not those of the substitute.
    fn links(&self, inspection: &Inspection, places: &Places) -> Vec<(PathBuf, PathBuf)> {
        let link = |name: &String| {
            let wanted = Name::of(name)?;
            let of_language = self.libraries().find(|one| one.language == wanted.language)?;
            let is_same = &of_language.soname == name;
            (!is_same).then(|| (places.links.join(name), places.of(&of_language.path)))
        };
        inspection.names.iter().filter_map(link).collect()
    }

    /// Follows the program as the loader would, with the plan carried out.
    fn play(
        &self,
        program: Side<'_>,
        plan: &Plan,
        c_library: Option<&CLibrary>,
    ) -> Result<Vec<Warning>, Refusal> {
        let mut tree = program.tree.clone();
        for one in &plan.carried {
            tree = tree.with(&one.target, &one.source);
        }
        for (link, target) in &plan.links {
            let real = tree.find(target).map(|place| place.outside);
            tree = tree.with(link, real.unwrap_or_else(|| target.clone()));
        }
        let mut search: Vec<String> =
            plan.library_path.iter().map(|one| one.to_string_lossy().into_owned()).collect();
        search.push(program.library_path.to_owned());
        let mut loader = Loader::new(&tree).library_path(&search.join(":"));
        loader.preload.clone_from(&plan.preload);
        let no_program = || Refusal::NoProgram { path: program.path.to_owned() };
        let closure = loader.follow(program.path).ok_or_else(no_program)?;
        c_library.map_or(Ok(()), |library| library.check(&closure))?;
        self.compare(&tree, &closure)
    }

    /// Compares what would be loaded with what should be.
    fn compare(&self, tree: &Tree, closure: &Closure) -> Result<Vec<Warning>, Refusal> {
        check_versions(tree, closure)?;
        if !closure.missing.is_empty() {
            return Err(Refusal::Incomplete { missing: closure.missing.clone() });
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
            self.compare_own(own, closure, &mut warnings)?;
        }
        for file in &closure.files {
            let is_core = Name::of(&file.name).is_some_and(|name| name.language == Language::C);
            if is_core && !self.closures.iter().any(|own| own.holds(file)) {
                let path = file.path.clone();
                warnings.push(Warning::AlsoLoaded { path });
            }
        }
        Ok(warnings)
    }

    /// Each library of the substitute must be the one that it has by itself.
    fn compare_own(
        &self,
        own: &Closure,
        closure: &Closure,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), Refusal> {
        for file in own.files.iter().filter(|file| !file.is_of_glibc()) {
            let name = file.links.soname.as_deref().unwrap_or(&file.name);
            if !closure.holds(file) {
                let taken = closure.by_name(name).unwrap_or(file);
                return Err(Refusal::NotTaken { taken: taken.path.clone() });
            }
        }
        let missing = own.missing.iter();
        for missing in missing.filter(|one| !is_of_glibc(&one.name)) {
            // One for Fortran may find the one for C only in the program.
            let lent = closure.by_name(&missing.name);
            let lent = lent.filter(|file| !self.closures.iter().any(|own| own.holds(file)));
            if let Some(file) = lent {
                let (name, path) = (missing.name.clone(), file.path.clone());
                warnings.push(Warning::Borrowed { name, path });
            }
        }
        Ok(())
    }
}

/// Versions that are lacking: those of the C library are distinguished.
fn check_versions(tree: &Tree, closure: &Closure) -> Result<(), Refusal> {
    let unmet = closure.unmet();
    let newest = unmet
        .iter()
        .filter_map(|one| Some((glibc_version(&one.version)?, one)))
        .max_by_key(|(version, _)| *version);
    if let Some((needed, one)) = newest {
        let found = closure.by_name("libc.so.6").and_then(|library| release(tree, library));
        return Err(Refusal::OldGlibc {
            needed: needed.to_string(),
            needed_by: one.needed_by.clone(),
            found: found.map(|version| version.to_string()),
        });
    }
    if unmet.is_empty() { Ok(()) } else { Err(Refusal::OldLibraries { unmet }) }
}
