// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What administrators do with a registry: who moved which label, what takes the space, and what nobody
//! needs.

use cabane_testkit::{Finished, needs};
use serde_json::Value;

use crate::cabane::{APP, Who};
use crate::channels::{Bed, NEW};
use crate::slurm_report::record;

fn json(bed: &Bed, arguments: &[&str]) -> Value {
    let output = bed.run(&[arguments, &["--json"]].concat()).success().stdout;
    serde_json::from_str(&output).unwrap()
}

/// Of each entry of the log: the version, the tag, whether there was an image before and is one after, and the
/// user.
fn entries(bed: &Bed) -> Vec<String> {
    let log = json(bed, &["registry", "log"]);
    let entry = |one: &Value| {
        let label = one["label"].as_str().unwrap().trim_start_matches("app/");
        let label = label.trim_end_matches("@here%x86_64");
        let sign = |key: &str| if one[key].is_null() { '-' } else { '+' };
        let by = one["by"].as_str().map_or("-", |_| "me");
        format!("{label} {}{} {by}", sign("before"), sign("after"))
    };
    log.as_array().unwrap().iter().map(entry).collect()
}

#[test]
fn a_log_tells_which_label_moved_when_and_by_whom() {
    needs!("docker-registry");
    let oras = needs!("oras");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let mut expected = vec!["1.0:v1 -+ me", "2.0:v1 -+ me"];
    let sorted = |mut entries: Vec<String>| {
        entries.sort();
        entries
    };
    assert_eq!(sorted(entries(&bed)), expected);
    // The same again is no change.
    bed.run(&["image", "push", APP]).success();
    assert_eq!(entries(&bed).len(), 2);
    bed.run(&["image", "push", &bed.image("third"), NEW, "--force"]).success();
    bed.run(&["image", "copy", APP, "app/3.0:v1"]).success();
    bed.run(&["image", "delete", APP]).success();
    expected.extend(["1.0:v1 +- me", "2.0:v1 ++ me", "3.0:v1 -+ me"]);
    expected.sort_unstable();
    assert_eq!(sorted(entries(&bed)), expected);
    // Another tool moves a label, and who finds it says so.
    let repository = format!("{}/uenv/deploy/here/x86_64/app", bed.shared.registry.host());
    let (from, to) = (format!("{repository}/3.0:v1"), format!("{repository}/2.0:v1"));
    let mut command = bed.shared.cabane.world.command(&oras);
    let command = command.args(["cp", "--from-plain-http", "--to-plain-http", &from, &to]);
    Finished::of(command).success();
    bed.run(&["registry", "reindex"]).success();
    let found = entries(&bed);
    assert_eq!(found.iter().filter(|one| *one == "2.0:v1 ++ -").count(), 1, "{found:?}");
    let recent = bed.run(&["registry", "log", "app/3.0", "--since", "1h"]).success().stdout;
    assert_eq!(recent.lines().count(), 2, "{recent}");
}

#[test]
fn usage_counts_shared_images_once() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    bed.run(&["image", "copy", APP, "tool/1.0:v1"]).success();
    let usage = json(&bed, &["registry", "usage"]);
    let group = |name: &str| {
        let groups = usage["groups"].as_array().unwrap();
        groups.iter().find(|one| one["key"] == name).unwrap().clone()
    };
    let (app, tool) = (group("app"), group("tool"));
    let counts = |one: &Value| (one["labels"].as_u64().unwrap(), one["images"].as_u64().unwrap());
    assert_eq!((counts(&app), counts(&tool)), ((2, 2), (1, 1)));
    // What the tool has, the application has as well.
    assert_eq!(tool["own_bytes"], 0);
    assert_eq!(counts(&usage["total"]), (3, 2));
    assert_eq!(usage["total"]["bytes"], app["bytes"]);
    let users = json(&bed, &["registry", "usage", "--by", "user"]);
    assert_eq!(users["groups"].as_array().unwrap().len(), 1);
    let months = bed.run(&["registry", "usage", "--by", "month"]).success().stdout;
    assert!(months.contains("total"), "{months}");
}

#[test]
fn what_is_released_pinned_or_used_stays() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let labels = ["app/2.1:v1", "app/2.2:v1", "app/2.3:v1", "app/2.4:v1"];
    for (number, label) in labels.iter().enumerate() {
        let image = bed.image(&format!("more{number}"));
        bed.run(&["image", "push", &image, label]).success();
    }
    bed.change(&["promote", "stable", APP]).success();
    bed.change(&["promote", "stable", NEW]).success();
    let digest =
        json(&bed, &["image", "find", "app/2.1"])[0]["digest"].as_str().unwrap().to_owned();
    let used = record("cabane-step", "n1", "alice", &digest, "\"mounted\":true");
    bed.shared.cabane.world.file("home/records.jsonl", &used);
    let records = bed.shared.cabane.world.path("home/records.jsonl");
    let arguments = ["registry", "gc", "--keep-last", "1", "--spare", "0s", "--pin", "app/2.2"];
    let arguments = [&arguments[..], &["--records", records.to_str().unwrap()]].concat();
    // Those of the last two days stay by default.
    bed.run(&["registry", "gc", "--keep-last", "1", "--dry-run", "--json"]).success();
    let recent = bed.run(&["registry", "gc", "--keep-last", "1", "--dry-run"]).success();
    assert!(recent.stderr.contains("0 labels would be deleted"), "{}", recent.stderr);
    let planned = bed.run(&[&arguments[..], &["--dry-run"]].concat()).success();
    for (label, reason) in [
        ("app/1.0:v1", "released by stable@here"),
        ("app/2.0:v1", "released by stable@here"),
        ("app/2.1:v1", "used by jobs"),
        ("app/2.2:v1", "pinned"),
        ("app/2.3:v1", "surplus"),
        ("app/2.4:v1", "one of the newest"),
    ] {
        let is_said = |line: &str| line.starts_with(label) && line.ends_with(reason);
        assert!(planned.stdout.lines().any(is_said), "{label}: {}", planned.stdout);
    }
    let deleted = bed.run(&arguments).success();
    assert!(deleted.stderr.contains("deleted 1 label,"), "{}", deleted.stderr);
    let left = bed.shared.labels(&["--refresh"]);
    assert_eq!(left.len(), 5, "{left:?}");
    assert!(!left.iter().any(|label| label.starts_with("app/2.3")), "{left:?}");
    // Where nobody can tell what a channel releases, nothing is deleted.
    bed.run(&["image", "key", "new", &format!("{}.other", bed.key)]).success();
    let text = std::fs::read_to_string(bed.shared.cabane.world.path("site.toml")).unwrap();
    let text = text.replace("release.pub", "release.other.pub");
    bed.shared.cabane.world.file("site.toml", &text);
    let refused = bed.run(&["registry", "gc", "--keep-last", "1", "--spare", "0s"]);
    assert_eq!(refused.code, 12, "{}", refused.stderr);
    assert!(refused.stderr.contains("is unknown"), "{}", refused.stderr);
    assert_eq!(bed.shared.labels(&["--refresh"]).len(), 5);
    let none = bed.run(&["registry", "gc"]);
    assert_eq!(none.code, 2, "{}", none.stderr);
}
