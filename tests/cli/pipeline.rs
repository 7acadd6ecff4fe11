// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane pipeline`: recipes are built, checked, published and promoted, and nothing is done twice.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use cabane_testkit::{Finished, needs};
use serde_json::Value;

use crate::cabane::{Who, everybody};
use crate::channels::Bed;

/// A repository of recipes: `good` and `bad` on two systems, of which `bad` fails its check.
pub(crate) struct Recipes {
    pub(crate) bed: Bed,
    pub(crate) file: String,
}

const DEPLOY: &str = "{recipes: {x86_64: \"1\"}, deploy: {here: [x86_64], there: [x86_64]}";

impl Recipes {
    pub(crate) fn new(who: Who, promote: &str) -> Self {
        let bed = Bed::new(who, "tested_within = \"1d\"", "[evidence]\ntesters = [\"KEY.pub\"]");
        let world = &bed.shared.cabane.world;
        for name in ["good", "bad"] {
            let store = bed.shared.cabane.mount_point(name);
            let hello = world.file(
                &format!("work/recipes/{name}/1/tree/bin/greet"),
                "#!/bin/sh\necho greetings from good\n",
            );
            fs::set_permissions(hello, Permissions::from_mode(0o755)).unwrap();
            let recipe = format!(
                "name: {name}\nengine: tree\nstore: {store}\ntree: {{source: tree}}\nchecks:\n  \
                 - {{name: says, command: greet, expect: '^greetings from {name}$'}}\n"
            );
            world.file(&format!("work/recipes/{name}/1/config.yaml"), &recipe);
        }
        let mount = |name: &str| bed.shared.cabane.mount_point(name);
        let text = format!(
            "{promote}\nclusters:\n  here: {{targets: [{{uarch: x86_64}}]}}\n  \
             there: {{targets: [{{uarch: x86_64}}]}}\nuenvs:\n  \
             good:\n    \"1\": {DEPLOY}, mount: {}, tag: v7}}\n  \
             bad:\n    \"1\": {DEPLOY}, mount: {}}}\n",
            mount("good"),
            mount("bad"),
        );
        let file = world.file("work/pipeline.yaml", &text).display().to_string();
        Self { bed, file }
    }

    pub(crate) fn run(&self, verb: &str, more: &[&str]) -> Finished {
        self.bed.run(&[&["pipeline", verb, "--file", &self.file], more].concat())
    }

    /// Runs the pipeline with the key of the testers and release managers.
    pub(crate) fn go(&self, more: &[&str]) -> Finished {
        self.run("run", &[&["--key", &self.bed.key], more].concat())
    }

    /// The same for the cells of `good`, as a process that the test changes or ends.
    fn process(&self) -> Command {
        let run =
            ["pipeline", "run", "--file", &self.file, "--key", &self.bed.key, "--only", "good"];
        self.bed.shared.cabane.command(&run)
    }

    /// The same on the other system.
    fn go_there(&self, more: &[&str]) -> Finished {
        let run = ["--system", "there", "pipeline", "run", "--file", &self.file];
        self.bed.run(&[&run[..], &["--key", &self.bed.key], more].concat())
    }

    /// The stages that are left for each cell, and why.
    pub(crate) fn plan(&self, more: &[&str]) -> Vec<(String, String, String)> {
        let planned = self.run("plan", &[&["--json"], more].concat()).success();
        let planned: Value = serde_json::from_str(&planned.stdout).unwrap();
        let of = |one: &Value| {
            let stages = one["stages"].as_array().unwrap().iter();
            let stages: Vec<&str> = stages.map(|stage| stage.as_str().unwrap()).collect();
            let text = |key: &str| one[key].as_str().unwrap().to_owned();
            (text("cell"), stages.join(" "), text("reason"))
        };
        planned.as_array().unwrap().iter().map(of).collect()
    }

