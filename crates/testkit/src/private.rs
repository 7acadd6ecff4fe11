// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A private world for a test that needs root to prepare it.
//!
//! The test starts itself again as root, in namespaces of its own for processes and
//! mounts. What it mounts there no one else sees, and everything ends with it.

use std::any::type_name;
use std::process::Command;

use crate::slowness::{self, slowness};
use crate::user::{ORDINARY_USER, is_root};

/// After which time a test that hangs has failed.
const SECONDS: u32 = 150;
/// Hides a Cabane that is installed, and starts a program.
const HIDING: &str = include_str!("../../../scripts/test-runner");
/// Variables that a private world always gets.
const ALWAYS_KEPT: [&str; 3] = ["CI", "CABANE_TEST_BINARY", slowness::VARIABLE];

/// Tells whether a private world can be had: as root, or where `sudo` asks nothing.
pub fn can_have_private_world() -> bool {
    is_root() || {
        let mut sudo = Command::new("sudo");
        let output = sudo.args(["-n", "true"]).output();
        output.is_ok_and(|output| output.status.success())
    }
}

/// Runs the test function around a closure of type `F` once more, in a private world,
/// where the variable `inside` is set. The variables `kept` are those of this process.
///
/// # Panics
///
/// With all output, if the test fails there.
pub fn again_in_private_world<F>(inside: &str, kept: &[&str]) {
    let name = name_of::<F>();
    let mut command = Command::new(if is_root() { "env" } else { "sudo" });
    if !is_root() {
        command.args(["-n", "env"]);
    }
    command.arg(format!("{inside}=1"));
    for variable in kept.iter().chain(&ALWAYS_KEPT) {
        if let Ok(value) = std::env::var(variable) {
            command.arg(format!("{variable}={value}"));
        }
    }
    let seconds = (SECONDS * slowness()).to_string();
    command.args(["timeout", "--kill-after=5", &seconds, "unshare"]);
    command.args(["--fork", "--pid", "--mount", "--mount-proc", "--kill-child"]);
    // As an ordinary user, this process has hidden nothing.
    command.args(["sh", "-c", HIDING, "sh"]);
    command.arg(std::env::current_exe().expect("the test program")).args([
        "--exact",
        &name,
        "--nocapture",
        "--test-threads=1",
    ]);
    let output = command.output().expect("a private world");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "in its private world:\n{stdout}\n{stderr}"
    );
    let is_for_all = |line: &&str| line.contains("note: ") || line.contains("not run: ");
    stderr.lines().filter(is_for_all).for_each(crate::say);
}

/// Furnishes the private world that this process is in: an empty `/mnt` and `/run`, an
/// `/etc` that can be changed, with an ordinary user called `tester`, and the program
/// `binary` as the set-uid helper at `helper`.
///
/// # Panics
///
/// If that is not possible, as it is not outside of a private world without root.
pub fn furnish_private_world(binary: &str, helper: &str) {
    run_as_root(&format!(
        "mount -t tmpfs -o mode=755 tmpfs /mnt
         mount -t tmpfs -o mode=755 tmpfs /run
         mkdir -p /mnt/etc/cabane
         find /etc -mindepth 1 -maxdepth 1 -name '[!.]*' '(' -type l -o -type f ')' \
             -exec cp -a -t /mnt/etc '{{}}' +
         cp -a /etc/alternatives /mnt/etc/ 2>/dev/null || true
         mount --bind /mnt/etc /etc
         echo tester:x:{ORDINARY_USER}:{ORDINARY_USER}::/:/bin/sh >>/etc/passwd
         install -m 4755 -o 0 -g 0 '{binary}' '{helper}'"
    ));
}

/// The name of the test function around a closure.
fn name_of<F>() -> String {
    let name = type_name::<F>();
    let name = name.split_once("::").map_or(name, |(_, inner)| inner);
    name.trim_end_matches("::{{closure}}").to_owned()
}

/// Runs a script as root.
///
/// # Panics
///
/// With what it printed, if it fails.
pub fn run_as_root(script: &str) {
    let output = Command::new("sh").args(["-ec", script]).output().expect("a shell");
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
}
