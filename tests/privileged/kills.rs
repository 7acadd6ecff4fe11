// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The helper is killed, stopped, spied on and interrupted.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use cabane_mount::ImageFormat;
use cabane_testkit::{fewer, slowness, time_limit};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Resource, Rlimit, Signal, kill_process, pidfd_getfd,
    pidfd_open, prlimit,
};

use crate::arena::{Arena, in_arena, in_private_world, root};
use crate::hostile::Random;
use crate::left_over::assert_none;
use crate::limits::Up;
use crate::start::{Start, assert_refused, become_user};

const KILLS: usize = 1000;
/// For how long at most they are tried.
const KILLING: Duration = Duration::from_secs(60);

#[test]
fn a_thousand_kills_at_any_instant_leave_nothing() {
    in_arena(|arena| {
        let images: Vec<PathBuf> = (0..6)
            .map(|number| {
                let format = [ImageFormat::Squashfs, ImageFormat::Erofs][number % 2];
                arena.image(&format!("image{number}"), format)
            })
            .collect();
        let start = |number: usize| {
            let first = arena.start().image(&images[number % 6], arena.first());
            first.image(&images[(number + 1) % 6], arena.second())
        };
        // How long a start takes from the beginning, and one that finds everything.
        let time = || {
            let begin = Instant::now();
            start(0).finish().success();
            usize::try_from(begin.elapsed().as_micros()).unwrap()
        };
        let mut whole = [time(), time()];
        let mut random = Random::new(1);
        let (mut tried, mut killed) = (0, 0);
        let begin = Instant::now();
        while killed < fewer(KILLS) && begin.elapsed() < KILLING {
            tried += 1;
            // Now and then with nothing held, so that the first image is mounted anew.
            let is_cold = tried % 5 == 0;
            if is_cold {
                arena.start().clean();
            }
            let whole = &mut whole[usize::from(!is_cold)];
            let mut child = start(random.below(6))
                .process()
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let instant = Duration::from_micros(random.below(*whole) as u64);
            std::thread::sleep(instant);
            // Root can do that at any instant; the user may not while the helper has rights.
            let allowed = child.kill();
            assert!(allowed.is_ok() || !arena.is_private());
            let output = child.wait_with_output().unwrap();
            let is_killed = output.status.signal() == Some(Signal::KILL.as_raw());
            // What earlier ones left behind makes no difference.
            assert!(is_killed || output.status.success(), "{output:?}");
            killed += usize::from(is_killed);
            // How busy the machine is changes all the time.
            *whole = if is_killed { *whole * 103 / 100 } else { (*whole * 9 / 10).max(300) };
        }
        cabane_testkit::say(&format!("note: {killed} of {tried} starts were killed"));
        assert!(killed > tried / 4);
        start(0).finish().success();
    });
}

#[test]
fn a_helper_that_was_stopped_or_killed_does_not_stop_others_for_long() {
    in_arena(|arena| {
        let image = arena.any_image();
        let mut random = Random::new(2);
        for number in 0..4 {
            arena.start().clean();
            let first = arena.start().image(&image, arena.first()).process().spawn();
            let mut first = first.unwrap();
            std::thread::sleep(time_limit(Duration::from_micros(random.below(3000) as u64 + 500)));
            let pid = Pid::from_child(&first);
            let is_stopped = kill_process(pid, Signal::STOP).is_ok();
            assert!(is_stopped || !arena.is_private());
            let begin = Instant::now();
            for user in arena.users().iter().rev().take(2) {
                let other = arena.start().user(*user);
                let finished = other.image(&image, arena.first()).finish();
                assert!(finished.code == 0 || finished.code == 125, "{number}: {finished:?}");
            }
            assert!(begin.elapsed() < time_limit(Duration::from_secs(25)));
            // Its user's signal to go on reaches it in any case.
            kill_process(pid, Signal::CONT).unwrap();
            first.wait().unwrap();
        }
    });
}

/// As after the start of the node.
const WITHOUT_A_CACHE: &str =
    "while umount -l /run/cabane/cache/mount 2>/dev/null; do :; done; rm -rf /run/cabane";

/// A lock that someone holds who does not get on.
struct Held(OwnedFd);

