// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane repo gc`, `pin`, and `unpin`.

use std::fs::{self, File, FileTimes};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use crate::cabane::{APP, Cabane, Who, everybody, finished};

fn images(cabane: &Cabane) -> Vec<PathBuf> {
    let images = cabane.world.path("home/.local/share/cabane/repository/images");
    let entries = fs::read_dir(images).unwrap();
    entries.map(|entry| entry.unwrap().path().join("image")).collect()
}

/// Makes an image look as if it had been read last so many days ago.
fn last_read(image: &Path, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
    let times = FileTimes::new().set_accessed(then);
    File::open(image).unwrap().set_times(times).unwrap();
}

fn labels(cabane: &Cabane) -> String {
    cabane.run(&["image", "ls", "--format={label}"]).stdout
}

/// Removes whatever the limits allow, however short ago it was used.
fn gc(cabane: &Cabane, limits: &[&str]) -> cabane_testkit::Finished {
    cabane.run(&[&["repo", "gc", "--spare=0s"], limits].concat())
}

#[test]
fn what_was_not_used_for_long_is_removed() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        gc(&cabane, &["--older-than=0s"]).success();
        assert_eq!((labels(&cabane).as_str(), images(&cabane).len()), ("", 0));
    }
}

#[test]
fn what_was_just_added_stays() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        cabane.run(&["repo", "gc", "--older-than=0s"]).success();
        assert_eq!(labels(&cabane), format!("{APP}\n"), "as {who:?}");
    }
}

#[test]
fn what_is_pinned_stays_until_it_is_not() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        cabane.run(&["repo", "pin", "app"]).success();
        cabane.run(&["repo", "pin", "--json"]).success();
        let listed = cabane.run(&["repo", "pin"]).stdout;
        gc(&cabane, &["--older-than=0s"]).success();
        let kept = labels(&cabane);
        cabane.run(&["repo", "unpin", "app"]).success();
        gc(&cabane, &["--older-than=0s"]).success();
        let line = format!("{APP}\n");
        let seen = [listed, kept, labels(&cabane)];
        assert_eq!(seen, [line.clone(), line, String::new()], "as {who:?}");
    }
}

#[test]
fn an_image_in_which_a_command_runs_stays() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let mut command = cabane.command(&["run", "app", "--", "/bin/sh", "-c", "echo in; read x"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = command.spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(running.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let seen = gc(&cabane, &["--older-than=0s", "--dry-run"]);
        gc(&cabane, &["--older-than=0s"]).success();
        let while_it_ran = labels(&cabane);
        running.stdin.take().unwrap().write_all(b"\n").unwrap();
        running.wait().unwrap();
        assert!(
            line == "in\n" && while_it_ran == format!("{APP}\n"),
            "as {who:?}: {line}{while_it_ran}"
        );
        assert!(seen.stdout.contains("in use on this host"), "{seen:?}");
    }
}

#[test]
fn starting_an_image_counts_as_using_it() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let image = &images(&cabane)[0];
        last_read(image, 40);
        let read = || fs::metadata(image).unwrap().accessed().unwrap();
        let before = read();
        cabane.run(&["run", "app", "--", "hello"]).success();
        let is_noted = read() > before;
        let seen = gc(&cabane, &["--older-than=30d", "--dry-run", "--json"]);
        let answer: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
        // If nothing is noted, a warning says so.
        assert_eq!(answer["notes_use"], is_noted, "as {who:?}");
    }
}

#[test]
fn a_dry_run_shows_what_and_why_and_removes_nothing() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let seen = gc(&cabane, &["--older-than=0s", "--dry-run"]);
    let reported = seen.stdout.contains("goes") && seen.stdout.contains("not used since");
    let freed = seen.stderr.contains("would be freed");
    assert!(reported && freed && labels(&cabane) == format!("{APP}\n"), "{seen:?}");
}

#[test]
fn the_newest_of_a_name_stay() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    for version in ["2.0", "3.0"] {
        let image = cabane.image(version, &cabane.mount_point(version));
        let label = format!("app/{version}:v1@here%x86_64");
        cabane.run(&["image", "add", &label, &image]).success();
    }
    gc(&cabane, &["--keep-last=2"]).success();
    assert_eq!(labels(&cabane), "app/2.0:v1@here%x86_64\napp/3.0:v1@here%x86_64\n");
}

#[test]
fn a_repository_that_is_too_large_loses_what_was_not_used_for_longest() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    last_read(&images(&cabane)[0], 1);
    let image = cabane.image("other", &cabane.mount_point("other"));
    cabane.run(&["image", "add", "other/1.0", &image]).success();
    let size = fs::metadata(&image).unwrap().len().to_string();
    // What was added later counts as used later.
    gc(&cabane, &["--max-size", &size]).success();
    assert_eq!(labels(&cabane), "other/1.0:v1@here%x86_64\n");
}

#[test]
fn a_limit_must_be_given() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let seen = gc(&cabane, &[]);
    assert!(seen.code == 2 && seen.stderr.contains("no limit is given"), "{seen:?}");
}

#[test]
fn limits_can_stand_in_the_configuration() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let path = cabane.world.path("home/.local/share/cabane/repository");
    let text = format!(
        "[[repositories]]\nname = \"default\"\npath = \"{}\"\n\
         [repositories.retention]\nolder_than = \"0d\"\nspare = \"0d\"\n",
        path.display()
    );
    cabane.world.file("site.toml", &text);
    cabane.run(&["repo", "gc"]).success();
    assert_eq!(labels(&cabane), "");
}

#[test]
fn a_time_without_a_unit_is_refused() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let seen = gc(&cabane, &["--older-than=30"]);
    assert!(seen.code == 2 && seen.stderr.contains("`30d`, `12h`, or `2w`"), "{seen:?}");
}

#[test]
fn a_pin_that_cannot_be_read_stops_everything() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    cabane.run(&["repo", "pin", "app"]).success();
    let pins = cabane.world.path("home/.local/share/cabane/repository/pins");
    for pin in fs::read_dir(pins).unwrap() {
        fs::write(pin.unwrap().path(), "?").unwrap();
    }
    let seen = gc(&cabane, &["--older-than=0s"]);
    assert!(seen.code == 6 && labels(&cabane) == format!("{APP}\n"), "{seen:?}");
}

#[test]
fn a_label_that_is_not_there_cannot_be_pinned() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let seen = cabane.run(&["repo", "pin", "solver"]);
    let stderr = "error: no label fits `solver`\nhint: `cabane image ls` lists the labels\n";
    assert_eq!(seen, finished(4, "", stderr));
}
