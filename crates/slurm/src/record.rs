// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! In `slurmstepd`: what a step has mounted, handed to the process that records it.
//!
//! Off unless the line in `plugstack.conf` has `record=DESTINATION`. A process of its own,
//! `cabane slurm record`, makes a record of it and sends that off; the step waits neither
//! for it nor for its result. Here is only what it gets: texts that end with a zero byte.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use cabane_mount::{JobImage, Way};
use cabane_process::alone::start_alone;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::spank::Spank;

/// Variables of the job, which its owner can set to anything.
const VARIABLES: [&str; 6] = [
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
    /// They are mounted, and read in these ways.
    Ways(Vec<Way>),
    /// They are not; why.
    Not(&'a str),
}

/// Has a step recorded, on its first node. Whatever is in the way: then there is no record.
pub(crate) fn hand_over(
    spank: &dyn Spank,
    destination: &OsStr,
    command: Option<&Path>,
    images: &[JobImage],
    mounted: &Mounted<'_>,
) {
    let is_first = spank.step().is_ok_and(|step| step.node == 0);
    let report = is_first.then(|| report(spank, images, mounted)).flatten();
    if let (Some(report), Some(command)) = (report, find_command(command)) {
        let _ = start(&command, destination, &report);
    }
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
        ("mounted", matches!(mounted, Mounted::Ways(_)).into()),
    ]
    .map(|(name, number)| (name, number.to_string().into()))
    .into();
    let mut ways = match mounted {
        Mounted::Ways(ways) => ways.as_slice(),
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
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(b'=');
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
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
