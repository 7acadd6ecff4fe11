// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Spack's indices of package repositories: who provides what, tags, patches.
//!
//! ```text
//! <cache>/spack/index/<sources>/                  for builds without packages of their own
//! <cache>/spack/index/<sources>-<own packages>/   for builds with packages of their own
//! ```
//!
//! Spack tells the indices apart by the name of the repository alone, and goes by times. So
//! there is a directory for everything that the indices depend on. That of thousands of
//! packages takes seconds and does not depend on the few of a recipe: it is handed from one
//! directory to the other.

use std::fs;
use std::path::{Path, PathBuf};

use cabane_spack::{RECIPE_REPOSITORY, SYSTEM_REPOSITORY};

use super::SpackEngine;
use crate::fingerprint::digest_of;
use crate::{Result, cache, disk};

/// The indices, below the cache.
const INDEX: &str = "spack/index";
/// How the name of an index ends.
const END: &str = "index.json";

/// Returns where the indices of a build are, below the cache.
pub(super) fn place(engine: &SpackEngine) -> PathBuf {
    let shared = shared(engine);
    if engine.packages.is_empty() {
        return shared;
    }
    let own = digest_of([engine.packages_digest.as_str()]);
    PathBuf::from(format!("{}-{}", shared.display(), &own.as_str()[..16]))
}

/// Those that depend on the sources alone.
fn shared(engine: &SpackEngine) -> PathBuf {
    let commits = engine.commits();
    let recipe = &engine.recipe;
    let packages = cabane_spack::package_repositories(&recipe.spack, recipe.version);
    let paths = packages.iter().map(|one| one.path.as_str());
    let sources = commits.iter().flat_map(|(name, commit)| [name.as_str(), commit]);
    let id = digest_of(sources.chain(paths));
    Path::new(INDEX).join(&id.as_str()[..16])
}

/// Hands the indices of the sources to this build.
pub(super) fn take(engine: &SpackEngine) -> Result<()> {
    for place in [place(engine), shared(engine), "spack/bytecode".into()] {
        cache::note_use(&engine.request.cache_dir.join(place));
    }
    hand(engine, &shared(engine), &place(engine))
}

/// Hands the indices of the sources to other builds.
pub(super) fn give(engine: &SpackEngine) -> Result<()> {
    hand(engine, &place(engine), &shared(engine))
}

/// Links what one directory has and the other has not. Spack replaces files and does not
/// write into them.
fn hand(engine: &SpackEngine, from: &Path, to: &Path) -> Result<()> {
    if from == to {
        return Ok(());
    }
    let [from, to] = [from, to].map(|place| engine.request.cache_dir.join(place).join("cache"));
    for kind in fs::read_dir(&from).into_iter().flatten().flatten() {
        for index in fs::read_dir(kind.path()).into_iter().flatten().flatten() {
            let name = index.file_name();
            if is_of_sources(&name.to_string_lossy()) {
                let target = to.join(kind.file_name());
                disk::make_directory(&target)?;
                // It may be there already, and without it Spack makes a new one.
                let _ = fs::hard_link(index.path(), target.join(name));
            }
        }
    }
    Ok(())
}

/// Whether a file is an index of a repository that does not belong to the recipe or to
/// the system.
fn is_of_sources(name: &str) -> bool {
    let is_own = [RECIPE_REPOSITORY, SYSTEM_REPOSITORY]
        .iter()
        .any(|own| name.starts_with(&format!("{own}-")));
    name.ends_with(END) && !is_own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_of_own_packages_and_other_files_are_not_handed_on() {
        let names = [
            "builtin-specfile_v5-index.json",
            "recipe-specfile_v5-index.json",
            "alps-specfile_v5-index.json",
            "compilers.json",
            ".lock",
        ];
        let found: Vec<_> = names.into_iter().filter(|name| is_of_sources(name)).collect();
        assert_eq!(found, ["builtin-specfile_v5-index.json"]);
    }
}