    /// What came of each cell: of all, and of each stage.
    fn status(&self) -> Vec<String> {
        let status = self.run("status", &["--json", "--only", "@*"]);
        let cells: Value = serde_json::from_str(&status.stdout).unwrap();
        let of = |one: &Value| {
            let stages = one["stages"].as_array().unwrap().iter();
            let stages = stages
                .map(|stage| format!("{} {}", stage["stage"], stage["outcome"]).replace('"', ""));
            format!(
                "{} {}: {}",
                one["cell"].as_str().unwrap(),
                one["outcome"].as_str().unwrap_or("-"),
                stages.collect::<Vec<_>>().join(", ")
            )
        };
        cells.as_array().unwrap().iter().map(of).collect()
    }

    pub(crate) fn labels(&self, pattern: &str) -> Vec<String> {
        let found = self.bed.run(&["image", "find", pattern, "--format", "{label}"]).success();
        found.stdout.lines().map(str::to_owned).collect()
    }
}

pub(crate) const RELEASE: &str = "promote: {channel: stable}";
const ALL: [&str; 2] = ["--only", "@*"];

#[test]
fn what_passes_is_released_and_what_fails_leaves_its_evidence() {
    needs!("docker-registry");
    for who in everybody() {
        let recipes = Recipes::new(who, RELEASE);
        let both = recipes.go(&ALL);
        assert_eq!(both.code, 2, "{}", both.stderr);
        assert!(
            both.stderr.contains("cells of there cannot be built and checked here"),
            "{}",
            both.stderr
        );
        let run = recipes.go(&["-j2"]);
        assert_eq!(run.code, 16, "{}{}", run.stdout, run.stderr);
        let other = recipes.go_there(&["-j2"]);
        assert_eq!(other.code, 16, "{}{}", other.stdout, other.stderr);
        assert_eq!(
            recipes.status(),
            [
                "bad/1@here%x86_64 FAILED: build PASSED, check FAILED, publish PASSED",
                "bad/1@there%x86_64 FAILED: build PASSED, check FAILED, publish PASSED",
                "good/1@here%x86_64 PASSED: build PASSED, check PASSED, publish PASSED, promote PASSED",
                "good/1@there%x86_64 PASSED: build PASSED, check PASSED, publish PASSED, promote PASSED",
            ],
            "{}",
            run.stderr
        );
        let bed = &recipes.bed;
        assert!(run.stderr.contains("the output does not match"), "{}", run.stderr);
        let released = bed.show("deploy::stable@there");
        assert_eq!(released["entries"][0]["label"], "good/1:v7@there%x86_64");
        assert_eq!(recipes.labels("build::bad@*").len(), 2);
        assert_eq!(recipes.labels("deploy::bad@*").len(), 0);
        let failed = bed.run(&["image", "find", "build::bad", "--tested", "failed"]).success();
        assert_eq!(failed.stdout.lines().count(), 2, "{}", failed.stdout);
        let tested =
            ["image", "find", "deploy::good@*", "--tested", "passed", "--tested-on", "there"];
        let passed = bed.run(&tested).success();
        assert!(passed.stdout.contains("good/1:v7"), "{}", passed.stdout);
        // Nothing is left, whoever asks.
        assert!(recipes.plan(&ALL).iter().all(|(_, stages, _)| stages.is_empty()));
        let again = recipes.go(&ALL);
        assert_eq!(again.code, 16);
        assert!(again.stderr.contains("nothing was left to do for 4 cells"), "{}", again.stderr);
        bed.shared.forget();
        fs::remove_dir_all(bed.shared.cabane.world.path("work/.cabane-pipeline")).unwrap();
        assert!(recipes.plan(&ALL).iter().all(|(_, stages, _)| stages.is_empty()));
        // An image that is there is not built again: it is pulled, and checked again.
        let retried = recipes.go_there(&["--only", "bad", "--retry"]);
        assert_eq!(retried.code, 16, "{}", retried.stderr);
        assert!(retried.stderr.contains("was built before and is pulled"), "{}", retried.stderr);
    }
}

