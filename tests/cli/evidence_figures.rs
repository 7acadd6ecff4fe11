// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Figures of checks: compared with those of the image before, and as a rule of the gate.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use cabane_evidence::{
    Details, Host, Measured, Outcome, Performance, Runner, SignedStatement, Statement,
};
use cabane_label::Digest;
use cabane_registry::SigningKey;
use cabane_testkit::{Finished, needs};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::cabane::APP;
use crate::evidence::Tests;

const OLD: &str = "meter/1.0:v1@here%x86_64";
const SLOW: &str = "meter/2.0:v1@here%x86_64";
const FAST: &str = "meter/3.0:v1@here%x86_64";

/// A registry with three images whose check prints 100, 80, and 130 MB/s.
struct Meters {
    tests: Tests,
}

impl Meters {
    fn new(stable: &str) -> Self {
        let meters = Self { tests: Tests::new(stable, "") };
        for (label, rate) in [(OLD, 100), (SLOW, 80), (FAST, 130)] {
            meters.build(label, rate);
        }
        meters
    }

    fn build(&self, label: &str, rate: u32) {
        let cabane = &self.tests.bed.shared.cabane;
        let world = &cabane.world;
        let program =
            world.file(&format!("{rate}/tree/bin/meter"), &format!("#!/bin/sh\necho {rate}\n"));
        fs::set_permissions(program, Permissions::from_mode(0o755)).unwrap();
        let store = cabane.mount_point("meter");
        let recipe = format!(
            "name: meter\nengine: tree\nstore: {store}\ntree: {{source: ../tree}}\nchecks:\n  \
             - name: speed\n    command: meter\n    figures:\n      \
             - {{name: rate, pattern: '(\\S+)', unit: MB/s, reference: 100, lower: -90%}}\n"
        );
        world.file(&format!("{rate}/recipe/config.yaml"), &recipe);
        let recipe = world.path(&format!("{rate}/recipe")).display().to_string();
        // The date of an image has whole seconds in a registry.
        sleep(Duration::from_secs(1));
        self.run(&["build", &recipe, label]).success();
        self.run(&["image", "push", label]).success();
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.tests.run(arguments)
    }

    /// Measures images in turns.
    fn measure(&self, images: &[&str], times: &str, key: &str) -> Finished {
        let more = ["--repeat", times, "--key", key, "--attach"];
        self.run(&[&["check"], images, &more].concat()).success()
    }

    /// The answer, the reason, and the number of runs of the one figure.
    fn compared(&self, image: &str, more: &[&str]) -> (String, String, u64) {
        let value = self.comparison(image, more);
        let one = &value["figures"][0];
        let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        (text("answer"), text("reason"), one["now"]["runs"].as_u64().unwrap_or_default())
    }

    fn comparison(&self, image: &str, more: &[&str]) -> Value {
        let arguments = [&["evidence", "compare", image, "--json"], more].concat();
        serde_json::from_str(&self.run(&arguments).success().stdout).unwrap()
    }

    /// Whether the gate lets an image through, and what it says about its figures.
    fn rule(&self, image: &str) -> (i32, String) {
        let run = self.run(&["channel", "promote", "stable", image, "--dry-run"]);
        let line =
            run.stdout.lines().find(|line| line.contains(" regressions ")).unwrap_or_default();
        (run.code, line.to_owned())
    }
}

#[test]
fn figures_are_compared_with_those_of_the_image_before() {
    needs!("docker-registry");
    let meters = Meters::new("");
    let key = meters.tests.key.clone();
    let nothing = meters.run(&["evidence", "compare", SLOW]);
    assert_eq!(nothing.code, 4, "{}", nothing.stderr);
    assert!(nothing.stderr.contains("no image before meter/2.0"), "{}", nothing.stderr);
    meters.measure(&[OLD, SLOW], "5", &key);
    // The first run is one of all checks, and the others never count as a success.
    let listed = meters.tests.listed(SLOW, &["--remote"]);
    let partial = |one: &&Value| {
        let details = &one["statement"]["predicate"]["https://cabane.dev/evidence/v1"];
        details["partial"] == true
    };
    assert_eq!((listed.len(), listed.iter().filter(partial).count()), (5, 4));
    assert_eq!(meters.tests.verify(SLOW, &["--remote"]).0, 0);
    for place in [&[][..], &["--remote"]] {
        let compared = meters.comparison(SLOW, place);
        let before = compared["before"]["image"].as_str().unwrap();
        assert!(before.ends_with(OLD), "{before}");
        let (answer, reason, runs) = meters.compared(SLOW, place);
        assert_eq!((answer.as_str(), reason.as_str(), runs), ("worse", "", 5));
    }
    let text = meters.run(&["evidence", "compare", SLOW]).success().stdout;
    assert!(text.contains("compared with meter/1.0"), "{text}");
    let line = "speed rate  100 ± 1 MB/s (5 runs)  80 ± 0.8 MB/s (5 runs)  0.800  worse";
    assert!(text.contains(line), "{text}");
    assert_eq!(meters.compared(OLD, &["--with", SLOW]).0, "better");
    assert_eq!(meters.compared(OLD, &["--with", OLD]).0, "same");
    // Too few runs, and another system.
    meters.measure(&[FAST], "2", &key);
    let (answer, reason, runs) = meters.compared(FAST, &[]);
    assert_eq!((answer.as_str(), reason.as_str(), runs), ("cannot-tell", "2 of 5 runs now", 2));
    let text = meters.run(&["evidence", "compare", FAST]).success();
    assert!(text.stdout.contains("cannot tell: 2 of 5 runs now"), "{}", text.stdout);
    assert!(text.stderr.contains("measures both in turns"), "{}", text.stderr);
    let elsewhere = meters.comparison(SLOW, &["--with", OLD, "--on", "daint"]);
    assert_eq!(elsewhere["figures"], Value::Array(Vec::new()));
    let quiet = meters.run(&["check", APP, "--repeat", "3"]);
    assert!(quiet.stderr.contains("measured anything; it ran once"), "{}", quiet.stderr);
}

