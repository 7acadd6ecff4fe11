// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Pulls from several hosts into one repository. A host is imitated by namespaces: it has
//! its own name, its own process numbers and its own boot identity.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cabane_testkit::{is_root, needs, not_run, only_for_registries};

use crate::cabane::Who;
use crate::registry::{Shared, large};

const LABEL: &str = "large/1.0:v1@here%x86_64";

/// Prepares a command of root on another host.
fn on_host(shared: &Shared, number: u32, arguments: &[&str]) -> Command {
    let world = &shared.cabane.world;
    let boot = format!("{number:08}-0000-0000-0000-000000000000\n");
    let boot = world.file(&format!("boot-of-{number}"), &boot);
    let mut command = shared.cabane.other("unshare");
    command.args(["--uts", "--pid", "--fork", "--mount", "--mount-proc", "--kill-child", "--"]);
    let script = "hostname \"$1\" && mount --bind \"$2\" /proc/sys/kernel/random/boot_id && \
                  shift 2 && \"$@\"";
    command.args(["/bin/sh", "-c", script, "sh", &format!("node{number}")]);
    command.arg(boot).arg(shared.cabane.program()).args(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// How many bytes of blobs the registry has sent.
fn sent(shared: &Shared) -> u64 {
    let log = shared.registry.log();
    let answers = log.lines().filter(|line| line.contains("\"GET ") && line.contains("/blobs/"));
    let bytes = |line: &str| {
        let mut fields = line.split("HTTP/1.1\" ").nth(1)?.split(' ');
        fields.nth(1)?.parse::<u64>().ok()
    };
    answers.filter_map(bytes).sum()
}

/// Returns whether a part of an image has arrived that is not whole.
fn has_begun(shared: &Shared) -> bool {
    let tmp = "home/.local/share/cabane/repository/tmp";
    let places = fs::read_dir(shared.cabane.world.path(tmp)).into_iter().flatten();
    let marks = |place: fs::DirEntry| fs::read(place.path().join("image.parts"));
    places.flatten().any(|place| marks(place).unwrap_or_default().contains(&b'+'))
}

#[test]
fn ten_pulls_of_five_hosts_get_an_image_once() {
    only_for_registries!("docker-registry", "distribution");
    needs!("docker-registry");
    if !is_root() {
        not_run!("needs root, to imitate hosts");
    }
    let shared = Shared::new(Who::Root);
    let image = large(&shared, "large", 24);
    let size = fs::metadata(&image).unwrap().len();
    shared.run(&["image", "push", &image, LABEL]).success();
    let before = sent(&shared);
    let pull = |number: u32| on_host(&shared, number / 2, &["image", "pull", LABEL]).spawn();
    let pulls: Vec<_> = (0..10).map(|number| pull(number).unwrap()).collect();
    let ends: Vec<Output> = pulls.into_iter().map(|one| one.wait_with_output().unwrap()).collect();
    let failed: Vec<_> = ends.iter().filter(|one| !one.status.success()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let sent = sent(&shared) - before;
    // Metadata are requested as well, and are small.
    assert!(sent >= size && sent < size + size / 4, "{sent} of {size}");
    shared.run(&["run", "large", "--", "true"]).success();
}

#[test]
fn what_a_host_has_begun_that_is_gone_another_finishes() {
    needs!("docker-registry");
    if !is_root() {
        not_run!("needs root, to imitate hosts");
    }
    let shared = Shared::new(Who::Root);
    let image = large(&shared, "large", 24);
    shared.run(&["image", "push", &image, LABEL]).success();
    let arguments = ["image", "pull", LABEL];
    let mut gone = on_host(&shared, 1, &arguments).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while !has_begun(&shared) && gone.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "nothing arrives");
        sleep(Duration::from_millis(1));
    }
    gone.kill().unwrap();
    gone.wait().unwrap();
    let seen = on_host(&shared, 2, &arguments).output().unwrap();
    assert!(seen.status.success(), "{seen:?}");
    shared.run(&["run", "large", "--", "true"]).success();
}
