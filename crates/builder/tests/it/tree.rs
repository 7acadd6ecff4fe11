// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A directory becomes an image.

use std::fs;

use cabane_testkit::{Tree, World};

use crate::bench::{Who, build, everybody, recipe, request};

const CONFIG: &str = "\
name: tools
version: 3
engine: tree
description: tools for everybody
tree:
  source: /TREE
views:
  debug:
    description: with more output
    env_vars:
      set: [{TOOLS_VIEW: $@view_name@}, {TOOLS_QUIET: null}]
      prepend_path: [{PATH: $@mount@/debug/bin}]
";

fn world() -> World {
    let world = World::new();
    let tree = Tree::new(world.path("tree")).program("bin/hello", "echo hello");
    recipe(&world, &CONFIG.replace("/TREE", &tree.root().to_string_lossy()));
    world
}

#[test]
fn the_files_of_the_directory_are_in_the_image() {
    let world = world();
    let built = build(&request(&world, "build"), Who::User).unwrap();
    assert_eq!(built.file("bin/hello"), "#!/bin/sh\necho hello\n");
}

#[test]
fn the_metadata_in_the_image_and_beside_it_are_the_same() {
    let world = world();
    let built = build(&request(&world, "build"), Who::Me).unwrap();
    let beside = fs::read_to_string(built.meta.join("env.json")).unwrap();
    assert_eq!(built.file("meta/env.json"), beside);
}

#[test]
fn a_view_does_what_the_directories_suggest_and_then_what_the_recipe_says() {
    let world = world();
    let built = build(&request(&world, "build"), Who::User).unwrap();
    assert_eq!(
        built.env_json()["views"]["debug"],
        serde_json::json!({
            "description": "with more output",
            "root": "/user-environment",
            "env": {"version": 1, "values": {
                "list": {"PATH": [
                    {"op": "prepend", "value": ["/user-environment/bin"]},
                    {"op": "prepend", "value": ["/user-environment/debug/bin"]},
                ]},
                "scalar": {"TOOLS_VIEW": "debug", "TOOLS_QUIET": null},
            }},
        })
    );
}

#[test]
fn the_recipe_travels_with_the_image() {
    let world = world();
    let built = build(&request(&world, "build"), Who::User).unwrap();
    let recipe = fs::read_to_string(world.path("recipe/config.yaml")).unwrap();
    assert_eq!(built.file("meta/recipe/config.yaml"), recipe);
}

#[test]
fn the_directory_itself_stays_as_it_was() {
    let world = world();
    build(&request(&world, "build"), Who::Me).unwrap();
    let names: Vec<_> =
        fs::read_dir(world.path("tree")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["bin"]);
}

#[test]
fn a_second_build_with_nothing_changed_does_nothing() {
    for who in everybody() {
        let world = world();
        build(&request(&world, "build"), who).unwrap();
        let second = build(&request(&world, "build"), who).unwrap();
        assert_eq!(second.events, ["skipped metadata", "skipped pack"]);
    }
}

#[test]
fn a_changed_file_in_the_directory_is_packed_again() {
    let world = world();
    build(&request(&world, "build"), Who::User).unwrap();
    world.file("tree/bin/hello", "changed");
    let second = build(&request(&world, "build"), Who::User).unwrap();
    assert_eq!(second.file("bin/hello"), "changed");
}

#[test]
fn metadata_that_the_directory_brings_is_completed_and_not_replaced() {
    let world = world();
    world.file(
        "tree/meta/env.json",
        r#"{"name": "old", "mount": "/user-environment", "vendor": {"a": 1},
            "views": {"default": {"env": {"version": 1, "values": {}}, "kept": true}}}"#,
    );
    let built = build(&request(&world, "build"), Who::User).unwrap();
    let document = built.env_json();
    assert_eq!(
        serde_json::json!([
            document["name"],
            document["vendor"],
            document["views"]["default"]["kept"],
            document["views"]["debug"]["description"],
        ]),
        serde_json::json!(["tools", {"a": 1}, true, "with more output"])
    );
}

#[test]
fn the_default_view_that_the_directory_brings_stays() {
    let world = world();
    world.file(
        "tree/meta/env.json",
        r#"{"name": "old", "default-view": "old",
            "views": {"old": {"env": {"version": 1, "values": {}}}}}"#,
    );
    let built = build(&request(&world, "build"), Who::User).unwrap();
    assert_eq!(built.env_json()["default-view"], "old");
}

