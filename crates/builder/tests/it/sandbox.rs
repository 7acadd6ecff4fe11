// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a program of a build sees of the system, and what it can change.

use std::fs;

use cabane_testkit::{World, is_running};

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
    for_everybody("ls -A \"$HOME\"; find /tmp -type f", "[WORLD]/home/certificates.pem");
}

#[test]
fn the_files_of_the_user_cannot_be_seen() {
    // In this world the home is in /tmp, which is the build's own.
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

#[test]
fn a_program_sees_its_own_processes_only_and_is_not_the_first_of_them() {
    for_everybody(
        "[ $$ != 1 ] && [ $(sh -c 'echo $PPID') = $$ ] && kill -0 1 && \
         [ $(ls /proc | grep -c '^[0-9]') -lt 9 ] && [ -d /proc/$$/fd ] && echo so",
        "so",
    );
}

#[test]
fn those_whose_parents_are_gone_are_waited_for() {
    for_everybody(
        "(sh -c 'exit 3' & exec true); sleep 0.2; grep -l '^State:.Z' /proc/[0-9]*/status; echo so",
        "so",
    );
}

#[test]
fn how_a_program_ended_is_reported_exactly() {
    for who in everybody() {
        for (script, expected) in [
            ("exit 77", "exit status: 77"),
            ("exit 143", "exit status: 143"),
            ("kill -TERM $$", "signal: 15 (SIGTERM)"),
            ("kill -KILL $$", "signal: 9 (SIGKILL)"),
            ("kill -SEGV $$", "signal: 11 (SIGSEGV)"),
        ] {
            let world = python::world();
            let mut request = request(&world, "build");
            request.programs.uv = Some(fake_uv(&world, script));
            let error = build(&request, who).unwrap_err();
            let expected = format!("ended with {expected}");
            assert!(error.contains(&expected), "{script} as {who:?}: {error}");
        }
    }
}

#[test]
fn a_program_that_goes_on_in_the_background_ends_with_the_step() {
    let world = python::world();
    let left = format!("sleep 1004.{}", std::process::id());
    seen_by_a_build(&world, Who::User, &format!("setsid {left} & sleep 0.1"));
    assert!(!is_running(&left));
}
