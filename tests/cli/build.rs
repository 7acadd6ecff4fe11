// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane build` and `cabane recipe`.

use crate::cabane::{Cabane, Who, everybody, finished};

/// A recipe that makes an image of a directory.
fn tree_recipe(cabane: &Cabane, mount_point: &str) -> String {
    let recipe = cabane.world.path("recipe");
    let _files = cabane_testkit::Tree::new(cabane.world.path("recipe/files"))
        .program("bin/hello", "echo hello from the recipe");
    let config = format!(
        "name: app\nversion: 3\nengine: tree\nstore: {mount_point}\ndescription: a test\n\
         tree:\n  source: files\nviews:\n  default:\n    env_vars:\n      prepend_path:\n        \
         - PATH: $@mount@/bin\n      set:\n        - CABANE_TEST: built\n"
    );
    cabane.world.file("recipe/config.yaml", &config);
    recipe.to_string_lossy().into_owned()
}

#[test]
fn a_directory_becomes_an_image_that_runs() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let recipe = tree_recipe(&cabane, "/cabane-built");
        cabane.run(&["build", &recipe, "app/1.0"]).success();
        let seen = cabane.run(&["run", "app", "--", "sh", "-c", "hello; echo $CABANE_TEST"]);
        assert_eq!(seen, finished(0, "hello from the recipe\nbuilt\n", ""), "as {who:?}");
    }
}

#[test]
fn an_image_says_which_launcher_its_mpi_needs() {
    let Some([mpich, openmpi]) = cabane_testkit::mpi::installed(["mpich", "openmpi"]) else {
        cabane_testkit::not_run!("needs mpich and openmpi: scripts/setup test");
    };
    let cabane = Cabane::new(Who::OrdinaryUser);
    let recipe = tree_recipe(&cabane, "/cabane-built");
    let files = cabane_testkit::Tree::new(cabane.world.path("recipe/files"));
    let needs = || {
        cabane.run(&["build", &recipe, "app/1.0", "--replace"]).success();
        let seen = cabane.run(&["image", "inspect", "app"]).success().stdout;
        let line = seen.lines().find(|line| line.contains("srun"));
        line.unwrap_or_default().trim().trim_start_matches("needs").trim().to_owned()
    };
    assert_eq!(needs(), "");
    let files = files.copy_of(&mpich.join("lib"), "mpich/lib");
    assert_eq!(needs(), "`srun --mpi=pmi2` for MPI programs");
    let _files = files.copy_of(&openmpi.join("lib"), "openmpi/lib");
    assert_eq!(needs(), "`srun --mpi=pmi2` or `--mpi=pmix` for MPI programs");
}

#[test]
fn the_same_recipe_gives_the_same_digest_to_everybody() {
    let digests: Vec<String> = everybody()
        .into_iter()
        .chain([Who::OrdinaryUser])
        .map(|who| {
            let cabane = Cabane::new(who);
            let recipe = tree_recipe(&cabane, "/cabane-built");
            cabane.run(&["build", &recipe, "app/1.0"]).success();
            cabane.run(&["image", "ls", "--format={digest}"]).success().stdout
        })
        .collect();
    assert!(digests.windows(2).all(|pair| pair[0] == pair[1]), "{digests:?}");
}

#[test]
fn a_second_build_with_nothing_changed_does_nothing() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let recipe = tree_recipe(&cabane, "/cabane-built");
    cabane.run(&["build", &recipe, "app/1.0"]).success();
    let seen = cabane.run(&["build", &recipe, "app/1.0"]).success();
    let says = seen.stderr.contains("nothing has changed") && !seen.stderr.contains("pack");
    assert!(says, "{}", seen.stderr);
}

#[test]
fn a_dry_run_prints_the_plan_and_builds_nothing() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let recipe = tree_recipe(&cabane, "/cabane-built");
    let seen = cabane.run(&["build", "--dry-run", &recipe, "app/1.0"]).success();
    let images = cabane.run(&["image", "ls"]);
    assert!(seen.stdout.contains("pack") && images.stdout.is_empty(), "{}", seen.stdout);
}

#[test]
fn the_image_can_be_written_to_a_file_instead() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let recipe = tree_recipe(&cabane, "/cabane-built");
    let output = cabane.world.path("home/app.squashfs");
    let output = output.to_string_lossy().into_owned();
    cabane.run(&["build", &recipe, "--output", &output]).success();
    let seen = cabane.run(&["run", &output, "--", "hello"]);
    assert_eq!(seen, finished(0, "hello from the recipe\n", ""));
}

#[test]
fn mistakes_in_a_recipe_are_shown_with_their_places() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.world.file("bad/config.yaml", "name: app\nengine: tre\nstor: /x\n");
    let recipe = cabane.world.path("bad");
    let seen = cabane.run(&["build", &recipe.to_string_lossy(), "app/1.0"]);
    let says = seen.stderr.contains("config.yaml:2:9") && seen.stderr.contains("config.yaml:3:1");
    assert!(seen.code == 3 && says, "{}: {}", seen.code, seen.stderr);
}

#[test]
fn a_recipe_can_be_checked_without_building() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let recipe = tree_recipe(&cabane, "/cabane-built");
    let seen = cabane.run(&["recipe", "check", &recipe]);
    assert_eq!(seen, finished(0, "", "[WORLD]/recipe: app, engine tree\n"));
}

#[test]
fn a_directory_without_a_recipe_says_what_is_missing() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let empty = cabane.world.directory("empty");
    let seen = cabane.run(&["build", &empty.to_string_lossy(), "app/1.0"]);
    assert!(seen.code != 0 && seen.stderr.contains("config.yaml"), "{seen:?}");
}

#[test]
fn clean_removes_what_builds_left() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let recipe = tree_recipe(&cabane, "/cabane-built");
    cabane.run(&["build", &recipe, "app/1.0"]).success();
    let builds = cabane.world.path("home/.cache/cabane/builds");
    let before = std::fs::read_dir(&builds).unwrap().count();
    cabane.run(&["clean"]).success();
    let after = std::fs::read_dir(&builds).map_or(0, Iterator::count);
    assert_eq!((before, after), (1, 0));
}
