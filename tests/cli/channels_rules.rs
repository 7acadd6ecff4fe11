// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Rules of the gate about hosts and suites: `runs_on` and `suites`.

use cabane_testkit::{compile, needs};
use serde_json::Value;

use crate::cabane::{APP, Who};
use crate::channels::{Bed, NEW};
use crate::check_suite::greeting_suite;
use crate::evidence::Tests;

const REJECTED: i32 = 13;
const LINKED: &str = "linked/1.0:v1@here%x86_64";

/// The exit code of a promotion, and what it says about a rule.
fn rule(bed: &Bed, image: &str, rule: &str) -> (i32, Vec<String>) {
    let run = bed.run(&["channel", "promote", "stable", image, "--dry-run"]);
    let lines = run.stdout.lines().filter(|line| line.contains(&format!(" {rule} ")));
    (run.code, lines.map(str::to_owned).collect())
}

#[test]
fn an_image_must_run_on_the_hosts_of_the_channel() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let cabane = &bed.shared.cabane;
    let world = &cabane.world;
    let program = world.directory("recipe/files/bin").join("hello");
    compile("int main(void) { return 0; }", &program, ["-O1"]);
    let store = cabane.mount_point("linked");
    let config = format!("name: linked\nengine: tree\nstore: {store}\ntree: {{source: files}}\n");
    let recipe = world.file("recipe/config.yaml", &config);
    bed.run(&["build", recipe.parent().unwrap().to_str().unwrap(), LINKED]).success();
    bed.run(&["image", "push", LINKED]).success();
    let file = |name: &str| world.path(&format!("home/{name}.json")).display().to_string();
    let here = file("here");
    bed.run(&["system", "probe", "--facts", &here]).success();
    let facts: Value = serde_json::from_slice(&std::fs::read(&here).unwrap()).unwrap();
    let other = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut facts = facts.clone();
        change(&mut facts);
        world.file(&format!("home/{name}.json"), &facts.to_string());
    };
    other("arm", &|facts| facts["architecture"] = "aarch64".into());
    other("old", &|facts| {
        facts["glibc"] = "2.0".into();
        facts["libraries"] = Value::Array(Vec::new());
    });
    other("future", &|facts| facts["version"] = 2.into());
    let configure = |names: &[&str]| {
        let files: Vec<_> = names.iter().map(|name| format!("{:?}", file(name))).collect();
        bed.configure(&format!("runs_on = [{}]", files.join(", ")), "");
    };
    configure(&["here"]);
    let (code, said) = rule(&bed, LINKED, "runs_on");
    assert!(code == 0 && said[0].contains("here.json: unaffected"), "{said:?}");
    bed.change(&["promote", "stable", LINKED]).success();
    // Each host is asked, and one is enough.
    configure(&["here", "arm"]);
    let (code, said) = rule(&bed, LINKED, "runs_on");
    assert_eq!((code, said.len()), (REJECTED, 2), "{said:?}");
    assert!(said[0].contains("passed") && said[1].contains("arm.json: breaks: "), "{said:?}");
    configure(&["old"]);
    let (code, said) = rule(&bed, LINKED, "runs_on");
    assert!(code == REJECTED && said[0].contains("old.json: breaks: "), "{said:?}");
    // Metadata that do not say what the image needs are no permission.
    configure(&["here"]);
    let (code, said) = rule(&bed, APP, "runs_on");
    assert!(code == REJECTED && said[0].contains("here.json: unknown: "), "{said:?}");
    let waive = |rule: &str| {
        let waive = ["waive", "stable", APP, "--rule", rule, "--reason", "seen to run"];
        bed.change(&[&waive[..], &["--until", "2999-01-01"]].concat())
    };
    let error = waive("runs_on");
    assert!(error.code == 2 && error.stderr.contains("`runs_on:FILE`"), "{}", error.stderr);
    let error = waive("runs_on:arm.json");
    assert!(error.stderr.contains("hint: use `--rule runs_on:here.json`"), "{}", error.stderr);
    waive("runs_on:here.json").success();
    // A waiver is for one host.
    configure(&["here", "arm"]);
    let (code, said) = rule(&bed, APP, "runs_on");
    assert!(
        code == REJECTED && said[0].contains("waived") && said[1].contains("failed"),
        "{said:?}"
    );
    configure(&["here"]);
    bed.change(&["promote", "stable", APP]).success();
    // A file that cannot be used stops everything.
    for (name, expected) in [("future", "version 2 of facts is not known"), ("none", "cannot read")]
    {
        configure(&[name]);
        let run = bed.run(&["channel", "promote", "stable", LINKED, "--dry-run"]);
        assert!(run.code != 0 && run.stderr.contains(expected), "{}", run.stderr);
    }
}

