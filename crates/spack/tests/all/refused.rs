// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Recipes and systems that do not go together, though each is right.

use cabane_recipe::{SpackVersion, SystemConfig};
use cabane_spack::{LowerError, lower};

use crate::{Files, places};

const RECIPE: &str = include_str!("../golden/system-gcc.recipe");

#[test]
fn a_system_without_gcc_is_refused() {
    let (recipe, _) = Files::of(RECIPE).read();
    let system = SystemConfig::default();
    let error = lower(&recipe, &system, &places(&recipe, &system)).unwrap_err();
    assert_eq!(error, LowerError::NoGcc);
}

#[test]
fn an_mpi_that_the_system_lacks_is_reported_with_those_that_it_has() {
    let files = Files::of(RECIPE);
    let mut system = files.system().unwrap();
    let recipe = files.recipe(None).unwrap();
    system.mpis.remove(0);
    let error = lower(&recipe, &system, &places(&recipe, &system)).unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.hint().as_deref()),
        (
            "the environment `demo` needs the MPI `mpich`, which the system does not have",
            Some("the system has openmpi")
        )
    );
}

#[test]
fn the_version_in_the_clone_of_spack_outweighs_its_commit() {
    let (recipe, system) = Files::of(RECIPE).read();
    let mut places = places(&recipe, &system);
    places.version = Some(SpackVersion::new(0, 23));
    let error = lower(&recipe, &system, &places).unwrap_err();
    assert_eq!(error.to_string(), "Spack 0.23 is too old to build the recipe");
}

#[test]
fn a_package_repository_needs_a_place() {
    let (recipe, system) = Files::of(RECIPE).read();
    let mut places = places(&recipe, &system);
    places.repositories.retain(|place| place.name != "builtin");
    let error = lower(&recipe, &system, &places).unwrap_err();
    assert_eq!(error.to_string(), "the package repository `builtin` has no place");
}
