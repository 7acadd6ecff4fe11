// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! In `slurmstepd`: what a step has mounted and how it ended, handed to the process that records
//! it.
//!
//! Off unless the line in `plugstack.conf` has `record=DESTINATION`. A process of its own,
//! `cabane slurm record`, makes a record of it and sends that off; the step waits neither
//! for it nor for its result. Here is only what it gets: texts that end with a zero byte.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use cabane_mount::{JOB_LOOKUP, JobImage, MountTimes, Way};
use cabane_process::alone::start_alone;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::spank::Spank;

/// Variables of the job, which its owner can set to anything.
const VARIABLES: [&str; 7] = [
    JOB_LOOKUP,
    "CABANE_LOADED",
    "SLURM_JOB_ACCOUNT",
    "SLURM_JOB_NUM_NODES",
    "SLURM_HET_SIZE",
    // The first part of a heterogeneous job; steps of an `srun` that made the job have the second.
    "SLURM_JOB_ID_HET_GROUP_0",
    "SLURM_JOB_ID_PACK_GROUP_0",
];
/// What the control groups that Slurm makes for a job and its steps have in their paths. A
/// step ends when they are empty, and a node where that takes too long is drained.
pub(crate) const GROUPS_OF_JOB: &str = "/job_";
/// More than this of a variable is not passed on.
const LONGEST: usize = 64 * 1024;

/// What became of the images of a step.
pub(crate) enum Mounted<'a> {
    /// They are mounted, and read in these ways; it took so long.
    Ways(Vec<Way>, MountTimes),
    /// They are not; why.
    Not(&'a str),
}

/// A step that is recorded again when it has ended.
#[derive(Debug)]
pub(crate) struct Recorded {
    command: PathBuf,
    destination: OsString,
    report: Vec<u8>,
    begin: Instant,
    /// The highest exit code of its tasks on this node, and the signal that ended that task.
    worst: Option<(i32, i32)>,
}

/// Has a step recorded on its first node; on others, that they do not have the images. Returns
/// what is recorded again at the end. Whatever is in the way: then there is no record.
pub(crate) fn hand_over(
    spank: &dyn Spank,
    destination: &OsStr,
    command: Option<&Path>,
    images: &[JobImage],
    mounted: &Mounted<'_>,
) -> Option<Recorded> {
    let is_first = spank.step().ok()?.node == 0;
    if !is_first && matches!(mounted, Mounted::Ways(..)) {
        return None;
    }
    let command = find_command(command)?;
    let mut report = report(spank, images, mounted)?;
    if !is_first {
        push(&mut report, "kind", "node".as_ref());
    }
    start(&command, destination, &report).ok()?;
    is_first.then(|| Recorded {
        command,
        destination: destination.to_owned(),
        report,
        begin: Instant::now(),
        // Tasks of a node that fails may leave the exit code to another one.
        worst: matches!(mounted, Mounted::Not(_)).then_some((1, 0)),
    })
}

impl Recorded {
    /// Notes how a task has ended: a status as `wait` has it.
    pub(crate) fn task_ended(&mut self, status: i32) {
        let status = ExitStatus::from_raw(status);
        let signal = status.signal().unwrap_or_default();
        // A task that was ended has the code that shells give it.
        let code = status.code().unwrap_or_else(|| signal.saturating_add(128));
        self.worst = self.worst.max(Some((code, signal)));
    }

    /// Has recorded that the step has ended.
    pub(crate) fn end(mut self) {
        let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) else {
            return;
        };
        let mut add =
            |name, number: u128| push(&mut self.report, name, number.to_string().as_ref());
        add("time", now.as_millis());
        add("lasted", self.begin.elapsed().as_micros());
        if let Some((code, signal)) = self.worst {
            add("exit-code", code.unsigned_abs().into());
            add("signal", signal.unsigned_abs().into());
        }
        push(&mut self.report, "kind", "end".as_ref());
        let _ = start(&self.command, &self.destination, &self.report);
    }
}

/// Adds a text; of several with one name the last one counts.
fn push(report: &mut Vec<u8>, name: &str, value: &OsStr) {
    report.extend_from_slice(name.as_bytes());
    report.push(b'=');
    report.extend_from_slice(value.as_bytes());
    report.push(0);
}

/// The command runs as root here, so it is not looked for elsewhere.
pub(crate) fn find_command(configured: Option<&Path>) -> Option<PathBuf> {
    let usual = crate::submit::COMMANDS.map(Path::new);
    let command = configured.or_else(|| usual.into_iter().find(|path| path.is_file()))?;
    command.is_absolute().then(|| command.to_owned())
}

fn report(spank: &dyn Spank, images: &[JobImage], mounted: &Mounted<'_>) -> Option<Vec<u8>> {
    let (step, owner) = (spank.step().ok()?, spank.owner().ok()?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let mut texts: Vec<(&str, OsString)> = [
        ("time", now.as_millis()),
        ("job", step.job.into()),
        ("step", step.number.into()),
        ("array-job", step.array_job.into()),
        ("array-task", step.array_task.into()),
        ("nodes", step.nodes.into()),
        ("tasks", step.tasks.into()),
        ("user", owner.user.into()),
        ("group", owner.group.into()),
        ("mounted", matches!(mounted, Mounted::Ways(..)).into()),
    ]
    .map(|(name, number)| (name, number.to_string().into()))
    .into();
    let mut ways = match mounted {
        Mounted::Ways(ways, times) => {
            for (name, time) in [("open", times.open), ("mount", times.mount)] {
                texts.push((name, time.as_micros().to_string().into()));
            }
            ways.as_slice()
        }
        Mounted::Not(reason) => {
            texts.push(("reason", reason.into()));
            &[]
        }
    }
    .iter();
    for image in images {
        texts.push(("image", image.path.clone().into()));
        texts.push(("mount-point", image.mount_point.clone().into()));
        texts.push(("label", image.label.clone().into()));
        texts.extend(ways.next().map(|way| ("way", way.name().into())));
    }
    for name in VARIABLES {
        let value = spank.variable(name).ok().flatten();
        texts.extend(value.filter(|value| value.len() <= LONGEST).map(|value| (name, value)));
    }
    let mut bytes = Vec::new();
    for (name, value) in texts {
        push(&mut bytes, name, &value);
    }
    Some(bytes)
}

fn start(command: &Path, destination: &OsStr, report: &[u8]) -> io::Result<()> {
    let mut file = File::from(memfd_create(c"cabane-step", MemfdFlags::CLOEXEC)?);
    file.write_all(report)?;
    let mut command = Command::new(command);
    command
        .env_clear()
        // Where to ask for the name of a user.
        .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
        .args(["slurm", "record", "--from"])
        .arg(file.as_raw_fd().to_string())
        .arg("--to")
        .arg(destination);
    start_alone(&mut command, file.as_fd(), GROUPS_OF_JOB)
}
