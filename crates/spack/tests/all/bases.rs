// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Recipes that are built on other images.

use std::path::PathBuf;

use cabane_spack::{SpackStack, lower};

use crate::{Files, places};

const RECIPE: &str = include_str!("../golden/system-gcc.recipe");
const REUSE: &str = "reuse:";

fn lowered(base: &str, upstreams: &[&str]) -> SpackStack {
    let (recipe, system) = Files::of(&RECIPE.replacen("name:", &format!("{base}name:"), 1)).read();
    let mut places = places(&recipe, &system);
    places.upstreams = upstreams.iter().map(PathBuf::from).collect();
    lower(&recipe, &system, &places).unwrap()
}

#[test]
fn the_stores_of_all_bases_are_upstreams_in_their_order() {
    let stack = lowered("base: libraries/1.0\n", &["/user-libraries", "/user-mpi"]);
    let stores = |text: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix("install_tree: "));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(stores(&stack.config["upstreams.yaml"]), ["/user-libraries", "/user-mpi"]);
    let upstream = stores(&stack.upstream["upstreams.yaml"]);
    assert_eq!(upstream, ["/user-environment", "/user-libraries", "/user-mpi"]);
}

#[test]
fn packages_are_reused_from_bases_only_if_there_is_one() {
    let reuse = |stack: &SpackStack| -> Vec<bool> {
        let text = &stack.environments[0].spack_yaml;
        let settings = text.split(REUSE).skip(1);
        settings.map(|rest| !rest.trim_start().starts_with("false")).collect()
    };
    let alone = lowered("", &[]);
    assert!(!alone.config.contains_key("upstreams.yaml"));
    let (without, with) =
        (reuse(&alone), reuse(&lowered("base: libraries/1.0\n", &["/user-libraries"])));
    assert!(without.len() > 1 && without.iter().all(|is_reused| !is_reused), "{without:?}");
    assert!(with.len() == without.len() && with.iter().all(|is_reused| *is_reused), "{with:?}");
}

#[test]
fn compilers_are_no_preference_of_packages_that_could_be_those_of_a_base() {
    let packages = |stack: &SpackStack| {
        let text = &stack.environments[0].spack_yaml;
        (text.contains("%[when=%c] c=gcc"), text.contains("c:\n          prefer:\n          - gcc"))
    };
    assert_eq!(packages(&lowered("", &[])), (true, false));
    let on_base = lowered("base: libraries/1.0\n", &["/user-libraries"]);
    assert_eq!(packages(&on_base), (false, true), "{}", on_base.environments[0].spack_yaml);
}