#[test]
fn a_change_concerns_the_cells_that_are_built_from_it() {
    needs!("docker-registry");
    let recipes = Recipes::new(Who::OrdinaryUser, "");
    let world = &recipes.bed.shared.cabane.world;
    let work = world.path("work");
    // `git` reads a repository of another user only if that is permitted.
    world.file("home/.gitconfig", "[safe]\n\tdirectory = *\n[user]\n\tname = a\n\temail = a@b.c\n");
    fs::write(work.join(".gitignore"), ".cabane-pipeline\nrelease*\n").unwrap();
    let git = |arguments: &[&str]| {
        let mut command = recipes.bed.shared.cabane.other("git");
        Finished::of(command.current_dir(&work).args(arguments)).success();
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "first"]);
    recipes.go(&["--offline", "--only", "good"]).success();
    let since = ["--offline", "--since", "HEAD"];
    assert!(recipes.plan(&since).iter().all(|(_, stages, _)| stages.is_empty()));
    fs::write(work.join("recipes/good/1/tree/new"), "text").unwrap();
    let planned = recipes.plan(&since);
    let [bad, good] = planned.as_slice() else { panic!("{planned:?}") };
    assert_eq!((bad.1.as_str(), bad.2.as_str()), ("", "unchanged since HEAD"));
    assert_eq!(good.1, "build check");
    assert!(good.2.contains("recipes/good/1/tree/new has changed since HEAD"), "{}", good.2);
    let wrong = recipes.run("plan", &["--offline", "--since", "nothing"]);
    assert_eq!(wrong.code, 4, "{}", wrong.stderr);
}

#[test]
fn a_run_that_is_killed_is_continued_and_two_do_not_work_in_one_directory() {
    needs!("docker-registry");
    let recipes = Recipes::new(Who::OrdinaryUser, RELEASE);
    let cabane = &recipes.bed.shared.cabane;
    let recipe = cabane.world.path("work/recipes/good/1/config.yaml");
    let text = fs::read_to_string(&recipe).unwrap();
    fs::write(&recipe, text.clone() + "  - {name: waits, command: sleep 30}\n").unwrap();
    let mut child = recipes.process().spawn().unwrap();
    let checks = cabane.world.path("work/.cabane-pipeline/cells/here/x86_64/good/1/check.log");
    while !checks.exists() {
        sleep(Duration::from_millis(20));
    }
    let second = recipes.go(&["--only", "good"]);
    assert_eq!(second.code, 1, "{}", second.stderr);
    assert!(second.stderr.contains("another run works in"), "{}", second.stderr);
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(&recipe, text).unwrap();
    let continued = recipes.go(&["--only", "good"]).success();
    assert!(continued.stderr.contains("promote PASSED"), "{}", continued.stderr);
}

