// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane import` from a real registry, into which another client has put the images.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cabane_testkit::{RealRegistry, is_root, needs, not_run, only_for_registries};
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody, finished};
use crate::import_containers::{Layout, TOOL, content, layer, layout, leftovers, root, skopeo};

struct Remote {
    cabane: Cabane,
    registry: RealRegistry,
}

impl Remote {
    fn new(who: Who) -> Self {
        let cabane = Cabane::new(who);
        let registry = RealRegistry::start(&cabane.world.path("registry"));
        Self { cabane, registry }
    }

    fn push(&self, typed: &str, name: &str, options: &[&str]) {
        let host = self.registry.url().replace("http://", "docker://");
        let target = format!("{host}/{name}");
        let arguments = [&["copy", "--dest-tls-verify=false"], options, &[typed, &target]].concat();
        skopeo(&arguments);
    }

    fn typed(&self, name: &str) -> String {
        format!("{}/{name}", self.registry.url())
    }

    /// The file in which the registry has its largest blob.
    fn largest_blob(&self) -> PathBuf {
        let mut files = Vec::new();
        collect(&self.registry.data(), &mut files);
        let blobs = files.into_iter().filter(|path| path.ends_with("data"));
        blobs.max_by_key(|path| path.metadata().unwrap().len()).unwrap()
    }

    /// How many blobs were requested.
    fn blobs_sent(&self) -> usize {
        let log = self.registry.log();
        let is_blob = |line: &&str| line.contains("\"GET ") && line.contains("/blobs/");
        log.lines().filter(is_blob).count()
    }
}

fn collect(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, into);
        } else {
            into.push(path);
        }
    }
}

#[test]
fn an_image_of_a_registry_is_imported_however_its_layers_are_compressed() {
    needs!("docker-registry");
    for who in everybody() {
        let remote = Remote::new(who);
        let layout = layout(&remote.cabane, "first");
        let forms: &[(&str, &[&str])] = &[
            ("gzip", &["--format=oci"]),
            ("docker", &["--format=v2s2"]),
            ("zstd", &["--format=oci", "--dest-compress-format=zstd"]),
        ];
        for (name, options) in forms {
            remote.push(&layout.typed(), &format!("site/tool:{name}"), options);
            let typed = remote.typed(&format!("site/tool:{name}"));
            let label = format!("{name}/1.0:v1");
            remote.cabane.run(&["import", &typed, &label]).success();
            assert_eq!(content(&remote.cabane, &label, "etc/text"), "first", "as {who:?}");
        }
        assert_eq!(leftovers(&remote.cabane), Vec::<String>::new());
    }
}

#[test]
fn a_registry_without_encryption_is_named_as_such() {
    needs!("docker-registry");
    let remote = Remote::new(Who::OrdinaryUser);
    let host = remote.registry.url().replace("http://", "");
    let seen = remote.cabane.run(&["import", &format!("{host}/sim/tool:1.0"), TOOL]);
    let expected = format!(
        "error: {host} answers without encryption\n\
         hint: `http://{host}/…` is its address, if you trust the network on the way\n"
    );
    assert_eq!(seen, finished(11, "", &expected));
}

#[test]
fn what_was_imported_is_not_fetched_again() {
    only_for_registries!("docker-registry", "distribution");
    needs!("docker-registry");
    let remote = Remote::new(Who::OrdinaryUser);
    remote.push(&layout(&remote.cabane, "first").typed(), "tool:1", &[]);
    let typed = remote.typed("tool:1");
    remote.cabane.run(&["import", &typed, TOOL]).success();
    let before = remote.blobs_sent();
    let arguments = ["import", "--json", &typed, "tool/2.0:v1"];
    let seen = remote.cabane.run(&arguments).success().stdout;
    let seen: Value = serde_json::from_str(&seen).unwrap();
    // What the image says about itself is requested, and no layer.
    assert_eq!((seen["shared"].as_bool(), remote.blobs_sent() - before), (Some(true), 1));
}