impl Held {
    fn new(directory: OwnedFd) -> Self {
        flock(&directory, FlockOperation::NonBlockingLockExclusive).unwrap();
        Self(directory)
    }

    /// That of `/run/cabane`, before there is a cache.
    fn of_state() -> Self {
        root("mkdir -p -m 700 /run/cabane");
        Self::new(File::open("/run/cabane").unwrap().into())
    }

    /// That of a user in the cache, which is made if there is none.
    fn of_user(arena: &Arena) -> Self {
        let first = arena.image("first", ImageFormat::Squashfs);
        let start = arena.start().user(arena.user());
        start.image(&first, arena.first()).finish().success();
        let (_, list) = arena.cache().unwrap();
        let name = format!(".users/{}", arena.user());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self::new(openat(&list, name, flags, Mode::empty()).unwrap())
    }

    fn release(self) {
        drop(self.0);
    }
}

fn cache_mounts() -> impl Iterator<Item = String> {
    let table = BufReader::new(File::open("/proc/self/mountinfo").unwrap());
    let lines = table.lines().map(Result::unwrap);
    lines.filter(|line| line.contains("/run/cabane"))
}

#[test]
fn first_starts_of_many_users_make_one_cache_without_its_lock() {
    in_private_world(|arena| {
        // The private world covers that of the machine, if it has one.
        let others: Vec<_> = cache_mounts().collect();
        let image = arena.any_image();
        for _ in 0..8 {
            root(WITHOUT_A_CACHE);
            let held = Held::of_state();
            // All of them wait for the lock to no end, and go on at the same time.
            let starts = (0..4).flat_map(|_| arena.users());
            let starts: Vec<_> = starts
                .map(|user| {
                    let start = arena.start().user(*user).image(&image, arena.first());
                    start.spawn()
                })
                .collect();
            for start in starts {
                let output = start.wait_with_output().unwrap();
                assert!(output.status.success(), "{output:?}");
            }
            held.release();
            let caches: Vec<_> = cache_mounts().filter(|one| !others.contains(one)).collect();
            // The mount of the directory, and the file of the namespace in it.
            assert_eq!(caches.len(), 2, "{caches:#?}");
            let names = fs::read_dir("/run/cabane").unwrap().flatten();
            let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
            assert_eq!(names, ["cache"]);
            assert_none(arena);
        }
    });
}

#[test]
fn what_another_user_left_of_a_cache_is_taken_away() {
    in_private_world(|arena| {
        let image = arena.any_image();
        root(
            "mkdir -m 700 -p /run/cabane/0/mount /run/cabane/1 /run/cabane/7/mount
             chmod 700 /run/cabane
             mount --bind /run/cabane/0/mount /run/cabane/0/mount
             touch /run/cabane/0/mount/namespace
             mount --bind /etc/passwd /run/cabane/0/mount/namespace",
        );
        arena.start().image(&image, arena.first()).finish().success();
        let names = fs::read_dir("/run/cabane").unwrap().flatten();
        let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["cache"]);
    });
}

#[test]
fn a_lock_that_is_never_released_delays_an_image_and_does_not_prevent_it() {
    in_private_world(|arena| {
        arena.set_policy("mount-point /mnt/a\nimage-owners any\nidle-seconds 600\n");
        let image = arena.any_image();
        // Someone has made an entry and locked it, and stopped before mounting.
        let other = arena.copy_of(&image, "other.squashfs");
        let keep = Up::with(&arena.start().image(&other, arena.first()), "echo up");
        let start = arena.start().image(&image, arena.first());
        let (names, list) = arena.cache().unwrap();
        start.finish().success();
        let (now, _) = arena.cache().unwrap();
        let name = now.iter().find(|name| !names.contains(name)).unwrap().clone();
        arena.start().clean();
        rustix::fs::mkdirat(&list, &name, Mode::RWXU).ok();
        let entry =
            openat(&list, &name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let held = Held::new(entry);
        let begin = Instant::now();
        let finished = start.clone().script("cat /mnt/a/name").finish();
        let delay = begin.elapsed();
        held.release();
        keep.end();
        assert_eq!(finished.success().stdout, "any");
        assert!(delay < time_limit(Duration::from_secs(8)), "{delay:?}");
    });
}

#[test]
fn who_cannot_count_the_images_of_a_user_mounts_none() {
    in_private_world(|arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        let held = Held::of_user(arena);
        let begin = Instant::now();
        let finished = start.finish();
        let delay = begin.elapsed();
        start.clone().user(arena.another_user()).finish().success();
        assert_refused(&finished, "another of your starts");
        assert!(delay < time_limit(Duration::from_secs(8)), "{delay:?}");
        held.release();
        start.finish().success();
    });
}

