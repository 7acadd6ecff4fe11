// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane evidence add`: statements from a machine that shares no repository with this one.

use std::fs;
use std::path::PathBuf;

use cabane_testkit::Finished;
use serde_json::{Value, json};

use crate::cabane::{Who, everybody};
use crate::check::{Checked, LABEL};

/// An image whose repository has no statements, and statements of a tester and of a stranger in files.
struct Files {
    checked: Checked,
    image: PathBuf,
    tester: String,
    stranger: String,
}

impl Files {
    fn new(who: Who) -> Self {
        let checked = Checked::new(who, "", &[]);
        let world = &checked.cabane.world;
        let key = world.path("work/tests").display().to_string();
        world.file("site.toml", &format!("[evidence]\ntesters = [\"{key}.pub\"]\n"));
        let mut files = Self {
            image: world.path("work/copy.squashfs"),
            tester: String::new(),
            stranger: String::new(),
            checked,
        };
        let stored = files.stored();
        fs::copy(stored, &files.image).unwrap();
        files.tester = files.made("tests");
        files.stranger = files.made("other");
        files
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.checked.run(arguments)
    }

    /// Where the repository has the image.
    fn stored(&self) -> PathBuf {
        let mut command =
            self.checked.cabane.command(&["image", "inspect", "--format={sqfs}", "app"]);
        Finished::of(&mut command).success().stdout.trim().into()
    }

    /// Tests the image, and returns the file with the statement. The repository then has none.
    fn made(&self, name: &str) -> String {
        let place = |name: String| self.checked.cabane.world.path(&name);
        let key = place(format!("work/{name}")).display().to_string();
        self.run(&["image", "key", "new", &key]).success();
        self.run(&["check", "app", "--only", "starts", "--key", &key]).success();
        let directory = place(format!("work/{name}.evidence"));
        self.run(&["evidence", "export", "app", "-o", directory.to_str().unwrap()]).success();
        let mut files = fs::read_dir(&directory).unwrap();
        let file = files.next().unwrap().unwrap().path().display().to_string();
        self.run(&["image", "rm", "app"]).success();
        self.run(&["image", "add", LABEL, self.image.to_str().unwrap()]).success();
        file
    }

    fn add(&self, more: &[&str]) -> Finished {
        self.run(&[&["evidence", "add", "app"], more].concat())
    }

    /// Whether each statement that the repository has counts.
    fn standings(&self) -> Vec<String> {
        let listed = self.run(&["evidence", "ls", "app", "--json"]).success().stdout;
        let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
        let standing = |one: &Value| one["standing"]["standing"].as_str().unwrap().to_owned();
        listed.iter().map(standing).collect()
    }
}

#[test]
fn statements_in_files_are_added_once_and_count() {
    for who in everybody() {
        let files = Files::new(who);
        assert_eq!(files.standings(), [""; 0]);
        let added = files.add(&[&files.tester, &files.tester]).success();
        let expected = "added 1 statement to the repository `default`";
        assert!(added.stderr.contains(expected), "{}", added.stderr);
        let again = files.add(&[&files.tester]).success();
        assert!(again.stderr.contains("added 0 statements"), "{}", again.stderr);
        assert_eq!(files.standings(), ["counts"]);
        let report = files.run(&["evidence", "report", "app", "--json"]).success().stdout;
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["tests"][0]["name"], "starts", "{report}");
        assert_eq!(report["outcome"], "PASSED", "{report}");
    }
}

#[test]
fn of_files_of_which_one_is_refused_none_is_added() {
    let files = Files::new(Who::OrdinaryUser);
    let refused = files.add(&[&files.tester, &files.stranger]);
    assert_eq!(refused.code, 12, "{}", refused.stderr);
    let expected = "is signed with another key than those of the testers and builders";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    assert!(refused.stderr.contains("--key KEY.pub`"), "{}", refused.stderr);
    assert_eq!(files.standings(), [""; 0]);
    // What is signed is another statement.
    let read =
        |file: &str| -> Value { serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap() };
    let mut changed = read(&files.tester);
    changed["dsseEnvelope"]["payload"] = read(&files.stranger)["dsseEnvelope"]["payload"].clone();
    let world = &files.checked.cabane.world;
    let changed = world.file("work/changed.json", &changed.to_string()).display().to_string();
    assert_eq!(files.add(&[&changed]).code, 12);
    let none = world.file("work/none.json", "{}").display().to_string();
    let none = files.add(&[&none]);
    assert_eq!(none.code, 3, "{}", none.stderr);
    assert!(none.stderr.contains("none.json is no signed statement"), "{}", none.stderr);
    assert_eq!(files.standings(), [""; 0]);
    // A key that is named is accepted, and makes no tester.
    let key = world.path("work/other.pub").display().to_string();
    files.add(&[&files.tester, &files.stranger, "--key", &key]).success();
    let mut standings = files.standings();
    standings.sort_unstable();
    assert_eq!(standings, ["counts", "ignored"]);
}

#[test]
fn statements_about_another_image_are_refused() {
    let files = Files::new(Who::OrdinaryUser);
    let cabane = &files.checked.cabane;
    let other = cabane.image("other", &cabane.mount_point("other"));
    files.run(&["image", "add", "other/1.0:v1", &other]).success();
    let refused = files.run(&["evidence", "add", "other", &files.tester]);
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("is about another image, "), "{}", refused.stderr);
    assert!(refused.stderr.contains("hint: `cabane evidence add "), "{}", refused.stderr);
    // The image is here as a file only.
    files.run(&["image", "rm", "app"]).success();
    let image = files.image.to_str().unwrap();
    let lost = files.run(&["evidence", "add", image, &files.tester]);
    assert_eq!(lost.code, 4, "{}", lost.stderr);
    assert!(lost.stderr.contains("no repository has the image"), "{}", lost.stderr);
}

#[test]
fn statements_in_files_displace_none_that_were_made_here() {
    let files = Files::new(Who::OrdinaryUser);
    let kept = files.stored().parent().unwrap().join("evidence.jsonl");
    let own: Vec<_> = (0..256).map(|number| json!({"number": number}).to_string()).collect();
    let own = own.join("\n") + "\n";
    fs::write(&kept, &own).unwrap();
    let refused = files.add(&[&files.tester]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("has too many statements of app/1.0"), "{}", refused.stderr);
    assert!(refused.stderr.contains("hint: `cabane evidence prune "), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(&kept).unwrap(), own);
}
