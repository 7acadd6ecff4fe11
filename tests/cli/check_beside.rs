// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane check --suite`: suites that are installed, and tests that run beside the image.

use std::fs;
use std::path::{Path, PathBuf};

use cabane_testkit::{Finished, needs};
use serde_json::Value;

use crate::cabane::{Who, everybody};
use crate::check::{Checked, LABEL};

const SUITES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../suites");
/// A test that runs beside the image, one in it, and one wherever it can.
const TESTS: &str = r#"
import reframe as rfm
import reframe.utility.sanity as sn


class Says(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    executable = 'echo'

    @sanity_function
    def said(self):
        return sn.assert_found('hello there', self.stdout)


@rfm.simple_test
class Beside(Says):
    valid_prog_environs = ['+host']
    prerun_cmds = ['! command -v greet', 'test "$CABANE_CHECK_WORD$OTHER_WORD" = word || exit 1']
    executable = '"$CABANE_CHECK_PROGRAM" run "$CABANE_CHECK_IMAGE" -- greet there; '
    executable += 'echo left out: start_nfs: no NFS; true'


@rfm.simple_test
class Within(Says):
    valid_prog_environs = ['+uenv']
    executable = 'greet there'
"#;

struct Suite {
    checked: Checked,
    reframe: PathBuf,
}

impl Suite {
    fn new(who: Who, reframe: PathBuf, described: &str) -> Self {
        let checked = Checked::new(who, "  - {name: fine, command: greet}\n", &[]);
        checked.cabane.world.file("suites/mine/tests.py", TESTS);
        checked.cabane.world.file("suites/mine/suite.json", described);
        Self { checked, reframe }
    }

    fn check(&self, suites: &Path, arguments: &[&str]) -> Finished {
        let mut command = self.checked.cabane.command(&[&["check", LABEL], arguments].concat());
        command.env("CABANE_REFRAME", &self.reframe).env("CABANE_SUITES", suites);
        command.env("CABANE_CHECK_WORD", "word").env("OTHER_WORD", "other");
        self.checked.cabane.finish(&mut command)
    }

    /// Runs the suite alone, and returns its report.
    fn report(&self, suites: &Path, name: &str, more: &[&str]) -> (Value, Finished) {
        let only = Path::new(name).file_name().unwrap().to_str().unwrap();
        let arguments = [&["--suite", name, "--only", only, "--json"], more].concat();
        let run = self.check(suites, &arguments);
        let reports: Value = serde_json::from_str(&run.stdout)
            .unwrap_or_else(|error| panic!("{error}: {} {}", run.stdout, run.stderr));
        (reports[0].clone(), run)
    }

    fn suites(&self) -> PathBuf {
        self.checked.cabane.world.path("suites")
    }
}

/// The name and outcome of each check.
fn outcomes(report: &Value) -> Vec<(&str, &str)> {
    let checks = report["checks"].as_array().unwrap().iter();
    let mut found: Vec<_> = checks
        .map(|one| (one["name"].as_str().unwrap(), one["outcome"].as_str().unwrap()))
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn tests_run_beside_the_image_where_the_suite_says_so() {
    let reframe = needs!("reframe");
    for who in everybody() {
        let suite = Suite::new(who, reframe.clone(), r#"{"host": true, "note": "takes a second"}"#);
        let directory = suite.suites().join("mine").display().to_string();
        let (report, run) = suite.report(Path::new("/nowhere"), &directory, &[]);
        let expected =
            [("mine/Beside@here:host+host", "PASSED"), ("mine/Within@here:here+default", "PASSED")];
        assert_eq!(outcomes(&report), expected, "{report} {}", run.stderr);
        assert!(run.stderr.contains("mine: takes a second"), "{}", run.stderr);
        let checks = report["checks"].as_array().unwrap().iter();
        let unmeasured: Vec<&Value> =
            checks.filter_map(|one| one["unmeasured"].as_array()).flatten().collect();
        assert_eq!(unmeasured.len(), 1, "{report}");
        assert_eq!(unmeasured[0]["figure"], "start_nfs");
        assert_eq!(unmeasured[0]["reason"], "no NFS");
        // Without that word, all tests are about the image.
        suite.checked.cabane.world.file("suites/mine/suite.json", "{}");
        let (report, run) = suite.report(Path::new("/nowhere"), &directory, &[]);
        assert_eq!(outcomes(&report), expected[1..], "{report} {}", run.stderr);
    }
}

#[test]
fn a_suite_that_describes_itself_wrongly_is_an_error() {
    let reframe = needs!("reframe");
    let suite = Suite::new(Who::OrdinaryUser, reframe, r#"{"hosts": true}"#);
    let (report, run) = suite.report(&suite.suites(), "mine", &[]);
    assert_eq!((run.code, outcomes(&report)), (17, vec![("mine", "ERROR")]));
    let reason = report["checks"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("suite.json does not describe a suite"), "{reason}");
}

#[test]
fn an_installed_suite_is_found_by_its_name() {
    let reframe = needs!("reframe");
    let suite = Suite::new(Who::OrdinaryUser, reframe, r#"{"host": true}"#);
    let (report, run) = suite.report(&suite.suites(), "mine", &[]);
    assert_eq!((run.code, outcomes(&report).len()), (0, 2), "{report}");
    let annotations = report["suites"][0]["annotations"].clone();
    assert_eq!(annotations["installedWith"], concat!("cabane ", env!("CARGO_PKG_VERSION")));
    assert_eq!(annotations["files"].as_str().unwrap().len(), 64);
    // The same files have the same sum, and a changed file has another one.
    let (again, _) = suite.report(&suite.suites(), "mine", &[]);
    assert_eq!(again["suites"][0]["annotations"], annotations);
    suite.checked.cabane.world.file("suites/mine/more.txt", "");
    let (changed, _) = suite.report(&suite.suites(), "mine", &[]);
    assert_ne!(changed["suites"][0]["annotations"]["files"], annotations["files"]);
    let unknown = suite.check(&suite.suites(), &["--suite", "yours"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (4, ""), "{}", unknown.stderr);
    let expected = "`yours` is neither a directory nor an installed suite";
    assert!(unknown.stderr.contains(expected), "{}", unknown.stderr);
    assert!(unknown.stderr.contains("the installed suites are `mine`"), "{}", unknown.stderr);
}

#[test]
fn the_suite_of_papers_measures_the_size_of_an_image() {
    let reframe = needs!("reframe");
    needs!("unsquashfs");
    for who in everybody() {
        let suite = Suite::new(who, reframe.clone(), "{}");
        let key = suite.checked.cabane.world.path("home/tests.key").display().to_string();
        suite.checked.run(&["image", "key", "new", &key]).success();
        let more = ["--reframe=-n=Sizes", "--reframe=-Sshort=yes", "--key", &key];
        let (report, run) = suite.report(Path::new(SUITES), "papers", &more);
        let name = "papers/Sizes@here:host+host";
        assert_eq!(outcomes(&report), [(name, "PASSED")], "{report} {}", run.stderr);
        let shown = suite.checked.run(&["evidence", "show", LABEL]).success().stdout;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let details = &shown["statement"]["predicate"]["https://cabane.dev/evidence/v1"];
        let measured = details["performance"].as_array().unwrap().iter();
        let value = |name: &str| {
            let found = measured.clone().find(|one| one["variable"] == name);
            found.unwrap_or_else(|| panic!("{name}: {details}"))["value"].as_f64().unwrap()
        };
        let size = report["size"].as_f64().unwrap();
        assert!((value("sizes_bytes_ours") - size).abs() < 0.5, "{details}");
        assert!(value("sizes_inodes_ours") < 1.5 && value("sizes_inodes_other") > 2.5, "{details}");
        let unmeasured = details["unmeasured"].as_array().unwrap();
        // The image has no Python.
        assert!(unmeasured.iter().any(|one| one["figure"] == "sizes_requests_numpy"), "{details}");
        // No row is forgotten.
        let rows = fs::read_to_string(Path::new(SUITES).join("papers/rows/sizes.json")).unwrap();
        let rows: Vec<Value> = serde_json::from_str(&rows).unwrap();
        for row in rows.iter().map(|row| &row["row"]) {
            let has_row = measured.clone().any(|one| one["variable"] == *row)
                || unmeasured.iter().any(|one| one["figure"] == *row);
            assert!(has_row, "{row}: {details}");
        }
    }
}
