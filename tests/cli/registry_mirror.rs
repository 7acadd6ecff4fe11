// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A registry gets the images of another one.

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use cabane_testkit::{RealRegistry, needs, squashfs};

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

#[test]
fn a_repository_mirrors_a_registry_and_keeps_once_what_images_share() {
    needs!("docker-registry");
    for who in everybody() {
        let bed = Bed::new(who, "", "");
        let cabane = &bed.shared.cabane;
        // Each version is the first one with a file more.
        let first = large(&bed.shared, "family", 24);
        bed.run(&["image", "push", &first, "family/1.0:v1"]).success();
        for version in 2..5 {
            let tree = cabane.world.path("trees/family");
            std::fs::write(tree.join("version"), version.to_string()).unwrap();
            let image = cabane.world.path(&format!("family{version}.squashfs"));
            squashfs(&tree, &image);
            let label = format!("family/{version}.0:v1");
            bed.run(&["image", "push", &image.to_string_lossy(), &label]).success();
        }
        let target = cabane.world.path("home/mirror").to_string_lossy().into_owned();
        bed.run(&["repo", "create", &target]).success();
        let arguments = ["registry", "mirror", &source(&bed), &target, "family", "--deduplicate"];
        let planned = bed.run(&[&arguments[..], &["--dry-run"]].concat()).success();
        assert!(planned.stderr.contains("4 of 4 images would be copied"), "{planned:?}");
        let copied = bed.run(&arguments).success();
        assert!(
            copied.stderr.contains("copied 4 of 4 images; the repository keeps "),
            "{copied:?}"
        );
        let status = bed.run(&["repo", "status", "--json", &target]).success();
        let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
        let number = |key: &str| status[0][key].as_u64().unwrap();
        assert!(number("stored") * 2 < number("bytes"), "{status}");
        // Again, nothing is assembled and nothing comes.
        let again = bed.run(&arguments).success();
        assert!(again.stderr.contains("copied 0 of 4 images"), "{again:?}");
        assert_eq!(number("deduplicated"), 3, "{status}");
        let with = format!("--repo={target}");
        bed.run(&[&with, "repo", "status", "--verify", &target]).success();
        bed.run(&[&with, "run", "family/3.0", "--", "true"]).success();
    }
}

#[test]
fn a_registry_keeps_images_as_it_likes() {
    let bed = crate::cabane::Cabane::new(Who::OrdinaryUser);
    let typed =
        ["registry", "mirror", "http://a.invalid", "http://b.invalid", "app", "--deduplicate"];
    let seen = bed.run(&typed);
    let expected = "error: `--deduplicate` is for repositories, and http://b.invalid is a registry\n\
                    hint: name the path of a repository that begins with `/` or `.`\n";
    assert_eq!((seen.code, seen.stderr.as_str()), (2, expected));
}