#[test]
fn files_beside_the_metadata_of_the_directory_are_not_lost() {
    let world = world();
    world.file("tree/meta/.hidden/file", "kept");
    let built = build(&request(&world, "build"), Who::User).unwrap();
    assert_eq!(built.file("meta/.hidden/file"), "kept");
}

#[test]
fn a_file_in_the_place_of_the_metadata_is_not_lost() {
    let world = world();
    world.file("tree/meta", "a file");
    let error = build(&request(&world, "build"), Who::User).unwrap_err();
    assert_eq!(
        world.blank(&error),
        "error: [WORLD]/tree/meta must be a directory: it is where the metadata goes"
    );
}

#[test]
fn a_directory_without_a_recipe_is_named() {
    let world = World::new();
    world.directory("recipe");
    let error = build(&request(&world, "build"), Who::User).unwrap_err();
    assert_eq!(
        world.blank(&error),
        "error: [WORLD]/recipe holds no config.yaml\n\
         hint: a recipe is a directory with config.yaml; `cabane build --help` shows examples"
    );
}

#[test]
fn a_wrong_recipe_is_reported_with_its_line() {
    let world = world();
    recipe(&world, "name: tools\nversion: 3\nengine: oven\n");
    let error = build(&request(&world, "build"), Who::User).unwrap_err();
    let expected = "error: a mistake in the recipe\n[WORLD]/recipe/config.yaml:3:9: ";
    assert!(world.blank(&error).starts_with(expected), "{error}");
}

#[test]
fn the_recipe_is_found_without_what_it_packs() {
    let world = World::new();
    recipe(&world, "name: t\nversion: 3\nengine: tree\ntree: {source: tools}\n");
    world.file("recipe/tools/bin/tool", "");
    world.file("recipe/README", "");
    world.file("recipe/.git/config", "");
    let built = build(&request(&world, "build"), Who::User).unwrap();
    let listing = built.listing();
    let names: Vec<_> = listing
        .lines()
        .filter_map(|line| line.split_once(" /meta/recipe/").map(|(_, name)| name))
        .collect();
    assert_eq!(names, ["README", "config.yaml"]);
}

#[test]
fn a_directory_made_for_another_mount_point_is_refused() {
    let world = world();
    world.file("tree/meta/env.json", r#"{"name": "old", "mount": "/elsewhere", "views": {}}"#);
    let error = build(&request(&world, "build"), Who::User).unwrap_err();
    assert_eq!(
        world.blank(&error),
        "error: the tree in [WORLD]/tree was made for /elsewhere, not for /user-environment\n\
         hint: write `store: /elsewhere` in config.yaml"
    );
}

#[test]
fn a_missing_directory_is_named() {
    let world = world();
    fs::remove_dir_all(world.path("tree")).unwrap();
    let error = build(&request(&world, "build"), Who::User).unwrap_err();
    assert_eq!(
        world.blank(&error),
        "error: the recipe names [WORLD]/tree, which is not a directory"
    );
}

#[test]
fn a_mount_point_that_would_hide_the_system_is_refused() {
    let world = world();
    let config = fs::read_to_string(world.path("recipe/config.yaml")).unwrap();
    recipe(&world, &format!("{config}store: /usr\n"));
    let error = build(&request(&world, "build"), Who::User).unwrap_err();
    assert_eq!(
        error,
        "error: an image cannot be built for /usr: the build needs /usr\n\
         hint: take another mount point, for example `store: /user-environment`"
    );
}

#[test]
fn the_plan_says_what_is_left_and_why() {
    let world = world();
    let mut request = request(&world, "build");
    build(&request, Who::Me).unwrap();
    request.epoch += 1;
    let plan = cabane_builder::plan(&request).unwrap();
    let states: Vec<_> = plan.steps.iter().map(|step| step.state.to_string()).collect();
    let expected = ["to do: `epoch` changed", "to do: `metadata` comes before it"];
    assert_eq!(states, expected);
}

#[test]
fn without_a_module_command_views_from_module_files_are_refused() {
    let world = World::new();
    let tree = Tree::new(world.path("tree")).file("modules/all/hello/1.0", "#%Module\n");
    let config = CONFIG.replace("/TREE", &tree.root().to_string_lossy());
    recipe(
        &world,
        &config.replace("description: with", "modules: [hello/1.0]\n    description: with"),
    );
    let error = build(&request(&world, "build"), Who::User).unwrap_err();
    let expected = "error: views of the recipe load modules, but neither Lmod nor Environment Modules is \
                    installed here";
    assert_eq!(error.lines().next(), Some(expected), "{error}");
}