#[test]
fn the_image_before_is_the_one_that_the_channel_released() {
    needs!("docker-registry");
    let meters = Meters::new("");
    let key = meters.tests.key.clone();
    meters.measure(&[OLD, SLOW, FAST], "5", &key);
    let before = |image: &str, more: &[&str]| {
        let compared = meters.comparison(image, more);
        compared["before"]["image"].as_str().unwrap().trim_start_matches("deploy::").to_owned()
    };
    assert_eq!(before(FAST, &["--remote"]), SLOW);
    // The image between was never released.
    for image in [OLD, FAST] {
        meters.tests.bed.change(&["promote", "stable", image]).success();
        meters.run(&["image", "pull", "--force", "meter:stable"]).success();
    }
    for image in [FAST, "meter:stable"] {
        assert_eq!(before(image, &["--remote"]), OLD);
        assert_eq!(before(image, &[]), OLD);
    }
    assert_eq!(before(SLOW, &["--remote"]), OLD);
}

#[test]
fn the_gate_refuses_what_is_worse_than_the_released_image() {
    needs!("docker-registry");
    let meters = Meters::new("regressions = \"refuse\"");
    let key = meters.tests.key.clone();
    assert!(meters.rule(OLD).1.contains("the channel releases no image of this name"));
    meters.tests.bed.change(&["promote", "stable", OLD]).success();
    assert!(meters.rule(OLD).1.contains("the channel releases this image"));
    let unknown = meters.rule(SLOW);
    assert_eq!(unknown.0, 0, "{}", unknown.1);
    assert!(unknown.1.contains("the released image has no figures that count"), "{}", unknown.1);
    meters.measure(&[OLD, SLOW, FAST], "5", &key);
    let (code, worse) = meters.rule(SLOW);
    assert_eq!(code, 13, "{worse}");
    let said = "1 worse (speed rate: 100 ± 1 MB/s (5 runs) before, 80 ± 0.8 MB/s";
    assert!(worse.contains("failed") && worse.contains(said), "{worse}");
    assert!(meters.rule(FAST).1.contains("1 better"));
    let waive = ["waive", "stable", SLOW, "--rule", "regressions", "--reason", "fixes a crash"];
    meters.tests.bed.change(&[&waive[..], &["--until", "2999-01-01"]].concat()).success();
    let (code, waived) = meters.rule(SLOW);
    assert_eq!(code, 0, "{waived}");
    assert!(waived.contains("fixes a crash"), "{waived}");
    // The other choices of a site.
    let evidence = "[evidence]\ntesters = [\"KEY.tests.pub\"]";
    meters.build("meter/4.0:v1@here%x86_64", 81);
    let newest = "meter/4.0:v1@here%x86_64";
    assert_eq!(meters.rule(newest).0, 0);
    meters.tests.bed.configure("regressions = \"refuse-unknown\"", evidence);
    let (code, missing) = meters.rule(newest);
    assert_eq!(code, 13, "{missing}");
    assert!(missing.contains("1 missing (speed rate)"), "{missing}");
    assert_eq!(meters.rule(FAST).0, 0);
    meters.measure(&[newest], "5", &key);
    let (code, late) = meters.rule(newest);
    assert_eq!(code, 13, "{late}");
    meters.tests.bed.configure("regressions = \"report\"", evidence);
    meters.measure(&[OLD, newest], "5", &key);
    let (code, reported) = meters.rule(newest);
    assert!(code == 0 && reported.contains("1 worse"), "{reported}");
    meters.tests.bed.configure("regressions = \"refuse\"", "");
    let (code, nobody) = meters.rule(SLOW);
    assert!(code == 0 && nobody.contains("no `testers`"), "{nobody}");
    assert_eq!(meters.rule(newest).0, 13);
}

