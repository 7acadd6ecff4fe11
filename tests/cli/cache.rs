// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane cache`, with packages as Spack puts them there; what Spack itself makes of a
//! cache is in `spack_cache.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use cabane_testkit::Finished;
use serde_json::Value;

use crate::build_elsewhere::wait_until;
use crate::cabane::{Cabane, Who, everybody};
use crate::spack::{STAND_IN, Stack};

const CACHE: &str = "home/.cache/cabane";
const HASH: &str = "vjysts6ejbulpsgdgak6vvjrf5vrvony";

/// Puts a package into the cache; returns its manifest and its file.
fn package(cabane: &Cabane, mount_point: &str, name: &str, content: &str) -> (PathBuf, PathBuf) {
    let of_mount = format!("{CACHE}/spack/packages/{mount_point}");
    cabane.world.file(&format!("{of_mount}/v3/layout.json"), "{\"signing\": \"gpg\"}");
    let digest = sha256(cabane, content);
    let blob = format!("{of_mount}/blobs/sha256/{}/{digest}", &digest[..2]);
    let blob = cabane.world.file(&blob, content);
    let manifest = format!(
        "{{\"version\": 3, \"data\": [{{\"contentLength\": {}, \"checksumAlgorithm\": \"sha256\", \
         \"mediaType\": \"application/vnd.spack.install.v2.tar+gzip\", \"checksum\": \"{digest}\"}}]}}",
        content.len()
    );
    let file = format!("{of_mount}/v3/manifests/spec/{name}/{name}-1.0-{HASH}.spec.manifest.json");
    (cabane.world.file(&file, &manifest), blob)
}

fn sha256(cabane: &Cabane, content: &str) -> String {
    let file = cabane.world.file("content", content);
    let output = Finished::of(Command::new("sha256sum").arg(file)).success().stdout;
    output.split(' ').next().unwrap().to_owned()
}

/// Lets something look as if it was used last this many days ago.
fn used(path: &Path, days: u64) {
    let time = SystemTime::now() - Duration::from_secs(days * 86_400);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

fn json(finished: Finished) -> Value {
    serde_json::from_str(&finished.success().stdout).unwrap()
}

#[test]
fn packages_are_listed_with_their_mount_point() {
    let cabane = Cabane::new(everybody()[0]);
    package(&cabane, "+user-environment", "libbsd", "long");
    package(&cabane, "+user-tools", "libbsd", "short");
    package(&cabane, ".", "libmd", "of an earlier version");
    let listed = cabane.run(&["cache", "ls"]).success().stdout;
    let lines: Vec<Vec<&str>> =
        listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["kind", "name", "hash", "size", "used", "mount", "point"]);
    let of = |line: &[&str]| format!("{} {} {}", line[1], line[2], line.last().unwrap());
    assert_eq!(of(&lines[1]), "libbsd@1.0 vjysts6 /user-environment");
    assert_eq!(of(&lines[2]), "libbsd@1.0 vjysts6 /user-tools");
    assert!(of(&lines[3]).starts_with("libmd@1.0 vjysts6 20"), "{listed}");
    let items = json(cabane.run(&["cache", "ls", "--packages", "--json"]));
    assert_eq!(items["items"].as_array().unwrap().len(), 3);
    assert_eq!(items["items"][0]["mount_point"], "/user-environment");
}

#[test]
fn what_builds_of_stacks_leave_is_listed() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.build(&["stack/1.0"]).success();
    let items = json(stack.cabane.run(&["cache", "ls", "--json"]));
    let mut kinds: Vec<_> = items["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["kind"].as_str().unwrap())
        .collect();
    kinds.dedup();
    // Clones of this machine are read where they are.
    assert_eq!(kinds, ["concretization", "tree", "index"]);
}

