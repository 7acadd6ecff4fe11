// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane check`: four outcomes that never become each other.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use cabane_testkit::Finished;
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody};
use crate::root_images::with_root;

/// Someone with the image `app`, built from a recipe with checks.
pub(crate) struct Checked {
    pub(crate) cabane: Cabane,
}

pub(crate) const LABEL: &str = "app/1.0:v1@here%x86_64";

impl Checked {
    pub(crate) fn new(who: Who, checks: &str, programs: &[(&str, &str)]) -> Self {
        let cabane = Cabane::new(who);
        let world = &cabane.world;
        world.file("site.toml", "");
        let greet = "#!/bin/sh\ncase $1 in --loud) echo HELLO;; *) echo hello $1;; esac\n";
        for (name, text) in programs.iter().chain([&("greet", greet)]) {
            let path = world.file(&format!("tree/bin/{name}"), text);
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        let store = cabane.mount_point("app");
        let recipe = format!(
            "name: app\nengine: tree\nstore: {store}\ntree:\n  source: ../tree\nchecks:\n{checks}"
        );
        world.file("recipe/config.yaml", &recipe);
        let checked = Self { cabane };
        let recipe = checked.cabane.world.path("recipe");
        checked.run(&["build", recipe.to_str().unwrap(), LABEL]).success();
        checked
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.cabane.run(arguments)
    }

    /// The exit code of all, and each check with its outcome and reason.
    fn check(&self, arguments: &[&str]) -> (i32, Vec<(String, String, String)>) {
        let run = self.run(&[&["check", "app", "--json"], arguments].concat());
        let reports: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| {
            panic!("{error}: {} {}", run.stdout, run.stderr);
        });
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let one =
            |check: &Value| (text(&check["name"]), text(&check["outcome"]), text(&check["reason"]));
        (run.code, reports[0]["checks"].as_array().unwrap().iter().map(one).collect())
    }

    fn outcome(&self, name: &str) -> (i32, String, String) {
        let (code, checks) = self.check(&["--only", name]);
        let (_, outcome, reason) = checks.into_iter().next().unwrap();
        (code, outcome, reason)
    }
}

const CHECKS: &str = r#"
  - name: greets
    command: greet --loud
    expect: '^HELLO$'
  - name: silent
    command: "true"
    expect: HELLO
  - name: three
    command: exit 3
    exit-code: 3
  - name: speed
    command: [greet, "42.5"]
    figures:
      - {name: words, pattern: 'hello (\S+)', unit: words/s, reference: {here: 40, "*": 100}, lower: -10%}
  - name: slow
    command: [greet, "30"]
    figures:
      - {name: words, pattern: 'hello (\S+)', reference: 40, lower: -0.1}
  - name: endless
    command: sleep 60
    limit: 1s
"#;

#[test]
fn a_recipe_says_what_an_image_must_do() {
    for who in everybody() {
        let checked = Checked::new(who, CHECKS, &[]);
        let passed = |name: &str| {
            let (code, outcome, reason) = checked.outcome(name);
            assert_eq!((code, outcome.as_str()), (0, "PASSED"), "{name}: {reason}");
        };
        ["starts", "libraries", "programs", "greets", "three", "speed"]
            .into_iter()
            .for_each(passed);
        for (name, expected) in [
            ("silent", "the output does not match `HELLO`"),
            ("slow", "words is 30, and the reference is 40"),
            ("endless", "did not end in time"),
        ] {
            let (code, outcome, reason) = checked.outcome(name);
            assert_eq!((code, outcome.as_str()), (16, "FAILED"), "{name}: {reason}");
            assert!(reason.contains(expected), "{name}: {reason}");
        }
        let (code, outcome, _) = checked.outcome("compilers");
        assert_eq!((code, outcome.as_str()), (18, "NOT TESTED"));
        let (code, all) = checked.check(&[]);
        assert_eq!((code, all.len()), (16, 12));
        let unknown = checked.run(&["check", "app", "--only", "nothing"]);
        assert_eq!(unknown.code, 4);
        assert!(unknown.stderr.contains("its checks are `starts`,"), "{}", unknown.stderr);
    }
}

const FIGURES: &str = r#"
  - name: many
    command: [greet, "1.5 22 333"]
    figures:
      - {name: first, pattern: 'hello (\S+)', unit: us}
      - {name: second_one, pattern: 'hello \S+ (\S+)', unit: MB/s}
      - {name: third, pattern: '(\S+)$'}
  - name: few
    command: [greet, "7 8"]
    figures:
      - {name: left, pattern: 'hello (\S+)', unit: s}
      - {name: right, pattern: '(\S+)$'}
"#;

