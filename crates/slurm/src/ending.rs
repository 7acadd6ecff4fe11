// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Ending a step on all its nodes when one of them does not have its images: a parallel program
//! whose other ranks wait for those of this node would wait until its time is over.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;

use cabane_sys::alone::start_alone;

use crate::record::GROUPS_OF_JOB;
use crate::spank::Step;

/// From here on the numbers stand for batch scripts and other steps on one node.
const FIRST_SPECIAL: u32 = 0xffff_fff0;

/// Has a step ended that runs on other nodes, too. The reason is on its way to the user when
/// that begins. If it cannot be done, the others go on.
pub(crate) fn end_everywhere(step: Step) {
    if step.nodes > 1 && step.number < FIRST_SPECIAL {
        let _ = start(step);
    }
}

fn start(step: Step) -> io::Result<()> {
    let nothing = File::open("/dev/null")?;
    let mut command = Command::new("/bin/sh");
    command
        .env_clear()
        .envs(std::env::var_os("SLURM_CONF").map(|path| ("SLURM_CONF", path)))
        .args(["-c", "sleep 1; exec \"$0\" --quiet \"$1\""])
        .arg(scancel())
        .arg(format!("{}.{}", step.job, step.number));
    start_alone(&mut command, nothing.as_fd(), GROUPS_OF_JOB)
}

/// Finds the command of the Slurm to which this process belongs. It runs as root, so it is not
/// looked for wherever a variable says.
fn scancel() -> PathBuf {
    let own = fs::read_link("/proc/self/exe").ok();
    let prefix = own.as_deref().and_then(|own| own.parent()?.parent());
    let beside = prefix.map(|prefix| prefix.join("bin/scancel"));
    let there = beside.filter(|path| path.is_file());
    there.unwrap_or_else(|| "/usr/bin/scancel".into())
}