/// A statement of a run with one figure.
fn statement(
    image: &Digest,
    finished: Timestamp,
    value: f64,
    change: &dyn Fn(&mut Details),
) -> Statement {
    let measured = Measured {
        variable: "rate".to_owned(),
        value,
        unit: "MB/s".to_owned(),
        reference: Some(100.0),
        lower: Some(-0.9),
        upper: None,
    };
    let mut details = Details {
        outcome: Some(Outcome::Passed),
        system: Some("here".to_owned()),
        started: Some(finished),
        finished: Some(finished),
        runner: Runner::default(),
        host: Host::default(),
        performance: vec![Performance { test: "speed".to_owned(), measured }],
        ..Details::default()
    };
    change(&mut details);
    Statement::of_checks(("meter", image, None), (&["speed"], &[]), &[], &details)
}

#[test]
fn figures_that_do_not_count_change_nothing() {
    needs!("docker-registry");
    let meters = Meters::new("regressions = \"refuse\"");
    let key = meters.tests.key.clone();
    meters.tests.bed.change(&["promote", "stable", OLD]).success();
    meters.measure(&[OLD, SLOW], "5", &key);
    let expected = meters.rule(SLOW);
    assert!(expected.0 == 13 && expected.1.contains("1 worse"), "{}", expected.1);
    let compared = meters.compared(SLOW, &["--remote"]);
    // Of a stranger with the right to write: fast runs of the slow image.
    let other = format!("{key}.other");
    meters.run(&["image", "key", "new", &other]).success();
    let world = &meters.tests.bed.shared.cabane.world;
    let digest = |image: &str| -> Digest {
        let shown = meters.run(&["image", "inspect", image, "--format", "{digest}"]).success();
        shown.stdout.trim().parse().unwrap()
    };
    let image = digest(SLOW);
    let attach = |image: &str, key: &str, statements: &[Statement]| {
        let key = SigningKey::read(Path::new(key)).unwrap().0;
        let files = statements.iter().enumerate().map(|(number, statement)| {
            let signed = SignedStatement::sign(statement, &key).unwrap();
            let text = String::from_utf8(signed.to_bytes()).unwrap();
            world.file(&format!("home/{number}.json"), &text).display().to_string()
        });
        let files: Vec<String> = files.collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        meters.run(&[&["evidence", "attach", image], &files[..]].concat()).success();
    };
    // At the times of the runs that count, three times as many.
    let listed = meters.tests.listed(SLOW, &[]);
    let finished = listed.iter().map(|one| -> Timestamp {
        let details = &one["statement"]["predicate"]["https://cabane.dev/evidence/v1"];
        details["finished"].as_str().unwrap().parse().unwrap()
    });
    let finished: Vec<Timestamp> = finished.collect();
    let details = &listed[0]["statement"]["predicate"]["https://cabane.dev/evidence/v1"];
    let host: Host = serde_json::from_value(details["host"].clone()).unwrap();
    let on_host = |change: &dyn Fn(&mut Details), details: &mut Details| {
        details.host = host.clone();
        change(details);
    };
    let many = |value: f64, change: &dyn Fn(&mut Details)| -> Vec<Statement> {
        let times = (1..=3).flat_map(|late| {
            finished.iter().map(move |time| *time + SignedDuration::from_millis(late))
        });
        let change = |details: &mut Details| on_host(change, details);
        times.map(|time| statement(&image, time, value, &change)).collect()
    };
    attach(SLOW, &other, &many(500.0, &|_| ()));
    assert_eq!(meters.rule(SLOW), expected);
    // Of the tester, on another host, for another system, from the future, of a run that ended with an error, and without
    // a number that can be compared.
    let future = "2999-01-01T00:00:00Z".parse().ok();
    let changes: [&dyn Fn(&mut Details); 5] = [
        &|details| details.host.kernel = Some("1.0".to_owned()),
        &|details| details.system = Some("daint".to_owned()),
        &|details| details.finished = future,
        &|details| details.outcome = Some(Outcome::Error),
        &|details| details.performance[0].measured.value = 1e300,
    ];
    for change in changes {
        attach(SLOW, &key, &many(500.0, change));
        assert_eq!(meters.rule(SLOW), expected);
    }
    // What is no number cannot be written in JSON, and such a statement says nothing at all.
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        attach(SLOW, &key, &many(value, &|_| ()));
    }
    assert_eq!(meters.rule(SLOW), expected);
    assert_eq!(meters.compared(SLOW, &["--remote"]), compared);
    // The same run again, signed again, is one run. Zero with a sign is a number.
    let again = vec![statement(&digest(FAST), finished[0], -0.0, &|_| ()); 6];
    attach(FAST, &key, &again);
    let (answer, reason, runs) = meters.compared(FAST, &["--with", SLOW, "--remote"]);
    assert_eq!((answer.as_str(), reason.as_str(), runs), ("cannot-tell", "1 of 5 runs now", 1));
    // What is removed from the registry is still in the repository of the release manager.
    for image in [OLD, SLOW] {
        meters.run(&["evidence", "prune", image, "--remote", "--keep-last", "1"]).success();
    }
    let (code, said) = meters.rule(SLOW);
    assert!(code == 13 && said.contains("1 worse"), "{said}");
    // What counts does change it.
    attach(SLOW, &key, &many(500.0, &|_| ()));
    assert_eq!(meters.compared(SLOW, &["--remote"]).2, 16);
    assert_eq!(meters.rule(SLOW).0, 0);
}
