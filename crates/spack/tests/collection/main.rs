// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A public collection of recipes, each read and planned for its system.
//!
//! `CABANE_TEST_RECIPES` names a checkout of alps-uenv, `CABANE_TEST_SYSTEMS` one of
//! alps-cluster-config. Recipes for Spack before 1.0 are converted first. What cannot be
//! planned must be a fault of the recipe that is known below.

mod catalogue;
mod names;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use cabane_recipe::{
    Conversion, ConvertTo, FileText, Mistakes, StackFiles, StackOptions, StackRecipe, SystemConfig,
    SystemFiles, convert_stack, parse_stack, parse_system,
};
use cabane_spack::{OwnPackages, Places, look_up, look_up_system, lower};
use cabane_testkit::{not_run, say};

/// Faults of recipes, each with what is reported.
const FAULTS: &[(&str, &str)] =
    &[("gromacs/2024/mc", "environments.yaml:29:3: the key `packages` is given twice")];

/// What recipes name that does not exist: views leave out what is no package.
const KNOWN_NAMES: &[&str] =
    &["there is no package `paraview-cuda`", "there is no package `paraview-osmesa`"];

const FILES: [&str; 5] =
    ["config.yaml", "compilers.yaml", "environments.yaml", "modules.yaml", "packages.yaml"];

/// The files of a directory that are there.
struct Texts(BTreeMap<&'static str, (PathBuf, Vec<u8>)>);

impl Texts {
    fn read(directory: &Path, names: &[&'static str]) -> Self {
        let read = |name: &&'static str| {
            let text = fs::read(directory.join(name)).ok()?;
            Some((*name, (PathBuf::from(name), text)))
        };
        Self(names.iter().filter_map(read).collect())
    }

    fn get(&self, name: &str) -> Option<FileText<'_>> {
        self.0.get(name).map(|(path, text)| FileText { path, text })
    }

    fn stack(&self) -> StackFiles<'_> {
        StackFiles {
            config: self.get("config.yaml").unwrap(),
            compilers: self.get("compilers.yaml"),
            environments: self.get("environments.yaml"),
            modules: self.get("modules.yaml"),
            packages: self.get("packages.yaml"),
        }
    }

    /// Takes over what a conversion changed.
    fn converted(mut self, conversion: Conversion) -> Self {
        for (name, text) in conversion.files {
            self.0.insert(name, (PathBuf::from(name), text.into_bytes()));
        }
        for name in conversion.removed {
            self.0.remove(name);
        }
        self
    }
}

fn systems(directory: &Path) -> BTreeMap<String, (SystemConfig, PathBuf)> {
    let names = ["packages.yaml", "network.yaml", "repos.yaml", "mirrors.yaml"];
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.join("packages.yaml").exists())
        .map(|path| {
            let texts = Texts::read(&path, &names);
            let system = parse_system(&SystemFiles {
                packages: texts.get("packages.yaml").unwrap(),
                network: texts.get("network.yaml"),
                repos: texts.get("repos.yaml"),
                mirrors: texts.get("mirrors.yaml"),
                config: texts.get("config.yaml"),
                concretizer: texts.get("concretizer.yaml"),
                toolchains: texts.get("toolchains.yaml"),
            });
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let system = system.unwrap_or_else(|error| panic!("the system {name}\n{error}"));
            (name, (system, path))
        })
        .collect()
}

/// How a recipe was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    AsItIs,
    Converted,
}

/// Reads and plans one recipe.
fn plan(directory: &Path, system: &SystemConfig) -> Result<(Way, StackRecipe), Mistakes> {
    let texts = Texts::read(directory, &FILES);
    let options = StackOptions { system: Some(system), accept_old_spack: false };
    let (way, recipe) = match parse_stack(&texts.stack(), &options) {
        Ok(recipe) => (Way::AsItIs, recipe),
        Err(error) if is_old(&error) => {
            let converted = convert_stack(&texts.stack(), &ConvertTo::default())?;
            let texts = texts.converted(converted);
            (Way::Converted, parse_stack(&texts.stack(), &options)?)
        }
        Err(error) => return Err(error),
    };
    environments(directory, &recipe, system);
    Ok((way, recipe))
}

/// Tells whether nothing is wrong with a recipe but its age.
fn is_old(error: &Mistakes) -> bool {
    let hint = |hint: &String| hint.starts_with("`cabane recipe convert ");
    error.diagnostics().iter().all(|one| one.hint.as_ref().is_some_and(hint))
}

fn environments(directory: &Path, recipe: &StackRecipe, system: &SystemConfig) {
    let own = OwnPackages {
        recipe: directory.join("repo/packages").is_dir(),
        system: !system.package_repositories.is_empty(),
    };
    let places = Places::in_image(recipe, Path::new("/build/config"), own);
    let stack = lower(recipe, system, &places).unwrap_or_else(|error| panic!("{error}"));
    assert!(!stack.environments.is_empty());
}

