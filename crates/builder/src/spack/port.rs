// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Ports the packages of a recipe that were written for Spack before 1.0.
//!
//! ```text
//! <build>/work/spack/ported/
//! ├── repo.yaml, packages/        the repository of the recipe, with the package API 1
//! └── spack_repo/recipe/          the ported repository
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use cabane_spack::{RECIPE_REPOSITORY, nearest_version};
use serde::{Deserialize, Serialize};

use super::ask::PORT;
use super::own_packages::{self, PACKAGES};
use super::session::INPUTS;
use super::{SpackEngine, inputs, text_of};
use crate::build_context::BuildContext;
use crate::layout::Inside;
use crate::{Result, disk};

const DIRECTORY: &str = "ported";

/// What became of the packages of a recipe.
#[derive(Clone, Debug, Serialize)]
pub struct PortedPackages {
    /// The packages of the ported repository.
    pub packages: Vec<String>,
    /// What Spack could not port, or packages that Spack cannot load.
    pub problems: Vec<String>,
    /// What packages need and no repository has, with the nearest version.
    pub missing: Vec<String>,
    /// The ported repository, with `repo.yaml` and `packages/`.
    #[serde(skip)]
    pub repository: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Answer {
    done: bool,
    packages: Vec<String>,
    messages: Vec<String>,
    broken: Vec<Broken>,
    needs: Vec<Need>,
}

#[derive(Debug, Deserialize)]
struct Broken {
    package: String,
    message: String,
}

/// Something that a package needs and no repository has.
#[derive(Debug, Default, Deserialize)]
struct Need {
    package: String,
    dependency: String,
    versions: Option<String>,
    #[serde(default)]
    known: Vec<String>,
    variant: Option<String>,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { package, dependency, versions, known, variant } = self;
        if let Some(variant) = variant {
            return write!(
                f,
                "the package `{package}` of the recipe needs the variant `{variant}` of \
                 `{dependency}`, which is not in these packages"
            );
        }
        let Some(versions) = versions else {
            return write!(
                f,
                "the package `{package}` of the recipe needs `{dependency}`, which is not in these \
                 packages"
            );
        };
        write!(
            f,
            "the package `{package}` of the recipe needs `{dependency}@{versions}`, which is not in \
             these packages"
        )?;
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        match nearest_version(&known, versions) {
            Some(nearest) => write!(f, "; the nearest version is {nearest}"),
            None => Ok(()),
        }
    }
}

/// Whether a recipe has packages that must be ported: for Spack before 1.0.
///
/// # Errors
///
/// Its package repository cannot be read.
pub fn has_old_packages(recipe: &Path) -> Result<bool> {
    let own = recipe.join("repo");
    Ok(own.join(PACKAGES).is_dir() && own_packages::is_before_api_2(&own)?)
}

/// Ports the packages of a recipe, whose sources of Spack are there.
pub(super) fn port(engine: &SpackEngine, bench: &mut BuildContext<'_>) -> Result<PortedPackages> {
    inputs::write(engine)?;
    let place = inputs::directory(&engine.layout).join(DIRECTORY);
    let own = engine.recipe_dir.path.join("repo");
    own_packages::write(RECIPE_REPOSITORY, std::slice::from_ref(&own), &place)?;
    let text = format!("repo:\n  namespace: {RECIPE_REPOSITORY}\n  api: v1.0\n");
    disk::put(&place.join(own_packages::REPO_YAML), text)?;
    let inside = Inside::work(INPUTS).join(DIRECTORY);
    let answer: Answer = PORT.run(engine, bench, &[text_of(&inside)])?;
    Ok(answer.report(place.join("spack_repo").join(RECIPE_REPOSITORY)))
}

impl Answer {
    fn report(self, repository: PathBuf) -> PortedPackages {
        let mut problems = Vec::new();
        if !self.done {
            problems.push("Spack could not port all packages".to_owned());
            problems.extend(self.messages);
        }
        problems.extend(self.broken.into_iter().map(|one| {
            let Broken { package, message } = one;
            format!("Spack cannot load the ported package `{package}`: {message}")
        }));
        let missing: BTreeSet<String> = self.needs.iter().map(Need::to_string).collect();
        PortedPackages {
            packages: self.packages,
            problems,
            missing: missing.into_iter().collect(),
            repository,
        }
    }
}

