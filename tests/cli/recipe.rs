// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane recipe`: looking at recipes for Spack without building them.

use crate::cabane::{Cabane, Who, finished};

const CONFIG: &str = "name: demo\nversion: 3\nspack:\n  repo: https://example.org/spack.git\n  \
                      commit: releases/v1.2\n  packages:\n    \
                      repo: https://example.org/packages.git\n";

const ENVIRONMENTS: &str = "demo:\n  compiler: [gcc]\n  network: {mpi: mpich}\n  specs: [zlib]\n  \
                            views: {default: }\n";

/// A recipe for Spack and a system: `recipe` and `system`.
fn world() -> Cabane {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.world.file("recipe/config.yaml", CONFIG);
    cabane.world.file("recipe/compilers.yaml", "gcc: {version: system}\n");
    cabane.world.file("recipe/environments.yaml", ENVIRONMENTS);
    cabane.world.file(
        "system/packages.yaml",
        "packages:\n  gcc:\n    externals:\n    - spec: gcc@12.2.0\n      prefix: /usr\n      \
         extra_attributes: {compilers: {c: /usr/bin/gcc}}\n",
    );
    cabane.world.file("system/network.yaml", "mpi: {mpich: {specs: [libfabric]}}\n");
    cabane
}

#[test]
fn a_recipe_and_its_system_are_checked_together() {
    let cabane = world();
    let seen = cabane.run(&["recipe", "check", "../recipe", "--system", "../system"]);
    let expected = "../recipe: demo, engine spack\npackage names were not looked up: `builtin` \
                    is not on this machine; add `--fetch`\n";
    assert_eq!(seen, finished(0, "", expected));
}

#[test]
fn the_mistakes_of_all_files_are_reported_at_once() {
    let cabane = world();
    cabane.world.file("recipe/config.yaml", &CONFIG.replace("name: demo", "nmae: demo"));
    cabane.world.file("recipe/compilers.yaml", "gcc: {version: system}\nlvm: {version: 19}\n");
    cabane.world.file("recipe/environments.yaml", &ENVIRONMENTS.replace("mpich", "mpihc"));
    let seen = cabane.run(&["recipe", "check", "../recipe", "--system", "../system"]);
    let reported: Vec<&str> =
        seen.stderr.lines().filter(|line| line.starts_with("../recipe")).collect();
    assert_eq!(
        (seen.code, reported),
        (
            3,
            vec![
                "../recipe/config.yaml:1:1: unknown key `nmae`",
                "../recipe/config.yaml:1:1: the key `name` is missing",
                "../recipe/compilers.yaml:2:1: unknown key `lvm`",
                "../recipe/environments.yaml:3:18: the system has no MPI `mpihc`",
            ]
        )
    );
}

