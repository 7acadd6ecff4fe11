// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images of a registry that are built on other images: what copies, mirrors, deletes, and clears up keeps
//! them complete.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use cabane_testkit::{Finished, RealRegistry, is_root, needs, not_run};

use crate::cabane::{Cabane, Who};
use crate::stacked::{BASE, forget, pushed, pushed_by, run};

const TOP: &str = "top/1.0:v1@here%x86_64";
const BOTH: &str = "base\ntop runs\n";
/// The user of another host.
const USER: u32 = 61_250;

/// Makes a registry what earlier versions have left: none of its images has the tag of a base.
fn without_tags_of_bases(registry: &Path) {
    let mut removed = 0;
    let mut directories = vec![registry.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.strip_prefix("sha256-").is_some_and(|name| name.contains(".base")) {
                fs::remove_dir_all(entry.path()).unwrap();
                removed += 1;
            } else if entry.path().is_dir() {
                directories.push(entry.path());
            }
        }
    }
    assert_eq!(removed, 2);
}

/// Damages the metadata of all images of a registry.
fn damage_metadata(registry: &Path) {
    let mut damaged = 0;
    let mut directories = vec![registry.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap().flatten() {
            if entry.path().is_dir() {
                directories.push(entry.path());
                continue;
            }
            let mut bytes = fs::read(entry.path()).unwrap();
            if bytes.starts_with(&[0x1f, 0x8b]) {
                bytes[8..].fill(0);
                fs::write(entry.path(), bytes).unwrap();
                damaged += 1;
            }
        }
    }
    assert_eq!(damaged, 3);
}

/// Pulls `top` into a repository without images of the stack, and runs it.
fn assert_complete(cabane: &Cabane, pull: &[&str]) {
    for image in ["top", "middle", "base"] {
        cabane.run(&["image", "rm", "--force", image]);
    }
    cabane.run(&[&["image", "pull"], pull].concat()).success();
    assert_eq!(run(cabane, &["top"]).success().stdout, BOTH);
}

#[test]
fn what_clears_up_keeps_the_bases_that_an_earlier_version_has_pushed() {
    needs!("docker-registry");
    let (shared, _) = pushed(["base", "middle", "top"]);
    let cabane = &shared.cabane;
    without_tags_of_bases(&cabane.world.path("registry"));
    let limits = ["registry", "gc", "--older-than", "0s", "--spare", "0s", "--pin", "top"];
    let planned = cabane.run(&[&limits[..], &["--dry-run"]].concat()).success();
    let kept = planned.stdout.matches(&format!("{TOP} is built on it")).count();
    assert_eq!(kept, 2, "{}", planned.stdout);
    cabane.run(&limits).success();
    assert_complete(cabane, &["top"]);
}

#[test]
fn damaged_metadata_do_not_stop_what_clears_up() {
    needs!("docker-registry");
    let (shared, _) = pushed(["base", "middle", "top"]);
    let cabane = &shared.cabane;
    damage_metadata(&cabane.world.path("registry"));
    let limits =
        ["registry", "gc", "--older-than", "0s", "--spare", "0s", "--pin", "middle", "--dry-run"];
    let seen = cabane.run(&limits).success();
    // What an image may be built on stays, and nothing else does.
    let reason = "the metadata of middle/1.0:v1@here%x86_64 cannot be read, and may name it";
    assert_eq!(seen.stdout.matches(reason).count(), 1, "{}", seen.stdout);
    let top = seen.stdout.lines().find(|line| line.starts_with(TOP)).unwrap();
    assert!(top.contains("  delete  "), "{}", seen.stdout);
}

#[test]
fn a_mirror_gets_the_bases_of_images_that_it_has() {
    needs!("docker-registry");
    let (shared, base) = pushed(["base", "middle", "top"]);
    let cabane = &shared.cabane;
    let registry = RealRegistry::start(&cabane.world.path("mirror"));
    let (source, target) =
        (format!("{}/uenv", shared.registry.url()), format!("{}/mirror", registry.url()));
    let mirror = ["registry", "mirror", &source, &target, "top"];
    let copied = cabane.run(&mirror).success().stderr;
    assert!(copied.contains("copied 3 of 3 images"), "{copied}");
    for image in ["middle", "base"] {
        let delete = ["image", "delete", "--force", image, "--registry", &target];
        cabane.run(&delete).success();
    }
    let planned = cabane.run(&[&mirror[..], &["--dry-run"]].concat()).success();
    assert!(planned.stderr.contains("2 of 3 images would be copied"), "{}", planned.stderr);
    let copied = cabane.run(&mirror).success().stderr;
    assert!(copied.contains("copied 2 of 3 images"), "{copied}");
    assert!(copied.contains(&base[..16]), "{copied}");
    assert_complete(cabane, &["top", "--registry", &target]);
    let again = cabane.run(&mirror).success().stderr;
    assert!(again.contains("copied 0 of 3 images"), "{again}");
}

