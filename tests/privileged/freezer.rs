// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A user freezes starts of his own, with a control group that was delegated to him as systemd
//! does it. Unlike a signal, that stops a process of root.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cabane_process::child::prepare_child;
use cabane_testkit::{say, time_limit};

use crate::arena::{Arena, in_private_world, root};
use crate::hostile::Random;
use crate::start::{Start, become_user};

/// How long another user's start may take meanwhile. One takes some milliseconds.
const SHORT: Duration = Duration::from_secs(2);

/// How many starts are frozen while they have rights.
const FROZEN: usize = 4;

/// A control group of the user.
struct Group {
    hierarchy: PathBuf,
    place: PathBuf,
    user: u32,
}

impl Group {
    fn new(arena: &Arena) -> Self {
        let hierarchy = arena.world.directory("hierarchy");
        let place = hierarchy.join(format!("cabane-test-{}", std::process::id()));
        let user = arena.user();
        root(&format!(
            "mount -t cgroup2 cgroup2 {0}
             mkdir {1}
             chown {user} {1} {1}/cgroup.procs {1}/cgroup.freeze",
            hierarchy.display(),
            place.display()
        ));
        Self { hierarchy, place, user }
    }

    /// Starts in the group. Root puts the process there, as a manager of sessions would.
    fn spawn(&self, start: &Start<'_>) -> Child {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
        let home = self.hierarchy.join(own.unwrap()).join("cgroup.procs");
        fs::write(self.place.join("cgroup.procs"), "0").unwrap();
        let child = start.spawn();
        fs::write(home, "0").unwrap();
        child
    }

    /// A process of the user, without any rights, that freezes the group or lets it go on when
    /// it reads a line.
    fn writer(&self, is_frozen: bool) -> Child {
        let script = format!("read _; echo {} >cgroup.freeze", u8::from(is_frozen));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]).current_dir(&self.place);
        command.stdin(Stdio::piped());
        let user = self.user;
        prepare_child(&mut command, move || become_user(user, &[]));
        command.spawn().unwrap()
    }

    fn says(&self, file: &str, line: &str) -> bool {
        let text = fs::read_to_string(self.place.join(file)).unwrap();
        text.lines().any(|one| one == line)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        root(&format!("rmdir {}; umount {}", self.place.display(), self.hierarchy.display()));
    }
}

#[test]
fn a_start_that_its_user_freezes_holds_up_no_other_user() {
    in_private_world(|arena| {
        let image = arena.any_image();
        let group = Group::new(arena);
        let mut random = Random::new(5);
        let (mut with_rights, mut longest) = (0, Duration::ZERO);
        let mut rounds = 0;
        while with_rights < FROZEN {
            rounds += 1;
            assert!(rounds < 1000, "{with_rights} were frozen in time");
            arena.start().clean();
            let start = arena.start().image(&image, arena.first());
            let writer = group.writer(true);
            let first = group.spawn(&start);
            std::thread::sleep(time_limit(Duration::from_micros(random.below(2500) as u64)));
            write(writer);
            let begin = Instant::now();
            while !group.says("cgroup.events", "frozen 1") {
                assert!(begin.elapsed() < time_limit(SHORT));
            }
            let status = fs::read_to_string(format!("/proc/{}/status", first.id()));
            let is_root = |status: String| status.contains("Uid:\t0\t0\t0\t0\n");
            with_rights += usize::from(status.is_ok_and(is_root));
            for user in arena.users().iter().rev().take(2) {
                let begin = Instant::now();
                let other = arena.start().user(*user);
                other.image(&image, arena.first()).finish().success();
                longest = longest.max(begin.elapsed());
            }
            assert!(longest < time_limit(SHORT), "{longest:?}");
            write(group.writer(false));
            let output = first.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
        say(&format!(
            "note: {with_rights} of {rounds} starts were frozen with their rights, another took at \
             most {longest:?}"
        ));
    });
}

fn write(mut writer: Child) {
    drop(writer.stdin.take());
    assert!(writer.wait().unwrap().success());
}
