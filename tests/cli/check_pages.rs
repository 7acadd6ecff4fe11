// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The page of `cabane check --html` and of `cabane evidence report`: rows of a suite, tests, and figures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_testkit::{Finished, Program, belongs_to, needs};
use serde_json::{Value, json};

use crate::cabane::{Who, everybody};
use crate::check::{Checked, LABEL};
use crate::slurm_report::record;

const HOSTILE: &str = "</td></svg><script>alert(1)</script><img src=x onerror=alert(2)>";

/// A test of ReFrame that turns lines `figure: NAME VALUE UNIT` into figures.
const SUITE: &str = r"
import reframe as rfm
import reframe.utility.sanity as sn


@rfm.simple_test
class Speed(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['*']
    executable = 'measure'

    @sanity_function
    def measured(self):
        return sn.assert_found('figure: ', self.stdout)

    @run_before('performance')
    def read(self):
        with open(self.stagedir + '/' + str(self.stdout.evaluate())) as output:
            lines = [line.split(maxsplit=3) for line in output if line.startswith('figure: ')]
        for _, name, value, unit in lines:
            self.perf_variables[name] = sn.make_performance_function(sn.defer(float(value)), unit.strip())
";

/// Prints comparisons that are in `comparisons` beside the suite, and what it did not measure.
const PROGRAM: &str = r#"#!/bin/sh
while read -r name median low high control_low control_high; do
    echo "figure: $name $median -"
    echo "figure: ${name}_low $low -"
    echo "figure: ${name}_high $high -"
    echo "figure: ${name}_control_low $control_low -"
    echo "figure: ${name}_control_high $control_high -"
    echo "figure: ${name}_ours 2 <b>s</b>"
done <COMPARISONS
echo "figure: alone 12.5 GB/s"
echo "left out: start: no file server <script>alert(3)</script>"
"#;
const COMPARISONS: &str = "\
faster 0.8 0.75 0.85 0.97 1.03
noisy 0.8 0.6 1.0 0.7 1.3
equal 1.001 0.99 1.01 0.97 1.03
extra 1.5 1.4 1.6 0.97 1.03
";

struct Suite {
    checked: Checked,
    reframe: PathBuf,
    directory: String,
    key: String,
}

impl Suite {
    fn new(who: Who, reframe: PathBuf) -> Self {
        let checked = Checked::new(who, "", &[]);
        let world = &checked.cabane.world;
        let directory = world.directory("suite").display().to_string();
        let program = PROGRAM.replace("COMPARISONS", &format!("{directory}/comparisons"));
        world.file("suite/speed.py", SUITE);
        let rows = [
            row("faster", "lower", "\"claim\": 0.9, \"goal\": 0.7"),
            row("noisy", "lower", ""),
            row("equal", "same", "\"margin\": 0.02"),
            row("start_many", "lower", ""),
            row("unknown", "higher", ""),
        ];
        world.file("suite/rows/a.json", &format!("[{}]", rows.join(",")));
        let recipe = world.path("recipe").display().to_string();
        let store = checked.cabane.mount_point("app");
        let check = format!("sh -c 'echo \"{HOSTILE}\" >&2; exit 1'");
        let check = serde_json::Value::from(check);
        world.file(
            "recipe/config.yaml",
            &format!(
                "name: app\nengine: tree\nstore: {store}\ntree:\n  source: ../tree\nchecks:\n  \
                 - {{name: hostile, command: {check}}}\n"
            ),
        );
        let measure = world.file("tree/bin/measure", &program);
        fs::set_permissions(
            &measure,
            fs::metadata(world.path("tree/bin/greet")).unwrap().permissions(),
        )
        .unwrap();
        checked.run(&["build", &recipe, LABEL]).success();
        let key = world.path("work/tests").display().to_string();
        checked.run(&["image", "key", "new", &key]).success();
        world.file("site.toml", &format!("[evidence]\ntesters = [\"{key}.pub\"]\n"));
        let suite = Self { checked, reframe, directory, key };
        suite.measures(COMPARISONS);
        suite
    }

    fn measures(&self, comparisons: &str) {
        self.checked.cabane.world.file("suite/comparisons", comparisons);
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = self.checked.cabane.command(arguments);
        command.env("CABANE_REFRAME", &self.reframe);
        self.checked.cabane.finish(&mut command)
    }

    fn check(&self, more: &[&str]) -> Finished {
        let fixed = ["check", "app", "--suite", &self.directory];
        self.run(&[&fixed, more].concat())
    }

    fn page(&self, name: &str) -> String {
        fs::read_to_string(self.checked.cabane.world.path(name)).unwrap()
    }

    fn path(&self, name: &str) -> String {
        self.checked.cabane.world.path(name).display().to_string()
    }
}

fn row(name: &str, better: &str, more: &str) -> String {
    let more = if more.is_empty() { String::new() } else { format!(", {more}") };
    format!(
        "{{\"row\": \"{name}\", \"section\": \"section <i>\", \"source\": \"A paper, table I\", \
         \"what\": \"what {name} is {HOSTILE}\", \"better\": \"{better}\", \"method\": \"measured\"{more}}}"
    )
}

/// The line of a table for a comparison, without the spaces between columns.
fn line(output: &str, name: &str) -> String {
    let line = output.lines().find(|line| line.split(' ').next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("{name}: {output}"));
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_harmless(page: &str) {
    for bad in ["<script", "<img", "<b>s", "<i>", "http:", "https:", "\u{1b}"] {
        assert!(!page.contains(bad), "{bad}: {page}");
    }
    assert!(page.contains("default-src 'none'") && page.contains("&lt;script&gt;"), "{page}");
}

#[test]
fn comparisons_have_answers_on_the_terminal_and_on_a_page() {
    let reframe = needs!("reframe");
    for who in everybody() {
        let suite = Suite::new(who, reframe.clone());
        let page = suite.path("work/page.html");
        let seen = suite.check(&["--html", &page]);
        // The check of the recipe fails.
        assert_eq!(seen.code, 16, "{}", seen.stderr);
        for (name, expected) in [
            ("faster", "faster 0.900 0.800 0.750 to 0.850 0.970 to 1.030 better"),
            (
                "noisy",
                "noisy 0.800 0.600 to 1.000 0.700 to 1.300 no difference: the control shows the same",
            ),
            ("equal", "equal 1.001 0.990 to 1.010 0.970 to 1.030 same"),
            ("start_many", "start_many left out: no file server <script>alert(3)</script>"),
            ("unknown", "unknown not measured"),
            ("extra", "extra 1.500 1.400 to 1.600 0.970 to 1.030 different"),
        ] {
            assert_eq!(line(&seen.stdout, name), expected);
        }
        assert!(seen.stdout.contains("  alone 12.5 GB/s\n"), "{}", seen.stdout);
        let page = suite.page("work/page.html");
        is_harmless(&page);
        for part in [
            "<li>Source: A paper, table I</li>",
            "<span class=\"o p\">better</span><br>goal missed",
            "<span class=\"o n\">no difference</span><br>the control shows the same",
            "<span class=\"o u\">left out</span><br>no file server",
            "6 rows: 1 better, 1 same, 1 different, 1 no difference, 1 left out, 1 not measured.",
            "<span class=\"o f\">FAILED</span>",
            ">hostile</th>",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
    }
}

#[test]
fn a_report_has_the_newest_result_of_each_test_of_several_statements() {
    let reframe = needs!("reframe");
    let suite = Suite::new(Who::OrdinaryUser, reframe);
    let nothing = suite.run(&["evidence", "report", "app"]);
    assert_eq!(nothing.code, 4, "{}", nothing.stderr);
    assert!(nothing.stderr.contains("has no results that count"), "{}", nothing.stderr);
    assert!(nothing.stderr.contains("hint: `cabane check app --key FILE`"), "{}", nothing.stderr);
    assert_eq!(suite.check(&["--key", &suite.key]).code, 16);
    suite.measures(&COMPARISONS.replace("faster 0.8 0.75 0.85", "faster 0.5 0.45 0.55"));
    suite.check(&["--only", "suite", "--key", &suite.key]).success();
    // A key that is no tester's changes nothing.
    let other = suite.path("work/other");
    suite.run(&["image", "key", "new", &other]).success();
    suite.measures("faster 9 8 10 1 1\n");
    suite.check(&["--only", "suite", "--key", &other]).success();
    let page = suite.path("work/page.html");
    let arguments = ["evidence", "report", "app", "--suite", &suite.directory, "--html", &page];
    let seen = suite.run(&arguments).success();
    let expected = "faster 0.900 0.500 0.450 to 0.550 0.970 to 1.030 better";
    assert_eq!(line(&seen.stdout, "faster"), expected);
    // Only the first statement has these.
    assert!(line(&seen.stdout, "starts").starts_with("starts PASSED "), "{}", seen.stdout);
    assert!(line(&seen.stdout, "hostile").starts_with("hostile FAILED "), "{}", seen.stdout);
    let page = suite.page("work/page.html");
    is_harmless(&page);
    let parts = ["From 2 signed statements", "goal reached", "no file server"];
    assert!(parts.iter().all(|part| page.contains(part)), "{page}");
    let arguments = ["evidence", "report", "app", "--suite", &suite.directory, "--json"];
    let seen: Value = serde_json::from_str(&suite.run(&arguments).success().stdout).unwrap();
    let row = |name: &str| seen["rows"].as_array().unwrap().iter().find(|row| row["row"] == name);
    let faster = row("faster").unwrap();
    assert_eq!(faster["ratio"]["quartiles"], json!([0.45, 0.55]), "{faster}");
    assert_eq!(faster["ratio"]["control"], json!([0.97, 1.03]), "{faster}");
    let description = &faster["description"];
    assert_eq!((&faster["answer"], &description["claim"]), (&json!("better"), &json!(0.9)));
    let left_out = row("start_many").unwrap();
    assert_eq!((&left_out["answer"], &left_out["ratio"]), (&json!("left-out"), &Value::Null));
    assert!(left_out["reason"].as_str().unwrap().starts_with("no file server"), "{left_out}");
    assert_eq!(seen["statements"].as_array().unwrap().len(), 2, "{seen}");
    let tests = seen["tests"].as_array().unwrap();
    assert!(tests.iter().any(|test| test["name"] == "hostile" && test["outcome"] == "FAILED"));
    // Without the suite, comparisons have no claim.
    let seen = suite.run(&["evidence", "report", "app"]).success();
    let expected = "faster 0.500 0.450 to 0.550 0.970 to 1.030 different";
    assert_eq!(line(&seen.stdout, "faster"), expected);
    assert_eq!(suite.run(&["evidence", "report", "app", "--on", "daint"]).code, 4);
}

#[test]
fn rows_that_are_wrong_are_refused_before_anything_runs() {
    let reframe = needs!("reframe");
    let suite = Suite::new(Who::OrdinaryUser, reframe);
    let world = &suite.checked.cabane.world;
    let twice = format!("[{0},{0}]", row("a", "lower", ""));
    for (text, expected) in [
        ("[{\"row\": \"a\"}]", "rows/b.json is not a list of rows"),
        (twice.as_str(), "rows/b.json describes the row `a` again"),
    ] {
        world.file("suite/rows/b.json", text);
        let seen = suite.check(&[]);
        assert!(
            seen.code == 3 || seen.code == 65 || seen.code == 1,
            "{}: {}",
            seen.code,
            seen.stderr
        );
        assert!(seen.stderr.contains(expected) && seen.stdout.is_empty(), "{}", seen.stderr);
    }
}

#[test]
fn pages_with_plots_are_accessible_in_a_browser() {
    let reframe = needs!("reframe");
    let Some(tools) = Program::find("browser-tools").path() else {
        belongs_to!("CABANE_TEST_BROWSER_TOOLS=DIRECTORY make test");
    };
    let chromium = needs!("chromium");
    let suite = Suite::new(Who::OrdinaryUser, reframe);
    let (check, evidence) = (suite.path("work/check.html"), suite.path("work/evidence.html"));
    suite.check(&["--html", &check, "--key", &suite.key]);
    let rows = ["--suite", &suite.directory, "--html", &evidence];
    suite.run(&[&["evidence", "report", "app"], &rows[..]].concat()).success();
    let steps: String = (1..9)
        .map(|time| {
            let times = format!("\"mounted\":true,\"times_ms\":{{\"open\":1,\"mount\":{time}}}");
            record("cabane-step", "n<b>", "alice", &"ab".repeat(32), &times)
        })
        .collect();
    let steps = suite.checked.cabane.world.file("work/steps", &steps).display().to_string();
    let slurm = suite.path("work/slurm.html");
    suite.run(&["slurm", "report", "--html", &slurm, &steps]).success();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/browser/pages.js");
    let mut command = Command::new("node");
    command.arg(script).arg(chromium).args([check, evidence, slurm]);
    command.env("NODE_PATH", tools.join("node_modules"));
    Finished::of(&mut command).success();
}