impl PortedPackages {
    /// Copies the ported packages into a recipe, in the place of its own.
    ///
    /// # Errors
    ///
    /// A file cannot be copied. The packages of the recipe stay as they were.
    pub fn put_into(&self, recipe: &Path) -> Result<()> {
        let (own, new, old) =
            (recipe.join("repo"), recipe.join(".repo.new"), recipe.join(".repo.old"));
        disk::remove(&new)?;
        disk::remove(&old)?;
        crate::metadata::copy_all(&self.repository, &new)?;
        // What else is there, packages may import.
        for entry in disk::entries("list", &own)? {
            let (name, target) = (entry.file_name(), new.join(entry.file_name()));
            let is_taken = name == PACKAGES || target.symlink_metadata().is_ok();
            if !is_taken && entry.path().is_dir() {
                crate::metadata::copy_all(&entry.path(), &target)?;
            } else if !is_taken {
                crate::metadata::copy_file(&entry.path(), &target)?;
            }
        }
        disk::rename(&own, &old)?;
        disk::rename(&new, &own)?;
        disk::remove(&old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_reported_once_with_the_nearest_version() {
        let need = |versions: Option<&str>, variant: Option<&str>| Need {
            package: "app".to_owned(),
            dependency: "hdf5".to_owned(),
            versions: versions.map(str::to_owned),
            known: ["2.0.0", "1.14.3", "1.12.3"].map(str::to_owned).to_vec(),
            variant: variant.map(str::to_owned),
        };
        let answer = Answer {
            done: false,
            packages: vec!["app".to_owned()],
            messages: vec!["packages/app/package.py:3: redefinition of `Package`".to_owned()],
            broken: vec![Broken { package: "app".to_owned(), message: "no module".to_owned() }],
            needs: vec![
                need(Some("1.14.1"), None),
                need(Some("1.14.1"), None),
                need(None, Some("szip")),
                need(None, None),
            ],
        };
        let report = answer.report(PathBuf::new());
        assert_eq!(
            report.problems,
            [
                "Spack could not port all packages",
                "packages/app/package.py:3: redefinition of `Package`",
                "Spack cannot load the ported package `app`: no module",
            ]
        );
        assert_eq!(
            report.missing,
            [
                "the package `app` of the recipe needs `hdf5@1.14.1`, which is not in these \
                 packages; the nearest version is 1.14.3",
                "the package `app` of the recipe needs `hdf5`, which is not in these packages",
                "the package `app` of the recipe needs the variant `szip` of `hdf5`, which is not \
                 in these packages",
            ]
        );
    }

    #[test]
    fn ported_packages_replace_those_of_a_recipe() {
        let world = tempfile::tempdir().unwrap();
        let (recipe, repository) = (world.path().join("recipe"), world.path().join("ported"));
        disk::put(&recipe.join("repo/packages/my-tool/package.py"), "old").unwrap();
        disk::put(&recipe.join("repo/notes/readme"), "stays").unwrap();
        disk::put(&repository.join("packages/my_tool/package.py"), "new").unwrap();
        disk::put(&repository.join("repo.yaml"), "repo: {api: v2.0}").unwrap();
        let ported = PortedPackages {
            packages: Vec::new(),
            problems: Vec::new(),
            missing: Vec::new(),
            repository,
        };
        ported.put_into(&recipe).unwrap();
        let read = |name: &str| std::fs::read_to_string(recipe.join("repo").join(name)).ok();
        assert_eq!(read("packages/my_tool/package.py").unwrap(), "new");
        assert_eq!(read("notes/readme").unwrap(), "stays");
        assert_eq!(read("repo.yaml").unwrap(), "repo: {api: v2.0}");
        assert_eq!(read("packages/my-tool/package.py"), None);
        assert_eq!(std::fs::read_dir(recipe).unwrap().count(), 1);
    }
}