#[test]
fn a_tag_that_was_moved_is_noticed_and_a_digest_does_not_move() {
    only_for_registries!("docker-registry", "distribution");
    needs!("docker-registry");
    let remote = Remote::new(Who::OrdinaryUser);
    let cabane = &remote.cabane;
    remote.push(&layout(cabane, "first").typed(), "tool:1", &[]);
    let typed = remote.typed("tool:1");
    cabane.run(&["import", &typed, TOOL]).success();
    let meta: Value = serde_json::from_str(&content(cabane, TOOL, "meta/env.json")).unwrap();
    let digest = meta["cabane"]["container"]["source"]["manifest"].as_str().unwrap().to_owned();
    assert_eq!(cabane.run(&["import", "--check", TOOL]).code, 0);
    remote.push(&layout(cabane, "second").typed(), "tool:1", &[]);
    let checked = cabane.run(&["import", "--check", "--json", TOOL]);
    let moved: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(
        (checked.code, &moved[0]["moved"], moved[0]["before"].as_str()),
        (9, &Value::Bool(true), Some(digest.as_str()))
    );
    let refused = cabane.run(&["import", &typed, TOOL]);
    assert!(
        refused.code == 1 && refused.stderr.contains(&format!("it has {digest}")),
        "{}",
        refused.stderr
    );
    let pinned = remote.typed(&format!("tool@{digest}"));
    cabane.run(&["import", &pinned, "tool/2.0:v1"]).success();
    assert_eq!(content(cabane, "tool/2.0:v1", "etc/text"), "first");
    cabane.run(&["import", "--force", &typed, TOOL]).success();
    assert_eq!(content(cabane, TOOL, "etc/text"), "second");
}

#[test]
fn each_label_of_an_image_is_checked_against_its_own_source() {
    only_for_registries!("docker-registry", "distribution");
    needs!("docker-registry");
    let remote = Remote::new(Who::OrdinaryUser);
    let cabane = &remote.cabane;
    let first = layout(cabane, "first").typed();
    remote.push(&first, "tool:1", &[]);
    remote.push(&first, "tool:2", &[]);
    for (tag, label) in [("tool:1", "one/1:v1"), ("tool:2", "two/1:v1"), ("tool:1", "both/1:v1")] {
        cabane.run(&["import", &remote.typed(tag), label]).success();
    }
    cabane.run(&["import", &remote.typed("tool:2"), "both/1:v1"]).success();
    remote.push(&layout(cabane, "second").typed(), "tool:2", &[]);
    let labels = ["import", "--check", "--json", "one/1:v1", "two/1:v1", "both/1:v1"];
    let checked = cabane.run(&labels);
    let sources: Value = serde_json::from_str(&checked.stdout).unwrap();
    let moved = sources.as_array().unwrap().iter().map(|one| one["moved"].as_bool().unwrap());
    assert_eq!((checked.code, moved.collect::<Vec<_>>()), (9, vec![false, true, true]));
}

#[test]
fn a_blob_that_was_tampered_with_in_the_registry_is_refused_and_nothing_is_left() {
    only_for_registries!("docker-registry", "distribution");
    needs!("docker-registry");
    let remote = Remote::new(Who::OrdinaryUser);
    remote.push(&layout(&remote.cabane, "first").typed(), "tool:1", &[]);
    let path = remote.largest_blob();
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let refused = remote.cabane.run(&["import", &remote.typed("tool:1"), TOOL]);
    assert!(refused.code == 11 && refused.stderr.contains("sha256:"), "{}", refused.stderr);
    assert_eq!(remote.cabane.run(&["image", "ls", "--no-header"]).stdout, "");
}

