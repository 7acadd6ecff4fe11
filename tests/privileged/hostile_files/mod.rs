// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Files on file systems of the attacker's making: he serves them himself, or mounts them in
//! namespaces of his own, and hands the helper a descriptor.
//!
//! `attacker.c` makes the file system as the ordinary user, and starts the helper in the
//! namespaces of the host. `server.c` is its FUSE server, which lies and stops answering.

mod attach;
mod binds;
mod hangs;
mod jobs;
mod lies;
mod refused;

use std::fs;
use std::io::Read;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use cabane_mount::ImageFormat;
use cabane_testkit::{Finished, compile};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::arena::{Arena, root};
use crate::start::{REQUEST, Start, become_user};

const SOURCE: &str = concat!(include_str!("server.c"), include_str!("attacker.c"));

/// The descriptor that the attacker hands over.
pub(super) const GIVEN: RawFd = REQUEST + 40;

/// How long a helper may take that waits for no one. Generous: the machine may be busy.
const SOON: Duration = Duration::from_secs(10);

/// How long a helper has to get on after its file system has stopped answering.
const MOMENT: Duration = Duration::from_millis(300);

/// Where a file is, in the terms of `attacker.c`: the system, the mount, what is below.
pub(super) type System = [&'static str; 3];

/// What a user can make that is not attached on the host, or that he serves.
pub(super) const SYSTEMS: [System; 13] = [
    ["fuse", "here", ""],
    ["fuse", "there", ""],
    ["fuse", "loose", ""],
    ["overlay", "there", "fuse-here"],
    ["overlay", "there", "fuse-there"],
    ["overlay", "there", "memory"],
    ["overlay", "loose", "fuse-here"],
    ["overlay", "loose", "fuse-there"],
    ["overlay", "loose", "memory"],
    ["memory", "there", ""],
    ["memory", "loose", ""],
    ["disk", "there", ""],
    ["disk", "loose", ""],
];

/// The attacker, compiled, and an image that works.
pub(super) struct Attacker<'a> {
    arena: &'a Arena,
    program: PathBuf,
    image: PathBuf,
    place: PathBuf,
    log: PathBuf,
}

impl<'a> Attacker<'a> {
    pub(super) fn new(arena: &'a Arena) -> Self {
        let program = arena.world.path("attacker");
        compile(SOURCE, &program, ["-O1"]);
        let place = arena.world.directory("place");
        root(&format!(
            "chown {} {}; echo user_allow_other >/etc/fuse.conf",
            arena.user(),
            place.display()
        ));
        Self { arena, program, image: arena.any_image(), place, log: arena.world.path("log") }
    }

    /// Writes the policy of a private world, with another word about owners.
    pub(super) fn trust(&self, owners: &str) {
        let policy = crate::arena::POLICY;
        let policy = policy.replace("image-owners any", &format!("image-owners {owners}"));
        self.arena.set_policy(&format!("{policy}root-images yes\n"));
    }