#[test]
fn many_figures_have_a_line_each() {
    for who in everybody() {
        let checked = Checked::new(who, FIGURES, &[]);
        let check = |more: &[&str]| {
            let fixed = ["check", "app", "--only", "many", "--only", "few"];
            checked.run(&[&fixed, more].concat()).success().stdout
        };
        let many = "\nmany\n  first       1.5  us\n  second_one   22  MB/s\n  third       333\n\n";
        let seen = check(&[]);
        assert!(seen.contains(&format!("{many}{LABEL} (")), "{seen}");
        assert!(seen.contains(" s  3 figures, see below\n"), "{seen}");
        assert!(seen.contains(" s  left 7 s; right 8\n"), "{seen}");
        let seen = check(&["--verbose"]);
        assert!(seen.contains(many.trim_end()), "{seen}");
        assert!(seen.contains("\nfew\n  left   7  s\n  right  8\n"), "{seen}");
    }
}

#[test]
fn an_image_that_cannot_be_mounted_is_an_error_and_no_failure() {
    let checked = Checked::new(Who::OrdinaryUser, CHECKS, &[]);
    let mut command = checked.cabane.command(&["check", "app", "--json"]);
    // Nothing can mount it.
    command.env("CABANE_BACKEND", "helper");
    let run = checked.cabane.finish(&mut command);
    let reports: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &reports[0]["outcome"]), (17, &"ERROR".into()), "{}", run.stdout);
    // Nothing else is tried.
    assert_eq!(reports[0]["checks"].as_array().unwrap().len(), 1);
}

#[test]
fn programs_that_do_not_start_are_found() {
    let loader = "#!/bin/sh\necho 'x: symbol lookup error: y' >&2; exit 1\n";
    let programs = [("lost", "#!/none/interpreter\n"), ("loader", loader)];
    let checked = Checked::new(Who::OrdinaryUser, CHECKS, &programs);
    let (code, outcome, reason) = checked.outcome("programs");
    assert_eq!((code, outcome.as_str()), (16, "FAILED"), "{reason}");
    assert!(reason.starts_with("2 of 3 programs fail: "), "{reason}");
    assert!(reason.contains("lost: ") && reason.contains("symbol lookup error"), "{reason}");
}

#[test]
fn a_recipe_changes_built_in_checks() {
    let checks = "
  - {builtin: programs, except: [lost, nothing]}
  - {builtin: imports, skip: true, reason: needs a license server}
  - {name: greets, command: greet}
";
    let programs = [("lost", "#!/none/interpreter\n")];
    let checked = Checked::new(Who::OrdinaryUser, checks, &programs);
    let (code, outcome, reason) = checked.outcome("programs");
    assert_eq!((code, outcome.as_str()), (0, "PASSED"), "{reason}");
    assert_eq!(reason, "1 program starts; the recipe leaves out 1");
    let (code, outcome, reason) = checked.outcome("imports");
    assert_eq!((code, outcome.as_str()), (18, "NOT TESTED"));
    assert_eq!(reason, "the recipe skips it: needs a license server");
    let (code, all) = checked.check(&[]);
    assert_eq!((code, all.len()), (0, 7));
}

#[test]
fn a_ci_gets_junit() {
    let checked = Checked::new(Who::OrdinaryUser, CHECKS, &[]);
    let path = checked.cabane.world.path("home/report.xml");
    let name = path.to_str().unwrap();
    let only = ["--only", "greets", "--only", "silent", "--only", "mpi"];
    let arguments = [&["check", "app", "--junit", name], &only[..]].concat();
    assert_eq!(checked.run(&arguments).code, 16);
    let report = fs::read_to_string(path).unwrap();
    assert!(report.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""), "{report}");
    assert!(report.contains("does not match `HELLO`"), "{report}");
}

#[test]
fn a_root_image_is_checked_with_its_own_shell() {
    for who in everybody() {
        let cabane = with_root(who);
        let run = cabane.run(&["check", "os", "--json"]).success();
        let reports: Value = serde_json::from_str(&run.stdout).unwrap();
        let outcome = |name: &str| {
            let checks = reports[0]["checks"].as_array().unwrap();
            checks.iter().find(|one| one["name"] == name).unwrap()["outcome"].clone()
        };
        assert_eq!(
            (outcome("starts"), outcome("programs")),
            ("PASSED".into(), "NOT TESTED".into())
        );
        // What is named by its path is checked where it is.
        let image = cabane.world.path("os.squashfs");
        let run = cabane.run(&["check", image.to_str().unwrap(), "--only", "starts"]).success();
        assert!(run.stdout.contains("PASSED"), "{}", run.stdout);
    }
}
