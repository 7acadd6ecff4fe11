// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Looks up the names in a recipe and in a system: packages, versions, variants, and their values.
//!
//! The package repositories are read where they are: in the cache, or in clones on this
//! machine. Nothing is downloaded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use cabane_recipe::{Diagnostic, MAX_FILE_SIZE, StackRecipe, SystemConfig, malformed};
use cabane_spack::{
    NameFinding, PackageIndex, RECIPE_REPOSITORY, RepositoryFiles, SYSTEM_REPOSITORY, look_up,
    look_up_system,
};

use super::repository_files::{Directory, InCommit};
use super::sources::{Found, Source, Sources};
use super::{SpackEngine, StackTexts, hooks};
use crate::build_context::BuildContext;
use crate::{Result, disk};

/// What is reported about the names in a recipe.
#[derive(Debug, Default)]
pub struct Names {
    /// What Spack would refuse.
    pub mistakes: Vec<Diagnostic>,
    /// What is strange, or cannot be certain.
    pub remarks: Vec<Diagnostic>,
    /// What is strange in the files of the system.
    pub of_system: Vec<Diagnostic>,
    /// The package repositories that are not on this machine. If there are any, nothing was
    /// looked up.
    pub missing: Vec<String>,
}

/// Looks up names for one recipe after the other; what was read of a package repository is
/// kept for the next.
pub struct NameLookUp {
    sources: Sources,
    /// Further repositories: those of the images on which a recipe builds, if they are known.
    of_bases: Option<Vec<PathBuf>>,
    known: BTreeMap<PathBuf, Rc<PackageIndex>>,
}

impl NameLookUp {
    /// Reads package repositories through Git, and in a cache of builds.
    #[must_use]
    pub fn new(git: Option<PathBuf>, cache: &Path) -> Self {
        let program = |name: &str| PathBuf::from(name);
        let sources = Sources {
            list: Vec::new(),
            git: git.unwrap_or_else(|| program("git")),
            tar: program("tar"),
            curl: program("curl"),
            cache: cache.to_owned(),
        };
        Self { sources, of_bases: None, known: BTreeMap::new() }
    }

    /// Looks up the names of a recipe, of which the directory and the texts are given, for a
    /// system in a directory. If `is_fresh`, branches are taken as they were found last;
    /// otherwise what is missing there may be in a newer state, and is no mistake.
    pub fn look_up(
        &mut self,
        (directory, texts): (&Path, &StackTexts),
        recipe: &StackRecipe,
        (system_dir, system): (&Path, &SystemConfig),
        is_fresh: bool,
    ) -> Names {
        let mut names = Names::default();
        let mut found = Vec::new();
        let mut is_certain = !directory.join(hooks::PRE_INSTALL).is_file();
        is_certain &= recipe.spack.base.is_none() || self.of_bases.is_some();
        for one in cabane_spack::package_repositories(&recipe.spack, recipe.version) {
            let source = Source::of(&one.name, &one.source);
            let place = self.sources.find(&source);
            is_certain &= is_fresh || !matches!(&place, Some(Found { is_moving: true, .. }));
            let index = place.map(|place| self.index(&one.name, &place, &one.path));
            match index.filter(|index| index.names().next().is_some()) {
                Some(index) => found.push(index),
                None => names.missing.push(one.name),
            }
        }
        if names.missing.is_empty() {
            let own = own_repositories(directory, system_dir, system);
            let of_bases =
                self.of_bases.iter().flatten().map(|path| in_directory(RECIPE_REPOSITORY, path));
            let repositories: Vec<_> = own.into_iter().chain(of_bases).chain(found).collect();
            for finding in look_up(recipe, system, &repositories) {
                let list = if is_certain && finding.is_mistake {
                    &mut names.mistakes
                } else {
                    &mut names.remarks
                };
                list.push(diagnostic(texts.text_of(&finding.file), &finding));
            }
            names.of_system = of_system(system, &repositories);
        }
        names
    }

    fn index(&mut self, namespace: &str, place: &Found, path: &str) -> Rc<PackageIndex> {
        let key = place.place.join(&place.commit).join(path);
        let known = self.known.entry(key);
        let files = || -> Box<dyn RepositoryFiles> {
            if place.is_tree {
                return Box::new(Directory(place.place.join(path)));
            }
            Box::new(InCommit::new(&self.sources.git, &place.place, &place.commit, path))
        };
        let index = known.or_insert_with(|| Rc::new(PackageIndex::new(namespace, files())));
        Rc::clone(index)
    }
}

/// The package repositories of the system and of the recipe, in the order of Spack.
fn own_repositories(
    directory: &Path,
    system_dir: &Path,
    system: &SystemConfig,
) -> Vec<Rc<PackageIndex>> {
    let of_system = system.package_repositories.iter();
    let of_system = of_system.map(|path| in_directory(SYSTEM_REPOSITORY, &system_dir.join(path)));
    of_system.chain([in_directory(RECIPE_REPOSITORY, &directory.join("repo"))]).collect()
}

fn in_directory(namespace: &str, directory: &Path) -> Rc<PackageIndex> {
    Rc::new(PackageIndex::new(namespace, Box::new(Directory(directory.to_owned()))))
}

/// Looks up what the files of a system name.
fn of_system(system: &SystemConfig, repositories: &[Rc<PackageIndex>]) -> Vec<Diagnostic> {
    let findings = look_up_system(system, repositories).into_iter();
    let diagnostics = findings.map(|finding| {
        let text = disk::read_start(&finding.file, MAX_FILE_SIZE).unwrap_or_default();
        diagnostic(std::str::from_utf8(&text).ok(), &finding)
    });
    diagnostics.collect()
}

fn diagnostic(text: Option<&str>, finding: &NameFinding) -> Diagnostic {
    let NameFinding { file, place, message, hint, .. } = finding;
    Diagnostic::new(file, text.unwrap_or_default(), place.clone(), message).with_hint(hint)
}

/// Looks up the names of the recipe that is built, whose sources are there.
pub(super) fn check(engine: &SpackEngine, bench: &mut BuildContext<'_>) -> Result<()> {
    let directory = engine.recipe_dir.path.as_path();
    let texts = StackTexts::read(directory)?;
    let commits = engine.commits();
    let mut recipe = engine.recipe.clone();
    // The commits of this build, whatever the branches are by now.
    recipe.spack.package_repositories =
        cabane_spack::package_repositories(&recipe.spack, recipe.version);
    for one in &mut recipe.spack.package_repositories {
        one.source.commit = commits.get(&one.name).cloned().or(one.source.commit.take());
    }
    let mut look_up = NameLookUp::new(None, &engine.request.cache_dir);
    look_up.sources = engine.sources.clone();
    look_up.of_bases = Some(engine.bases.repositories().collect());
    let system_dir = engine.request.system_dir.as_deref().unwrap_or(directory);
    let names = look_up.look_up((directory, &texts), &recipe, (system_dir, &engine.system), true);
    for remark in &names.remarks {
        bench.progress.warning(&remark.to_string());
    }
    if names.mistakes.is_empty() {
        return Ok(());
    }
    Err(malformed("the recipe", &names.mistakes).into())
}
