// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The hostile files once more, in a process that has little memory.

use std::process::Command;

/// The address space of the process, in kibibytes. The tests themselves hold
/// a file of 100 megabytes at a time; without a limit on what is kept, several
/// of the files would need gigabytes.
const ADDRESS_SPACE: &str = "409600";

#[test]
fn hostile_files_are_refused_within_400_megabytes() {
    let this = std::env::current_exe().unwrap();
    let output = Command::new("sh")
        .args(["-c", "ulimit -v \"$1\" && exec \"$2\" hostile:: --test-threads=1", "sh"])
        .arg(ADDRESS_SPACE)
        .arg(this)
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && reported.contains(" 0 failed"), "{reported}");
}