#[test]
fn what_was_not_used_for_long_is_removed_with_its_files() {
    let cabane = Cabane::new(everybody()[0]);
    let (old, old_blob) = package(&cabane, "+user-environment", "old", "old content");
    let (new, new_blob) = package(&cabane, "+user-environment", "new", "new content");
    used(&old, 100);
    // Of a build on another node, which was killed.
    let worker = cabane.world.file(&format!("{CACHE}/workers/n1-0123/0/output"), "");
    let gc = ["cache", "gc", "--older-than", "90d"];
    let trial = cabane.run(&["cache", "gc", "--older-than", "90d", "--dry-run"]).success();
    assert!(trial.stdout.contains("old@1.0") && !trial.stdout.contains("new@1.0"), "{trial:?}");
    assert!(old.exists() && old_blob.exists() && worker.exists());
    cabane.run(&gc).success();
    assert!(!worker.exists());
    assert!(!old.exists() && !old_blob.exists());
    assert!(new.exists() && new_blob.exists());
    cabane.run(&["cache", "gc", "--max-size", "0", "--json"]).success();
    assert!(!new.exists() && !new_blob.exists());
    assert_eq!(cabane.run(&["cache", "gc"]).code, 2);
}

#[test]
fn files_that_cannot_be_removed_are_named_and_do_not_count_as_freed() {
    // The directories of others are not writable.
    let cabane = Cabane::new(Who::OrdinaryUser);
    let (old, blob) = package(&cabane, "+user-environment", "old", &"x".repeat(9000));
    let (newer, _) = package(&cabane, "+user-environment", "newer", "y");
    used(&old, 100);
    used(&newer, 95);
    let writable = |directory: &Path, mode: &str| {
        Finished::of(Command::new("chmod").args(["-R", mode]).arg(directory)).success();
    };
    writable(&cabane.world.path("home/.cache"), "a+rwX");
    let directories = [blob.parent().unwrap(), newer.parent().unwrap()];
    for directory in directories {
        writable(directory, "a-w");
    }
    let gc = ["cache", "gc", "--older-than", "90d"];
    let partly = cabane.run(&gc);
    assert_eq!(partly.code, 7, "{partly:?}");
    assert!(partly.stderr.contains("removed package old@1.0"), "{partly:?}");
    assert!(!partly.stderr.contains("removed package newer"), "{partly:?}");
    // Only the manifest was removed.
    assert!(!old.exists() && blob.exists() && newer.exists());
    assert!(partly.stderr.contains(" B freed, 9."), "{partly:?}");
    let error = partly.stderr.lines().find(|line| line.starts_with("error: cannot remove "));
    assert!(
        error.is_some_and(|line| line.ends_with(", and 1 more: Permission denied (os error 13)")),
        "{partly:?}"
    );
    assert!(partly.stderr.contains("hint: run it as the owner"), "{partly:?}");
    for directory in directories {
        writable(directory, "a+w");
    }
    cabane.run(&gc).success();
    assert!(!blob.exists() && !newer.exists());
}

#[test]
fn nothing_is_removed_while_a_build_uses_the_cache() {
    let stack = Stack::new(Who::OrdinaryUser);
    let mount_point = stack.cabane.mount_point("stack");
    let wait = "install)\n    touch /tmp/waits; until [ -e /tmp/go ]; do sleep 0.05; done";
    let script = STAND_IN.replace("$MOUNT", &mount_point).replacen("install)", wait, 1);
    stack.cabane.world.file("spack/bin/spack", &script);
    stack.commit("spack");
    let mut build = stack.command(&["stack/1.0"]).spawn().unwrap();
    let tmp = stack.cabane.world.path("build/tmp");
    wait_until(|| tmp.join("waits").exists());
    let gc = ["cache", "gc", "--max-size", "0"];
    let refused = stack.cabane.run(&gc);
    fs::write(tmp.join("go"), "").unwrap();
    assert_eq!(refused.code, 7, "{refused:?}");
    assert!(refused.stderr.contains("a build is using it"), "{refused:?}");
    assert!(build.wait().unwrap().success());
    stack.cabane.run(&gc).success();
    // The next build gets everything again.
    stack.cabane.world.file("spack/bin/spack", &STAND_IN.replace("$MOUNT", &mount_point));
    stack.commit("spack");
    stack.build(&["--from", "sources", "stack/1.0"]).success();
}