#[test]
fn mistakes_are_reported_as_json() {
    let cabane = world();
    cabane.world.file("recipe/compilers.yaml", "gcc: {version: system, spec: +x}\nlvm: {}\n");
    let seen = cabane.run(&["recipe", "check", "../recipe", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
    let mistake = serde_json::json!([{
        "file": "../recipe/compilers.yaml",
        "line": 2,
        "column": 1,
        "message": "unknown key `lvm`",
        "hint": "did you mean `llvm`?",
    }]);
    assert_eq!((seen.code, &found[0]["mistakes"], seen.stderr.as_str()), (3, &mistake, ""));
}

#[test]
fn a_recipe_for_an_old_spack_says_what_to_do() {
    let cabane = world();
    let config = "name: demo\nspack:\n  repo: https://example.org/spack.git\n  commit: v0.23.1\n";
    cabane.world.file("recipe/config.yaml", config);
    let seen = cabane.run(&["recipe", "check", "../recipe"]);
    assert!(
        seen.stderr.contains("config.yaml:4:11: Spack 0.23 is too old")
            && seen.stderr.contains(
                "hint: `cabane recipe convert ../recipe --output recipe-new --system SYSTEM`"
            ),
        "{}",
        seen.stderr
    );
}

#[test]
fn one_file_that_spack_is_handed_can_be_shown() {
    let cabane = world();
    let seen =
        cabane.run(&["recipe", "show", "../recipe", "config/config.yaml", "--system", "../system"]);
    let expected = "config:\n  install_tree:\n    root: /user-environment\n";
    assert_eq!(seen, finished(0, expected, ""));
}

#[test]
fn a_file_that_spack_is_not_handed_is_reported_with_those_that_it_is() {
    let cabane = world();
    let seen = cabane.run(&["recipe", "show", "../recipe", "spack.yaml", "--system", "../system"]);
    assert!(
        seen.code == 4 && seen.stderr.contains("stack/spack.yaml"),
        "{}: {}",
        seen.code,
        seen.stderr
    );
}

#[test]
fn all_that_spack_is_handed_can_be_shown_to_programs() {
    let cabane = world();
    let seen = cabane.run(&["recipe", "show", "../recipe", "--system", "../system", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
    let spack_yaml = shown["files"]["stack/spack.yaml"].as_str().unwrap();
    assert!(
        spack_yaml.contains("    specs:\n    - zlib\n    - mpich\n    - libfabric\n"),
        "{spack_yaml}"
    );
}

#[test]
fn other_mirrors_take_the_place_of_those_of_the_system() {
    let cabane = world();
    cabane.world.file("mirrors.yaml", "sourcemirror: {local: {url: 'file://$HOME/m'}}\n");
    let arguments = [
        "recipe",
        "show",
        "../recipe",
        "config/mirrors.yaml",
        "--system",
        "../system",
        "--mirrors",
        "../mirrors.yaml",
    ];
    let seen = cabane.run(&arguments);
    assert!(seen.stdout.contains("/home/m\n"), "{}", seen.stdout);
}

#[test]
fn a_variable_of_mirrors_that_is_not_set_is_reported() {
    let cabane = world();
    let mirrors = "sourcecache: {path: $NOT_SET/x}\n";
    cabane.world.file("system/mirrors.yaml", mirrors);
    let seen = cabane.run(&["recipe", "show", "../recipe", "--system", "../system"]);
    let reported =
        "error: `$NOT_SET/x` in mirrors.yaml names the variable NOT_SET, which is not set\n";
    assert_eq!(seen, finished(3, "", reported));
}

#[test]
fn mistakes_of_a_system_are_reported_with_their_places() {
    let cabane = world();
    cabane.world.file("system/network.yaml", "mip: {}\n");
    let seen = cabane.run(&["recipe", "show", "../recipe", "--system", "../system"]);
    assert_eq!(
        seen,
        finished(
            3,
            "",
            "error: a mistake in the configuration of the system\n\
             ../system/network.yaml:1:1: unknown key `mip`\n  | mip: {}\n  | ^^^\n  \
             hint: did you mean `mpi`?\n"
        )
    );
}

#[test]
fn a_recipe_is_converted_to_another_directory_with_all_of_its_files() {
    let cabane = world();
    let config = CONFIG.replace("version: 3", "version: 2 # the second");
    cabane.world.file("recipe/config.yaml", &config);
    cabane.world.file("recipe/repo/packages/x/package.py", "x\n");
    let seen = cabane.run(&["recipe", "convert", "../recipe", "--output", "../new"]);
    let read = |name: &str| std::fs::read_to_string(cabane.world.path(name)).unwrap();
    assert_eq!(
        (
            seen,
            read("new/config.yaml"),
            read("new/repo/packages/x/package.py"),
            read("recipe/config.yaml")
        ),
        (
            finished(0, "", "written: ../new/config.yaml\n"),
            CONFIG.replace("version: 3", "version: 3 # the second"),
            "x\n".to_owned(),
            config,
        )
    );
}

/// Writes a recipe of format 1 with a package of its own.
fn add_old_recipe(cabane: &Cabane) {
    let files = [
        (
            "config.yaml",
            "name: old\nspack:\n  repo: https://github.com/spack/spack.git\n  commit: v0.23.1\n",
        ),
        ("compilers.yaml", "bootstrap: {spec: gcc@12}\ngcc:\n  specs: [gcc@12]\n"),
        (
            "environments.yaml",
            "tools:\n  compiler:\n  - {toolchain: gcc, spec: gcc}\n  unify: true\n  \
             specs: [my-tool]\n",
        ),
        ("repo/packages/my-tool/package.py", "from spack.package import *\n"),
    ];
    for (name, text) in files {
        cabane.world.file(&format!("old/{name}"), text);
    }
}

#[test]
fn own_packages_of_an_old_recipe_are_ported_for_a_system_or_left() {
    let cabane = world();
    add_old_recipe(&cabane);
    let arguments = ["recipe", "convert", "../old", "--output", "../new"];
    let message = "error: the recipe has its own packages, and Spack needs a system to port them\n\
                   hint: name it, or the directory of its configuration: `--system SYSTEM`; with \
                   `--keep-packages`, the packages stay as they are\n";
    assert_eq!(cabane.run(&arguments), finished(3, "", message));
    assert!(!cabane.world.path("new").exists());
    let seen = cabane.run(&[&arguments[..], &["--keep-packages"]].concat()).success();
    assert!(seen.stderr.contains("packages in `repo/` were not ported"), "{}", seen.stderr);
    assert!(cabane.world.path("new/repo/packages/my-tool/package.py").exists());
}

#[test]
fn a_recipe_is_converted_in_its_place() {
    let cabane = world();
    let arguments = ["recipe", "convert", "../recipe", "--output", "../own"];
    cabane.run(&arguments).success();
    let config = cabane.world.path("own/config.yaml");
    std::fs::write(&config, CONFIG.replace("version: 3", "version: 2")).unwrap();
    cabane.run(&["recipe", "convert", "../own", "--json"]).success();
    assert_eq!(std::fs::read_to_string(config).unwrap(), CONFIG);
}

#[test]
fn a_directory_that_is_there_is_no_place_for_a_converted_recipe() {
    let cabane = world();
    let seen = cabane.run(&["recipe", "convert", "../recipe", "--output", "../system"]);
    assert_eq!(
        seen,
        finished(
            1,
            "",
            "error: ../system is there already\nhint: name a directory that does not exist yet\n"
        )
    );
}

#[test]
fn a_link_that_leads_out_of_a_recipe_becomes_what_it_leads_to() {
    let cabane = world();
    let compilers = cabane.world.path("recipe/compilers.yaml");
    std::fs::rename(&compilers, cabane.world.path("common.yaml")).unwrap();
    std::os::unix::fs::symlink("../common.yaml", &compilers).unwrap();
    cabane.run(&["recipe", "convert", "../recipe", "--output", "../deeper/new"]).success();
    let copied = std::fs::read_to_string(cabane.world.path("deeper/new/compilers.yaml"));
    assert_eq!(copied.unwrap(), "gcc: {version: system}\n");
}

#[test]
fn a_package_repository_of_a_system_that_is_not_there_is_reported() {
    let cabane = world();
    cabane.world.file("system/repos.yaml", "repos: [../site]\n");
    let seen = cabane.run(&["recipe", "check", "../recipe", "--system", "../system"]);
    assert_eq!(
        seen,
        finished(
            3,
            "",
            "error: ../system/../site is not a package repository\n\
             hint: repos.yaml of the system names directories that hold `packages`\n"
        )
    );
}

#[test]
fn a_schema_is_printed_for_editors() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let seen = cabane.run(&["recipe", "schema", "compilers"]);
    let schema: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(schema["required"], serde_json::json!(["gcc"]));
}

#[test]
fn a_recipe_of_another_engine_is_checked_with_its_files_and_gives_spack_nothing() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let config = "name: demo\nversion: 3\nengine: python\npython: {requirements: list.txt}\n";
    cabane.world.file("work/demo/config.yaml", config);
    let seen = cabane.run(&["recipe", "check", "demo"]);
    let expected = "error: the recipe names [WORLD]/work/demo/list.txt, which is not a file\n";
    assert!(seen.code != 0 && seen.stderr == expected, "{seen:?}");
    cabane.world.file("work/demo/list.txt", "");
    let seen = cabane.run(&["recipe", "check", "demo"]);
    assert_eq!(seen, finished(0, "", "demo: demo, engine python\n"));
    let seen = cabane.run(&["recipe", "show", "demo"]);
    let expected = "error: this recipe does not use Spack: its engine is python\n\
                    hint: `cabane build --dry-run demo` shows what it runs\n";
    assert_eq!(seen, finished(2, "", expected));
}