#[test]
fn the_password_of_a_registry_is_taken_from_where_other_tools_leave_it() {
    needs!("docker-registry");
    let cabane = Cabane::new(Who::OrdinaryUser);
    let registry = RealRegistry::options(&cabane.world.path("registry"))
        .with_password("alice", "secret")
        .start();
    let host = registry.url().replace("http://", "");
    let layout = layout(&cabane, "first");
    let arguments = ["copy", "--dest-tls-verify=false", "--dest-creds=alice:secret"];
    skopeo(&[&arguments[..], &[&layout.typed(), &format!("docker://{host}/tool:1")]].concat());
    let typed = format!("http://{host}/tool:1");
    let refused = cabane.run(&["import", &typed, TOOL]);
    assert_eq!(refused.code, 11, "{}", refused.stderr);
    // alice:secret
    let login = format!(r#"{{"auths":{{"{host}":{{"auth":"YWxpY2U6c2VjcmV0"}}}}}}"#);
    let config = cabane.world.file("home/.docker/config.json", &login);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(config, mode).unwrap();
    cabane.run(&["import", &typed, TOOL]).success();
}

/// An image with several layers that do not compress, so that an import takes a while.
fn large(cabane: &Cabane) -> Layout {
    let layout = Layout::new(cabane, "large");
    let mut layers = vec![layer(&root(cabane, "large"))];
    for number in 0..4_u32 {
        let directory = cabane.world.directory(&format!("large-{number}"));
        let noise: Vec<u8> = (0..2_000_000_u32)
            .map(|i| (i ^ number).wrapping_mul(2_654_435_761).rotate_left(i % 31).to_le_bytes()[1])
            .collect();
        fs::write(directory.join(format!("noise-{number}")), noise).unwrap();
        layers.push(layer(&directory));
    }
    let manifest = layout.image(&layers, "amd64");
    layout.name(manifest, "1");
    layout
}

/// How often an import is killed.
const KILLS: u32 = 12;

#[test]
fn an_import_that_is_killed_at_any_instant_is_repeated_with_success() {
    needs!("docker-registry");
    let remote = Remote::new(Who::OrdinaryUser);
    let cabane = &remote.cabane;
    let layout = large(cabane);
    remote.push(&layout.typed(), "large:1", &[]);
    for typed in [layout.typed(), remote.typed("large:1")] {
        let import = ["import", typed.as_str(), TOOL];
        let started = Instant::now();
        cabane.run(&import).success();
        let whole = started.elapsed();
        cabane.run(&["image", "rm", TOOL]).success();
        for _ in 0..KILLS {
            kill_within(&mut cabane.command(&import), whole);
            if cabane.run(&["image", "ls", "--no-header"]).stdout.contains("tool") {
                assert_eq!(content(cabane, TOOL, "etc/text"), "large");
                cabane.run(&["image", "rm", TOOL]).success();
            }
        }
        cabane.run(&import).success();
        assert_eq!(content(cabane, TOOL, "etc/text"), "large");
        // The next writer sweeps what is left of those that were killed.
        cabane.run(&["image", "rm", TOOL]).success();
        assert_eq!(leftovers(cabane), Vec::<String>::new());
    }
}

pub(crate) fn kill_within(command: &mut Command, whole: Duration) {
    let mut child = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let share = RandomState::new().hash_one(child.id()) % 1000;
    sleep(whole.mul_f64(f64::from(u32::try_from(share).unwrap()) / 1000.0));
    // It may be done already.
    let _ = child.kill();
    child.wait().unwrap();
}

#[test]
fn an_import_that_is_interrupted_says_so_and_leaves_nothing() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = large(&cabane);
    cabane.run(&["repo", "create"]).success();
    let interrupted = || {
        let mut command = cabane.command(&["import", &layout.typed(), TOOL]);
        command.stderr(Stdio::piped()).stdout(Stdio::null());
        // A terminal interrupts all processes of the command.
        let mut child = command.process_group(0).spawn().unwrap();
        // It has begun when there is something that it would leave.
        while leftovers(&cabane).is_empty() && child.try_wait().unwrap().is_none() {
            sleep(Duration::from_millis(1));
        }
        let id = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process_group(id, rustix::process::Signal::INT);
        let output = child.wait_with_output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        (!output.status.success()).then_some(printed)
    };
    // One that was done before it heard of it is tried again.
    let printed = (0..10).filter_map(|_| {
        let printed = interrupted();
        if printed.is_none() {
            cabane.run(&["image", "rm", TOOL]).success();
        }
        printed
    });
    let printed: Vec<String> = printed.take(5).collect();
    assert!(!printed.is_empty(), "no import was interrupted");
    for printed in printed {
        assert!(printed.contains("error: the import was interrupted"), "{printed}");
    }
    assert_eq!(leftovers(&cabane), Vec::<String>::new());
}

#[test]
fn two_imports_of_one_image_make_it_once() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = large(&cabane);
    cabane.run(&["repo", "create"]);
    let start = |label: &str| {
        let mut command = cabane.command(&["import", "--json", &layout.typed(), label]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let children = ["tool/1.0:v1", "tool/2.0:v1"].map(start);
    let shared = children.map(|child| {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
        seen["shared"].as_bool().unwrap()
    });
    assert_eq!(shared.iter().filter(|shared| **shared).count(), 1);
}

#[test]
fn an_import_on_a_full_disk_is_refused_and_leaves_nothing() {
    if !is_root() {
        not_run!("needs root to make a small file system");
    }
    let cabane = Cabane::new(Who::Root);
    let layout = large(&cabane);
    let repository = cabane.world.directory("small/repository");
    let script = format!(
        "mount -t tmpfs -o size=4m none {small} && {program} repo create {repository} && \
         {program} --repo {repository} import {layout} {TOOL}; echo code $?; \
         {program} --repo {repository} repo status; echo code $?; du -s {repository} | cut -f1",
        small = cabane.world.path("small").display(),
        program = cabane.program(),
        repository = repository.display(),
        layout = layout.typed(),
    );
    let mut command = cabane.world.command("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    let seen = cabane.finish(&mut command);
    let left: u64 = seen.stdout.lines().last().unwrap_or("").parse().unwrap_or(u64::MAX);
    assert!(
        seen.stderr.contains("not enough space")
            && seen.stdout.starts_with("code 1\n")
            && seen.stdout.contains("code 0")
            && left < 100,
        "{seen:?}"
    );
}
