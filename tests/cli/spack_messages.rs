// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What builds with Spack say when they wait, are interrupted, or fail.

use std::fs::{self, File};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::cabane::Who;
use crate::spack::Stack;

impl Stack {
    /// Puts a script in the place of Spack.
    fn as_spack(&self, script: &str) {
        self.cabane.world.file("spack/bin/spack", &format!("#!/bin/sh\n{script}\n"));
        self.commit("spack");
    }
}

#[test]
fn ctrl_c_that_ends_spack_first_is_an_interrupt() {
    let stack = Stack::new(Who::OrdinaryUser);
    for script in ["kill -INT $$", "exit 130"] {
        stack.as_spack(script);
        let ended = stack.build(&["--from=sources", "stack/1.0"]);
        let expected = "error: the build was interrupted\n\
                        hint: run the same command to continue after the last finished step\n";
        assert!(ended.code == 130 && ended.stderr.ends_with(expected), "{script}: {ended:?}");
    }
}

#[test]
fn a_build_that_waits_names_the_lock() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.build(&["--until=sources"]).success();
    let path = stack.cabane.world.path("build/lock");
    assert!(path.exists());
    let lock = File::options().write(true).open(&path).unwrap();
    lock.lock().unwrap();
    let errors = stack.cabane.world.path("errors");
    let mut command = stack.command(&["stack/1.0"]);
    let mut build =
        command.stdout(Stdio::null()).stderr(File::create(&errors).unwrap()).spawn().unwrap();
    let expected = format!(" to release the lock {}\n", path.display());
    let says = || fs::read_to_string(&errors).unwrap();
    while !says().contains(&expected) {
        assert!(build.try_wait().unwrap().is_none(), "{}", says());
        sleep(Duration::from_millis(20));
    }
    drop(lock);
    assert!(build.wait().unwrap().success(), "{}", says());
}

#[test]
fn the_error_of_a_traceback_is_shown_and_the_log_has_all_of_it() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.as_spack(
        "cat <<'END'\n==> Error: it went wrong\nTraceback (most recent call last):\n  \
         File \"/spack/x.py\", line 3, in go\n    go()\nValueError: no such thing\nEND\nexit 1",
    );
    let failed = stack.build(&["stack/1.0"]);
    let expected = "  ==> Error: it went wrong\n  ValueError: no such thing\nhint: the whole log";
    assert!(failed.stderr.contains(expected), "{}", failed.stderr);
    let log = fs::read_to_string(stack.cabane.world.path("build/logs/concretize.log")).unwrap();
    assert!(log.contains("x.py\", line 3"), "{log}");
}

#[test]
fn a_mistake_in_the_text_of_a_package_has_its_file_and_line_in_the_recipe() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.as_spack(
        "cat <<'END'\n==> Error: cannot load hello\nTraceback (most recent call last):\n  \
         File \"/u/repos/spack_repo/recipe/packages/hello/package.py\", line 5\n    version(\"1.0\"\n           \
         ^\nSyntaxError: '(' was never closed\nEND\nexit 1",
    );
    let failed = stack.build(&["stack/1.0"]);
    let expected = "  ==> Error: cannot load hello\n  repo/packages/hello/package.py:5: SyntaxError: \
                    '(' was never closed\nhint: the whole log";
    assert!(failed.stderr.contains(expected), "{}", failed.stderr);
}

#[test]
fn what_spack_decides_is_shown_without_building() {
    let stack = Stack::new(Who::OrdinaryUser);
    let external = "packages:\n  hello:\n    externals:\n    - spec: hello@0.9\n      \
                    prefix: /usr\n";
    stack.cabane.world.file("recipe/packages.yaml", external);
    let (recipe, system) = (stack.path("recipe"), stack.path("system"));
    let arguments = ["recipe", "check", "--concretize", &recipe, "--system", &system];
    let run = |more: &[&str]| {
        let mut command = stack.cabane.command(&[&arguments, more].concat());
        command.env("CABANE_SPACK_PYTHON", "/usr/bin/python3");
        stack.cabane.finish(&mut command).success()
    };
    let seen = run(&[]);
    assert_eq!(seen.stdout, "build   hello@1.0\n");
    let reason = "hello@1.0 will be built although /usr has hello@0.9: ";
    assert_eq!(seen.stderr.matches(reason).count(), 1, "{}", seen.stderr);
    // What was decided before is decided, and reported as well.
    let again = run(&[]);
    assert_eq!(again.stderr.matches(reason).count(), 1, "{}", again.stderr);
    let found: serde_json::Value = serde_json::from_str(&run(&["--json"]).stdout).unwrap();
    let package = &found[0]["packages"][0];
    let shown = [&package["name"], &package["from"], &package["hash"]];
    assert_eq!(shown, ["hello", "build", "abc"]);
    assert!(found[0]["not_chosen"][0].as_str().unwrap().starts_with(reason), "{found}");
}