#[test]
fn a_copy_in_another_namespace_has_its_bases_there() {
    needs!("docker-registry");
    for moved in [false, true] {
        let (shared, base) = pushed(["base", "middle", "top"]);
        let cabane = &shared.cabane;
        if moved {
            let other = cabane.image("other", &cabane.mount_point("base"));
            cabane.run(&["image", "push", "--force", &other, BASE]).success();
        }
        let copy = ["image", "copy", TOP, "release::"];
        let copied = cabane.run(&copy).success().stderr;
        let note = format!("copied the base {} to release, without a label", &base[..16]);
        assert!(copied.contains(&note), "{copied}");
        assert!(!cabane.run(&copy).success().stderr.contains("copied"));
        let labels = cabane.run(&["image", "find", "--no-header", "release::"]).success().stdout;
        assert_eq!(labels.lines().count(), 1, "{labels}");
        // What becomes of the first namespace does not matter.
        for image in ["top", "middle", "base"] {
            cabane.run(&["image", "delete", image]).success();
        }
        assert_complete(cabane, &["release::top"]);
    }
}

#[test]
fn a_label_that_is_taken_gets_no_bases() {
    needs!("docker-registry");
    let (shared, base) = pushed(["base", "middle", "top"]);
    let cabane = &shared.cabane;
    let other = cabane.image("other", &cabane.mount_point("other"));
    cabane.run(&["image", "push", &other, &format!("release::{TOP}")]).success();
    let refused = cabane.run(&["image", "copy", TOP, "release::"]);
    assert_ne!(refused.code, 0);
    assert!(!refused.stderr.contains(&base[..16]), "{}", refused.stderr);
    let copied = cabane.run(&["image", "copy", "--force", TOP, "release::"]).success().stderr;
    assert!(copied.contains(&format!("copied the base {}", &base[..16])), "{copied}");
}

#[test]
fn a_base_is_deleted_from_a_registry_after_the_images_that_need_it() {
    needs!("docker-registry");
    let (shared, base) = pushed(["base", "middle", "top"]);
    let cabane = &shared.cabane;
    let refused = cabane.run(&["image", "delete", "base"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    let says = format!("images of deploy are built on {BASE} ({}): ", &base[..16]);
    assert!(refused.stderr.contains(&says), "{}", refused.stderr);
    assert!(refused.stderr.contains(&format!("`cabane image delete --force deploy::{BASE}`")));
    // With another label, the image stays.
    cabane.run(&["image", "copy", BASE, "base/1.0:kept"]).success();
    cabane.run(&["image", "delete", "base/1.0:v1"]).success();
    assert_complete(cabane, &["top"]);
    for image in ["top", "middle", "base"] {
        cabane.run(&["image", "delete", image]).success();
    }
}

#[test]
fn a_base_is_deleted_from_a_registry_if_it_is_forced() {
    needs!("docker-registry");
    let (shared, base) = pushed(["base", "middle", "top"]);
    let cabane = &shared.cabane;
    let deleted = cabane.run(&["image", "delete", "--force", "base"]).success().stderr;
    let says = format!("cannot be pulled completely without the image {}", &base[..16]);
    assert!(deleted.contains(&says) && deleted.contains(TOP), "{deleted}");
    forget(cabane);
    let pulled = cabane.run(&["image", "pull", "top"]).success().stderr;
    assert!(pulled.contains("the registry does not have this image"), "{pulled}");
}

/// Another host: another user, with another repository, and a registry that is a mirror of the first one.
#[test]
fn another_user_pulls_an_image_with_its_bases_from_a_mirror() {
    needs!("docker-registry");
    if !is_root() {
        not_run!("needs root, to have two users");
    }
    let (shared, _) = pushed_by(Who::Root, ["base", "middle", "top"]);
    let cabane = &shared.cabane;
    let registry = RealRegistry::start(&cabane.world.path("mirror"));
    let (source, target) =
        (format!("{}/uenv", shared.registry.url()), format!("{}/mirror", registry.url()));
    cabane.run(&["registry", "mirror", &source, &target, "top"]).success();
    forget(cabane);
    let home = cabane.world.directory("home-of-another");
    chown(&home, Some(USER), Some(USER)).unwrap();
    let as_another = |arguments: &[&str]| -> Finished {
        let mut command = cabane.other("setpriv");
        let user = USER.to_string();
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--"]);
        command.arg(cabane.program()).args(arguments);
        command.env("HOME", &home).env("MNT", cabane.world.path("mnt"));
        cabane.finish(&mut command)
    };
    as_another(&["image", "pull", "top", "--registry", &target]).success();
    let script = "cat $MNT/base/name; top-program";
    let seen = as_another(&["run", "top", "--", "sh", "-c", script]).success();
    assert_eq!(seen.stdout, BOTH);
    let listed = as_another(&["image", "ls", "--no-header", "--format={name}"]).success().stdout;
    assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), ["base", "middle", "top"]);
}
