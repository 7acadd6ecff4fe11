// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Pipelines with suites of ReFrame, with provenance, and with images that are rebuilt.

use std::fs;

use cabane_testkit::{Finished, needs};
use serde_json::Value;

use crate::cabane::{Who, everybody};
use crate::check_suite::greeting_suite;
use crate::pipeline::{RELEASE, Recipes};

const TESTS: &str = r"
@rfm.simple_test
class Hello(Greets):
    pass


@rfm.simple_test
class Wrong(Greets):
    tags = {'wrong'}
    executable_opts = ['>/dev/null']
";
const ENVIRONMENTS: &str = "greeting: {features: [greet], views: [default]}\n";
const SUITES: &str = "suites:\n  \
    greets: {directory: tests, options: [--exclude-tag=wrong], only: [good]}";
const GOOD: [&str; 2] = ["--only", "good"];

/// Recipes with a suite for `good`.
fn with_suite(who: Who, reframe: &str) -> Recipes {
    let recipes = Recipes::new(who, &format!("{RELEASE}\n{SUITES}"));
    let rule = "tested_within = \"1d\"\nbuilt_from = [\"*\"]";
    let evidence = "[evidence]\ntesters = [\"KEY.pub\"]\nbuilders = [\"KEY.pub\"]";
    recipes.bed.configure(rule, &format!("{evidence}\n[check]\nreframe = \"{reframe}\""));
    let world = &recipes.bed.shared.cabane.world;
    let tests = greeting_suite(["+greet", "greet", "greetings"], TESTS);
    world.file("work/tests/deep/greets.py", &tests);
    world.file("work/recipes/good/1/extra/reframe.yaml", ENVIRONMENTS);
    recipes
}

fn said(recipes: &Recipes, cell: &str) -> (String, String) {
    let planned = recipes.plan(&["--only", cell]);
    let [one] = planned.as_slice() else { panic!("{planned:?}") };
    (one.1.clone(), one.2.clone())
}

fn log(recipes: &Recipes) -> String {
    recipes.run("logs", &["good/1@here%x86_64", "check"]).success().stdout
}

#[test]
fn a_suite_that_changes_is_run_again_and_nothing_is_built() {
    needs!("docker-registry");
    let reframe = needs!("reframe").display().to_string();
    for who in everybody() {
        let recipes = with_suite(who, &reframe);
        let world = &recipes.bed.shared.cabane.world;
        recipes.go(&GOOD).success();
        let log = self::log(&recipes);
        assert!(log.contains("greets/Hello@here:here+greeting: PASSED"), "{log}");
        assert!(!log.contains("greets/Wrong"), "{log}");
        assert_eq!(said(&recipes, "good@here"), (String::new(), "it is promoted".to_owned()));
        // On another machine the signed results say which suite was run.
        let runs = world.path("work/.cabane-pipeline");
        fs::rename(&runs, world.path("work/elsewhere")).unwrap();
        assert_eq!(said(&recipes, "good@here"), (String::new(), "it is promoted".to_owned()));
        fs::rename(world.path("work/elsewhere"), &runs).unwrap();
        let text = fs::read_to_string(&recipes.file).unwrap();
        fs::write(&recipes.file, text.replace("options: [--exclude-tag=wrong], ", "")).unwrap();
        let changed = ("check publish promote", "the suite `greets` has changed");
        assert_eq!(said(&recipes, "good@here"), (changed.0.to_owned(), changed.1.to_owned()));
        let run = recipes.go(&GOOD);
        assert_eq!(run.code, 16, "{}", run.stderr);
        let log = self::log(&recipes);
        assert!(log.contains("greets/Wrong@here:here+greeting: FAILED"), "{log}");
        let promoted = "it is promoted, and its checks failed later";
        assert_eq!(said(&recipes, "good@here"), (String::new(), promoted.to_owned()));
        let failed = recipes.bed.run(&["image", "find", "build::good", "--tested", "failed"]);
        assert_eq!(failed.success().stdout.lines().count(), 2);
        // A suite that is missing leaves no cell untested: nothing runs.
        fs::rename(world.path("work/tests"), world.path("work/moved")).unwrap();
        let missing = recipes.go(&GOOD);
        assert_eq!(missing.code, 3, "{}", missing.stderr);
        assert!(missing.stderr.contains("there is no suite in"), "{}", missing.stderr);
    }
}

