// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Evidence: signed results of checks, kept beside images and attached to them in registries.

use std::process::Stdio;

use cabane_testkit::{Finished, Program, belongs_to, needs};
use serde_json::Value;

use crate::cabane::{APP, Who};
use crate::channels::{Bed, NEW};

/// A registry with images, a channel, and a tester.
pub(crate) struct Tests {
    pub(crate) bed: Bed,
    pub(crate) key: String,
}

const MORE: &str = "[evidence]\ntesters = [\"KEY.tests.pub\"]";

impl Tests {
    pub(crate) fn new(stable: &str, more: &str) -> Self {
        let bed = Bed::new(Who::OrdinaryUser, stable, &format!("{MORE}\n{more}"));
        let key = format!("{}.tests", bed.key);
        bed.run(&["image", "key", "new", &key]).success();
        Self { bed, key }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.bed.run(arguments)
    }

    /// Runs the checks of the image, or one of them, and signs and attaches the result.
    fn test(&self, image: &str, only: &[&str], key: &str) -> Finished {
        self.run(&[&["check", image, "--key", key, "--attach"], only].concat())
    }

    pub(crate) fn verify(&self, image: &str, more: &[&str]) -> (i32, String) {
        let run = self.run(&[&["evidence", "verify", image], more].concat());
        (run.code, run.stdout)
    }

    pub(crate) fn listed(&self, image: &str, more: &[&str]) -> Vec<Value> {
        let run = self.run(&[&["evidence", "ls", image, "--json"], more].concat()).success();
        serde_json::from_str(&run.stdout).unwrap()
    }
}

