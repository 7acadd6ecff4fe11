// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where things lie while Spack runs, as it sees them.

use std::path::{Path, PathBuf};

use cabane_recipe::{GitSource, SpackVersion, StackRecipe};

use crate::sources::{self, RECIPE_REPOSITORY, SYSTEM_REPOSITORY};

/// Where things lie while Spack runs: absolute paths inside of the sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The directory of the system scope, in which the files of
    /// [`SpackStack::config`](crate::SpackStack::config) lie.
    pub config: PathBuf,
    /// The package repositories, in the order in which they are searched.
    pub repositories: Vec<RepositoryPlace>,
    /// Where sources are kept that were fetched; else what the system says.
    pub source_cache: Option<PathBuf>,
    /// A cache of packages that needs no set-up.
    pub binary_cache: Option<BinaryCache>,
    /// Where packages are unpacked and built.
    pub build_stage: Option<PathBuf>,
    /// Where Spack keeps indices.
    pub misc_cache: Option<PathBuf>,
    /// How many jobs one package may have.
    pub build_jobs: Option<u32>,
    /// The directories with the metadata of the bootstrap mirror, if the mirror
    /// of the system is a directory.
    pub bootstrap_metadata: Vec<PathBuf>,
    /// Whether only the mirrors that are named are used, not Spack's own.
    pub only_named_mirrors: bool,
    /// The stores of the images on which this one is built, the nearest first.
    pub upstreams: Vec<PathBuf>,
    /// The version of Spack, once its clone is known.
    pub version: Option<SpackVersion>,
}

impl Places {
    /// Returns the places in an image: package repositories lie where they are
    /// when it is mounted, and nothing is cached.
    ///
    /// `own` says whether the recipe, and whether the system has packages.
    #[must_use]
    pub fn in_image(recipe: &StackRecipe, config: &Path, own: OwnPackages) -> Self {
        let root = PathBuf::from(recipe.config.store.as_str()).join("repos/spack_repo");
        let mut names = Vec::new();
        if own.recipe {
            names.push(RECIPE_REPOSITORY.to_owned());
        }
        if own.system {
            names.push(SYSTEM_REPOSITORY.to_owned());
        }
        let repositories = sources::package_repositories(&recipe.spack, recipe.version);
        names.extend(repositories.into_iter().map(|one| one.name));
        Self {
            config: config.to_owned(),
            repositories: names
                .into_iter()
                .map(|name| RepositoryPlace {
                    path: root.join(&name),
                    name,
                    upstream: Upstream::Same,
                })
                .collect(),
            ..Self::default()
        }
    }
}

/// Who has packages of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnPackages {
    /// The recipe, in `repo/`.
    pub recipe: bool,
    /// The system, in what its `repos.yaml` names.
    pub system: bool,
}

/// Where a package repository lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryPlace {
    /// Its name.
    pub name: String,
    /// The directory with its `repo.yaml`.
    pub path: PathBuf,
    /// Where those find it who use the image.
    pub upstream: Upstream,
}

/// Where those find a package repository who use an image as an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// Where it was during the build.
    Same,
    /// In another directory.
    Path(PathBuf),
    /// At a commit of a Git repository, which Spack clones; `path` leads to the
    /// package repository in there.
    Git {
        /// The repository and the commit.
        source: GitSource,
        /// Where in there it lies.
        path: String,
    },
}

/// A cache of packages on this system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BinaryCache {
    /// The directory with the packages of this mount point.
    pub path: PathBuf,
    /// Whether Spack puts packages there as soon as they are built.
    pub autopush: bool,
    /// Directories with packages that an account built for everybody. Spack reads them
    /// first, in this order, and writes nothing there.
    pub shared: Vec<PathBuf>,
    /// Directories with packages of other mount points. Spack reads them after `path`,
    /// in this order, and writes nothing there.
    pub others: Vec<PathBuf>,
    /// A directory with packages of unknown mount points. Spack reads it last.
    pub older: Option<PathBuf>,
}
