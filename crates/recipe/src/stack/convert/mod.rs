// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From formats 1 and 2 to format 3.
//!
//! The files are changed where they must be, so that what their authors wrote
//! around it stays: order, comments, empty lines. The result is read again and
//! compared with what was meant; a file in which that fails is written anew,
//! without its comments, and the notes say so.

mod edit;
mod fresh;
mod notes;
mod specs;

use std::path::Path;

use super::files::{FileText, StackFiles, StackOptions, parse_stack};
use super::recipe::StackRecipe;
use super::version::SpackVersion;
use crate::diagnostic::Mistakes;
use crate::recipe::{FormatVersion, GitSource, PackageRepository};

/// A recipe in format 3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The files that are different now, by name.
    pub files: Vec<(&'static str, String)>,
    /// The files that must not be there any more.
    pub removed: Vec<&'static str>,
    /// What a person must still look at.
    pub notes: Vec<String>,
    /// Whether the recipe was for a Spack before 1.0, as its own packages are.
    pub is_from_old_spack: bool,
}

/// The Spack of recipes whose own is too old.
const SPACK: &str = "releases/v1.2";
const SPACK_REPOSITORY: &str = "https://github.com/spack/spack.git";
const PACKAGES: &str = "https://github.com/spack/spack-packages.git";
const PACKAGES_COMMIT: &str = "releases/v2026.06";
/// The repository of Spack's packages.
const BUILTIN: &str = "builtin";

/// The commits that a converted recipe gets; those of this version of Cabane, unless others are named.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConvertTo<'a> {
    /// The commit, branch, or tag of Spack; without one, a recipe for Spack 1.0 or later keeps its own.
    pub spack: Option<&'a str>,
    /// The commit, branch, or tag of Spack's packages; without one, a recipe that names one keeps it.
    pub packages: Option<&'a str>,
}

/// The `modules.yaml` of recipes that have module files without saying so.
const MODULES: &str = "modules:\n  default:\n    enable: [tcl]\n    arch_folder: false\n";

/// What a recipe becomes.
struct Target {
    recipe: StackRecipe,
    /// The commit of Spack, if it gets another.
    new_spack: Option<String>,
    /// The fork of Spack that it does not use any more.
    left_fork: Option<String>,
    /// Whether it gets a package repository.
    has_new_packages: bool,
    /// The commit of Spack's packages.
    packages_commit: String,
    /// Whether a package repository that it has gets that commit.
    moves_packages: bool,
}

impl Target {
    fn of(mut recipe: StackRecipe, to: &ConvertTo<'_>) -> Self {
        let is_old = recipe.version < SpackVersion::OLDEST;
        let new_spack = to.spack.or(is_old.then_some(SPACK)).map(str::to_owned);
        let has_new_packages = recipe.spack.package_repositories.is_empty();
        let packages_commit = to.packages.unwrap_or(PACKAGES_COMMIT).to_owned();
        if let Some(commit) = &new_spack {
            recipe.version = SpackVersion::of_commit(Some(commit), FormatVersion::V3);
            recipe.spack.source.commit = Some(commit.clone());
        }
        // A fork of the time of the recipe has no later Spack.
        let left_fork = (is_old && is_fork(&recipe.spack.source.repo))
            .then(|| std::mem::replace(&mut recipe.spack.source.repo, SPACK_REPOSITORY.to_owned()));
        let mut moves_packages = false;
        if has_new_packages {
            recipe.spack.package_repositories = vec![PackageRepository {
                name: BUILTIN.to_owned(),
                source: GitSource {
                    repo: PACKAGES.to_owned(),
                    commit: Some(packages_commit.clone()),
                },
                path: "repos/spack_repo/builtin".to_owned(),
            }];
        } else if to.packages.is_some() {
            for one in &mut recipe.spack.package_repositories {
                if one.name == BUILTIN {
                    one.source.commit = Some(packages_commit.clone());
                    moves_packages = true;
                }
            }
        }
        recipe.spack.modules = None;
        for environment in &mut recipe.environments {
            environment.packages.clear();
            if is_old {
                for spec in &mut environment.specs {
                    *spec = specs::with_compilers_last(spec);
                }
            }
        }
        Self { recipe, new_spack, left_fork, has_new_packages, packages_commit, moves_packages }
    }

    /// Tells whether another recipe builds the same.
    fn is(&self, other: &StackRecipe) -> bool {
        let config = |recipe: &StackRecipe| {
            let config = recipe.config.clone();
            (
                (config.name, config.store, config.description, config.default_view),
                config.separates_debug_symbols,
            )
        };
        other.config.format == FormatVersion::V3
            && config(&self.recipe) == config(other)
            && self.recipe.spack == other.spack
            && self.recipe.compilers == other.compilers
            && self.recipe.environments == other.environments
    }
}

