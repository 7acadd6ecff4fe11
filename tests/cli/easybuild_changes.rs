// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A change of an easyconfig: what is built again, what stays, and that the image is that of a build from nothing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use cabane_testkit::{Finished, not_run};
use rustix::process::{Pid, Signal, kill_process};

use crate::cabane::{Who, everybody};
use crate::easybuild::{CONFIG, EASYCONFIG, Recipe, tools, version};
use crate::module_views::{Tool, lmod, modules};

const NEW: &str = "modextravars = {'NEW': 'yes'}\ninstall_cmd =";

/// `hello` needs `base`, and `other` needs nothing.
fn three(who: Who, python: &str, tool: &Tool) -> Recipe {
    let recipe = Recipe::new(who, python, tool);
    recipe.package("other", EASYCONFIG);
    ask_for(&recipe, "hello-1.0.eb, other-1.0.eb");
    recipe
}

fn ask_for(recipe: &Recipe, easyconfigs: &str) {
    let config = CONFIG.replace("VERSION", &version(&recipe.python));
    recipe.config(&config.replace("[hello-1.0.eb]", &format!("[{easyconfigs}]")));
}

/// Asserts which packages were built, and which were there.
fn assert_built(seen: &Finished, built: &[&str], kept: &[&str]) {
    let of = |end: &str| {
        let lines = seen.stderr.lines().filter_map(|line| line.split_once(end));
        let mut names: Vec<_> =
            lines.map(|(name, _)| name.trim_start_matches(['✓', ' ']).to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(of("@1.0  built"), built, "{}", seen.stderr);
    assert_eq!(of("@1.0  from the cache"), kept, "{}", seen.stderr);
}

/// Asserts that the last build has made the image that a build from nothing makes.
fn assert_same_from_nothing(recipe: &Recipe) {
    let digest = recipe.digest();
    let elsewhere = recipe.cabane.world.path("elsewhere");
    let elsewhere = elsewhere.to_string_lossy();
    let seen = recipe.build(&["--build-dir", &elsewhere, "--from=sources"]).success();
    assert!(!seen.stderr.contains("from the cache"), "{}", seen.stderr);
    assert_eq!(recipe.digest(), digest);
}

#[test]
fn a_change_builds_a_package_and_those_that_need_it_and_makes_the_image_of_a_build_from_nothing() {
    let (python, lmod, modules) = tools!();
    for (who, tool) in everybody().into_iter().zip([&lmod, &modules]) {
        let recipe = three(who, &python, tool);
        assert_built(&recipe.build(&[]).success(), &["base", "hello", "other"], &[]);
        let first = recipe.digest();
        recipe.change("hello", "install_cmd =", NEW);
        let seen = recipe.build(&[]).success();
        assert_built(&seen, &["hello"], &["base", "other"]);
        assert_ne!(recipe.digest(), first);
        assert_same_from_nothing(&recipe);
        recipe.change("base", "install_cmd =", NEW);
        let seen = recipe.build(&[]).success();
        assert_built(&seen, &["base", "hello"], &["other"]);
        assert_same_from_nothing(&recipe);
        recipe.change("base", NEW, "install_cmd =");
        recipe.change("hello", NEW, "install_cmd =");
        let seen = recipe.build(&[]).success();
        assert_built(&seen, &["base", "hello"], &["other"]);
        assert_eq!(recipe.digest(), first);
    }
}

#[test]
fn a_package_that_nothing_asks_for_any_more_is_not_in_the_image() {
    let (python, lmod, _) = tools!();
    let recipe = three(Who::OrdinaryUser, &python, &lmod);
    recipe.build(&[]).success();
    ask_for(&recipe, "hello-1.0.eb");
    let seen = recipe.build(&[]).success();
    assert_built(&seen, &[], &["base", "hello"]);
    let seen = recipe.cabane.run(&["image", "ls", "--package=other", "--format={label}"]);
    assert_eq!(seen.stdout, "", "{seen:?}");
    assert_same_from_nothing(&recipe);
    ask_for(&recipe, "hello-1.0.eb, other-1.0.eb");
    let seen = recipe.build(&[]).success();
    assert_built(&seen, &["other"], &["base", "hello"]);
}

#[test]
fn an_installed_package_does_not_replace_an_easyconfig_that_is_gone() {
    let (python, lmod, _) = tools!();
    let recipe = Recipe::new(Who::OrdinaryUser, &python, &lmod);
    recipe.build(&[]).success();
    fs::remove_file(recipe.cabane.world.path("recipe/base-1.0.eb")).unwrap();
    let seen = recipe.build(&[]);
    let expected = "  Missing dependencies: base/1.0 (";
    assert!(seen.code == 7 && seen.stderr.contains(expected), "{}", seen.stderr);
}

/// Builds after a change of `base` and `hello`, and kills the build when `base` is there.
fn kill_after_base(recipe: &Recipe) {
    let wait = "preinstallopts = 'test -e /cabane/recipe/go || sleep 600; '\ninstall_cmd =";
    recipe.change("base", "install_cmd =", NEW);
    recipe.change("hello", "install_cmd =", wait);
    let mut command = recipe.command(&["build", &recipe.path(), "apps/1.0", "--replace"]);
    let mut build = command.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(build.stderr.take().unwrap()).lines();
    let is_built = lines.map_while(Result::ok).any(|line| line.contains("base@1.0  built"));
    assert!(is_built);
    kill_process(Pid::from_child(&build), Signal::KILL).unwrap();
    build.wait().unwrap();
    recipe.cabane.world.file("recipe/go", "");
}

#[test]
fn a_build_that_was_killed_after_a_change_continues_and_makes_the_image_of_a_build_from_nothing() {
    let (python, lmod, modules) = tools!();
    for (who, tool) in everybody().into_iter().zip([&lmod, &modules]) {
        let recipe = three(who, &python, tool);
        recipe.build(&[]).success();
        kill_after_base(&recipe);
        let seen = recipe.build(&[]).success();
        assert_built(&seen, &["hello"], &["base", "other"]);
        assert_same_from_nothing(&recipe);
    }
}

#[test]
fn after_a_build_that_was_killed_the_easyconfigs_of_before_build_the_image_of_before() {
    let (python, lmod, _) = tools!();
    let recipe = three(Who::OrdinaryUser, &python, &lmod);
    recipe.cabane.world.file("recipe/go", "");
    recipe.build(&[]).success();
    let (digest, hello) = (recipe.digest(), recipe.cabane.world.path("recipe/hello-1.0.eb"));
    let text = fs::read_to_string(&hello).unwrap();
    fs::remove_file(recipe.cabane.world.path("recipe/go")).unwrap();
    kill_after_base(&recipe);
    recipe.change("base", NEW, "install_cmd =");
    fs::write(&hello, text).unwrap();
    let seen = recipe.build(&[]).success();
    assert_built(&seen, &["base", "hello"], &["other"]);
    assert_eq!(recipe.digest(), digest);
}

#[test]
fn a_package_whose_last_files_are_missing_is_built_again() {
    let (python, lmod, _) = tools!();
    let recipe = three(Who::OrdinaryUser, &python, &lmod);
    recipe.build(&[]).success();
    let digest = recipe.digest();
    let build = recipe.cabane.world.path("build").to_string_lossy().into_owned();
    recipe.build(&["--build-dir", &build, "--until=fetch"]).success();
    // As a build leaves it that was killed after the module file was written, and before the easyconfig.
    let script = "cd \"$1/store\" && mkdir -p software/other/1.0/bin modules/all/other && \
                  touch software/other/1.0/bin/other && echo '#%Module' >modules/all/other/1.0";
    recipe.cabane.finish(recipe.cabane.other("sh").args(["-c", script, "sh", &build])).success();
    let seen = recipe.build(&["--build-dir", &build]).success();
    assert_built(&seen, &["base", "hello", "other"], &[]);
    assert_eq!(recipe.digest(), digest);
}
