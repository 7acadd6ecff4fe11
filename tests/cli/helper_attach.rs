// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane attach` to a program that was started through the set-uid helper.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use cabane_testkit::{Finished, ORDINARY_USER, Tree, not_run, squashfs};

use crate::arena::with_helper;
use crate::attach::{compile, has_gdb, spawn};
use crate::cabane::{Cabane, Who, finished};

/// A program of an image for `/mnt/b` that runs.
struct Running<'a> {
    cabane: &'a Cabane,
    child: Child,
}

impl<'a> Running<'a> {
    fn new(cabane: &'a Cabane) -> Self {
        let tree = Tree::new(cabane.world.path("trees/stays"))
            .file("name", "stays")
            .meta("stays", "/mnt/b");
        compile(cabane, &tree.root().join("bin/stays"));
        let image = cabane.world.path("stays.squashfs");
        squashfs(tree.root(), &image);
        let image = image.to_string_lossy().into_owned();
        let arguments = ["--backend", "helper", "run", &image, "--", "stays"];
        let child = spawn(&mut cabane.command(&arguments));
        Self { cabane, child }
    }

    fn attach(&self, arguments: &[&str]) -> Finished {
        let number = self.child.id().to_string();
        self.cabane.run(&[&["attach", &number], arguments].concat())
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_debugger_finds_its_way_in_the_program() {
    if !has_gdb() {
        not_run!("needs gdb");
    }
    with_helper(|cabane| {
        let running = Running::new(cabane);
        let number = running.child.id().to_string();
        let gdb = ["--", "gdb", "-nx", "-batch", "-p", &number, "-ex"];
        let seen = running.attach(&[&gdb[..], &["backtrace"]].concat());
        assert!(
            seen.stdout.contains("in deep_inside (depth=") && !seen.stderr.contains("namespace"),
            "{seen:?}"
        );
    });
}

#[test]
fn a_debugger_of_another_image_learns_where_files_are() {
    if !has_gdb() {
        not_run!("needs gdb");
    }
    with_helper(|cabane| {
        let running = Running::new(cabane);
        let number = running.child.id().to_string();
        let gdb = ["--", "gdb", "-nx", "-batch", "-p"];
        let more = [&["--with", "app"], &gdb[..], &[&number, "-ex", "backtrace"]].concat();
        let seen = running.attach(&more);
        assert!(seen.stdout.contains("in deep_inside (depth="), "{seen:?}");
    });
}

#[test]
fn a_command_sees_the_images_of_both_and_the_program_only_its_own() {
    with_helper(|cabane| {
        let running = Running::new(cabane);
        let script = "hello; cat /mnt/b/name /proc/$0/root/mnt/a/bin/hello";
        let number = running.child.id().to_string();
        let arguments = ["--with", "app", "--", "sh", "-c", script, &number];
        let seen = running.attach(&arguments);
        assert_eq!((seen.code, seen.stdout.as_str()), (1, "hello from app\nstays"));
    });
}

#[test]
fn processes_of_others_are_as_good_as_none() {
    with_helper(|cabane| {
        let theirs = |user: u32| {
            let mut command = Command::new("sh");
            command.args(["-c", "echo; exec sleep 60"]).uid(user);
            command.env("CABANE_LOADED", r#"{"images":[]}"#);
            spawn(command.stdin(Stdio::null()))
        };
        let roots = Cabane::new(Who::Root);
        let image = roots.image("roots", "/mnt/b");
        let script = "echo; exec sleep 60";
        let mut in_image = roots.command(&["run", &image, "--", "sh", "-c", script]);
        let mut others = [theirs(ORDINARY_USER + 1), theirs(0), spawn(&mut in_image)];
        let answer = |number: u32| {
            let number = number.to_string();
            let seen = cabane.run(&["attach", &number, "--", "true"]);
            (seen.code, seen.stderr.replace(&number, "PID"))
        };
        let mut seen: Vec<_> = others.iter().map(|child| answer(child.id())).collect();
        seen.dedup();
        for child in &mut others {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(seen, [answer(4_000_000)]);
    });
}

#[test]
fn from_inside_of_an_environment_the_helper_is_out_of_reach() {
    with_helper(|cabane| {
        let running = Running::new(cabane);
        let script = format!("$CABANE attach {} -- true", running.child.id());
        let mut command = cabane.command(&["run", "app", "--", "sh", "-c", &script]);
        let seen = cabane.finish(command.env("CABANE", cabane.program()));
        let number = running.child.id();
        let expected = format!(
            "error: process {number} was started with privilege, but the process cannot gain \
             privileges (no_new_privs), as in an environment\n\
             hint: attach from a shell outside of every environment, or start the program with \
             `cabane --backend user-namespace run …`\n"
        );
        assert_eq!(seen, finished(125, "", &expected));
    });
}
