// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A warning for each package that is built although the system has it.

use std::collections::BTreeMap;
use std::path::Path;

use cabane_spack::{Spec, UnusedExternal, settings_of_packages, unused_externals};

use super::{SpackEngine, lock};
use crate::Result;
use crate::build_context::BuildContext;

/// Warns about the packages of a lock file. What the recipe itself asks for in another version
/// or with other variants, and compilers that it builds, are no surprise.
pub(super) fn warn(engine: &SpackEngine, lock: &Path, bench: &mut BuildContext<'_>) -> Result<()> {
    let decided = lock::read(lock)?;
    for one in find(engine, &decided) {
        bench.progress.warning(&one.to_string());
    }
    for one in engine.bases.built_again(&decided) {
        bench.progress.warning(&one);
    }
    Ok(())
}

/// Returns these packages of those that were decided on, by their hashes.
pub(super) fn find(engine: &SpackEngine, decided: &BTreeMap<String, Spec>) -> Vec<UnusedExternal> {
    let recipe = &engine.recipe;
    let mut specs: Vec<String> = Vec::new();
    for environment in &recipe.environments {
        specs.extend_from_slice(&environment.specs);
        specs.extend(environment.mpi.iter().map(|mpi| mpi.spec.clone()));
    }
    let settings = settings_of_packages(recipe, &engine.system);
    let of_bases = engine.bases.hashes();
    let decided = decided.iter().filter(|(hash, _)| !of_bases.contains(*hash));
    let decided = decided.map(|(hash, spec)| (hash.clone(), spec.clone())).collect();
    let mut unused = unused_externals(&settings, &specs, &decided);
    let built: Vec<&str> = recipe.compilers.built().map(|(name, _)| name.package()).collect();
    unused.retain(|one| !one.is_requested() && !built.contains(&one.package()));
    unused
}
