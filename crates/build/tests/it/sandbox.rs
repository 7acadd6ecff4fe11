// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a program of a build sees of the system, and what it can change.

use std::fs;

use cabane_testkit::World;

use crate::bench::{Who, build, everybody, fake_uv, request};
use crate::python;

/// Runs a script where `uv` would run, and returns what it wrote.
fn seen_by_a_build(world: &World, who: Who, script: &str) -> String {
    let mut request = request(world, "build");
    request.programs.uv = Some(fake_uv(world, &format!("{script}\nexit 1")));
    let passed = [
        ("SSL_CERT_FILE", world.path("home/certificates.pem")),
        ("HTTPS_PROXY", "http://proxy:1".into()),
    ];
    for (name, value) in passed {
        let value = value.to_string_lossy().into_owned();
        request.passed_variables.insert(name.to_owned(), value);
    }
    let error = build(&request, who).unwrap_err();
    let log = fs::read_to_string(world.path("build/logs/install.log"))
        .unwrap_or_else(|_| panic!("no log: {error}"));
    log.lines().skip(1).collect::<Vec<_>>().join("\n")
}

fn for_everybody(script: &str, expected: &str) {
    for who in everybody() {
        let world = python::world();
        world.file("home/.netrc", "secret");
        world.file("home/certificates.pem", "trusted");
        let seen = seen_by_a_build(&world, who, script);
        assert_eq!(world.blank(&seen), expected, "{who:?}");
    }
}

#[test]
fn the_home_and_the_temporary_directory_are_empty() {
    // But for what a variable names: see below.
    for_everybody(
        "ls -A \"$HOME\"; find /tmp -type f",
        "[WORLD]/home/certificates.pem",
    );
}

#[test]
fn the_files_of_the_user_cannot_be_seen() {
    // In this world the home lies in /tmp, which is the build's own.
    for_everybody(
        "cat \"${SSL_CERT_FILE%/*}/.netrc\" 2>&1",
        "cat: [WORLD]/home/.netrc: No such file or directory",
    );
}

#[test]
fn certificates_that_a_variable_names_can_be_read() {
    for_everybody("cat \"$SSL_CERT_FILE\"", "trusted");
}

#[test]
fn nothing_of_the_system_can_be_changed() {
    for_everybody(
        "for d in / /usr /etc /var /opt /cabane /cabane/recipe; do touch \"$d/x\" 2>/dev/null && echo \"$d\"; done",
        "",
    );
}

#[test]
fn what_a_build_makes_can_be_changed() {
    for_everybody(
        "for d in /user-environment /cabane/work /cabane/cache /tmp \"$HOME\"; do touch \"$d/x\" || echo \"$d\"; done",
        "",
    );
}

#[test]
fn the_variables_are_fixed_but_for_those_that_are_passed() {
    for_everybody(
        "env | grep -v -e ^UV_ -e ^PWD= -e ^CMAKE_ | sort",
        "HOME=/cabane/home\n\
         HTTPS_PROXY=http://proxy:1\n\
         LANG=C.UTF-8\n\
         PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin\n\
         PYTHONDONTWRITEBYTECODE=1\n\
         PYTHONHASHSEED=0\n\
         SOURCE_DATE_EPOCH=315532800\n\
         SSL_CERT_FILE=[WORLD]/home/certificates.pem\n\
         TMPDIR=/tmp\n\
         TZ=UTC",
    );
}

#[test]
fn the_system_looks_inside_as_it_does_outside() {
    let outside = fs::canonicalize("/lib").unwrap();
    for_everybody(
        "readlink -f /lib; umask; ls /proc/self/exe",
        &format!("{}\n0022\n/proc/self/exe", outside.display()),
    );
}
