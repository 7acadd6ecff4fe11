// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A registry gets the images of another one.

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use cabane_testkit::{RealRegistry, needs};

use crate::cabane::{APP, Who, everybody};
use crate::channels::{Bed, NEW};
use crate::registry::large;

/// Another registry beside that of a bed.
fn other(bed: &Bed) -> (RealRegistry, String) {
    let registry = RealRegistry::start(&bed.shared.cabane.world.path("mirror"));
    let address = format!("{}/mirrored", registry.url());
    (registry, address)
}

fn source(bed: &Bed) -> String {
    format!("{}/uenv", bed.shared.registry.url())
}

#[test]
fn the_images_of_a_channel_are_mirrored_with_signatures_and_the_channel_itself() {
    needs!("docker-registry");
    for who in everybody() {
        let bed = Bed::new(who, "", "");
        let (_registry, target) = other(&bed);
        bed.run(&["image", "sign", APP, "--key", &bed.key]).success();
        bed.change(&["promote", "stable", APP]).success();
        let arguments = ["registry", "mirror", &source(&bed), &target, "--channel", "stable"];
        let planned = bed.run(&[&arguments[..], &["--dry-run"]].concat()).success();
        assert!(planned.stdout.contains(APP), "{}", planned.stdout);
        assert!(planned.stderr.contains("1 of 1 images would be copied"), "{}", planned.stderr);
        let copied = bed.run(&arguments).success();
        assert!(
            copied.stderr.contains("1 of 1 images and 1 channel documents"),
            "{}",
            copied.stderr
        );
        bed.shared.forget();
        bed.run(&["image", "pull", "app:stable", "--registry", &target]).success();
        assert_eq!(bed.hello("app:stable"), "hello from app\n");
        let key = format!("{}.pub", bed.key);
        let verify = ["image", "verify", "--remote", "--registry", &target, "--key", &key, APP];
        bed.run(&verify).success();
        let listed = bed.run(&["image", "find", "--registry", &target, "--no-header"]).success();
        assert_eq!(listed.stdout.lines().count(), 1, "{}", listed.stdout);
        // Again, nothing is sent; then only what is new.
        let again = bed.run(&arguments).success();
        assert!(
            again.stderr.contains("0 of 1 images and 0 channel documents, 0 B"),
            "{}",
            again.stderr
        );
        bed.change(&["promote", "stable", NEW]).success();
        let more = bed.run(&arguments).success();
        assert!(more.stderr.contains("1 of 2 images and 1 channel documents"), "{}", more.stderr);
        let shown = bed.run(&["channel", "show", "stable", "--registry", &target]).success();
        assert!(shown.stdout.contains("number 2"), "{}", shown.stdout);
    }
}

#[test]
fn labels_are_mirrored_and_signatures_that_come_later() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let (_registry, target) = other(&bed);
    let arguments = ["registry", "mirror", &source(&bed), &target, "app"];
    let copied = bed.run(&arguments).success();
    assert!(copied.stderr.contains("2 of 2 images"), "{}", copied.stderr);
    bed.run(&["image", "sign", APP, "--key", &bed.key]).success();
    let copied = bed.run(&arguments).success();
    assert!(copied.stderr.contains(&format!("{APP}: added 1 attached")), "{}", copied.stderr);
    let none = bed.run(&["registry", "mirror", &source(&bed), &target, "nothing"]);
    assert_eq!(none.code, 4, "{}", none.stderr);
}

#[test]
fn a_mirror_that_is_killed_continues() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let (_registry, target) = other(&bed);
    let image = large(&bed.shared, "large", 48);
    bed.run(&["image", "push", &image, "large/1.0:v1"]).success();
    let arguments = ["registry", "mirror", &source(&bed), &target, "large", "app"];
    for milliseconds in [10, 40, 80, 150, 250, 400] {
        let mut command = bed.shared.cabane.command(&arguments);
        let mut child = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(milliseconds));
        let _ = child.kill();
        child.wait().unwrap();
    }
    bed.run(&arguments).success();
    let checked = bed.run(&["registry", "check", "--registry", &target]).success();
    assert!(
        checked.stderr.contains("3 labels in the registry; the list is right"),
        "{}",
        checked.stderr
    );
    bed.run(&["image", "pull", "large", "--registry", &target]).success();
    bed.run(&["run", "large", "--", "true"]).success();
    // Nothing of it is left in the cache.
    let left = bed.shared.cabane.world.path("home/.cache/cabane/mirror");
    assert_eq!(std::fs::read_dir(left).unwrap().count(), 0);
}

#[test]
fn neither_labels_nor_channels_of_the_target_go_back() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let (_registry, target) = other(&bed);
    bed.change(&["promote", "stable", APP]).success();
    let arguments = ["registry", "mirror", &source(&bed), &target, "--channel", "stable"];
    bed.run(&arguments).success();
    // The target goes on by itself.
    bed.change(&["renew", "stable", "--registry", &target]).success();
    let refused = bed.run(&arguments);
    assert_eq!(refused.code, 12, "{}", refused.stderr);
    assert!(refused.stderr.contains("is at number 2"), "{}", refused.stderr);
    let label = ["registry", "mirror", &source(&bed), &target, "app/2.0"];
    bed.run(&["image", "push", &bed.image("own"), NEW, "--registry", &target]).success();
    let refused = bed.run(&label);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("belongs to the image"), "{}", refused.stderr);
    bed.run(&[&label[..], &["--force"]].concat()).success();
}
