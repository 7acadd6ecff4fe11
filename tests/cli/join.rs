// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Commands that share namespaces. Ranks of real MPI libraries are in `mpi`.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cabane_testkit::{Finished, not_run};

use crate::cabane::{Cabane, Who, everybody, finished};

/// Tells where a process lives.
const WHERE: &str = "readlink /proc/self/ns/user /proc/self/ns/mnt | paste -sd ' '";

/// A world in which the processes of a test find only each other.
fn world() -> Cabane {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    fs::create_dir(rendezvous_points(&cabane)).unwrap();
    let mut own = cabane.other("sh");
    own.args(["-c", "rmdir ~/run && mkdir -m 0700 ~/run"]);
    cabane.finish(&mut own).success();
    cabane
}

fn rendezvous_points(cabane: &Cabane) -> PathBuf {
    cabane.world.path("home/run")
}

fn within(cabane: &Cabane, mut command: Command) -> Command {
    command.env("XDG_RUNTIME_DIR", rendezvous_points(cabane));
    command
}

fn run(cabane: &Cabane, arguments: &[&str]) -> Finished {
    cabane.finish(&mut within(cabane, cabane.command(arguments)))
}

/// Runs a script that may start `$CABANE` as often as it likes.
fn script(cabane: &Cabane, text: &str) -> Finished {
    let mut command = within(cabane, cabane.other("sh"));
    cabane.finish(command.args(["-c", text]))
}

/// Starts a command that stays, and waits until it is there.
fn start(cabane: &Cabane, arguments: &[&str]) -> Stays {
    let sign = cabane.world.path("work/is-there");
    let _ = fs::remove_file(&sign);
    let there = format!("touch {} && exec sleep 60", sign.display());
    let mut command = within(cabane, cabane.command(arguments));
    command.args(["--", "sh", "-c", &there]);
    let child = command.stdin(Stdio::null()).spawn().unwrap();
    let stays = Stays(child);
    let begin = Instant::now();
    while !sign.exists() {
        assert!(begin.elapsed() < Duration::from_secs(20), "it never came");
        std::thread::sleep(Duration::from_millis(5));
    }
    stays
}

/// A process that ends with the test.
struct Stays(Child);