    /// A start with a descriptor for a file on a system. It is given as the image at the first
    /// mount point.
    pub(super) fn image(&self, system: System, options: &[&str]) -> Start<'a> {
        let start = self.descriptor(self.arena.start(), system, options);
        start.image_at(GIVEN, Path::new("given"), self.arena.first())
    }

    /// The same with an EROFS image, which the kernel can read without a loop device.
    pub(super) fn erofs(&self, system: System, options: &[&str]) -> Start<'a> {
        let image = format!("image={}", self.erofs_image().display());
        let options = [options, &[image.as_str()]].concat();
        self.image(system, &options).declared(ImageFormat::Erofs)
    }

    fn erofs_image(&self) -> PathBuf {
        self.arena.image("erofs", ImageFormat::Erofs)
    }

    /// A start with such a descriptor, of which the request says nothing yet.
    pub(super) fn descriptor(
        &self,
        start: Start<'a>,
        [system, mount, below]: System,
        options: &[&str],
    ) -> Start<'a> {
        let mut arguments = vec![self.program.display().to_string()];
        arguments.push(format!("system={system}"));
        arguments.push(format!("mount={mount}"));
        arguments.push(format!("below={below}"));
        arguments.push(format!("place={}", self.place.display()));
        arguments.push(format!("image={}", self.image.display()));
        arguments.push(format!("log={}", self.log.display()));
        arguments.push(format!("number={GIVEN}"));
        arguments.extend(options.iter().map(|&option| option.to_owned()));
        arguments.push("--".to_owned());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        start.through(&arguments)
    }

    /// The directory on which it mounts.
    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// The requests to the server since it became hostile.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Starts, and waits for the end. A helper that does not get on is looked at, then killed by
    /// its user, and at last he ends his server.
    pub(super) fn finish(&self, start: &Start<'_>) -> Ended {
        self.forget();
        let ended = self.watch(start);
        self.unmount();
        assert_ne!(ended.finished.code, 99, "the attack cannot be made: {ended:?}");
        ended
    }

    /// Empties the log.
    pub(super) fn forget(&self) {
        let _ = fs::remove_file(&self.log);
    }

    /// The same with servers of earlier starts.
    pub(super) fn watch(&self, start: &Start<'_>) -> Ended {
        let mut running = Running::new(start.spawn());
        let begin = Instant::now();
        let mut hanging = None;
        let mut stuck = None;
        while !running.has_ended() {
            if hanging.is_none() && (self.log().contains("hang ") || begin.elapsed() > SOON) {
                hanging = Some(Instant::now());
            }
            let waits = hanging.map_or(Duration::ZERO, |since: Instant| since.elapsed());
            if stuck.is_none() && waits > MOMENT {
                stuck = Some(Stuck::look_at(running.id()));
                kill_as_user(running.id());
            }
            if waits > 3 * MOMENT {
                self.kill_server();
            }
            assert!(waits < SOON, "it goes on although its user has killed all he has: {stuck:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
        let finished = running.finished();
        Ended { finished, stuck }
    }

    /// Takes away what is mounted on the host.
    pub(super) fn unmount(&self) {
        let place = self.place.display();
        root(&format!("while umount -l {place} 2>/dev/null; do :; done"));
    }

    /// Ends the servers of the attacker, as he could himself.
    pub(super) fn kill_server(&self) {
        for line in self.log().lines() {
            let server = line.strip_prefix("server ").and_then(|text| text.parse().ok());
            if let Some(server) = server.and_then(Pid::from_raw) {
                let _ = kill_process(server, Signal::KILL);
            }
        }
    }
}

/// A child that does not outlive the test.
struct Running {
    child: Option<Child>,
}

impl Running {
    fn new(child: Child) -> Self {
        Self { child: Some(child) }
    }

    fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some())
    }

    fn finished(mut self) -> Finished {
        let mut child = self.child.take().unwrap();
        let status = child.wait().unwrap();
        let (mut stdout, mut stderr) = (String::new(), String::new());
        child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        Finished {
            code: status.code().unwrap_or_else(|| 128 + signal.unwrap_or(0)),
            stdout,
            stderr,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a helper looked like that did not get on.
#[derive(Debug)]
pub(super) struct Stuck {
    /// Whether its user could have ended it.
    pub(super) can_be_killed: bool,
    /// Who it was, and where in the kernel.
    #[expect(dead_code, reason = "it is printed where a test fails")]
    looks: String,
}

impl Stuck {
    pub(super) fn look_at(process: u32) -> Self {
        let read =
            |name: &str| fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
        let status = read("status");
        let lines = status
            .lines()
            .filter(|line| ["Name:", "State:", "Uid:"].iter().any(|key| line.starts_with(key)));
        let lines: Vec<&str> = lines.collect();
        Self {
            can_be_killed: can_be_killed(process),
            looks: format!("{} {}", lines.join(" "), read("stack")),
        }
    }
}

/// Tells whether the attacker may send a signal to a process.
pub(super) fn can_be_killed(process: u32) -> bool {
    as_user(move || test_kill_process(pid(process)).is_ok())
}

/// The attacker ends a process, if he may.
fn kill_as_user(process: u32) {
    as_user(move || kill_process(pid(process), Signal::KILL).is_ok());
}

fn pid(process: u32) -> Pid {
    Pid::from_raw(i32::try_from(process).unwrap()).unwrap()
}

fn as_user<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    let act = || {
        become_user(cabane_testkit::ORDINARY_USER, &[]).unwrap();
        act()
    };
    std::thread::scope(|scope| scope.spawn(act).join().unwrap())
}

/// How a start ended, and what it looked like if it took long.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) finished: Finished,
    pub(super) stuck: Option<Stuck>,
}

impl Ended {
    /// It was refused with a message, and soon.
    pub(super) fn is_refused(&self) -> bool {
        let Finished { code, stdout, stderr } = &self.finished;
        self.stuck.is_none() && *code == 125 && stdout.is_empty() && stderr.starts_with("error: ")
    }

    /// Whether it got on or not, its user could have ended it.
    pub(super) fn was_in_the_hands_of_its_user(&self) -> bool {
        self.stuck.as_ref().is_none_or(|stuck| stuck.can_be_killed)
    }
}
