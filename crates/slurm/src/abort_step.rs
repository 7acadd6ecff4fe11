// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Ending a step on all its nodes when one of them does not have its images, or refuses it: a
//! parallel program whose other ranks wait for those of this node would wait until its time is
//! over.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use cabane_process::alone::start_alone;

use crate::record::GROUPS_OF_JOB;
use crate::spank::{Spank, Step};

/// How often a node looks whether another one has ended the step, and for how long each time,
/// as an argument of `sleep`: in all five seconds, of which the first node needs one.
const LOOKS: u32 = 10;
const EACH: &str = "0.5";

/// In the first task of a node that no one has heard: tells why a step fails, and ends it. As a
/// rule all nodes have the same reason: then the first one tells it. Another node waits for that,
/// and tells a reason that was its own.
pub(crate) fn tell_once(spank: &dyn Spank, lines: &[String]) {
    let step = spank.step().unwrap_or_default();
    if step.node > 0 && is_being_ended() {
        return;
    }
    for line in lines {
        spank.error(line);
    }
    end_everywhere(step);
}

/// Waits whether someone ends the step. Slurm tells no one, and spares what is not a command
/// yet, as this process: so commands are started that it does not spare.
fn is_being_ended() -> bool {
    (0..LOOKS).any(|_| {
        let waited = Command::new("/bin/sleep").env_clear().arg(EACH).status();
        waited.is_ok_and(|status| status.signal().is_some())
    })
}

/// Has a step ended that runs on other nodes, too. The reason is on its way to the user when
/// that begins. If it cannot be done, the others go on.
pub(crate) fn end_everywhere(step: Step) {
    if step.nodes > 1 && step.is_ordinary() {
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
