// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane build` in memory: where it is, what stays, and when it is on the disk.

use std::fs;
use std::ops::Not;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use cabane_testkit::{Finished, is_root, not_run};
use tempfile::TempDir;

use crate::cabane::{Who, everybody};
use crate::spack::Stack;

/// A stack that is built where builds are by default, with a directory in memory of its
/// own.
struct InMemory {
    stack: Stack,
    memory: TempDir,
}

impl InMemory {
    fn new(who: Who) -> Self {
        let memory =
            tempfile::Builder::new().prefix("cabane-test-").tempdir_in("/dev/shm").unwrap();
        fs::set_permissions(memory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let stack = Stack::new(who);
        Self { stack, memory }
    }

    fn command(&self, more: &[&str]) -> Command {
        let (recipe, system) = (self.stack.path("recipe"), self.stack.path("system"));
        let arguments = ["build", "--system", &system, &recipe];
        let arguments: Vec<&str> = arguments.iter().chain(more).copied().collect();
        let mut command = self.stack.cabane.command(&arguments);
        self.with_variables(&mut command);
        command
    }

    fn with_variables(&self, command: &mut Command) {
        command.env("CABANE_SPACK_PYTHON", "/usr/bin/python3");
        command.env("CABANE_MEMORY_DIR", self.memory.path());
    }

    fn build(&self, more: &[&str]) -> Finished {
        self.stack.cabane.finish(&mut self.command(more))
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = self.stack.cabane.command(arguments);
        self.with_variables(&mut command);
        self.stack.cabane.finish(&mut command)
    }

    /// What builds have in memory.
    fn parts(&self) -> Vec<std::path::PathBuf> {
        let users = fs::read_dir(self.memory.path()).unwrap();
        let parts = users.flat_map(|user| fs::read_dir(user.unwrap().path()).unwrap());
        parts.map(|part| part.unwrap().path()).collect()
    }

    /// A file of the part that is in memory, the only one.
    fn read(&self, name: &str) -> String {
        let parts = self.parts();
        assert_eq!(parts.len(), 1, "{parts:?}");
        fs::read_to_string(parts[0].join(name)).unwrap_or_default()
    }

    /// The build directory on the disk, if there is one.
    fn on_disk(&self, name: &str) -> bool {
        let builds = self.stack.cabane.world.path("home/.cache/cabane/builds");
        let mut builds = fs::read_dir(builds).unwrap();
        builds.any(|build| build.unwrap().path().join(name).exists())
    }
}

#[test]
fn a_build_is_in_memory_and_leaves_nothing_there() {
    for who in everybody() {
        let here = InMemory::new(who);
        here.stack.before_installing("cat /proc/self/mountinfo >/cabane/work/mounts\n");
        here.build(&["stack/1.0"]).success();
        assert_eq!(here.parts(), Vec::<std::path::PathBuf>::new(), "as {who:?}");
        assert!(!here.on_disk("store") && here.on_disk("image.squashfs"));
        let mounts = "home/.cache/cabane/builds";
        let build = fs::read_dir(here.stack.cabane.world.path(mounts)).unwrap();
        let build = build.last().unwrap().unwrap().path();
        let mounts = fs::read_to_string(build.join("work/mounts")).unwrap();
        let mount_point = here.stack.cabane.mount_point("stack");
        let store = mounts.lines().find(|line| line.contains(&mount_point));
        assert!(store.is_some_and(|it| it.contains(" tmpfs ")), "{mounts}");
    }
}

#[test]
fn a_second_build_notices_that_nothing_changed_although_nothing_is_in_memory_any_more() {
    let here = InMemory::new(Who::OrdinaryUser);
    here.build(&["stack/1.0"]).success();
    let again = here.build(&["stack/1.0"]).success().stderr;
    assert!(again.contains("nothing has changed") && !again.contains("install"), "{again}");
}

#[test]
fn in_memory_and_on_the_disk_the_image_is_the_same() {
    let here = InMemory::new(Who::OrdinaryUser);
    here.build(&["stack/1.0"]).success();
    let digest = here.stack.digest();
    here.stack.build(&["stack/1.1"]).success();
    assert_eq!(here.stack.digest(), format!("{digest}{digest}"));
}

#[test]
fn a_change_is_built_although_nothing_is_in_memory_any_more() {
    let here = InMemory::new(Who::OrdinaryUser);
    here.build(&["stack/1.0"]).success();
    let before = here.stack.digest();
    let post = "#!/bin/sh\necho data >{{ env.mount }}/note\n";
    here.stack.cabane.world.file("recipe/post-install", post);
    here.build(&["stack/1.0"]).success();
    assert_ne!(here.stack.digest(), before);
    let seen = here.stack.cabane.run(&["run", "--view=default", "stack", "--", "hello"]);
    assert_eq!(seen.stdout, "hello from a stack\n", "{seen:?}");
}

#[test]
fn a_build_that_failed_goes_on_in_memory() {
    let here = InMemory::new(Who::OrdinaryUser);
    here.stack.before_installing("[ -e $MOUNT/first ] || { touch $MOUNT/first; exit 1; }\n");
    assert_eq!(here.build(&["stack/1.0"]).code, 7);
    here.build(&["stack/1.0"]).success();
}

#[test]
fn what_a_build_left_in_memory_is_cleaned() {
    for who in everybody() {
        let here = InMemory::new(who);
        here.stack.fail("install");
        assert_eq!(here.build(&["stack/1.0"]).code, 7);
        assert_eq!(here.parts().len(), 1);
        here.run(&["clean"]).success();
        assert_eq!(here.parts().len(), 0, "as {who:?}");
    }
}

#[test]
fn what_a_build_has_in_memory_is_kept_on_request() {
    let here = InMemory::new(Who::OrdinaryUser);
    here.build(&["--keep", "stack/1.0"]).success();
    here.build(&["stack/1.0"]).success();
    assert!(here.read("tmp/called").contains("--keep-stage"));
}

#[test]
fn a_build_under_way_is_not_cleaned() {
    let here = InMemory::new(Who::OrdinaryUser);
    here.stack.before_installing("touch /tmp/begun; sleep 1000\n");
    let mut build = here.command(&["stack/1.0"]).spawn().unwrap();
    let started = Instant::now();
    let begun = || {
        let parts = fs::read_dir(here.memory.path()).map_or(0, Iterator::count);
        parts > 0 && here.parts().iter().any(|part| part.join("tmp/begun").exists())
    };
    while begun().not() {
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
    let cleaned = here.run(&["clean"]);
    let parts = here.parts().len();
    let pid = rustix::process::Pid::from_child(&build);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    build.wait().unwrap();
    assert_eq!((cleaned.code, parts), (0, 1), "{cleaned:?}");
}

#[test]
fn a_build_for_which_the_job_has_too_little_memory_is_on_the_disk() {
    let here = InMemory::new(Who::OrdinaryUser);
    let mut command = here.command(&["stack/1.0"]);
    command.env("SLURM_MEM_PER_NODE", "2000");
    let reported = here.stack.cabane.finish(&mut command).success().stderr;
    assert!(
        reported.starts_with(
            "building on the disk: 12.0 GiB, as is assumed of one that is new, do not fit"
        ),
        "{reported}"
    );
    assert!(here.on_disk("store") && here.parts().is_empty());
}

#[test]
fn a_directory_for_builds_that_is_named_is_where_they_are() {
    let here = InMemory::new(Who::OrdinaryUser);
    let builds = here.stack.path("home/builds");
    let mut command = here.command(&["stack/1.0"]);
    command.env("CABANE_BUILD_DIR", &builds);
    here.stack.cabane.finish(&mut command).success();
    let build = fs::read_dir(&builds).unwrap().next().unwrap().unwrap();
    assert!(build.path().join("store/env").exists());
}

#[test]
fn memory_that_others_share_is_seen_inside_and_builds_are_not() {
    let here = InMemory::new(Who::OrdinaryUser);
    let script = format!(
        "echo one >/dev/shm/cabane-seen-$$ && rm /dev/shm/cabane-seen-$$\n\
         ls {}/* >/cabane/work/seen\n",
        here.memory.path().display()
    );
    here.stack.before_installing(&script);
    here.build(&["--keep", "stack/1.0"]).success();
    let builds = here.stack.cabane.world.path("home/.cache/cabane/builds");
    let build = fs::read_dir(builds).unwrap().next().unwrap().unwrap();
    assert_eq!(fs::read_to_string(build.path().join("work/seen")).unwrap(), "");
}

#[test]
fn a_build_that_does_not_fit_after_all_goes_on_on_the_disk() {
    if !is_root() {
        not_run!("a small file system in memory needs root");
    }
    let here = InMemory::new(Who::Root);
    here.stack.before_installing("head -c 20000000 /dev/zero >$MOUNT/large || exit 1\n");
    // It is assumed to fit.
    here.stack.cabane.world.file("home/.cache/cabane/used-1/stack", "1000");
    let build = here.command(&["stack/1.0"]);
    let mut command = here.stack.cabane.other("unshare");
    let script = "mount -t tmpfs -o size=8m,mode=0777 none $CABANE_MEMORY_DIR && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script, "sh"]);
    command.arg(build.get_program()).args(build.get_args());
    here.with_variables(&mut command);
    let failed = here.stack.cabane.finish(&mut command);
    assert!(
        failed.code == 7 && failed.stderr.contains("error: the build does not fit into memory"),
        "{failed:?}"
    );
    let reported = here.stack.cabane.finish(&mut command).success().stderr;
    assert!(reported.starts_with("building on the disk: "), "{reported}");
}
