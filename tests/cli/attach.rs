// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane attach`.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cabane_testkit::{Finished, Tree, is_root, not_run, squashfs};

use crate::cabane::{Cabane, Who, everybody, finished};

const SOURCE: &str = "\
#include <stdio.h>
#include <unistd.h>
int deep_inside(int depth)
{
    puts(\"is there\");
    fflush(stdout);
    for (;;) { sleep(1); depth++; }
    return depth;
}
int main(void) { return deep_inside(41); }
";

/// A world in which a program of an image runs.
struct Running {
    cabane: Cabane,
    child: Child,
}

impl Running {
    fn new(who: Who) -> Self {
        let cabane = Cabane::new(who);
        let mount_point = cabane.mount_point("stays");
        let tree = Tree::new(cabane.world.path("trees/stays")).meta("stays", &mount_point);
        compile(&cabane, &tree.root().join("stays"));
        let image = cabane.world.path("stays.squashfs");
        squashfs(tree.root(), &image);
        let image = image.to_string_lossy().into_owned();
        let program = format!("{mount_point}/stays");
        let mut command = cabane.command(&["run", &image, "--", &program]);
        command.env("OF_THE_PROCESS", "kept").env("PMI_RANK", "3");
        command.env("TERM", "of-the-process");
        command.env("XDG_RUNTIME_DIR", cabane.world.path("home"));
        let child = spawn(&mut command);
        Self { cabane, child }
    }

    fn attach(&self, arguments: &[&str]) -> Finished {
        let number = self.child.id().to_string();
        let arguments = [&["attach", &number], arguments].concat();
        self.cabane.run(&arguments)
    }

    /// Asks a debugger where the program is.
    fn backtrace(&self, arguments: &[&str], debugger: &str) -> Finished {
        let number = self.child.id().to_string();
        let requested = ["--", debugger, "-nx", "-batch", "-p", &number, "-ex", "backtrace"];
        self.attach(&[arguments, &requested].concat())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a program and waits for its first output.
pub(crate) fn spawn(command: &mut Command) -> Child {
    use std::io::Read;
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut byte = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    child
}

pub(crate) fn compile(cabane: &Cabane, program: &Path) {
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    let source = cabane.world.file("stays.c", SOURCE);
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-O0", "-o"]).arg(program).arg(source);
    Finished::of(&mut compiler).success();
}

pub(crate) fn has_gdb() -> bool {
    Command::new("gdb").arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_debugger_finds_its_way_in_a_program_that_runs_in_an_image() {
    if !has_gdb() {
        not_run!("needs gdb");
    }
    for who in everybody() {
        let running = Running::new(who);
        let seen = running.backtrace(&[], "gdb").success();
        let found = "in deep_inside (depth=";
        assert!(seen.stdout.contains(found), "as {who:?}: {seen:?}");
    }
}

#[test]
fn a_debugger_can_come_from_another_image() {
    if !has_gdb() {
        not_run!("needs gdb");
    }
    for who in everybody() {
        let running = Running::new(who);
        let (cabane, with) = (&running.cabane, &running.cabane.mount_point("tools"));
        let script = "exec /usr/bin/gdb \"$@\"";
        let tree = Tree::new(cabane.world.path("trees/tools"))
            .program("bin/debugger", script)
            .meta("tools", with);
        let image = cabane.world.path("tools.squashfs");
        squashfs(tree.root(), &image);
        let image = image.to_string_lossy().into_owned();
        let seen = running.backtrace(&["--with", &image], "debugger").success();
        let found = "in deep_inside (depth=";
        assert!(seen.stdout.contains(found), "as {who:?}: {seen:?}");
    }
}

#[test]
fn a_breakpoint_is_reached() {
    if !has_gdb() {
        not_run!("needs gdb");
    }
    for who in everybody() {
        let running = Running::new(who);
        let number = running.child.id().to_string();
        let requested = [
            "--",
            "gdb",
            "-nx",
            "-batch",
            "-p",
            &number,
            "-ex",
            "break stays.c:7",
            "-ex",
            "continue",
            "-ex",
            "print depth > 0",
        ];
        let seen = running.attach(&requested).success();
        assert!(
            seen.stdout.contains("Breakpoint 1, deep_inside") && seen.stdout.contains("$1 = 1"),
            "as {who:?}: {seen:?}"
        );
    }
}

#[test]
fn the_command_sees_the_image_of_the_process() {
    for who in everybody() {
        let running = Running::new(who);
        let place = running.cabane.world.path("mnt/stays/meta/env.json");
        let seen =
            running.attach(&["--", "grep", "-c", "stays", &place.to_string_lossy()]).success();
        assert_eq!(seen.stdout, "4\n", "as {who:?}");
    }
}

#[test]
fn the_process_does_not_see_images_that_are_there_for_the_command() {
    for who in everybody() {
        let running = Running::new(who);
        let tools = running.cabane.image("tools", &running.cabane.mount_point("tools"));
        let root = format!(
            "hello; ls /proc/{}/root{}",
            running.child.id(),
            running.cabane.world.path("mnt/tools").display()
        );
        let seen = running.attach(&["--with", &tools, "--", "sh", "-c", &root]);
        assert_eq!(seen, finished(0, "hello from tools\n", ""), "as {who:?}");
    }
}

#[test]
fn an_added_image_that_this_machine_cannot_run_is_refused_and_what_it_lacks_is_a_warning() {
    let running = Running::new(Who::OrdinaryUser);
    let with = |needs: &str| {
        let (world, mount) = (&running.cabane.world, running.cabane.mount_point("other"));
        let meta = format!(
            r#"{{"name":"other","mount":"{mount}","cabane":{{"version":1,"needs":{needs}}},"views":{{}}}}"#
        );
        let tree = Tree::new(world.path("trees/other")).file("meta/env.json", &meta);
        let image = world.path("other.squashfs");
        squashfs(tree.root(), &image);
        running.attach(&["--with", image.to_str().unwrap(), "--", "true"])
    };
    let foreign = if cfg!(target_arch = "s390x") { "x86_64" } else { "s390x" };
    let seen = with(&format!(r#"{{"architectures":["{foreign}"]}}"#));
    assert_eq!(seen.code, 125, "{seen:?}");
    assert!(seen.stderr.contains(&format!("are for {foreign}, and this machine is")), "{seen:?}");
    let seen = with(r#"{"glibc":"9.99"}"#).success();
    assert!(
        seen.stderr.starts_with("warning: ") && seen.stderr.contains("needs glibc 9.99"),
        "{seen:?}"
    );
}

#[test]
fn variables_are_those_of_the_process_and_the_terminal_that_of_the_caller() {
    for who in everybody() {
        let running = Running::new(who);
        let script = "echo $OF_THE_PROCESS $CABANE_TEST $TERM \"${PMI_RANK-no rank}\"";
        let seen = running.attach(&["--", "sh", "-c", script]);
        assert_eq!(seen, finished(0, "kept stays dumb no rank\n", ""), "as {who:?}");
    }
}

#[test]
fn the_command_begins_where_the_process_is() {
    let running = Running::new(Who::OrdinaryUser);
    let number = running.child.id().to_string();
    let mut command = running.cabane.command(&["attach", &number, "--", "pwd"]);
    command.current_dir("/");
    let seen = running.cabane.finish(&mut command);
    assert_eq!(seen, finished(0, "[WORLD]/work\n", ""));
}

#[test]
fn without_a_command_there_is_a_shell() {
    let running = Running::new(Who::OrdinaryUser);
    let number = running.child.id().to_string();
    let mut command = running.cabane.other("sh");
    let typed = format!("echo 'echo $CABANE_TEST' | SHELL=/bin/sh $CABANE attach {number}");
    let seen = running.cabane.finish(command.args(["-c", &typed]));
    assert_eq!(seen, finished(0, "stays\n", ""));
}

#[test]
fn from_inside_the_same_environment_nothing_more_can_be_mounted() {
    let running = Running::new(Who::OrdinaryUser);
    let tools = running.cabane.image("tools", &running.cabane.mount_point("tools"));
    let (program, number) = (running.cabane.program(), running.child.id().to_string());
    let again = ["--", program, "attach", &number];
    let plain = running.attach(&[&again[..], &["--", "echo", "there"]].concat());
    let more = running.attach(&[&again[..], &["--with", &tools, "--", "true"]].concat());
    let says = "is in your own environment, where nothing more can be mounted\nhint: attach from";
    assert!(
        plain == finished(0, "there\n", "") && more.code == 125 && more.stderr.contains(says),
        "{plain:?} {more:?}"
    );
}

#[test]
fn a_process_outside_is_distinguished() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let seen = cabane
            .finish(cabane.other("sh").args(["-c", "$CABANE attach $$ 2>&1 | sed \"s/$$/PID/\""]));
        let expected = "error: process PID is in no environment\nhint: name a process that was \
                        started in an image; for a program outside, `cabane run IMAGE -- COMMAND` \
                        is enough\n";
        assert_eq!(seen, finished(0, expected, ""), "as {who:?}");
    }
}

#[test]
fn processes_of_others_are_as_good_as_none() {
    if !is_root() {
        not_run!("needs root, to start a process of another user");
    }
    let theirs = Running::new(Who::Root);
    let cabane = Cabane::new(Who::OrdinaryUser);
    let answer = |number: u32| {
        let number = number.to_string();
        let seen = cabane.run(&["attach", &number, "--", "true"]);
        (seen.code, seen.stderr.replace(&number, "PID"))
    };
    assert_eq!(answer(theirs.child.id()), answer(4_000_000));
}

#[test]
fn a_process_that_ends_meanwhile_is_no_accident() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let begin = Instant::now();
    let mut printed = Vec::new();
    while begin.elapsed() < Duration::from_secs(3) {
        let mut child = cabane.command(&["run", "app", "--", "sleep", "0.01"]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(5));
        let number = child.id().to_string();
        let seen = cabane.run(&["attach", &number, "--", "true"]);
        child.wait().unwrap();
        let first = seen.stderr.lines().next().unwrap_or("").replace(&number, "PID");
        printed.push((seen.code, first));
    }
    printed.retain(|(code, first)| {
        let known = ["error: you have no process PID", "error: process PID is in no environment"];
        !(*code == 0 && first.is_empty() || *code == 125 && known.contains(&first.as_str()))
    });
    assert_eq!(printed, []);
}

#[test]
fn root_learns_who_can_attach_to_the_process_of_a_user() {
    if !is_root() {
        not_run!("needs root");
    }
    let theirs = Running::new(Who::OrdinaryUser);
    let cabane = Cabane::new(Who::Root);
    let number = theirs.child.id().to_string();
    let seen = cabane.run(&["attach", &number, "--", "true"]);
    let hint = format!("hint: be that user: `sudo -u '#61234' cabane attach {number}`");
    assert!(seen.code == 125 && seen.stderr.contains(&hint), "{seen:?}");
}

#[test]
fn views_need_images_to_be_in() {
    let running = Running::new(Who::OrdinaryUser);
    let seen = running.attach(&["--view", "default", "--", "true"]);
    assert!(seen.code == 2 && seen.stderr.contains("--with"), "{seen:?}");
}
