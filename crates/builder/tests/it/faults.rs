// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Builds that are killed, interrupted, or not alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cabane_builder::{BuildRequest, LockWish, Progress, Step, execute, lock_packages, plan};
use cabane_mount::Backend;
use cabane_testkit::{World, not_run, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{Outcome, Recorder, Who, build, everybody, fake_uv, in_copy, recipe, request};
use crate::python;

fn tree() -> World {
    let world = World::new();
    recipe(&world, "name: t\nversion: 3\nengine: tree\ntree: {source: ../tree}\n");
    for number in 0..400_u32 {
        let content = vec![number.to_le_bytes()[0]; 20_000];
        let path = world.path(&format!("tree/d{}/f{number}", number % 20));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    world
}

/// Builds in a process that is killed after some time. Returns what came of it if
/// the build was faster.
fn build_and_kill(world: &World, request: &BuildRequest, after: Duration) -> Option<Outcome> {
    let number = world.path("number");
    let _ = fs::remove_file(&number);
    thread::scope(|scope| {
        let builder = scope.spawn(|| {
            in_copy(Who::User, || {
                let process = std::process::id().to_string();
                fs::write(&number, process).map_err(|error| error.to_string())?;
                build_here(request)
            })
        });
        let process = wait_for_number(&number);
        thread::sleep(after);
        let _ = kill_process(process, Signal::KILL);
        builder.join().unwrap().ok()
    })
}

fn build_here(request: &BuildRequest) -> Result<Outcome, String> {
    let mut request = request.clone();
    request.backend = Backend::detect();
    let mut recorder = Recorder::default();
    plan(&request)
        .and_then(|plan| execute(&plan, &mut recorder, &AtomicBool::new(false)))
        .map(|built| Outcome::new(&built.unwrap(), recorder))
        .map_err(crate::bench::describe)
}

fn wait_for_number(path: &Path) -> Pid {
    loop {
        let number = fs::read_to_string(path).ok();
        if let Some(pid) = number.and_then(|text| Pid::from_raw(text.trim().parse().ok()?)) {
            return pid;
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// Kills builds at instants spread over the time that one takes, lets each be
/// finished, and compares with a build that was left in peace.
fn survives_kills(world: &World, kills: u32) {
    let start = Instant::now();
    let whole = build(&request(world, "whole"), Who::User).unwrap();
    let takes = start.elapsed();
    let mut wrong = Vec::new();
    for kill in 0..kills {
        let request = request(world, &format!("build{kill}"));
        build_and_kill(world, &request, takes * kill / kills);
        match build(&request, Who::User) {
            Ok(finished) if finished.digest == whole.digest => {}
            other => wrong.push((kill, other.map(|built| built.digest))),
        }
        fs::remove_dir_all(&request.build_dir).unwrap();
    }
    assert_eq!(wrong, []);
}

#[test]
fn a_tree_build_killed_at_any_instant_can_be_finished() {
    survives_kills(&tree(), 24);
}

#[test]
fn a_python_build_killed_at_any_instant_can_be_finished() {
    if !python::has_uv() {
        not_run!("needs uv");
    }
    survives_kills(&python::world(), 24);
}

#[test]
fn a_change_that_is_taken_back_after_a_kill_leaves_no_trace() {
    if !python::has_uv() {
        not_run!("needs uv");
    }
    let world = python::world();
    let request = request(&world, "build");
    let wheel = world.path("recipe/wheels/demo_package-1.0-py3-none-any.whl");
    let start = Instant::now();
    let whole = build(&request, Who::User).unwrap().digest;
    let takes = start.elapsed();
    let mut digests = Vec::new();
    for kill in 1..12 {
        python::make_wheel(&wheel, "another");
        build_and_kill(&world, &request, takes * kill / 12);
        python::make_wheel(&wheel, "hello");
        digests.push(build(&request, Who::User).unwrap().digest);
    }
    assert_eq!(digests, vec![whole; 11]);
}

/// Looks at the markers whenever a step begins.
struct Watcher(PathBuf, Vec<usize>);

impl Progress for Watcher {
    fn started(&mut self, _: &Step, _: usize, _: usize) {
        self.1.push(fs::read_dir(&self.0).unwrap().count());
    }
}

#[test]
fn what_is_done_again_is_forgotten_before_it_is_touched() {
    let world = tree();
    let request = request(&world, "build");
    build(&request, Who::User).unwrap();
    world.file("tree/new", "");
    let markers = in_copy(Who::User, || {
        let mut request = request.clone();
        request.backend = Backend::detect();
        let mut watcher = Watcher(request.build_dir.join("steps"), Vec::new());
        plan(&request)
            .and_then(|plan| execute(&plan, &mut watcher, &AtomicBool::new(false)))
            .map_err(|error| error.to_string())?;
        Ok(watcher.1)
    });
    assert_eq!(markers, Ok(vec![0, 1]));
}

#[test]
fn a_build_killed_again_and_again_gets_further_every_time() {
    let world = tree();
    let request = request(&world, "build");
    let mut after = Duration::from_millis(5);
    let outcome = loop {
        if let Some(outcome) = build_and_kill(&world, &request, after) {
            break outcome;
        }
        after = after * 3 / 2;
    };
    assert_eq!(
        outcome.digest,
        build(&crate::bench::request(&world, "other"), Who::User).unwrap().digest
    );
}

#[test]
fn two_builds_in_one_directory_take_turns_and_the_second_finds_all_done() {
    let world = tree();
    let request = request(&world, "build");
    let mut events: Vec<_> = thread::scope(|scope| {
        let builds = [(); 2].map(|()| scope.spawn(|| build(&request, Who::User).unwrap().events));
        builds.map(|build| build.join().unwrap()).into()
    });
    events.sort_by_key(|events| events.iter().any(|event| event.starts_with("started")));
    let all_done = ["skipped metadata", "skipped pack"];
    assert_eq!(events[0].iter().filter(|event| *event != "waiting").collect::<Vec<_>>(), all_done);
}

#[test]
fn an_interrupted_build_ends_within_a_moment_and_leaves_no_process() {
    let world = python::world();
    let mut request = request(&world, "build");
    // One that never ends, and that has a child.
    let child = format!("sleep 1001.{}", std::process::id());
    request.programs.uv = Some(fake_uv(&world, &format!("{child} & wait")));
    let error = in_copy(Who::User, || {
        let interrupt = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                wait_until(&child, true);
                interrupt.store(true, Ordering::Relaxed);
            });
            let mut request = request.clone();
            request.backend = Backend::detect();
            let plan = plan(&request).map_err(|error| error.to_string())?;
            let outcome = execute(&plan, &mut (), &interrupt);
            Ok(outcome.map(|_| ()).map_err(|error| error.to_string()))
        })
    })
    .unwrap();
    // Its end may still be on the way.
    wait_until(&child, false);
    assert_eq!(error, Err("the build was interrupted".to_owned()));
}

#[test]
fn an_interrupted_lock_says_so_and_not_that_a_build_was_interrupted() {
    let world = python::world();
    let mut request = request(&world, "build");
    request.programs.uv = Some(fake_uv(&world, "sleep 1000"));
    fs::write(request.recipe_dir.join("requirements.txt"), "demo\n").unwrap();
    let error = in_copy(Who::User, || {
        let mut request = request.clone();
        request.backend = Backend::detect();
        let interrupt = AtomicBool::new(true);
        let outcome = lock_packages(&request, &LockWish::Keep, false, &mut (), &interrupt);
        Ok(outcome.map(|_| ()).map_err(|error| error.to_string()))
    })
    .unwrap();
    let expected = "the choice of package versions was interrupted; no lock file was changed";
    assert_eq!(error, Err(expected.to_owned()));
}

#[test]
fn programs_and_all_they_started_die_with_a_build_that_is_killed() {
    for who in everybody() {
        let world = python::world();
        let mut request = request(&world, "build");
        // One in a group and session of its own, which no one would find, and its child.
        let (leader, child) = (
            format!("sleep 1002.{}", std::process::id()),
            format!("sleep 1003.{}", std::process::id()),
        );
        let script = format!("setsid sh -c '{child} & {child}; true' & exec {leader}");
        request.programs.uv = Some(fake_uv(&world, &script));
        let number = world.path("number");
        thread::scope(|scope| {
            scope.spawn(|| {
                let _ = in_copy(who, || {
                    fs::write(&number, std::process::id().to_string())
                        .map_err(|error| error.to_string())?;
                    build_here(&request)
                });
            });
            wait_until(&leader, true);
            wait_until(&child, true);
            let _ = kill_process(wait_for_number(&number), Signal::KILL);
        });
        wait_until(&leader, false);
        wait_until(&child, false);
    }
}

#[test]
fn a_system_without_user_namespaces_is_named_with_what_to_do() {
    let world = tree();
    let request = request(&world, "build");
    let error = in_copy(Who::User, || {
        cabane_mount::enter_private_namespace(Backend::UserNamespace)
            .map_err(|error| error.to_string())?;
        fs::write("/proc/sys/user/max_user_namespaces", "0").map_err(|error| error.to_string())?;
        Ok(build_here(&request).unwrap_err())
    })
    .unwrap();
    assert!(
        error.starts_with(
            "error: cannot make the sandbox: cannot create a user namespace with its own mounts: "
        ) && error.contains("hint: user namespaces may be switched off here"),
        "{error}"
    );
}

#[test]
fn where_a_part_of_proc_is_covered_the_program_runs_among_all_processes() {
    let world = python::world();
    let mut request = request(&world, "build");
    let script = "[ $(ls /proc | grep -c '^[0-9]') -gt 9 ] && [ -d /proc/$$ ] && exit 77";
    request.programs.uv = Some(fake_uv(&world, script));
    let error = in_copy(Who::User, || {
        cabane_mount::enter_private_namespace(Backend::UserNamespace)
            .map_err(|error| error.to_string())?;
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("none", "/proc/fs", "tmpfs", flags, None)
            .map_err(|error| error.to_string())?;
        Ok(build_here(&request).unwrap_err())
    })
    .unwrap();
    assert!(error.contains("ended with exit status: 77"), "{error}");
}
