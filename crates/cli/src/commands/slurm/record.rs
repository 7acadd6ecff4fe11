// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the plugin of Slurm starts on the first node of a step, where a site wants records.
//!
//! It runs as root, in nobody's way: with the lowest priority, and for a few seconds at
//! most. It reads no configuration.

use std::fs::File;
use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use cabane_sys::descriptor::inherited;
use clap::Args;
use rustix::process::setpriority_process;

use crate::exit_codes::{self, ExitCode};
use crate::report::{CommandResult, IoContext, Kind, Report};
use crate::step_record::deliver::{deliver, take_slot};
use crate::step_record::destination::Destination;
use crate::step_record::record::Record;
use crate::step_record::told::Told;

/// After this nothing of it is left.
const LIFE_TIME: Duration = Duration::from_secs(6);
/// How long a directory of users has.
const PATIENCE: Duration = Duration::from_secs(1);
/// More than this is not read of what the plugin tells.
const LONGEST: u64 = 256 * 1024;
const LOWEST_PRIORITY: i32 = 19;

/// Record the images of a job step
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// The descriptor from which it is read what there is to record
    #[arg(long, value_name = "NUMBER")]
    from: i32,
    /// Where the record goes
    #[arg(long, value_name = "DESTINATION")]
    to: Destination,
}

pub(crate) fn record(args: &RecordArgs) -> CommandResult<ExitCode> {
    // Without it, it competes with the job for a moment.
    let _ = setpriority_process(None, LOWEST_PRIORITY);
    let (told, destination) = (read(args.from), args.to.clone());
    let told = told.or_failed(|| "read what there is to record".to_owned())?;
    let (sender, receiver) = mpsc::channel();
    // What hangs in it ends with the process.
    std::thread::spawn(move || sender.send(write_down(&told, &destination)));
    let outcome = receiver.recv_timeout(LIFE_TIME);
    let outcome = outcome.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    outcome.map_err(|error| Report::new(Kind::Failure, error))?;
    Ok(exit_codes::SUCCESS)
}

fn read(number: i32) -> io::Result<Vec<u8>> {
    let mut file = File::open(format!("/proc/self/fd/{number}"))?;
    // It is not handed on to what is started here.
    rustix::io::fcntl_setfd(inherited(number)?, rustix::io::FdFlags::CLOEXEC)?;
    let mut bytes = Vec::new();
    (&mut file).take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn write_down(told: &[u8], destination: &Destination) -> io::Result<()> {
    let _slot = take_slot()?;
    let told = Told::parse(told);
    let node = rustix::system::uname();
    let user = told.number("user").and_then(name_of);
    let record = Record::new(&told, &node.nodename().to_string_lossy(), user);
    let line = record
        .and_then(Record::line)
        .ok_or(io::ErrorKind::InvalidData)?;
    deliver(&line, destination)
}

/// Asks for the name of a user: a program that is linked statically does not know all.
fn name_of(user: u32) -> Option<String> {
    let mut process = Command::new("getent")
        .args(["passwd", &user.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let end = Instant::now() + PATIENCE;
    while process.try_wait().ok()?.is_none() {
        if Instant::now() > end {
            let _ = process.kill();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut line = String::new();
    process.stdout?.take(1024).read_to_string(&mut line).ok()?;
    let name = line.split(':').next().filter(|name| !name.is_empty())?;
    Some(name.to_owned())
}