const TESTS: &str = "@rfm.simple_test\nclass Hello(Greets):\n    pass\n";

#[test]
fn the_newest_results_must_have_the_suites_of_the_channel() {
    needs!("docker-registry");
    let reframe = needs!("reframe");
    let tests = Tests::new("suites = [\"hpc-tests\"]", "");
    let cabane = &tests.bed.shared.cabane;
    cabane.world.file("home/hpc-tests/greets.py", &greeting_suite(["*", "hello", "hello"], TESTS));
    cabane
        .world
        .file("home/gpu-tests/greets.py", &greeting_suite(["+gpu", "hello", "hello"], TESTS));
    let check = |suites: &[&str], more: &[&str], key: &str| {
        let directories = suites.iter().map(|name| cabane.world.path(&format!("home/{name}")));
        let options = directories.map(|path| format!("--suite={}", path.display()));
        let options: Vec<String> = options.collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let fixed = ["check", APP, "--key", key, "--attach"];
        let mut command = cabane.command(&[&fixed, &options[..], more].concat());
        cabane.finish(command.env("CABANE_REFRAME", &reframe)).success();
    };
    let said = |expected: &str| {
        let (code, lines) = rule(&tests.bed, APP, "suites");
        assert!(lines[0].contains(expected), "{lines:?}");
        code
    };
    assert_eq!(said("no results of all checks"), REJECTED);
    check(&[], &[], &tests.key);
    assert_eq!(said("lack `hpc-tests`"), REJECTED);
    // A suite of which no test fits is in the results, and nothing of it passed.
    check(&["gpu-tests"], &[], &tests.key);
    tests.bed.configure(
        "suites = [\"gpu-tests\", \"hpc-tests\"]",
        "[evidence]\ntesters = [\"KEY.tests.pub\"]",
    );
    assert_eq!(said("lack `gpu-tests` and `hpc-tests`"), REJECTED);
    tests.bed.configure("suites = [\"hpc-tests\"]", "[evidence]\ntesters = [\"KEY.tests.pub\"]");
    // Of a stranger, and of some checks only.
    let other = format!("{}.other", tests.key);
    tests.run(&["image", "key", "new", &other]).success();
    check(&["hpc-tests"], &[], &other);
    check(&["hpc-tests"], &["--only", "hpc-tests"], &tests.key);
    assert_eq!(said("lack `hpc-tests`"), REJECTED);
    check(&["hpc-tests"], &[], &tests.key);
    assert_eq!(said("`hpc-tests`: tests passed on here on "), 0);
    tests.bed.change(&["promote", "stable", APP]).success();
    // The results are in the entry of the channel, once.
    let newest = tests.listed(APP, &["--remote"])[0]["id"].clone();
    assert_eq!(tests.bed.show("stable")["entries"][0]["evidence"], Value::Array(vec![newest]));
    // Only the newest results count.
    check(&[], &[], &tests.key);
    assert_eq!(said("lack `hpc-tests`"), REJECTED);
    let waive = ["waive", "stable", NEW, "--rule", "suites", "--reason", "no suite fits"];
    tests.bed.change(&[&waive[..], &["--until", "2999-01-01"]].concat()).success();
    tests.bed.change(&["promote", "stable", NEW]).success();
    tests.bed.configure("suites = [\"hpc-tests\"]", "");
    assert_eq!(said("no `testers`"), REJECTED);
}
