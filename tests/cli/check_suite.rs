// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane check --suite`: tests of ReFrame in images.

use std::path::PathBuf;

use cabane_testkit::{Finished, needs};
use serde_json::Value;

use crate::cabane::{Who, everybody};
use crate::check::Checked;

const IMAGE: &str = "app/2.0:v1@here%x86_64";
const ENVIRONMENTS: &str = "greeting:\n  features: [greet]\n  views: [default]\n  \
    activation: ['export WORD=there']\n  extras: {language: english}\n";
/// A class of tests that start a program and look for a text; it is no test by itself.
const GREETS: &str = r"
import reframe as rfm
import reframe.utility.sanity as sn


class Greets(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['ENVIRONMENT']
    executable = 'PROGRAM'

    @sanity_function
    def greeted(self):
        return sn.assert_found('TEXT', self.stdout)


";
const TESTS: &str = r"
@rfm.simple_test
class Measures(Greets):
    executable_opts = ['42.5']
    reference = {'*': {'words': (40, -0.1, None, 'words/s')}}

    @performance_function('words/s')
    def words(self):
        return sn.extractsingle(r'hello (\S+)', self.stdout, 1, float)


@rfm.simple_test
class Activated(Greets):
    executable_opts = ['$WORD']

    @sanity_function
    def greeted(self):
        return sn.all([
            sn.assert_found('hello there', self.stdout),
            sn.assert_eq(self.current_environ.extras['language'], 'english'),
        ])


@rfm.simple_test
class Shouts(Greets):
    tags = {'wrong'}
    executable_opts = ['--loud']


@rfm.simple_test
class Elsewhere(Greets):
    valid_prog_environs = ['+gpu']
";

/// A suite of tests that start a program in some environments and look for a text. The classes of `tests`
/// are made from `Greets`.
pub(crate) fn greeting_suite([environment, program, text]: [&str; 3], tests: &str) -> String {
    let begin = GREETS.replace("ENVIRONMENT", environment).replace("PROGRAM", program);
    begin.replace("TEXT", text) + tests.trim_start()
}

/// Someone with an image that has environments for ReFrame, and a suite.
struct Suite {
    checked: Checked,
    reframe: PathBuf,
    directory: String,
}

impl Suite {
    fn new(who: Who, reframe: PathBuf) -> Self {
        let checked = Checked::new(who, "  - {name: fine, command: greet}\n", &[]);
        let world = &checked.cabane.world;
        world.file("recipe/extra/reframe.yaml", ENVIRONMENTS);
        world.file("tests/greets.py", &greeting_suite(["+greet", "greet", "hello"], TESTS));
        let directory = world.path("tests").display().to_string();
        let recipe = world.path("recipe").display().to_string();
        checked.run(&["build", &recipe, IMAGE]).success();
        Self { checked, reframe, directory }
    }

    /// The exit code, and the outcome and reason of each check.
    fn check(&self, more: &[&str], backend: Option<&str>) -> (i32, Vec<(String, String, String)>) {
        let fixed = ["check", IMAGE, "--suite", &self.directory, "--json"];
        let mut command = self.checked.cabane.command(&[&fixed, more].concat());
        command.env("CABANE_REFRAME", &self.reframe);
        if let Some(backend) = backend {
            command.env("CABANE_BACKEND", backend);
        }
        let run = self.checked.cabane.finish(&mut command);
        let reports: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| {
            panic!("{error}: {} {}", run.stdout, run.stderr);
        });
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let one =
            |check: &Value| (text(&check["name"]), text(&check["outcome"]), text(&check["reason"]));
        (run.code, reports[0]["checks"].as_array().unwrap().iter().map(one).collect())
    }
}

fn outcomes(checks: &[(String, String, String)]) -> Vec<(&str, &str)> {
    checks.iter().map(|(name, outcome, _)| (name.as_str(), outcome.as_str())).collect()
}