#[test]
fn every_recipe_is_planned_or_has_a_known_fault() {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let (Some(recipes), Some(systems_directory)) =
        (variable("CABANE_TEST_RECIPES"), variable("CABANE_TEST_SYSTEMS"))
    else {
        not_run!("CABANE_TEST_RECIPES and CABANE_TEST_SYSTEMS name no checkouts");
    };
    let systems = systems(&systems_directory);
    let targets = catalogue::targets(&recipes.join("config.yaml"));
    let mut planned = BTreeMap::<Way, usize>::new();
    let mut faults = String::new();
    let mut unknown = String::new();
    for directory in catalogue::recipes(&recipes.join("recipes")) {
        let name = directory.strip_prefix(recipes.join("recipes")).unwrap();
        let name = name.to_string_lossy().into_owned();
        let system = targets.get(&name).and_then(|name| systems.get(name));
        // Old recipes stand in the collection that no system builds any more.
        let (system, _) = system.unwrap_or_else(|| &systems["daint"]);
        match plan(&directory, system) {
            Ok((way, _)) => *planned.entry(way).or_default() += 1,
            Err(error) => {
                let text = error.to_string();
                let is_known = FAULTS
                    .iter()
                    .any(|(fault, reported)| *fault == name && text.contains(reported));
                let list = if is_known { &mut faults } else { &mut unknown };
                let _ = writeln!(list, "{name}: {text}");
            }
        }
    }
    say(&format!("systems: {}; recipes: {planned:?}; known faults:\n{faults}", systems.len()));
    assert!(unknown.is_empty(), "{unknown}");
}

/// What is reported about names. `CABANE_TEST_SPACK_PACKAGES` is newer than what most of
/// the recipes name: a version that was removed since would be one more to know below.
#[test]
fn names_are_looked_up_in_all_recipes() {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let (Some(recipes), Some(systems_directory), Some(packages)) = (
        variable("CABANE_TEST_RECIPES"),
        variable("CABANE_TEST_SYSTEMS"),
        variable("CABANE_TEST_SPACK_PACKAGES"),
    ) else {
        not_run!(
            "CABANE_TEST_RECIPES, CABANE_TEST_SYSTEMS, and CABANE_TEST_SPACK_PACKAGES name no \
             checkouts"
        );
    };
    let systems = systems(&systems_directory);
    let targets = catalogue::targets(&recipes.join("config.yaml"));
    let directories = catalogue::recipes(&recipes.join("recipes")).into_iter();
    let planned = directories.filter_map(|directory| {
        let name = directory.strip_prefix(recipes.join("recipes")).unwrap();
        let name = name.to_string_lossy().into_owned();
        let found = targets.get(&name).and_then(|name| systems.get(name));
        let (system, place) = found.unwrap_or_else(|| &systems["daint"]);
        let (way, recipe) = plan(&directory, system).ok()?;
        (way == Way::AsItIs).then_some((name, directory, recipe, system, place))
    });
    let planned: Vec<_> = planned.collect();
    let begin = Instant::now();
    let builtin = names::index("builtin", &packages.join("repos/spack_repo/builtin"));
    let mut found = BTreeMap::<String, Vec<String>>::new();
    for (name, directory, recipe, system, place) in &planned {
        let of_system = system.package_repositories.iter();
        let of_system = of_system.map(|path| names::index("alps", &place.join(path)));
        let own = names::index("recipe", &directory.join("repo"));
        let all: Vec<_> = of_system.chain([own, Rc::clone(&builtin)]).collect();
        for one in look_up(recipe, system, &all) {
            let line = format!("{} ({}) {}", one.message, one.hint, one.is_mistake);
            found.entry(line).or_default().push(name.clone());
        }
    }
    say(&format!("{} recipes in {:.2} s", planned.len(), begin.elapsed().as_secs_f64()));
    for (name, (system, place)) in &systems {
        let of_system = system.package_repositories.iter();
        let of_system = of_system.map(|path| names::index("alps", &place.join(path)));
        let all: Vec<_> = of_system.chain([Rc::clone(&builtin)]).collect();
        for one in look_up_system(system, &all) {
            let line = format!("{} ({}) {}", one.message, one.hint, one.is_mistake);
            found.entry(line).or_default().push(format!("the system {name}"));
        }
    }
    say(&format!("with the systems in {:.2} s", begin.elapsed().as_secs_f64()));
    for (line, names) in &found {
        say(&format!("{line}: {}", names.join(", ")));
    }
    let is_known = |line: &&String| KNOWN_NAMES.iter().any(|known| line.starts_with(known));
    let unknown: Vec<_> = found.keys().filter(|line| !is_known(line)).collect();
    assert!(!planned.is_empty() && unknown.is_empty(), "{unknown:#?}");
}
