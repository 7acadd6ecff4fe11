// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What this crate hands to Spack, in one binary.

mod bases;
mod golden;
mod refused;
mod written;

use std::collections::BTreeMap;
use std::path::Path;

use cabane_recipe::{
    FileText, Mistakes, StackFiles, StackOptions, StackRecipe, SystemConfig, SystemFiles,
    parse_stack, parse_system,
};
use cabane_spack::{OwnPackages, Places};

/// The files of a recipe and a system, one below the other: a line `--- name`
/// before each.
struct Files(BTreeMap<String, String>);

impl Files {
    fn of(text: &str) -> Self {
        let mut files = BTreeMap::<String, String>::new();
        let mut name = String::new();
        for line in text.split_inclusive('\n') {
            match line.strip_prefix("--- ") {
                Some(next) => next.trim().clone_into(&mut name),
                None => files.entry(name.clone()).or_default().push_str(line),
            }
        }
        Self(files)
    }

    fn get<'a>(&'a self, name: &'a str) -> Option<FileText<'a>> {
        self.0.get(name).map(|text| FileText { path: Path::new(name), text: text.as_bytes() })
    }

    fn recipe(&self, system: Option<&SystemConfig>) -> Result<StackRecipe, Mistakes> {
        let files = StackFiles {
            config: self.get("config.yaml").unwrap(),
            compilers: self.get("compilers.yaml"),
            environments: self.get("environments.yaml"),
            modules: self.get("modules.yaml"),
            packages: self.get("packages.yaml"),
        };
        let accept_old_spack = true;
        parse_stack(&files, &StackOptions { system, accept_old_spack })
    }

    fn system(&self) -> Result<SystemConfig, Mistakes> {
        parse_system(&SystemFiles {
            packages: self.get("system/packages.yaml").unwrap(),
            network: self.get("system/network.yaml"),
            repos: self.get("system/repos.yaml"),
            mirrors: self.get("system/mirrors.yaml"),
            config: self.get("system/config.yaml"),
            concretizer: self.get("system/concretizer.yaml"),
            toolchains: self.get("system/toolchains.yaml"),
        })
    }

    /// Reads both; what is wrong with them ends the test.
    fn read(&self) -> (StackRecipe, SystemConfig) {
        let system = self.system().unwrap_or_else(|error| panic!("{error}"));
        let recipe = self.recipe(Some(&system)).unwrap_or_else(|error| panic!("{error}"));
        (recipe, system)
    }
}

/// The places of a build that caches nothing.
fn places(recipe: &StackRecipe, system: &SystemConfig) -> Places {
    let own = OwnPackages { recipe: true, system: !system.package_repositories.is_empty() };
    Places::in_image(recipe, Path::new("/build/config"), own)
}
