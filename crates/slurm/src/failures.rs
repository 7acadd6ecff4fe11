// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Failures of many nodes, reported as one.
//!
//! `srun` listens on a port, which is a variable of the step, and starts a process, `cabane slurm
//! collect`, which answers there for as long as `srun` runs. A node that fails says so there, by `cabane
//! slurm tell`, which runs as the owner of the job: place and secret are his. If it is not heard,
//! it tells the user itself.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

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
/// Nodes that may wait to be heard.
const BACKLOG: i32 = 4096;

/// The process that listens, in `srun`.
#[derive(Debug)]
pub(crate) struct Collector {
    process: Child,
    /// Its standard input. It ends when this is closed, also because `srun` was killed.
    connection: UnixStream,
}

impl Collector {
    /// Starts it, and sets the variable of the step that says where it listens. The socket is made
    /// here, so that `srun` goes on while the process starts.
    ///
    /// # Errors
    ///
    /// There is no port, or it cannot be started.
    pub(crate) fn start(spank: &dyn Spank, program: &Path) -> io::Result<Self> {
        let listener = listen()?;
        let place = format!("{}:{}", listener.local_addr()?.port(), secret()?);
        let (connection, input) = UnixStream::pair()?;
        connection.set_read_timeout(Some(LAST_WORDS))?;
        let process = Command::new(program)
            .args(["slurm", "collect"])
            // Arguments can be seen by others.
            .env(JOB_FAILURES, &place)
            .stdin(OwnedFd::from(input))
            .stdout(OwnedFd::from(listener))
            .spawn()?;
        spank.change_own_variable(JOB_FAILURES.as_ref(), Some(OsStr::new(&place)));
        Ok(Self { process, connection })
    }
}

fn listen() -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

fn secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.connection.shutdown(Shutdown::Write);
        // The end of the connection is that of the process.
        let _ = self.connection.read(&mut [0]);
        let _ = self.process.try_wait();
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