#[test]
fn tests_of_reframe_run_in_the_image() {
    let reframe = needs!("reframe");
    for who in everybody() {
        let suite = Suite::new(who, reframe.clone());
        let (code, checks) = suite.check(&["--only", "tests"], None);
        let expected = [
            ("tests/Measures@here:here+greeting", "PASSED"),
            ("tests/Activated@here:here+greeting", "PASSED"),
            ("tests/Shouts@here:here+greeting", "FAILED"),
        ];
        let mut found = outcomes(&checks);
        found.sort_by_key(|(name, _)| expected.iter().position(|(known, _)| known == name));
        assert_eq!((code, found.as_slice()), (16, &expected[..]), "{checks:?}");
        let failed = checks.iter().find(|(_, outcome, _)| outcome == "FAILED").unwrap();
        assert!(failed.2.starts_with("sanity error: pattern 'hello' not found"), "{}", failed.2);
        // Beside the other checks, and before them nothing.
        let (code, checks) = suite.check(&["--reframe=--exclude-tag=wrong"], None);
        assert_eq!(code, 0, "{checks:?}");
        assert_eq!((checks.first().unwrap().0.as_str(), checks.len()), ("starts", 9));
    }
}

#[test]
fn what_did_not_run_in_the_image_is_no_failure() {
    let reframe = needs!("reframe");
    let suite = Suite::new(Who::OrdinaryUser, reframe);
    // Nothing can mount the image, and ReFrame says that an output lacks a pattern.
    let (code, checks) = suite.check(&["--only", "tests"], Some("helper"));
    assert_eq!((code, checks.len()), (17, 3), "{checks:?}");
    for (name, outcome, reason) in &checks {
        assert_eq!(outcome, "ERROR", "{name}: {reason}");
        assert!(reason.contains("cabane-mount"), "{name}: {reason}");
    }
    // With the other checks, the suite is not even tried.
    let (code, checks) = suite.check(&[], Some("helper"));
    assert_eq!((code, outcomes(&checks)), (17, vec![("starts", "ERROR")]));
    let (code, checks) = suite.check(&["--only", "tests", "--reframe=--name=Elsewhere"], None);
    assert_eq!((code, outcomes(&checks)), (18, vec![("tests", "NOT TESTED")]));
    let (code, checks) = suite.check(&["--only", "tests", "--reframe=--mode=none"], None);
    assert_eq!((code, outcomes(&checks)), (17, vec![("tests", "ERROR")]));
    assert!(checks[0].2.contains("invalid mode"), "{checks:?}");
    // A file that cannot be read holds tests that nobody runs.
    let world = &suite.checked.cabane.world;
    world.file("tests/broken.py", "import reframe as rfm\n@rfm.simple_test\nclass X: none()\n");
    let (code, checks) = suite.check(&["--only", "tests", "--reframe=--name=Measures"], None);
    assert_eq!(code, 17, "{checks:?}");
    assert!(checks.iter().any(|(_, outcome, why)| outcome == "ERROR" && why.contains("broken.py")));
    // What the image says about its environments can be wrong.
    world.file("recipe/extra/reframe.yaml", "- nothing\n");
    let recipe = world.path("recipe").display().to_string();
    suite.checked.run(&["build", &recipe, IMAGE, "--replace"]).success();
    let (code, checks) = suite.check(&["--only", "tests"], None);
    assert_eq!((code, outcomes(&checks)), (17, vec![("tests", "ERROR")]));
    assert!(checks[0].2.contains("is not a map of environments"), "{checks:?}");
}

