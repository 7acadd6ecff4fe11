// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Pulls and pushes that are killed at any instant, two hundred times.

use std::hash::{BuildHasher, RandomState};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cabane_testkit::needs;

use crate::cabane::Who;
use crate::registry::{Shared, large};

const KILLS: u32 = 100;

/// Starts a command and kills it after a random part of the time that it takes.
fn kill_within(command: &mut Command, whole: Duration) {
    let mut child = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let share = RandomState::new().hash_one(child.id()) % 1000;
    sleep(whole.mul_f64(f64::from(u32::try_from(share).unwrap()) / 1000.0));
    // It may be done already.
    let _ = child.kill();
    child.wait().unwrap();
}

fn took(run: impl FnOnce()) -> Duration {
    let started = Instant::now();
    run();
    started.elapsed()
}

#[test]
fn a_pull_that_is_killed_at_any_instant_is_repeated_with_success() {
    needs!("docker-registry");
    let shared = Shared::new(Who::OrdinaryUser);
    let image = large(&shared, "large", 8);
    shared.run(&["image", "push", &image, "large/1.0:v1"]).success();
    let pull = ["image", "pull", "large/1.0:v1@here%x86_64"];
    let whole = took(|| drop(shared.run(&pull).success()));
    for kill in 0..KILLS {
        if kill % 4 == 0 {
            let removed = shared.run(&["image", "rm", "large"]);
            assert!(removed.code == 0 || removed.code == 4, "{}", removed.stderr);
        }
        kill_within(&mut shared.cabane.command(&pull), whole);
        let listed = shared.run(&["image", "ls", "--no-header"]).success().stdout;
        if listed.contains("large") {
            shared.run(&["run", "large", "--", "true"]).success();
        }
    }
    shared.run(&pull).success();
    shared.run(&["run", "large", "--", "true"]).success();
    let status = shared.run(&["repo", "status", "--json"]).success().stdout;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status[0]["damaged"], serde_json::json!([]), "{status}");
}

#[test]
fn a_push_that_is_killed_at_any_instant_leaves_whole_images_or_none() {
    needs!("docker-registry");
    let shared = Shared::new(Who::OrdinaryUser);
    let image = large(&shared, "large", 8);
    shared.run(&["image", "add", "large/1.0:v1", &image]).success();
    let push = |label: &str| {
        let mut command = shared.cabane.command(&["image", "push", "large", label]);
        command.stdin(Stdio::null());
        command
    };
    let whole = took(|| assert!(push("large/1.0:v0").output().unwrap().status.success()));
    for kill in 0..KILLS {
        // A name of its own for every fourth, so that the image has to be sent again.
        let label = format!("large/{}.0:v1@here%x86_64", kill / 4);
        kill_within(&mut push(&label), whole);
    }
    let labels = shared.labels(&["--refresh"]);
    assert!(!labels.is_empty());
    for label in labels {
        let reported = shared.run(&["image", "inspect", "--remote", &label]).success().stdout;
        assert!(reported.contains("an image of the tests"), "{label}: {reported}");
    }
    shared.run(&["image", "rm", "large"]).success();
    let label = format!("large/{}.0:v1@here%x86_64", KILLS / 4);
    shared.run(&["image", "add", "large/1.0:v1", &image]).success();
    assert!(push(&label).output().unwrap().status.success());
    shared.run(&["image", "rm", "large"]).success();
    shared.run(&["image", "pull", &label]).success();
    shared.run(&["run", "large", "--", "true"]).success();
}