impl Drop for Stays {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the lines that differ, and how many there are in all.
fn different(output: &str) -> (usize, usize) {
    let mut lines: Vec<&str> = output.lines().collect();
    let all = lines.len();
    lines.sort_unstable();
    lines.dedup();
    (lines.len(), all)
}

/// Four ranks at once, each of which stays until all have spoken.
fn four_ranks(options: &str, inside: &str) -> String {
    format!(
        "for rank in 0 1 2 3; do
             PMI_RANK=$rank $CABANE run {options} app -- {inside} sh -c \"{WHERE}; sleep 1\" &
         done; wait"
    )
}

#[test]
fn ranks_of_one_launcher_share_their_namespaces() {
    let cabane = world();
    let seen = script(&cabane, &four_ranks("", "")).success();
    assert_eq!(different(&seen.stdout), (1, 4), "{}", seen.stdout);
}

/// A process that ends has no namespaces for a moment before the kernel says that it has ended.
#[test]
fn ranks_that_end_at_once_do_not_keep_others_from_starting() {
    let cabane = world();
    for _ in 0..8 {
        let crowd = "ranks=; for rank in $(seq 64); do
                 PMI_RANK=$rank $CABANE run app -- true & ranks=\"$ranks $!\"
             done; for rank in $ranks; do wait $rank || exit 1; done";
        let seen = script(&cabane, crowd).success();
        assert_eq!(seen.stderr, "");
    }
}

#[test]
fn ranks_that_must_not_join_have_namespaces_of_their_own() {
    let cabane = world();
    let seen = script(&cabane, &four_ranks("--no-join", "")).success();
    assert_eq!(different(&seen.stdout), (4, 4), "{}", seen.stdout);
}

#[test]
fn commands_that_are_no_ranks_have_namespaces_of_their_own() {
    let cabane = world();
    let text = four_ranks("", "").replace("PMI_RANK=", "OTHER=");
    let seen = script(&cabane, &text).success();
    assert_eq!(different(&seen.stdout), (4, 4), "{}", seen.stdout);
}

#[test]
fn ranks_of_different_launchers_have_nothing_in_common() {
    let cabane = world();
    let launcher = cabane.world.file("launcher", &four_ranks("", ""));
    let launcher = launcher.display();
    let text = format!("sh {launcher} & sh {launcher} & wait");
    let seen = script(&cabane, &text).success();
    assert_eq!(different(&seen.stdout), (2, 8), "{}", seen.stdout);
}

#[test]
fn ranks_that_go_through_one_environment_into_another_share_that() {
    let cabane = world();
    let tools = cabane.image("tools", &cabane.mount_point("tools"));
    let inner = format!("$CABANE run {tools} --");
    let seen = script(&cabane, &four_ranks("", &inner)).success();
    assert_eq!(different(&seen.stdout), (1, 4), "{}", seen.stdout);
}

#[test]
fn ranks_with_different_images_do_not_share() {
    let cabane = world();
    let tools = cabane.image("tools", &cabane.mount_point("tools"));
    let one = |image: &str| format!("PMI_RANK=1 $CABANE run {image} -- sh -c \"{WHERE}; sleep 1\"");
    let text = format!("{} & {} & wait", one("app"), one(&tools));
    let seen = script(&cabane, &text).success();
    assert_eq!(different(&seen.stdout), (2, 2), "{}", seen.stdout);
}

#[test]
fn a_process_that_joins_keeps_its_directory_and_variables() {
    let cabane = world();
    let _first = start(&cabane, &["run", "--join=x", "app"]);
    let mut command = within(
        &cabane,
        cabane.command(&["run", "--join=x", "app", "--", "sh", "-c", "pwd; echo $MINE; hello"]),
    );
    command.current_dir(cabane.world.path("home"));
    command.env("MINE", "kept");
    let seen = cabane.finish(&mut command);
    assert_eq!(seen, finished(0, "[WORLD]/home\nkept\nhello from app\n", ""));
}

#[test]
fn a_name_stands_for_one_environment() {
    let cabane = world();
    let tools = cabane.image("tools", &cabane.mount_point("tools"));
    let _first = start(&cabane, &["run", "--join=x", "app"]);
    let seen = run(&cabane, &["run", "--join=x", &tools, "--", "true"]);
    let says = "error: the environment named `x` is another one: it has [WORLD]/home/";
    assert!(
        seen.code == 125 && seen.stderr.starts_with(says) && seen.stderr.contains("\nhint: "),
        "{seen:?}"
    );
}

#[test]
fn the_variable_may_name_the_company() {
    let cabane = world();
    let _first = start(&cabane, &["run", "--join=x", "app"]);
    let text = format!(
        "export CABANE_JOIN=x; for i in 1 2; do $CABANE run app -- sh -c \"{WHERE}\"; done"
    );
    let seen = script(&cabane, &text).success();
    assert_eq!(different(&seen.stdout), (1, 2), "{}", seen.stdout);
}

#[test]
fn everything_of_one_environment_may_share() {
    let cabane = world();
    let _first = start(&cabane, &["run", "--join", "app"]);
    let text = format!("for i in 1 2; do $CABANE run --join app -- sh -c \"{WHERE}\"; done");
    let seen = script(&cabane, &text).success();
    assert_eq!(different(&seen.stdout), (1, 2), "{}", seen.stdout);
}

#[test]
fn the_first_process_after_the_last_has_left_begins_anew() {
    let cabane = world();
    drop(start(&cabane, &["run", "--join=x", "app"]));
    let seen = run(&cabane, &["run", "--join=x", "app", "--", "hello"]);
    assert_eq!(seen, finished(0, "hello from app\n", ""));
}

#[test]
fn a_process_killed_at_any_instant_disturbs_nothing_later() {
    let cabane = world();
    for round in 0..40 {
        let mut command = within(&cabane, cabane.command(&["run", "--join=x", "app"]));
        let mut child = command.args(["--", "sleep", "60"]).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(700 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let seen = run(&cabane, &["run", "--join=x", "app", "--", "hello"]);
        assert_eq!(seen, finished(0, "hello from app\n", ""), "in round {round}");
    }
}

#[test]
fn a_directory_that_others_can_write_to_is_passed_over() {
    let cabane = world();
    let place = rendezvous_points(&cabane).join("cabane");
    script(&cabane, "mkdir -m 0777 ~/run/cabane").success();
    run(&cabane, &["run", "--join=x", "app", "--", "true"]).success();
    assert_eq!(fs::read_dir(place).unwrap().count(), 0);
}

#[test]
fn clean_removes_what_those_who_shared_have_left() {
    let cabane = world();
    run(&cabane, &["run", "--join=x", "app", "--", "true"]).success();
    let _stays = start(&cabane, &["run", "--join=y", "app"]);
    run(&cabane, &["clean"]).success();
    let left = fs::read_dir(rendezvous_points(&cabane).join("cabane")).unwrap();
    assert_eq!(left.count(), 1);
}

#[test]
fn root_has_nothing_to_join() {
    if !cabane_testkit::is_root() {
        not_run!("needs root");
    }
    let cabane = Cabane::with_app(Who::Root);
    let seen = cabane.run(&["run", "--join", "app", "--", "hello"]);
    assert_eq!(seen, finished(0, "hello from app\n", ""));
}

#[test]
fn no_command_can_gain_rights() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let arguments = ["run", "app", "--", "grep", "NoNewPrivs", "/proc/self/status"];
        let seen = cabane.run(&arguments);
        assert_eq!(seen, finished(0, "NoNewPrivs:\t1\n", ""), "as {who:?}");
    }
}

#[test]
fn a_process_that_joins_has_no_rights_inside() {
    let cabane = world();
    let _first = start(&cabane, &["run", "--join=x", "app"]);
    let arguments = ["run", "--join=x", "app", "--", "grep", "CapEff", "/proc/self/status"];
    let seen = run(&cabane, &arguments);
    assert_eq!(seen, finished(0, "CapEff:\t0000000000000000\n", ""));
}
