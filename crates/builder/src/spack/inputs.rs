// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What Spack gets, as files.
//!
//! ```text
//! <build>/work/spack/
//! ├── config/             the system's scope: packages.yaml, repos.yaml, mirrors.yaml, …
//! ├── env/<name>/         spack.yaml says what is built, spack.lock what that means exactly
//! ├── environments/       for scripts of recipes that put files there
//! ├── modules/            how module files are written
//! ├── asked/              scripts that Spack runs, and its answers
//! └── user/               the user's scope, empty
//! <build>/store/repos/spack_repo/{recipe,alps}/   package recipes that travel with the image
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cabane_recipe::{GitSource, SpackVersion, StackRecipe, SystemConfig};
use cabane_report::{Kind, Report};
use cabane_spack::{BinaryCache, Places, RepositoryPlace, SpackStack, Upstream};

use super::bases::Bases;
use super::own_packages::{self, OwnPackages};
use super::session::{INPUTS, SOURCES};
use super::sources::Commits;
use super::sources::is_archive;
use super::{SpackEngine, bytecode, package_cache, user};
use crate::layout::{Inside, Layout};
use crate::{Result, disk};

/// Package recipes below the store, or the mount point.
const REPOSITORIES: &str = "repos/spack_repo";

/// Decides what Spack gets. `version` is its version, if it is known.
pub(super) fn lower(
    recipe: &StackRecipe,
    system: &SystemConfig,
    packages: &OwnPackages,
    commits: &Commits,
    bases: &Bases,
    version: Option<SpackVersion>,
) -> Result<SpackStack> {
    let upstreams = bases.mount_points();
    let places = Places { version, upstreams, ..places(recipe, packages, commits) };
    Ok(cabane_spack::lower(recipe, system, &places).map_err(|error| {
        let hint = error.hint();
        Report::new(Kind::Build, error).hinted(hint)
    })?)
}

/// Returns where everything is while Spack runs, without the packages that builds for other
/// mount points left in the cache: those change while nothing else does.
pub(super) fn places(recipe: &StackRecipe, packages: &OwnPackages, commits: &Commits) -> Places {
    let cache = Path::new(Inside::CACHE).join("spack");
    let mount_point = recipe.config.store.as_path();
    let own = packages.keys().map(|name| RepositoryPlace {
        name: name.clone(),
        path: mount_point.join(REPOSITORIES).join(name),
        upstream: Upstream::Same,
    });
    // Those of others are not copied: the image names the commit.
    let others = cabane_spack::package_repositories(&recipe.spack, recipe.version).into_iter();
    let others = others.map(|one| RepositoryPlace {
        path: Path::new(SOURCES).join(&one.name).join(&one.path),
        upstream: if is_archive(&one.source.repo) {
            // Spack clones repositories only: what is in an archive travels with the image.
            Upstream::Path(mount_point.join(REPOSITORIES).join(&one.name))
        } else {
            Upstream::Git {
                source: GitSource {
                    commit: commits.get(&one.name).cloned().or(one.source.commit),
                    repo: one.source.repo,
                },
                path: one.path,
            }
        },
        name: one.name,
    });
    Places {
        config: Inside::work(INPUTS).join("config"),
        repositories: own.chain(others).collect(),
        source_cache: Some(cache.join("archives")),
        binary_cache: Some(BinaryCache {
            path: package_cache::own(Path::new(Inside::CACHE), mount_point),
            autopush: true,
            ..BinaryCache::default()
        }),
        build_stage: Some(Path::new(Inside::TMP).join("stage")),
        ..Places::default()
    }
}

/// Returns the directory that holds everything else.
pub(super) fn directory(layout: &Layout) -> PathBuf {
    layout.work().join(INPUTS)
}

/// Returns where an environment of Spack is.
pub(super) fn environment(layout: &Layout, name: &str) -> PathBuf {
    directory(layout).join("env").join(name)
}

/// Returns where the lock file of an environment is.
pub(super) fn lock_file(layout: &Layout, name: &str) -> PathBuf {
    environment(layout, name).join("spack.lock")
}

/// Returns every file with its path below the directory.
pub(super) fn files(stack: &SpackStack) -> BTreeMap<String, &str> {
    let config = stack.config.iter().map(|(name, text)| (format!("config/{name}"), text));
    let environments = stack.environments.iter();
    let environments =
        environments.map(|one| (format!("env/{}/spack.yaml", one.name), &one.spack_yaml));
    let texts = config.chain(environments);
    texts.map(|(name, text)| (name, text.as_str())).collect()
}

/// Writes everything.
pub(super) fn write(engine: &SpackEngine) -> Result<()> {
    let directory = directory(&engine.layout);
    disk::make_empty(&directory)?;
    user::write_database(&engine.layout)?;
    for name in ["config", "environments", "user"] {
        disk::make_directory(&directory.join(name))?;
    }
    for (name, text) in files(engine.stack()) {
        let path = directory.join(name);
        disk::put(&path, text)?;
    }
    write_store(engine)
}

/// Makes a new store, with nothing but package recipes.
pub(super) fn write_store(engine: &SpackEngine) -> Result<()> {
    disk::make_empty(&engine.store_here)?;
    for (namespace, sources) in &engine.packages {
        let repository = engine.store_here.join(REPOSITORIES).join(namespace);
        own_packages::write(namespace, sources, &repository)?;
        bytecode::settle(&repository)?;
    }
    Ok(())
}

/// Copies the package repositories that those on top of the image could not get.
pub(super) fn copy_archived(engine: &SpackEngine) -> Result<()> {
    let commits = engine.commits();
    let recipe = &engine.recipe;
    for one in cabane_spack::package_repositories(&recipe.spack, recipe.version) {
        let Some(digest) = commits.get(&one.name).filter(|_| is_archive(&one.source.repo)) else {
            continue;
        };
        let from = engine.sources.tree(digest).join(&one.path);
        let to = engine.store_here.join(REPOSITORIES).join(&one.name);
        disk::remove(&to)?;
        crate::metadata::copy_all(&from, &to)?;
    }
    Ok(())
}
