// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Builds on a host whose connection is cut, or whose command ends.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use cabane_testkit::Finished;
use rustix::process::Signal;

use crate::build_elsewhere::{Running, meet, packed, part, signal, wait_until, with_host};

#[test]
fn a_connection_that_is_cut_during_the_build_is_resumed() {
    with_host(|scene| {
        let running = scene.begin();
        wait_until(|| running.errors().contains("[2/2] pack…"));
        let numbers = fs::read_to_string(scene.path("ssh.numbers")).unwrap();
        signal(numbers.lines().last().unwrap().parse().unwrap(), Signal::KILL);
        wait_until(|| running.errors().contains("the connection to builder was cut"));
        part("wait");
        let (code, errors) = running.end();
        assert_eq!(code, Some(0), "{errors}");
        // Each step was reported once, and done once.
        assert_eq!(errors.matches("pack…").count(), 1, "{errors}");
        assert_eq!(packed(), 1);
        assert!(!scene.digest("app/1.0@there").is_empty());
    });
}

#[test]
fn a_connection_that_is_cut_during_the_image_goes_on_where_it_was() {
    with_host(|scene| {
        let noise = cabane_testkit::noise(88_172_645_463_325_252, 8 << 20);
        fs::write(scene.path("recipe/files/noise"), &noise).unwrap();
        scene.cabane.world.file("cut", "3000000");
        let seen = scene.build().success();
        assert!(seen.stderr.contains("the connection to builder was cut"), "{}", seen.stderr);
        let asked = fs::read(scene.path("asked")).unwrap();
        let asked = String::from_utf8_lossy(&asked);
        let offsets: Vec<u64> = asked
            .split("{\"image\":")
            .skip(1)
            .map(|ask| {
                let offset = ask.split("\"offset\":").nth(1).unwrap();
                offset.split('}').next().unwrap().parse().unwrap()
            })
            .collect();
        let [0, offset] = offsets[..] else { panic!("{offsets:?}") };
        assert!(offset > 1_000_000 && offset < 3_000_000, "{offset}");
        scene.run(&["build", &scene.recipe, "app/2.0"]).success();
        assert_eq!(scene.digest("app/1.0@there"), scene.digest("app/2.0"));
    });
}

#[test]
fn a_killed_command_that_is_typed_again_follows_the_same_build() {
    with_host(|scene| {
        let running = scene.begin();
        signal(running.child.id(), Signal::KILL);
        running.end();
        let mut again = scene.command(&["build", "--on", "builder", &scene.recipe, "app/1.0"]);
        let errors = fs::File::create(scene.path("errors")).unwrap();
        let child = again.stderr(errors).spawn().unwrap();
        let running = Running { child, errors: scene.path("errors") };
        wait_until(|| running.errors().contains("pack…"));
        assert!(running.errors().contains("following the build "), "{}", running.errors());
        // A third command follows it, too.
        let mut third = scene.command(&["build", "--attach", &scene.id()]);
        let third = third.stderr(Stdio::piped()).spawn().unwrap();
        part("wait");
        let (code, errors) = running.end();
        assert_eq!((code, packed()), (Some(0), 1), "{errors}");
        let third = third.wait_with_output().unwrap();
        assert!(third.status.success(), "{}", String::from_utf8_lossy(&third.stderr));
        assert!(errors.contains("app/1.0:v1@there%x86_64"), "{errors}");
    });
}

#[test]
fn an_interrupted_command_says_how_to_go_on_and_how_to_cancel() {
    with_host(|scene| {
        let running = scene.begin();
        // Before that, the command does not know whether the build has begun.
        wait_until(|| running.errors().contains("started the build"));
        let id = scene.id();
        signal(running.child.id(), Signal::INT);
        let (code, errors) = running.end();
        let expected = format!(
            "error: the build {id} continues on builder\n\
             hint: `cabane build --attach {id}` follows it, as does the same command\n\
             hint: `cabane build --cancel {id}` cancels it\n"
        );
        assert!(code == Some(7) && errors.ends_with(&expected), "{code:?} {errors}");
        let cancelled = scene.run(&["build", "--cancel", &id]).success();
        assert_eq!(cancelled.stderr, "cancelled the build on builder\n");
        // The build has stopped, and with it what waits.
        assert!(!cabane_testkit::is_running("build-worker run"));
        part("wait");
        let seen = scene.build().success();
        assert!(seen.stderr.contains("started the build ") && packed() == 2, "{}", seen.stderr);
    });
}

#[test]
fn ctrl_c_in_a_terminal_leaves_the_build_alone() {
    with_host(|scene| {
        meet("wait");
        let mut command = scene.cabane.other("script");
        let path = format!("{}:/usr/bin:/bin:/usr/sbin", scene.path("local/bin").display());
        let typed = format!("$CABANE build --on builder {} app/1.0", scene.recipe);
        command.args(["-qec", &typed, "/dev/null"]).env("PATH", path).env("SHELL", "/bin/sh");
        let output = fs::File::create(scene.path("errors")).unwrap();
        // All of its processes are in the foreground, and `ssh` gets the signal, too.
        let child = command.stdin(Stdio::piped()).stdout(output).spawn().unwrap();
        let mut running = Running { child, errors: scene.path("errors") };
        // Before that, the command does not know whether the build has begun.
        wait_until(|| packed() > 0 && running.errors().contains("started the build"));
        running.child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
        let (_, shown) = running.end();
        let says = shown.contains("continues on builder") && !shown.contains("was cut");
        assert!(says, "{shown}");
        part("wait");
        let seen = scene.build().success();
        assert!(seen.stderr.contains("following the build ") && packed() == 1, "{}", seen.stderr);
    });
}

#[test]
fn a_connection_that_the_user_shares_is_used() {
    with_host(|scene| {
        let config = fs::read_to_string(scene.path("ssh_config")).unwrap();
        let shared = format!(
            "{config}ControlMaster auto\nControlPath {}\nControlPersist 60\n",
            scene.path("shared-%C").display()
        );
        fs::set_permissions(scene.path(""), fs::Permissions::from_mode(0o777)).unwrap();
        scene.cabane.world.file("ssh_config", &shared);
        scene.build().success();
        scene.cabane.world.file("recipe/files/more", "more");
        scene.build().success();
        let log = scene.sshd.log();
        assert_eq!((log.matches("Accepted publickey").count(), packed()), (1, 2), "{log}");
    });
}

#[test]
fn a_build_that_is_lost_with_its_host_is_begun_again_by_the_same_command() {
    with_host(|scene| {
        let running = scene.begin();
        let worker = format!("build-worker run {}", scene.builds()[0].display());
        // As when the host is restarted: nothing of the build is left.
        Finished::of(Command::new("pkill").args(["-KILL", "-f", &worker])).success();
        let (code, errors) = running.end();
        assert!(code == Some(1) && errors.contains("ended without a result"), "{errors}");
        // To cancel it starts nothing.
        let cancelled = scene.run(&["build", "--cancel", &scene.id()]).success();
        let says = "removed the build on builder: it was not running\n";
        assert_eq!((cancelled.stderr.as_str(), packed()), (says, 1));
        assert_eq!(scene.builds(), [] as [PathBuf; 0]);
        part("wait");
        let seen = scene.build().success();
        assert!(seen.stderr.contains("started the build ") && packed() == 2, "{}", seen.stderr);
        assert!(!scene.digest("app/1.0@there").is_empty());
    });
}