/// Whether an address is that of a fork of Spack on GitHub.
fn is_fork(address: &str) -> bool {
    let Some((_, path)) = address.split_once("github.com") else { return false };
    let mut parts = path.trim_start_matches([':', '/']).split('/');
    let (owner, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    owner != "spack" && name.trim_end_matches(".git") == "spack"
}

/// Writes a recipe in format 3.
///
/// # Errors
///
/// Everything that is wrong with the recipe, but for the age of its Spack.
pub fn convert_stack(files: &StackFiles<'_>, to: &ConvertTo<'_>) -> Result<Conversion, Mistakes> {
    let options = StackOptions { system: None, accept_old_spack: true };
    let recipe = parse_stack(files, &options)?;
    let is_asked = to.spack.is_some() || to.packages.is_some();
    let is_new =
        recipe.config.format == FormatVersion::V3 && recipe.version >= SpackVersion::OLDEST;
    if is_new && !is_asked {
        return Ok(Conversion {
            files: Vec::new(),
            removed: Vec::new(),
            notes: vec!["the recipe already has format 3".to_owned()],
            is_from_old_spack: false,
        });
    }
    let target = Target::of(recipe.clone(), to);
    let mut notes = notes::about(&recipe, &target);
    let changed = [
        ("config.yaml", Some(files.config), edit::config as Edit, fresh::config as Fresh),
        ("compilers.yaml", files.compilers, edit::compilers, fresh::compilers),
        ("environments.yaml", files.environments, edit::environments, fresh::environments),
    ];
    let mut texts = Texts::default();
    for (name, file, edit, fresh) in changed {
        let Some(file) = file else { continue };
        let before = String::from_utf8_lossy(file.text).into_owned();
        let edited = edit(&before, &recipe, &target).filter(|text| {
            texts.set(name, text);
            texts.reads_as(&target, files)
        });
        let text = edited.unwrap_or_else(|| {
            notes.push(format!("{name} was written anew, without its comments"));
            fresh(&target.recipe)
        });
        texts.set(name, &text);
    }
    let mut changed = texts.changed(files);
    // In format 3 it is there if there are module files.
    let (has_modules, are_wanted) = (files.modules.is_some(), recipe.modules.is_some());
    if are_wanted && !has_modules {
        changed.push(("modules.yaml", MODULES.to_owned()));
    }
    Ok(Conversion {
        files: changed,
        removed: if has_modules && !are_wanted { vec!["modules.yaml"] } else { Vec::new() },
        notes,
        is_from_old_spack: recipe.version < SpackVersion::OLDEST,
    })
}

type Edit = fn(&str, &StackRecipe, &Target) -> Option<String>;
type Fresh = fn(&StackRecipe) -> String;

/// The files as they are so far.
#[derive(Default)]
struct Texts(Vec<(&'static str, String)>);

impl Texts {
    fn set(&mut self, name: &'static str, text: &str) {
        self.0.retain(|(other, _)| *other != name);
        self.0.push((name, text.to_owned()));
    }

    fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(other, _)| *other == name);
        found.map(|(_, text)| text.as_str())
    }

    /// Tells whether the files read as what was meant; those that are not there
    /// yet are taken as they would be written anew.
    fn reads_as(&self, target: &Target, files: &StackFiles<'_>) -> bool {
        let text = |name: &str, fresh: Fresh| {
            self.get(name).map_or_else(|| fresh(&target.recipe), str::to_owned)
        };
        let config = text("config.yaml", fresh::config);
        let compilers = text("compilers.yaml", fresh::compilers);
        let environments = text("environments.yaml", fresh::environments);
        let has_modules = target.recipe.modules.is_some();
        let modules = has_modules.then(|| as_file("modules.yaml", "modules: {}\n"));
        let read = parse_stack(
            &StackFiles {
                config: as_file("config.yaml", &config),
                compilers: Some(as_file("compilers.yaml", &compilers)),
                environments: Some(as_file("environments.yaml", &environments)),
                modules,
                packages: files.packages,
            },
            &StackOptions::default(),
        );
        read.is_ok_and(|read| target.is(&read))
    }

    /// Returns the files that are not what they were.
    fn changed(self, files: &StackFiles<'_>) -> Vec<(&'static str, String)> {
        let before = |name: &str| match name {
            "config.yaml" => Some(files.config.text),
            "compilers.yaml" => files.compilers.map(|file| file.text),
            _ => files.environments.map(|file| file.text),
        };
        let is_changed = |(name, text): &(&str, String)| before(name) != Some(text.as_bytes());
        self.0.into_iter().filter(is_changed).collect()
    }
}

fn as_file<'a>(name: &'a str, text: &'a str) -> FileText<'a> {
    FileText { path: Path::new(name), text: text.as_bytes() }
}
