// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Exports that do not come to their end.

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use cabane_testkit::{is_root, not_run, squashfs};

use crate::cabane::{APP, Cabane, Who};
use crate::export::{stack_tree, typed};
use crate::import_containers::{TOOL, leftovers};
use crate::import_registry::kill_within;

/// A stack that takes a while.
fn large(cabane: &Cabane) -> String {
    let tree = stack_tree(cabane, "");
    let mut state = 1_u32;
    let noise: Vec<u8> = (0..12_000_000)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_le_bytes()[3]
        })
        .collect();
    fs::write(tree.join("lib/noise"), noise).unwrap();
    let image = cabane.world.path("large.squashfs");
    squashfs(&tree, &image);
    image.display().to_string()
}

#[test]
fn an_export_that_is_killed_at_any_instant_leaves_nothing_half() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let image = large(&cabane);
    let directory = cabane.world.directory("place");
    for scheme in ["oci", "oci-archive"] {
        let target = typed(&cabane, scheme, "place/out");
        let arguments = ["export", image.as_str(), target.as_str()];
        let started = Instant::now();
        cabane.run(&arguments).success();
        let whole = started.elapsed();
        let remove = || {
            let _ = fs::remove_dir_all(directory.join("out"));
            let _ = fs::remove_file(directory.join("out"));
        };
        for _ in 0..4 {
            remove();
            kill_within(&mut cabane.command(&arguments), whole);
            let left: Vec<_> =
                fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert!(left.is_empty() || left == ["out"], "{left:?}");
            // It is whole, or it is done now.
            let again = [&arguments[..], &["--force"]].concat();
            cabane.run(&again).success();
            cabane.run(&["import", &target, TOOL, "--force"]).success();
        }
        remove();
    }
}

#[test]
fn an_export_goes_on_where_one_was_killed_and_not_where_something_else_is() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let target = typed(&cabane, "oci", "place/out");
    let cases: [(&[&str], i32); 5] = [
        (&[], 0),
        (&["oci-layout"], 0),
        (&["oci-layout", "blobs/"], 0),
        (&[".export-abcdef"], 0),
        (&["blobs/"], 1),
    ];
    for (left, code) in cases {
        let out = cabane.world.directory("place/out");
        for name in left {
            match name.strip_suffix('/') {
                Some(name) => drop(cabane.world.directory(&format!("place/out/{name}"))),
                None => drop(cabane.world.file(&format!("place/out/{name}"), "")),
            }
        }
        let exported = cabane.run(&["export", APP, &target]);
        assert_eq!(exported.code, code, "{left:?}: {}", exported.stderr);
        fs::remove_dir_all(out).unwrap();
    }
}

#[test]
fn an_export_that_is_interrupted_says_so_and_leaves_nothing() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let image = large(&cabane);
    let directory = cabane.world.directory("place");
    let target = typed(&cabane, "oci", "place/out");
    let interrupted = || {
        let mut command = cabane.command(&["export", &image, &target]);
        command.stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let id = rustix::process::Pid::from_child(&child);
        // It has begun when it has a file without a name.
        let open = format!("/proc/{}/fd", child.id());
        let has_begun = || {
            let entries = fs::read_dir(&open).into_iter().flatten().flatten();
            let mut files = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
            files.any(|file| {
                file.starts_with(&directory) && file.to_string_lossy().ends_with(" (deleted)")
            })
        };
        while !has_begun() && child.try_wait().unwrap().is_none() {
            sleep(Duration::from_millis(1));
        }
        let _ = rustix::process::kill_process(id, rustix::process::Signal::INT);
        let output = child.wait_with_output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        (!output.status.success()).then_some(printed)
    };
    let printed = (0..10).find_map(|_| {
        let _ = fs::remove_dir_all(directory.join("out"));
        interrupted()
    });
    let printed = printed.expect("an export that was interrupted");
    assert!(printed.contains("error: the export was interrupted"), "{printed}");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    assert_eq!(leftovers(&cabane), Vec::<String>::new());
}

#[test]
fn an_export_to_a_full_disk_is_one_clear_error_and_leaves_nothing() {
    if !is_root() {
        not_run!("needs root to make a small file system");
    }
    let cabane = Cabane::new(Who::Root);
    let image = large(&cabane);
    let small = cabane.world.directory("small");
    let script = format!(
        "mount -t tmpfs -o size=4m none {small} && \
         for form in oci:{small}/out oci-archive:{small}/out.tar; do \
         for kind in gzip zstd; do {program} export {image} $form --compression $kind; \
         echo code $?; ls -A {small}; done; done",
        small = small.display(),
        program = cabane.program(),
    );
    let mut command = cabane.world.command("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    let seen = cabane.finish(&mut command);
    let printed = seen.stderr.matches("error: there is not enough space").count();
    assert_eq!((seen.stdout.as_str(), printed), ("code 1\n".repeat(4).as_str(), 4), "{seen:?}");
}