#[test]
fn a_lock_of_the_node_that_is_never_released_gives_an_error_before_long() {
    in_private_world(|arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        let held = Held::of_state();
        let begin = Instant::now();
        let finished = start.finish();
        let delay = begin.elapsed();
        held.release();
        assert!(finished.code == 0 || finished.stderr.contains("lock"), "{finished:?}");
        assert!(delay < time_limit(Duration::from_secs(8)), "{delay:?}");
        start.finish().success();
    });
}

/// A helper in the middle of its privileged part, and the lock it waits for.
fn in_the_middle(arena: &Arena, start: &Start<'_>) -> (Child, Held) {
    let held = Held::of_user(arena);
    let child = start.spawn();
    wait_for_rights(child.id());
    (child, held)
}

fn status_of(process: u32) -> String {
    fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default()
}

fn has_rights(process: u32) -> bool {
    let status = status_of(process);
    status.contains("Uid:\t0\t0\t0\t0") && status.contains("cabane-mount")
}

fn wait_for_rights(process: u32) {
    let begin = Instant::now();
    while !has_rights(process) {
        assert!(begin.elapsed() < time_limit(Duration::from_secs(5)));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Stops a helper that has rights. Between two steps with rights it looks at the image as the
/// caller, who may end it then.
fn stop_with_rights(child: &Child) {
    let pid = Pid::from_child(child);
    loop {
        wait_for_rights(child.id());
        kill_process(pid, Signal::STOP).unwrap();
        while !status_of(child.id()).contains("State:\tT") {
            std::thread::sleep(Duration::from_millis(1));
        }
        if has_rights(child.id()) {
            return;
        }
        kill_process(pid, Signal::CONT).unwrap();
    }
}

#[test]
fn the_user_can_neither_disturb_nor_spy_on_the_helper_while_it_has_rights() {
    in_private_world(|arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        let (child, held) = in_the_middle(arena, &start);
        let pid = Pid::from_child(&child);
        // It waits for the lock only so long, and must not get on before the attack is over.
        stop_with_rights(&child);
        let attack = || {
            become_user(61_234, &[]).unwrap();
            let mut succeeded = Vec::new();
            for signal in
                [Signal::KILL, Signal::STOP, Signal::TERM, Signal::TSTP, Signal::USR1, Signal::SEGV]
            {
                if kill_process(pid, signal).is_ok() {
                    succeeded.push(format!("{signal:?}"));
                }
            }
            for name in [
                "mem",
                "environ",
                "auxv",
                "maps",
                "fd",
                "fdinfo",
                "cwd",
                "root",
                "exe",
                "ns/mnt",
                "stack",
                "syscall",
                "io",
                "fd/3",
                "map_files",
            ] {
                let path = format!("/proc/{}/{name}", pid.as_raw_nonzero());
                let is_read = match name {
                    "cwd" | "root" | "exe" | "ns/mnt" | "fd/3" => fs::read_link(&path).is_ok(),
                    "fd" | "fdinfo" | "map_files" => {
                        fs::read_dir(&path).is_ok_and(|list| list.flatten().next().is_some())
                    }
                    _ => fs::read(&path).is_ok_and(|bytes| !bytes.is_empty()),
                };
                if is_read {
                    succeeded.push(name.to_owned());
                }
            }
            let limit = Rlimit { current: Some(0), maximum: Some(0) };
            if prlimit(Some(pid), Resource::Nofile, limit).is_ok() {
                succeeded.push("prlimit".to_owned());
            }
            let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
            for number in 0..64 {
                if pidfd_getfd(&pidfd, number, PidfdGetfdFlags::empty()).is_ok() {
                    succeeded.push(format!("descriptor {number}"));
                }
            }
            let traced = std::process::Command::new("strace")
                .args(["-p", &pid.as_raw_nonzero().to_string()])
                .output();
            if traced.is_ok_and(|output| output.status.success()) {
                succeeded.push("strace".to_owned());
            }
            succeeded
        };
        let succeeded = std::thread::scope(|scope| scope.spawn(attack).join().unwrap());
        held.release();
        kill_process(pid, Signal::CONT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(succeeded, Vec::<String>::new());
    });
}

#[test]
fn keys_at_the_terminal_do_not_stop_the_helper_and_reach_the_command() {
    in_private_world(|arena| {
        let image = arena.any_image();
        for (key, name) in [(b"\x1a", "stop"), (b"\x03", "interrupt"), (b"\x1c", "quit")] {
            let held = Held::of_user(arena);
            let start = arena
                .start()
                .image(&image, arena.first())
                .script(&format!("echo started; sleep {}", 0.2 * f64::from(slowness())));
            let line = format!("{} {}", arena.helper.display(), crate::start::REQUEST);
            // With a terminal of its own, as its foreground process.
            let start = start.through_script(&format!("exec script -qec 'exec {line}' /dev/null"));
            let mut command = start.process();
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let helper = wait_for_helper();
            child.stdin.as_mut().unwrap().write_all(key).unwrap();
            // Not longer on a slow machine: the helper waits for the lock only so long.
            std::thread::sleep(Duration::from_millis(200));
            let status = fs::read_to_string(format!("/proc/{helper}/status")).unwrap();
            held.release();
            // Asleep, or just awake to ask for the lock again; not stopped, not a zombie.
            let goes_on = ["State:\tS", "State:\tR", "State:\tD"];
            assert!(goes_on.iter().any(|state| status.contains(state)), "{name}: {status}");
            std::thread::sleep(time_limit(Duration::from_millis(500)));
            root("pkill -CONT -u 61234 || true; pkill -KILL -u 61234 sleep || true");
            drop(child.stdin.take());
            child.wait().unwrap();
            root("pkill -KILL -u 61234 || true");
            arena.start().clean();
            root(WITHOUT_A_CACHE);
        }
    });
}

/// Waits for the helper that someone else has started, in the middle of its work.
fn wait_for_helper() -> u32 {
    let begin = Instant::now();
    loop {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_helper = |number: &u32| {
            let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
            status.starts_with("Name:\tcabane-mount") && status.contains("Uid:\t0\t0\t0\t0")
        };
        if let Some(number) = numbers.into_iter().find(is_helper) {
            return number;
        }
        assert!(begin.elapsed() < time_limit(Duration::from_secs(5)));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn without_space_in_run_there_is_an_error_and_nothing_half() {
    in_private_world(|arena: &Arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        for options in ["size=4k,nr_inodes=1", "ro"] {
            root(&format!("mount -t tmpfs -o mode=755,{options} tmpfs /run"));
            let finished = start.finish();
            root("umount /run");
            assert!(finished.code == 0 || finished.code == 125, "{options}: {finished:?}");
        }
        // What others left there in another form.
        for script in [
            "touch /run/cabane/cache",
            "mkdir /run/cabane/cache",
            "mkdir -p /run/cabane/cache/mount/namespace",
            "ln -s /etc/passwd /run/cabane/cache",
            "mkfifo /run/cabane/cache",
        ] {
            root(&format!("{WITHOUT_A_CACHE}; mkdir -m 700 /run/cabane; {script}"));
            start.finish().success();
            arena.start().clean();
        }
        for script in [
            "chmod 755 /run/cabane",
            "chown 61234 /run/cabane",
            "rmdir /run/cabane; ln -s /tmp /run/cabane",
        ] {
            root(&format!("{WITHOUT_A_CACHE}; mkdir -m 700 /run/cabane; {script}"));
            let finished = start.finish();
            assert_eq!(finished.code, 125, "{script}: {finished:?}");
        }
        root("rm -rf /run/cabane");
        start.finish().success();
    });
}