#[test]
fn an_image_has_not_passed_without_a_test_of_each_suite() {
    needs!("docker-registry");
    let reframe = needs!("reframe").display().to_string();
    let recipes = with_suite(Who::OrdinaryUser, &reframe);
    let text = fs::read_to_string(&recipes.file).unwrap();
    let misspelt = text.replace("--exclude-tag=wrong", "--name=Greeets");
    assert_ne!(misspelt, text);
    fs::write(&recipes.file, misspelt).unwrap();
    let run = recipes.go(&GOOD);
    assert_eq!(run.code, 18, "{}", run.stderr);
    assert!(run.stderr.contains("the suite greets, of which no test ran"), "{}", run.stderr);
    assert_eq!(recipes.labels("deploy::good@*").len(), 0);
    // A suite that changes between the checks and the promotion has not been run.
    fs::write(&recipes.file, &text).unwrap();
    let step = |stage: &str| {
        recipes.run("step", &[stage, "good/1@here%x86_64", "--key", &recipes.bed.key])
    };
    step("check").success();
    step("publish").success();
    let world = &recipes.bed.shared.cabane.world;
    world.file("work/tests/more.py", "# nothing\n");
    let refused = step("promote");
    assert_eq!(refused.code, 17, "{}", refused.stderr);
    assert!(refused.stderr.contains("the suite `greets` has changed"), "{}", refused.stderr);
    assert_eq!(recipes.labels("deploy::good@*").len(), 0);
    recipes.go(&GOOD).success();
}

#[test]
fn a_run_signs_from_what_an_image_was_built() {
    needs!("docker-registry");
    let reframe = needs!("reframe").display().to_string();
    let recipes = with_suite(Who::OrdinaryUser, &reframe);
    recipes.go(&GOOD).success();
    // `built_from` is a rule of the channel, and was fulfilled.
    let label = format!("build::{}", recipes.labels("build::good@here").concat());
    let listed = recipes.bed.run(&["evidence", "ls", &label, "--remote", "--json"]).success();
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let text = listed.to_string();
    assert!(text.contains("https://slsa.dev/provenance/v1"), "{text}");
    // An image that is pulled was built by another run, whose statement is there.
    let world = &recipes.bed.shared.cabane.world;
    recipes.bed.shared.forget();
    fs::remove_dir_all(world.path("work/.cabane-pipeline")).unwrap();
    recipes.go(&["--only", "good", "--retry"]).success();
    let again = recipes.bed.run(&["evidence", "verify", &label, "--remote", "--built-from", "*"]);
    again.success();
}

#[test]
fn a_revision_has_images_built_anew_and_impact_names_it() {
    needs!("docker-registry");
    let recipes = Recipes::new(Who::OrdinaryUser, "");
    let world = &recipes.bed.shared.cabane.world;
    fs::copy("/bin/true", world.path("work/recipes/good/1/tree/bin/true")).unwrap();
    recipes.go(&GOOD).success();
    let ask = |more: &[&str]| {
        let remove = ["impact", "--remove", "libc.so.6", "--remote", "build::@here"];
        recipes.bed.run(&[&remove[..], &["--pipeline", &recipes.file], more].concat())
    };
    let text = fs::read_to_string(&recipes.file).unwrap();
    let line = text.lines().position(|line| line.contains("good:")).unwrap() + 2;
    let named = ask(&[]).success().stdout;
    let wanted = format!("  below line {line}: revision: {{here: 2}}\n");
    assert!(named.contains(&wanted), "{named}");
    let json: Value = serde_json::from_str(&ask(&["--json"]).success().stdout).unwrap();
    let revision = &json["repairs"]["revisions"][0];
    assert_eq!(revision["cells"][0], "good/1@here%x86_64");
    assert_eq!(revision["revision"]["here"], "2");
    let revised = text.replace("tag: v7}", "tag: v7, revision: {here: 2}}");
    assert_ne!(revised, text);
    fs::write(&recipes.file, revised).unwrap();
    let reason = "its recipe, its system, or its revision has changed";
    assert_eq!(said(&recipes, "good@here"), ("build check publish".to_owned(), reason.to_owned()));
    assert_eq!(said(&recipes, "good@there").1, "it was never built");
    let none = ask(&[]).success().stdout;
    assert!(none.contains("good/1@here%x86_64 has changed since"), "{none}");
    recipes.go(&GOOD).success();
    assert_eq!(recipes.labels("build::good@here").len(), 2);
}

#[test]
fn what_a_pipeline_promotes_clients_of_uenv_pull() {
    needs!("docker-registry");
    let oras = needs!("oras");
    let recipes = Recipes::new(Who::OrdinaryUser, RELEASE);
    recipes.go(&GOOD).success();
    let shared = &recipes.bed.shared;
    // The client of uenv pulls by `oras` from this place, and looks for metadata beside it.
    let name = format!("{}/uenv/deploy/here/x86_64/good/1:v7", shared.registry.host());
    let run = |arguments: &[&str]| {
        let mut command = shared.cabane.world.command(&oras);
        Finished::of(command.args(arguments).arg(&name)).success().stdout
    };
    run(&["pull", "--plain-http", "--output", "pulled"]);
    let pulled = shared.cabane.world.path("work/pulled/store.squashfs").display().to_string();
    let greeted = recipes.bed.run(&["run", &pulled, "--", "greet"]).success().stdout;
    assert_eq!(greeted, "greetings from good\n");
    let kind = ["--format", "json", "--artifact-type", "uenv/meta"];
    let found = run(&[&["discover", "--plain-http"], &kind[..]].concat());
    assert!(found.contains("sha256:"), "{found}");
}
