// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Failures of many nodes, reported as one.
//!
//! In `srun` a process is started, `cabane slurm collect`, which listens for as long as `srun`
//! runs; where it listens is a variable of the step. A node that fails says so there, by `cabane
//! slurm tell`, which runs as the owner of the job: place and secret are his. If it is not heard,
//! it tells the user itself.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cabane_mount::JOB_FAILURES;
use cabane_process::as_user::{User, output_as};

use crate::record::find_command;
use crate::spank::Spank;

/// The address from which a step was started, as `srun` and `slurmstepd` tell it.
const ADDRESSES: [&str; 2] = ["SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST"];
/// A node does not wait longer until it is heard.
const TIME_LIMIT: Duration = Duration::from_secs(4);
/// `srun` does not wait longer for the last words.
const LAST_WORDS: Duration = Duration::from_secs(2);
const LONGEST: u64 = 256;

/// The process that listens, in `srun`.
#[derive(Debug)]
pub(crate) struct Collector {
    process: Child,
    /// It ends when this is closed, also because `srun` was killed.
    input: Option<ChildStdin>,
}

impl Collector {
    /// Starts it, and tells the step where it listens.
    ///
    /// # Errors
    ///
    /// It cannot be started, or does not say where it listens.
    pub(crate) fn start(spank: &dyn Spank, program: &Path) -> io::Result<Self> {
        let mut process = Command::new(program)
            .args(["slurm", "collect"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take();
        let mut place = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output.take(LONGEST)).read_line(&mut place)?;
        }
        let collector = Self { process, input };
        let place = place.strip_suffix('\n').ok_or(io::ErrorKind::UnexpectedEof)?;
        spank.change_own_variable(JOB_FAILURES.as_ref(), Some(OsStr::new(place)));
        Ok(collector)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.input = None;
        let begin = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) && begin.elapsed() < LAST_WORDS {
            sleep(Duration::from_millis(5));
        }
    }
}

/// Whether someone tells the user why a node fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// No one: the node has to.
    No,
    /// The process beside `srun`.
    Yes,
    /// It does, and this node is the first and ends the step.
    First,
}

/// In `slurmstepd`: says why this node fails.
pub(crate) fn say(
    spank: &dyn Spank,
    command: Option<&Path>,
    node: &str,
    lines: &[String],
) -> Heard {
    let is_one_of_several = spank.step().is_ok_and(|step| step.nodes > 1 && step.is_ordinary());
    if !is_one_of_several {
        return Heard::No;
    }
    try_to_say(spank, command, node, lines).unwrap_or(Heard::No)
}

fn try_to_say(
    spank: &dyn Spank,
    command: Option<&Path>,
    node: &str,
    lines: &[String],
) -> Option<Heard> {
    let value = |name| spank.variable(name).ok().flatten();
    let place = value(JOB_FAILURES)?;
    let address = ADDRESSES.into_iter().find_map(value)?;
    let owner = spank.owner().ok()?;
    let user = User { user: owner.user, group: owner.group, groups: owner.groups };
    let mut command = Command::new(find_command(command)?);
    command
        .env_clear()
        // Arguments can be seen by others.
        .env(JOB_FAILURES, place)
        .args(["slurm", "tell", "--node", node, "--to"])
        .arg(address)
        .arg("--")
        .args(lines);
    let finished = output_as(&mut command, &user, None, TIME_LIMIT).ok()?;
    match finished.output.as_slice() {
        b"e" => Some(Heard::First),
        b"h" => Some(Heard::Yes),
        _ => None,
    }
}