#[test]
fn damaged_packages_are_named_and_removed() {
    let cabane = Cabane::new(everybody()[0]);
    let (whole, _) = package(&cabane, "+user-environment", "whole", "whole");
    let (damaged, blob) = package(&cabane, "+user-environment", "damaged", "as it was");
    let (shortened, cut) = package(&cabane, "+user-tools", "shortened", "as it was");
    fs::write(&blob, "as it is.").unwrap();
    fs::write(&cut, "as").unwrap();
    let seen = cabane.run(&["cache", "verify"]);
    assert_eq!(seen.code, 1, "{seen:?}");
    let expected = "damaged damaged@1.0 for /user-environment: its checksum does not match\n\
                    damaged shortened@1.0 for /user-tools: it has 2 bytes instead of 9\n\
                    packages: 3, damaged: 2\n";
    assert!(seen.stderr.contains(expected), "{seen:?}");
    cabane.run(&["cache", "verify", "--repair"]).success();
    assert!(whole.exists() && !damaged.exists() && !blob.exists());
    assert!(!shortened.exists() && !cut.exists());
    let seen = cabane.run(&["cache", "verify"]).success();
    assert!(seen.stderr.contains("packages: 1, damaged: 0\n"), "{seen:?}");
}

#[test]
fn what_cannot_be_pushed_is_said() {
    let cabane = Cabane::new(everybody()[0]);
    let refused = cabane.run(&["cache", "push", "mirror"]);
    assert!(refused.stderr.starts_with("error: there is no cache at [WORLD]/"), "{refused:?}");
    package(&cabane, "+user-tools", "libbsd", "content");
    let target = cabane.world.path("home/mirror");
    let target = target.to_string_lossy();
    for (to, said) in [
        ("oci://registry.example.org/cache", "it is not a directory"),
        (&*target, "cannot write the index: the cache "),
    ] {
        let refused = cabane.run(&["cache", "push", to]);
        assert_eq!(refused.code, 7, "{refused:?}");
        assert!(refused.stderr.contains(said), "{refused:?}");
    }
    assert!(!cabane.world.path("home/mirror").exists());
}

/// What a service account built is seen by the builds of others, and not changed.
#[test]
fn packages_of_a_shared_cache_come_first() {
    for who in everybody() {
        let stack = Stack::new(who);
        let cabane = &stack.cabane;
        let mount_point = cabane.mount_point("stack");
        let shared = stack.path("shared");
        let name = mount_point.replace('/', "+");
        let longer = format!("{name}-with-a-longer-path");
        for name in [name.as_str(), &longer, "+opt"] {
            for directory in ["v3/manifests/spec", "blobs"] {
                let directory = format!("shared/spack/packages/{name}/{directory}");
                fs::create_dir_all(cabane.world.path(&directory)).unwrap();
            }
        }
        let seen =
            "install)\n    ls -d /cabane/shared/* >/tmp/shared; touch /cabane/shared/x && exit 1";
        let script = STAND_IN.replace("$MOUNT", &mount_point).replacen("install)", seen, 1);
        cabane.world.file("spack/bin/spack", &script);
        stack.commit("spack");
        let config = format!("[build]\nshared_cache = \"{shared}\"\n");
        cabane.world.file("home/.config/cabane/config.toml", &config);
        stack.build(&["stack/1.0"]).success();
        let mirrors = stack.path("build/work/spack/config/mirrors.yaml");
        let mirrors = fs::read_to_string(mirrors).unwrap();
        let fetched = mirrors.lines().filter(|line| line.contains("url: file:///cabane/"));
        let mut fetched: Vec<_> = fetched.map(|line| line.trim().to_owned()).collect();
        fetched.dedup();
        let of = |place: &str, name: &str| format!("url: file:///cabane/{place}/{name}");
        let own = of("cache/spack/packages", &name);
        assert_eq!(fetched, [of("shared", &name), of("shared", &longer), own], "as {who:?}");
        let seen = fs::read_to_string(stack.path("build/tmp/shared")).unwrap();
        // Packages for a shorter path cannot be used.
        assert_eq!(seen.lines().count(), 2, "as {who:?}: {seen}");
    }
}
