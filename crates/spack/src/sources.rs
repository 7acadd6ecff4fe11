// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which Spack and which packages.

use cabane_recipe::{GitSource, PackageRepository, SpackConfig, SpackVersion};

/// The package repository of the recipe: `repo/`.
pub const RECIPE_REPOSITORY: &str = "recipe";

/// The package repository of the system, in which all of its packages lie. Its
/// name is part of their hashes, and the packages of other sites refer to it.
pub const SYSTEM_REPOSITORY: &str = "alps";

const SPACK_PACKAGES: &str = "https://github.com/spack/spack-packages.git";

/// Returns the package repositories that a recipe names, or else what this version of
/// Spack has by default.
#[must_use]
pub fn package_repositories(config: &SpackConfig, version: SpackVersion) -> Vec<PackageRepository> {
    if !config.package_repositories.is_empty() {
        return config.package_repositories.clone();
    }
    let commit = match version {
        SpackVersion { major: 1, minor: 0 } => "releases/v2025.07",
        SpackVersion { major: 1, minor: 1 } => "releases/v2025.11",
        _ => "develop",
    };
    vec![PackageRepository {
        name: "builtin".to_owned(),
        source: GitSource { repo: SPACK_PACKAGES.to_owned(), commit: Some(commit.to_owned()) },
        path: "repos/spack_repo/builtin".to_owned(),
    }]
}
