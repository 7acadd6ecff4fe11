// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use crate::cabane::{APP, Cabane, Who, everybody, finished};

#[test]
fn what_was_added_is_listed() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let seen = cabane.run(&["image", "ls", "--format={label} {views} {mount} {description}"]);
        let expected = format!("{APP} default [WORLD]/mnt/app an image of the tests\n");
        assert_eq!(seen, finished(0, &expected, ""), "as {who:?}");
    }
}

#[test]
fn the_table_has_a_head_and_one_line_for_each_label() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let seen = cabane.run(&["image", "ls"]).success();
    let lines: Vec<Vec<&str>> =
        seen.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        (lines.len(), &lines[0][..], &lines[1][..3]),
        (
            2,
            &["uenv", "system", "uarch", "id", "size", "date"][..],
            &["app/1.0:v1", "here", "x86_64"][..]
        )
    );
}

#[test]
fn the_content_of_an_image_is_verified_without_a_key() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let digest = cabane.run(&["image", "ls", "--format={digest}"]).success().stdout;
        let digest = digest.trim();
        let whole = cabane.run(&["image", "verify", "app"]).success();
        let says = format!("has the content of {}; no signature is required", &digest[..16]);
        assert!(whole.stderr.contains(&says), "{}", whole.stderr);
        let image = cabane.run(&["image", "inspect", "--format={sqfs}", "app"]).success().stdout;
        let image = image.trim().replace("[WORLD]", &cabane.world.path("").to_string_lossy());
        fs::set_permissions(&image, fs::Permissions::from_mode(0o644)).unwrap();
        let mut bytes = fs::read(&image).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&image, bytes).unwrap();
        let changed = cabane.run(&["image", "verify", "app"]);
        assert_eq!(changed.code, 12, "{}", changed.stderr);
        assert!(changed.stderr.contains("has changed: its digest is"), "{}", changed.stderr);
    }
}

#[test]
fn a_partial_name_is_found_and_can_be_refused() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let list = |more: &[&str]| {
        cabane.run(&[&["image", "ls", "--format={name}", "ap"], more].concat()).stdout
    };
    assert_eq!((list(&[]).as_str(), list(&["--no-partials"]).as_str()), ("app\n", ""));
}

#[test]
fn any_part_of_a_label_may_be_left_out() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let list = |pattern: &str| cabane.run(&["image", "ls", "--format={name}", pattern]).stdout;
    let seen = ["/1.0", ":v1", "%x86_64", "/2.0", ":v2", "%zen3"].map(list);
    assert_eq!(seen, ["app\n", "app\n", "app\n", "", "", ""]);
}

#[test]
fn images_of_other_systems_are_listed_on_request() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    cabane.run(&["image", "add", "app/1.0:v1@there%x86_64", APP]).success();
    let list = |pattern: &[&str]| {
        cabane.run(&[&["image", "ls", "--format={system}"], pattern].concat()).stdout
    };
    let seen = [list(&[]), list(&["@*"]), list(&["@there"])];
    assert_eq!(seen.each_ref().map(String::as_str), ["here\n", "here\nthere\n", "there\n"]);
}

#[test]
fn json_holds_what_the_table_shows() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let seen = cabane.run(&["image", "ls", "--json"]).success();
    let images: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(
        (images[0]["label"].as_str(), images[0]["default_view"].as_str()),
        (Some(APP), Some("default"))
    );
}

#[test]
fn a_label_that_is_taken_is_kept_unless_forced() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let other = cabane.image("other", &cabane.mount_point("other"));
    let seen = cabane.run(&["image", "add", APP, &other]);
    assert_eq!(seen.code, 1, "{}", seen.stderr);
    cabane.run(&["image", "add", "--force", APP, &other]).success();
    let seen = cabane.run(&["run", "app", "--", "hello"]);
    assert_eq!(seen, finished(0, "hello from other\n", ""));
}

#[test]
fn another_label_of_the_same_image_takes_no_space() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    cabane.run(&["image", "add", "app/1.0:latest", "app/1.0:v1"]).success();
    let images = cabane.world.path("home/.local/share/cabane/repository/images");
    let seen = cabane.run(&["run", "app/1.0:latest", "--", "hello"]);
    assert_eq!(
        (seen, fs::read_dir(images).unwrap().count()),
        (finished(0, "hello from app\n", ""), 1)
    );
}