#[test]
fn a_recipe_that_changes_during_its_build_is_built_again() {
    needs!("docker-registry");
    let recipes = Recipes::new(Who::OrdinaryUser, RELEASE);
    let cabane = &recipes.bed.shared.cabane;
    let recipe = cabane.world.path("work/recipes/good/1/config.yaml");
    fs::set_permissions(&recipe, Permissions::from_mode(0o666)).unwrap();
    for ends in ["", "exit 1\n"] {
        // The recipe is saved while its image is built. What packs does not see it.
        let packs = cabane.world.file(
            "bin/mksquashfs",
            &format!(
                "#!/bin/sh\nPATH=/usr/bin:/bin\nif [ \"$1\" = -version ]; then echo '# more' >>{}; \
                 exec mksquashfs -version; fi\n{ends}exec mksquashfs \"$@\"\n",
                recipe.display()
            ),
        );
        fs::set_permissions(&packs, Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", packs.parent().unwrap().display());
        let seen = cabane.finish(recipes.process().env("PATH", path));
        assert_eq!(seen.code, 17, "{}", seen.stderr);
        assert!(seen.stderr.contains("has changed during the build"), "{}", seen.stderr);
    }
    recipes.go(&["--only", "good"]).success();
}

#[test]
fn stages_can_be_carried_out_by_hand() {
    needs!("docker-registry");
    let recipes = Recipes::new(Who::OrdinaryUser, RELEASE);
    let step =
        |stage: &str, cell: &str| recipes.run("step", &[stage, cell, "--key", &recipes.bed.key]);
    let good = "good/1@here%x86_64";
    let elsewhere = step("build", "good/1@there%x86_64");
    assert_eq!(elsewhere.code, 2, "{}", elsewhere.stderr);
    assert!(elsewhere.stderr.contains("this is the system here"), "{}", elsewhere.stderr);
    // Nothing is promoted that nobody has tested, whatever is missing here.
    let untested = step("promote", good);
    assert_ne!(untested.code, 0, "{}", untested.stderr);
    let early = step("check", good);
    assert_eq!(early.code, 2, "{}", early.stderr);
    assert!(
        early.stderr.contains("run the stage `build` of good/1@here%x86_64 first"),
        "{}",
        early.stderr
    );
    for stage in ["build", "check", "publish", "promote"] {
        step(stage, good).success();
    }
    let bad = "bad/1@here%x86_64";
    step("build", bad).success();
    let logged = recipes.run("step", &["check", bad, "--log"]);
    assert_eq!((logged.code, logged.stderr.as_str()), (16, ""));
    step("publish", bad).success();
    let fresh = ["promote", bad, "--run", "fresh", "--key", &recipes.bed.key];
    let forgotten = recipes.run("step", &fresh);
    assert_eq!(forgotten.code, 16, "{}", forgotten.stderr);
    assert!(forgotten.stderr.contains("is FAILED in the registry"), "{}", forgotten.stderr);
    assert_eq!(recipes.labels("deploy::bad@*").len(), 0);
    let refused = step("promote", bad);
    assert_eq!(refused.code, 16, "{}", refused.stderr);
    assert!(refused.stderr.contains("its checks are FAILED"), "{}", refused.stderr);
    let log = recipes.run("logs", &[bad, "check"]);
    assert!(log.stdout.contains("says: FAILED"), "{}{}", log.stdout, log.stderr);
    let none = step("check", "none/1@here%x86_64");
    assert_eq!(none.code, 4, "{}", none.stderr);
}

#[test]
fn mistakes_and_dead_cells_are_named_with_their_place() {
    let recipes = Recipes::new(Who::OrdinaryUser, "");
    let text = fs::read_to_string(&recipes.file).unwrap();
    fs::write(&recipes.file, text.replace("there: [x86_64]}", "there: [zen3]}")).unwrap();
    let checked = recipes.run("check", &["--json"]).success();
    assert!(
        checked.stderr.contains("cannot be built: there has no nodes with zen3"),
        "{}",
        checked.stderr
    );
    assert!(checked.stderr.contains("2 cells of 2 environments on 1 system"), "{}", checked.stderr);
    fs::write(&recipes.file, text.replace("recipes: {x86_64: \"1\"}", "recipes: {x86_64: \"2\"}"))
        .unwrap();
    let missing = recipes.run("check", &[]);
    assert_eq!(missing.code, 3, "{}", missing.stderr);
    assert!(missing.stderr.contains("there is no recipe in"), "{}", missing.stderr);
    let pipeline = Path::new(&recipes.file);
    let directory = pipeline.parent().unwrap();
    let named = |name: &str| {
        let file = directory.join(name).to_string_lossy().into_owned();
        recipes.bed.shared.cabane.run(&["pipeline", "lock", "--file", &file])
    };
    let missing = named("missing.yaml");
    assert_eq!(missing.code, 4, "{}", missing.stderr);
    assert!(missing.stderr.contains("hint: did you mean `--file [WORLD]"), "{}", missing.stderr);
    assert!(missing.stderr.contains("there is no pipeline [WORLD]"), "{}", missing.stderr);
    let missing = named("nowhere/missing.yaml");
    assert!(missing.stderr.contains("/nowhere` shows the files there"), "{}", missing.stderr);
    fs::write(&recipes.file, text.replace("uenvs:", "uenv:")).unwrap();
    let malformed = recipes.run("check", &[]);
    assert_eq!(malformed.code, 3, "{}", malformed.stderr);
    assert!(malformed.stderr.contains("unknown key `uenv`"), "{}", malformed.stderr);
}
