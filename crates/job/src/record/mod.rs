// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Records of the images of job steps: one line of JSON for each step.
//!
//! The plugin of Slurm reports a step ([`StepReport`]). A [`Record`] is made of it and sent to a
//! [`Destination`]: a file, syslog, or a collector. No step waits for it.

use std::fs::File;
use std::io::{self, Read};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use cabane_process::output::{Limits, output_within};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_sys::descriptor::inherited;
use deliver::{deliver, take_slot};
use line::Record;
use report::StepReport;
use rustix::process::setpriority_process;

mod deliver;
mod destination;
mod line;
mod report;

pub use destination::{Destination, DestinationError};

/// After this nothing of it is left.
const LIFE_TIME: Duration = Duration::from_secs(6);
/// How long a directory of users has.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// More than this is not read of what the plugin tells.
const LONGEST: u64 = 256 * 1024;
const LOWEST_PRIORITY: i32 = 19;

/// Reads the report of a step from a descriptor, and sends the record. This process gets the lowest
/// priority, and ends after a few seconds at most.
///
/// # Errors
///
/// The report is malformed, or the destination did not take the record.
pub fn record(from: i32, to: Destination) -> Result<()> {
    // Without it, it competes with the job for a moment.
    let _ = setpriority_process(None, LOWEST_PRIORITY);
    let report = read(from);
    let report = report.or_failed(|| "read what there is to record".to_owned())?;
    let (sender, receiver) = mpsc::channel();
    // What hangs in it ends with the process.
    std::thread::spawn(move || sender.send(write_down(&report, &to)));
    let outcome = receiver.recv_timeout(LIFE_TIME);
    let outcome = outcome.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    outcome.map_err(|error| Report::new(Kind::Failure, error))?;
    Ok(())
}

fn read(number: i32) -> io::Result<Vec<u8>> {
    let mut file = File::open(format!("/proc/self/fd/{number}"))?;
    // It is not passed on to what is started here.
    rustix::io::fcntl_setfd(inherited(number)?, rustix::io::FdFlags::CLOEXEC)?;
    let mut bytes = Vec::new();
    (&mut file).take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn write_down(report: &[u8], destination: &Destination) -> io::Result<()> {
    let _slot = take_slot()?;
    let report = StepReport::parse(report);
    let node = rustix::system::uname();
    let user = report.number("user").and_then(name_of);
    let record = Record::new(&report, &node.nodename().to_string_lossy(), user);
    let line = record.and_then(Record::line).ok_or(io::ErrorKind::InvalidData)?;
    deliver(&line, destination)
}

/// Asks for the name of a user: a program that is linked statically does not know all.
fn name_of(user: u32) -> Option<String> {
    let limits = Limits { end: Instant::now() + TIME_LIMIT, bytes: 1024, has_group: false };
    let mut getent = Command::new("getent");
    let output = output_within(getent.args(["passwd", &user.to_string()]), b"", limits).ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    let name = line.split(':').next().filter(|name| !name.is_empty())?;
    Some(name.to_owned())
}