#[test]
fn the_image_goes_with_its_last_label() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    cabane.run(&["image", "add", "app/1.0:latest", APP]).success();
    let images = cabane.world.path("home/.local/share/cabane/repository/images");
    let count = || fs::read_dir(&images).unwrap().count();
    cabane.run(&["image", "rm", "app/1.0:latest"]).success();
    let after_first = count();
    cabane.run(&["image", "rm", APP]).success();
    assert_eq!((after_first, count()), (1, 0));
}

#[test]
fn of_several_labels_of_one_image_none_is_removed_by_chance() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    cabane.run(&["image", "add", "app/1.0:latest", APP]).success();
    let seen = cabane.run(&["image", "rm", "app"]);
    let labels = cabane.run(&["image", "ls", "--format={tag}"]).stdout;
    let lists_both = seen.stderr.contains(":latest@") && seen.stderr.contains(APP);
    assert!(seen.code == 5 && lists_both && labels == "latest\nv1\n", "{seen:?}\n{labels}");
}

#[test]
fn a_digest_that_is_nowhere_is_not_found() {
    let digest = "a3".repeat(32);
    let codes = [Cabane::new(Who::OrdinaryUser), Cabane::with_app(Who::OrdinaryUser)]
        .map(|cabane| cabane.run(&["image", "rm", &digest]).code);
    assert_eq!(codes, [4, 4]);
}

#[test]
fn an_ambiguous_name_lists_the_candidates() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let other = cabane.image("other", &cabane.mount_point("other"));
    cabane.run(&["image", "add", "app/2.0:v1@here%x86_64", &other]).success();
    let seen = cabane.run(&["image", "inspect", "app"]);
    let lists_both = seen.stderr.contains(APP) && seen.stderr.contains("app/2.0:v1@here%x86_64");
    assert!(seen.code == 5 && lists_both, "{}: {}", seen.code, seen.stderr);
}

#[test]
fn an_image_may_be_removed_while_a_command_runs_in_it() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let script = "$CABANE run app -- sh -c 'read line; hello' < fifo & \
            exec 3>fifo; sleep 0.3; $CABANE image rm app; echo go >&3; wait";
        let mut command = cabane.other("bash");
        command.args(["-c", &format!("mkfifo fifo; {script}")]);
        let seen = cabane.finish(&mut command);
        assert!(seen.stdout.contains("hello from app"), "as {who:?}: {seen:?}");
    }
}

#[test]
fn two_adds_of_one_label_at_the_same_time_leave_one_whole_image() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let images = ["first", "second"].map(|name| cabane.image(name, &cabane.mount_point(name)));
    thread::scope(|scope| {
        for image in &images {
            scope.spawn(|| {
                for _ in 0..10 {
                    cabane.run(&["image", "add", "--force", "race/1:v1", image]).success();
                }
            });
        }
    });
    let seen = cabane.run(&["run", "race", "--", "hello"]).success();
    let status = cabane.run(&["repo", "status", "--verify"]);
    let is_one = ["hello from first\n", "hello from second\n"].contains(&seen.stdout.as_str());
    assert!(is_one && status.code == 0, "{}\n{}", seen.stdout, status.stdout);
}

#[test]
fn inspect_shows_what_a_view_changes() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let seen = cabane.run(&["image", "inspect", "app"]).success();
    let tells = seen.stdout.contains("view default (default)")
        && seen.stdout.contains("prepend PATH=[WORLD]/mnt/app/bin")
        && seen.stdout.contains("set CABANE_TEST=app");
    assert!(tells, "{}", seen.stdout);
}

#[test]
fn a_template_with_an_unknown_key_lists_the_known_ones() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let seen = cabane.run(&["image", "inspect", "app", "--format={nam}"]);
    assert!(seen.code == 2 && seen.stderr.contains("the keys are name, version"), "{seen:?}");
}

#[test]
fn a_list_of_nothing_is_no_error() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let expected = "there are no images yet\n\
                    hint: `cabane build`, `cabane image pull`, and `cabane import` add images\n";
    assert_eq!(cabane.run(&["image", "ls"]), finished(0, "", expected));
    assert_eq!(cabane.run(&["image", "ls", "app"]), finished(0, "", expected));
    assert_eq!(cabane.run(&["search", "app"]), finished(0, "", expected));
    cabane.run(&["repo", "create"]).success();
    let expected = "error: no image matches `app`: there are no images yet\n";
    let started = cabane.run(&["run", "app", "--", "true"]).stderr;
    assert!(started.starts_with(expected) && started.ends_with("add images\n"), "{started}");
}