#[test]
fn a_statement_says_which_suite_it_was() {
    let reframe = needs!("reframe");
    let suite = Suite::new(Who::OrdinaryUser, reframe);
    let cabane = &suite.checked.cabane;
    // The suite belongs to someone else, as that of a site does.
    let git = |arguments: &[&str]| {
        let mut command = cabane.world.command("git");
        command.args(["-c", "user.name=me", "-c", "user.email=me@example.org", "-C"]);
        command.arg(&suite.directory).args(arguments);
        Finished::of(&mut command).success().stdout.trim().to_owned()
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "tests"]);
    git(&["remote", "add", "origin", "https://git.example.org/tests.git"]);
    let commit = git(&["rev-parse", "HEAD"]);
    let key = cabane.world.path("home/tests.key").display().to_string();
    cabane.run(&["image", "key", "new", &key]).success();
    let statement = || {
        let (_, checks) = suite.check(&["--key", &key, "--reframe=--max-retries=1"], None);
        assert_eq!(checks.len(), 10, "{checks:?}");
        let shown = cabane.run(&["evidence", "show", IMAGE]).success().stdout;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        (shown["outcome"].clone(), shown["statement"]["predicate"].clone())
    };
    let (outcome, predicate) = statement();
    assert_eq!(outcome, "FAILED");
    let configuration = &predicate["configuration"][0];
    assert_eq!(configuration["name"], "tests");
    assert_eq!(configuration["uri"], "git+https://git.example.org/tests.git");
    assert_eq!(configuration["digest"]["gitCommit"], commit.as_str());
    let annotations = &configuration["annotations"];
    assert_eq!(annotations["runner"], "reframe 4.10.4");
    // One more, since a test failed.
    assert_eq!(annotations["runs"], 2);
    assert_eq!(annotations["options"][0], "--max-retries=1");
    assert_eq!(predicate["failedTests"][0], "tests/Shouts@here:here+greeting");
    let figure = &predicate["https://cabane.dev/evidence/v1"]["performance"][0];
    assert_eq!(figure["test"], "tests/Measures@here:here+greeting");
    assert_eq!((&figure["variable"], &figure["unit"]), (&"words".into(), &"words/s".into()));
    assert_eq!((&figure["value"], &figure["reference"]), (&42.5.into(), &40.0.into()));
    assert_eq!((&figure["lower"], &figure["upper"]), (&(-0.1).into(), &Value::Null));
    // Nothing of this machine is in it.
    let text = predicate.to_string();
    assert!(!text.contains(suite.directory.as_str()), "{text}");
    // A suite with changes is none of its commits.
    cabane.world.file("tests/more.txt", "");
    let (_, predicate) = statement();
    let configuration = &predicate["configuration"][0];
    assert_eq!(configuration["digest"], Value::Null);
    assert_eq!(configuration["annotations"]["changedSince"], commit.as_str());
}

#[test]
fn a_suite_without_reframe_is_one_clear_error() {
    let checked = Checked::new(Who::OrdinaryUser, "  - {name: fine, command: greet}\n", &[]);
    let suite = checked.cabane.world.path("tree").display().to_string();
    let mut command = checked.cabane.command(&["check", "app", "--suite", &suite]);
    command.env_remove("CABANE_REFRAME").env("PATH", checked.cabane.world.directory("nothing"));
    let run = checked.cabane.finish(&mut command);
    assert_eq!((run.code, run.stdout.as_str()), (4, ""), "{}", run.stderr);
    assert!(run.stderr.contains("there is no `reframe` in PATH"), "{}", run.stderr);
    // Without a suite it is not needed.
    checked.run(&["check", "app", "--only", "fine"]).success();
}

#[test]
fn a_suite_that_measures_is_repeated_and_other_checks_are_not() {
    let reframe = needs!("reframe");
    let suite = Suite::new(Who::OrdinaryUser, reframe);
    let options = ["--suite", &suite.directory, "--reframe=--exclude=Shouts", "--repeat", "2"];
    let mut command =
        suite.checked.cabane.command(&[&["check", IMAGE, "--json"], &options[..]].concat());
    let run = suite.checked.cabane.finish(command.env("CABANE_REFRAME", &suite.reframe)).success();
    let reports: Value = serde_json::from_str(&run.stdout).unwrap();
    let names = |report: &Value| -> Vec<String> {
        let checks = report["checks"].as_array().unwrap().iter();
        checks.map(|check| check["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(reports.as_array().unwrap().len(), 2, "{}", run.stderr);
    assert!(names(&reports[0]).iter().any(|name| name == "starts"));
    let repeated = names(&reports[1]);
    assert!(repeated.len() == 2 && repeated.iter().all(|name| name.starts_with("tests/")));
    let left_out = reports[1]["left_out"].as_array().unwrap();
    assert!(left_out.iter().any(|name| name == "starts"), "{left_out:?}");
}
