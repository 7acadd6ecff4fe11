// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Many starts at once.
//!
//! Each starts a small program in the image that runs a command, writes one byte, and
//! stays until all are there. The time is that from the first start to the last byte.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::measure::NotMeasured;
use crate::users::as_user;

/// How long a crowd is waited for.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// How long the kernel gets to remove what a crowd left.
const CALM: Duration = Duration::from_millis(100);

/// The unit of the sizes of devices, in bytes.
const SECTOR: u64 = 512;

/// What it took to have all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rendezvous {
    /// From the first start to the last that was ready.
    pub(crate) milliseconds: f64,
    /// How many never were.
    pub(crate) failures: usize,
    /// Loop devices of the image, while all were there.
    pub(crate) loop_devices: usize,
    /// Megabytes that were added to the page cache of the machine.
    pub(crate) cached: f64,
}

/// Starts so many, as many by each user, and waits for all; the loop devices of the
/// image are counted.
pub(crate) fn gather(
    make: impl Fn() -> Result<Command, NotMeasured> + Sync,
    count: usize,
    users: &[u32],
    image: &Path,
) -> Result<Rendezvous, NotMeasured> {
    let failed = |error: rustix::io::Errno| format!("cannot make a pipe: {error}");
    let (ready, say_ready) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    let (hold, let_go) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    let before = cached();
    let begun = Instant::now();
    let shares = users.iter().map(|user| {
        let (hold, say_ready) = (hold.try_clone(), say_ready.try_clone());
        as_user(*user, || start(make()?, count / users.len(), hold, say_ready))
    });
    let started: Result<Vec<Vec<Child>>, NotMeasured> = shares.collect();
    drop((hold, say_ready));
    let mut children: Vec<Child> = started?.into_iter().flatten().collect();
    let arrived = wait_for(&ready, &mut children);
    let time = begun.elapsed();
    let (loop_devices, after) = (loop_devices(image), cached());
    drop(let_go);
    for child in &mut children {
        let _ = child.wait();
    }
    sleep(CALM);
    Ok(Rendezvous {
        milliseconds: time.as_secs_f64() * 1e3,
        failures: count - arrived.min(count),
        loop_devices,
        cached: after - before,
    })
}

fn start(
    mut command: Command,
    count: usize,
    hold: io::Result<OwnedFd>,
    say_ready: io::Result<OwnedFd>,
) -> Result<Vec<Child>, NotMeasured> {
    let failed = |error| format!("cannot start one of many: {error}");
    command.stdin(hold.map_err(failed)?).stdout(say_ready.map_err(failed)?).stderr(Stdio::null());
    (0..count).map(|_| command.spawn().map_err(failed)).collect()
}

/// Returns how many were ready when all were, or had ended.
fn wait_for(ready: &OwnedFd, children: &mut [Child]) -> usize {
    let deadline = Instant::now() + TIME_LIMIT;
    let step = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    let (mut arrived, mut bytes) = (0, [0; 1024]);
    while arrived < children.len() && Instant::now() < deadline {
        let mut polled = [PollFd::new(ready, PollFlags::IN)];
        let _ = poll(&mut polled, Some(&step));
        if polled[0].revents().contains(PollFlags::IN) {
            arrived += rustix::io::read(ready, &mut bytes).unwrap_or(0);
            continue;
        }
        let ended = children.iter_mut().filter_map(|child| child.try_wait().ok().flatten()).count();
        if arrived + ended >= children.len() {
            break;
        }
    }
    arrived
}

/// Counts the loop devices in use that are as large as the file. Their own names for
/// it depend on who looks, and from where.
fn loop_devices(image: &Path) -> usize {
    let sectors = fs::metadata(image).map_or(0, |metadata| metadata.len() / SECTOR);
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    devices
        .map(|device| device.path())
        .filter(|device| device.join("loop/backing_file").exists())
        .filter_map(|device| fs::read_to_string(device.join("size")).ok())
        .filter(|size| size.trim().parse() == Ok(sectors))
        .count()
}

/// Returns the megabytes in the page cache of the machine.
fn cached() -> f64 {
    let mut text = String::new();
    let _ = File::open("/proc/meminfo")
        .and_then(|mut file| io::Read::read_to_string(&mut file, &mut text));
    let kibibytes = text.lines().find_map(|line| {
        let number = line.strip_prefix("Cached:")?.split_whitespace().next()?;
        number.parse::<f64>().ok()
    });
    kibibytes.unwrap_or(0.0) * 1024.0 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendezvous(script: &'static str) -> Rendezvous {
        let make = || {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", script]);
            Ok(command)
        };
        gather(make, 4, &[0], Path::new("/nowhere")).unwrap()
    }

    #[test]
    fn those_who_are_ready_are_counted_before_they_leave() {
        assert_eq!(rendezvous("printf .; read line").failures, 0);
    }

    #[test]
    fn those_who_never_get_ready_are_failures() {
        assert_eq!(rendezvous("exit 1").failures, 4);
    }
}