#[test]
fn results_are_signed_kept_attached_and_count() {
    needs!("docker-registry");
    let tests = Tests::new("", "");
    assert_eq!(tests.verify(APP, &[]).0, 18);
    assert_eq!(tests.verify(APP, &["--remote"]).0, 18);
    let passed = tests.test(APP, &[], &tests.key).success();
    assert!(passed.stderr.contains("attached the statement"), "{}", passed.stderr);
    for place in [&[][..], &["--remote"]] {
        let (code, said) = tests.verify(APP, place);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains(": PASSED: tests passed on here on "), "{said}");
    }
    // A run of some checks is recorded, and decides nothing unless one fails.
    let nothing = tests.test(APP, &["--only", "compilers"], &tests.key);
    assert_eq!(nothing.code, 18, "{}", nothing.stderr);
    assert_eq!(tests.verify(APP, &["--remote"]).0, 0);
    let listed = tests.listed(APP, &["--remote"]);
    let outcomes: Vec<_> = listed.iter().map(|one| one["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["NOT TESTED", "PASSED"]);
    // Of another system, and of another tester.
    assert_eq!(tests.verify(APP, &["--on", "daint"]).0, 18);
    let other = format!("{}.other", tests.key);
    tests.run(&["image", "key", "new", &other]).success();
    tests.test(APP, &[], &other).success();
    let newest = &tests.listed(APP, &[])[0]["standing"];
    assert_eq!(newest["standing"], "ignored", "{newest}");
    assert_eq!(newest["detail"], "signed with another key", "{newest}");
}

#[test]
fn evidence_goes_where_the_image_goes() {
    needs!("docker-registry");
    let tests = Tests::new("", "");
    tests.test(APP, &[], &tests.key).success();
    tests.run(&["image", "copy", APP, "app/3.0:v1"]).success();
    assert_eq!(tests.verify("app/3.0:v1", &["--remote"]).0, 0);
    // A repository gets it with the image; a push brings what only the repository has.
    tests.run(&["image", "rm", APP]).success();
    tests.run(&["image", "pull", "app/3.0:v1"]).success();
    assert_eq!(tests.verify("app/3.0:v1", &[]).0, 0);
    tests.run(&["check", "app/3.0:v1", "--only", "mpi", "--key", &tests.key]);
    tests.run(&["image", "push", "app/3.0:v1", "app/4.0:v1"]).success();
    assert_eq!(tests.listed("app/4.0:v1", &["--remote"]).len(), 2);
    // So does a mirror, and a file for a site without a network.
    let mirror = format!("{}/mirror", tests.bed.shared.registry.url());
    let source = format!("{}/uenv", tests.bed.shared.registry.url());
    tests.run(&["registry", "mirror", &source, &mirror, "app/4.0:v1"]).success();
    assert_eq!(tests.listed("app/4.0:v1", &["--remote", "--registry", &mirror]).len(), 2);
    let file = tests.bed.shared.cabane.world.path("home/app.cabane");
    let file = file.to_str().unwrap();
    tests.run(&["bundle", "create", file, "app/4.0:v1"]).success();
    assert_eq!(tests.listed("app/4.0:v1", &["--remote", "--registry", file]).len(), 2);
    // Files for other tools, and back.
    let directory = tests.bed.shared.cabane.world.path("home/evidence");
    let to = directory.to_str().unwrap();
    tests.run(&["evidence", "export", APP, "--remote", "-o", to]).success();
    let bundle = std::fs::read_dir(&directory).unwrap().next().unwrap().unwrap().path();
    let bundle = bundle.to_str().unwrap().to_owned();
    let other = tests.run(&["evidence", "attach", NEW, &bundle]);
    assert_eq!(other.code, 3, "{}", other.stderr);
    assert!(other.stderr.contains("is about another image"), "{}", other.stderr);
    tests.run(&["evidence", "attach", "app/4.0:v1", &bundle]).success();
    assert_eq!(tests.listed("app/4.0:v1", &["--remote"]).len(), 2);
    tests.run(&["image", "delete", "app/4.0:v1"]).success();
}

#[test]
fn the_gate_wants_tests_that_passed() {
    needs!("docker-registry");
    let tests = Tests::new("tested_within = \"30d\"", "");
    let promote = || tests.bed.run(&["channel", "promote", "stable", APP, "--dry-run"]);
    let refused = |expected: &str| {
        let run = promote();
        assert_eq!(run.code, 13, "{}", run.stdout);
        let is_rule = |line: &&str| line.contains("tested_within");
        let line = run.stdout.lines().find(is_rule).unwrap_or_default().to_owned();
        assert!(line.contains("failed") && line.contains(expected), "{line}");
    };
    refused("no results of all checks");
    let other = format!("{}.other", tests.key);
    tests.run(&["image", "key", "new", &other]).success();
    tests.test(APP, &[], &other).success();
    refused("no results with the signature of a tester");
    // One check of several is no success.
    tests.test(APP, &["--only", "starts"], &tests.key).success();
    refused("no results with the signature of a tester");
    tests.test(APP, &[], &tests.key).success();
    let run = promote();
    assert_eq!(run.code, 0, "{}", run.stdout);
    assert!(run.stdout.contains("tests passed on here on"), "{}", run.stdout);
    tests.bed.change(&["promote", "stable", APP]).success();
    // The channel says which statement it was.
    let newest = tests.listed(APP, &["--remote"])[0]["id"].clone();
    assert_eq!(tests.bed.show("stable")["entries"][0]["evidence"], Value::Array(vec![newest]));
    // What has the label in the registry by now is not what was tested.
    tests.run(&["image", "push", &tests.bed.image("third"), APP, "--force"]).success();
    let swapped = tests.test(APP, &[], &tests.key);
    assert_eq!(swapped.code, 1, "{}", swapped.stderr);
    assert!(swapped.stderr.contains("was tested"), "{}", swapped.stderr);
    assert!(swapped.stderr.contains("kept the statement"), "{}", swapped.stderr);
    tests.run(&["image", "push", APP, "--force"]).success();
    // A statement about one image says nothing about another.
    let swapped = tests.bed.run(&["channel", "promote", "stable", NEW, "--dry-run"]);
    assert_eq!(swapped.code, 13, "{}", swapped.stdout);
    // What somebody removed from the registry is still known to the repository of the manager.
    let mut broken = tests.bed.shared.cabane.command(&["check", APP, "--key", &tests.key]);
    let broken = tests.bed.shared.cabane.finish(broken.env("CABANE_BACKEND", "helper"));
    assert_eq!(broken.code, 17, "{}", broken.stderr);
    refused("tests could not run on here");
    tests.test(APP, &[], &tests.key).success();
    assert_eq!(promote().code, 0);
    // Only one of the two images has passed.
    let find = |outcome: &str| tests.bed.shared.labels(&["--tested", outcome, "--since", "30d"]);
    assert_eq!(find("passed"), [APP]);
    assert_eq!(find("not-tested"), [NEW]);
    // After a maintenance everything is tested again.
    tests.bed.configure(
        "tested_within = \"30d\"",
        "[evidence]\ntesters = [\"KEY.tests.pub\"]\ngeneration = \"2026-12\"",
    );
    refused("before the generation 2026-12");
    tests.test(APP, &[], &tests.key).success();
    assert_eq!(promote().code, 0);
    let waived = [
        "waive",
        "stable",
        NEW,
        "--rule",
        "tested_within",
        "--reason",
        "urgent",
        "--until",
        "2999-01-01",
    ];
    tests.bed.change(&waived).success();
    tests.bed.change(&["promote", "stable", NEW]).success();
}

#[test]
fn of_twenty_testers_at_once_none_is_lost() {
    needs!("docker-registry");
    let tests = Tests::new("", "");
    tests.run(&["image", "pull", "--force", APP]).success();
    let starts: Vec<_> = (0..20)
        .map(|_| {
            let arguments = ["check", APP, "--key", &tests.key, "--attach"];
            let mut command = tests.bed.shared.cabane.command(&arguments);
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for child in starts {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(tests.listed(APP, &["--remote"]).len(), 20);
    assert_eq!(tests.listed(APP, &[]).len(), 20);
    let pruned = tests.run(&["evidence", "prune", APP, "--remote", "--keep-last", "3"]).success();
    assert!(pruned.stderr.contains("removed 17 statements"), "{}", pruned.stderr);
    assert_eq!(tests.listed(APP, &["--remote"]).len(), 3);
    tests.run(&["evidence", "prune", APP, "--keep-last", "3"]).success();
    assert_eq!(tests.listed(APP, &[]).len(), 3);
}

#[test]
fn cosign_verifies_what_was_attested_here() {
    needs!("docker-registry");
    let Some(cosign) = Program::find("cosign").path() else {
        belongs_to!("CABANE_TEST_COSIGN=PROGRAM make test");
    };
    let tests = Tests::new("", "");
    tests.test(APP, &[], &tests.key).success();
    let host = tests.bed.shared.registry.host();
    let image = format!("{host}/uenv/deploy/here/x86_64/app/1.0:v1");
    // Version 2 wants to see the roots of Sigstore also where a key is given; none will do.
    let root = r#"{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}"#;
    let root = tests.bed.shared.cabane.world.file("home/root.json", root);
    let verify = |key: &str| {
        let mut command = tests.bed.shared.cabane.other(cosign.to_str().unwrap());
        command.args(["verify-attestation", "--new-bundle-format", "--trusted-root"]).arg(&root);
        let kind = "https://in-toto.io/attestation/test-result/v0.1";
        command.args(["--key", &format!("{key}.pub"), "--type", kind]);
        command.args(["--insecure-ignore-tlog", "--allow-http-registry", &image]);
        tests.bed.shared.cabane.finish(&mut command)
    };
    verify(&tests.key).success();
    assert_ne!(verify(&tests.bed.key).code, 0);
}

const REPORT: &str = r#"{"session_info": {"data_version": "4.2", "hostname": "n1", "user": "me",
    "time_elapsed": 1, "time_end_unix": 1795719074.7, "time_start_unix": 1795719073, "uuid": "u",
    "version": "4.10.4"EXTRA}, "restored_cases": [], "runs": [{"num_cases": 1, "num_failures": 0,
    "testcases": [{"environ": "default", "fail_phase": null, "fail_reason": null,
    "filename": "/home/me/hello.py", "job_completion_time_unix": null, "name": "Hello",
    "perfvalues": {}, "partition": "p", "result": "pass", "system": "here", "time_total": 1,
    "unique_name": "Hello"}]}]}"#;

#[test]
fn reports_of_others_are_shown_and_never_count() {
    needs!("docker-registry");
    let tests = Tests::new("tested_within = \"30d\"", "");
    let world = &tests.bed.shared.cabane.world;
    let file = |name: &str, text: &str| world.file(name, text).display().to_string();
    let junit =
        file("home/report.xml", "<?xml version=\"1.0\"?><testsuites><testsuite/></testsuites>");
    let attach = |more: &[&str]| tests.run(&[&["evidence", "attach", APP], more].concat());
    let report = file("home/report.json", &REPORT.replace("EXTRA", ""));
    let run = attach(&["--junit", &junit, "--reframe", &report]).success();
    assert!(run.stderr.contains("attached the JUnit report"), "{}", run.stderr);
    // The same one is attached once.
    attach(&["--reframe", &report]).success();
    let listed = tests.listed(APP, &["--remote"]);
    let kinds: Vec<_> = listed.iter().map(|one| one["report"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["JUnit", "ReFrame"]);
    assert!(listed.iter().all(|one| one["standing"]["standing"] == "ignored"), "{listed:?}");
    let shown = tests.run(&["evidence", "ls", APP, "--remote"]).success().stdout;
    assert_eq!(shown.matches("no, not signed").count(), 2, "{shown}");
    // They decide nothing.
    assert_eq!(tests.verify(APP, &["--remote"]).0, 18);
    let find = |outcome: &str| tests.bed.shared.labels(&["--tested", outcome, "--since", "30d"]);
    assert_eq!(find("passed"), Vec::<String>::new());
    let gate = tests.bed.run(&["channel", "promote", "stable", APP, "--dry-run"]);
    assert_eq!(gate.code, 13, "{}", gate.stdout);
    assert!(gate.stdout.contains("no results of all checks"), "{}", gate.stdout);
    // What is refused, with the reason.
    let other_image = REPORT.replace("EXTRA", ", \"cabane_image\": \"00\"");
    let other_image = file("home/other.json", &other_image);
    let old = file("home/old.json", &REPORT.replace("4.2", "3.1").replace("EXTRA", ""));
    for (option, path, expected) in [
        ("--reframe", &other_image, "is about another image"),
        ("--reframe", &old, "data version 3.1, and only versions 4.x can be read"),
        ("--reframe", &junit, "is not a report of ReFrame"),
        ("--junit", &report, "is not XML with a `testsuite`"),
    ] {
        let run = attach(&[option, path]);
        assert_eq!(run.code, 3, "{}", run.stderr);
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    }
    // They go where the image goes, and back into files without names of users and hosts.
    tests.run(&["image", "copy", APP, "app/3.0:v1"]).success();
    assert_eq!(tests.listed("app/3.0:v1", &["--remote"]).len(), 2);
    let directory = world.path("home/reports");
    let to = directory.to_str().unwrap();
    tests.run(&["evidence", "export", "app/3.0:v1", "--remote", "-o", to]).success();
    let files = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<String> = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert!(files.iter().any(|text| text.contains("<testsuites>")), "{files:?}");
    let json = files.iter().find(|text| text.contains("\"Hello\"")).unwrap();
    assert!(!json.contains("user") && !json.contains("n1") && !json.contains("/home"), "{json}");
}

#[test]
fn a_report_of_a_pipeline_with_oras_is_listed() {
    needs!("docker-registry");
    let oras = needs!("oras");
    let tests = Tests::new("", "");
    let cabane = &tests.bed.shared.cabane;
    cabane.world.file("home/report.xml", "<testsuite/>");
    let image = format!("{}/uenv/deploy/here/x86_64/app/1.0:v1", tests.bed.shared.registry.host());
    let mut command = cabane.other(oras.to_str().unwrap());
    command.current_dir(cabane.world.path("home")).args(["attach", "--plain-http"]);
    command.args(["--artifact-type", "uenv/reframe", &image, "report.xml"]);
    cabane.finish(&mut command).success();
    let listed = tests.listed(APP, &["--remote"]);
    assert_eq!((listed.len(), &listed[0]["report"]), (1, &"JUnit".into()));
    assert_eq!(tests.verify(APP, &["--remote"]).0, 18);
}
