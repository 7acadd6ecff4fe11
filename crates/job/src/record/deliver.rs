// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Bringing a record to its destination: once; a receiver that does not take it has none.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use jiff::Zoned;
use rustix::fs::{FlockOperation, OFlags, flock};

use super::destination::Destination;

/// How long a collector has.
const TIME_LIMIT: Duration = Duration::from_secs(4);
/// Facility `daemon`, severity `info`.
const PRIORITY: u8 = 3 * 8 + 6;
/// How many records may be under way on a node. A collector that hangs is not to fill it
/// with processes.
const SLOTS: u32 = 16;
const SLOTS_PLACE: &str = "/run/cabane-records";

/// Brings a line there.
pub(crate) fn deliver(line: &str, destination: &Destination) -> io::Result<()> {
    match destination {
        Destination::File(path) => append(line, path),
        Destination::Syslog(path) => log(line, path),
        Destination::Collector(address) => {
            cabane_registry::give_to_collector(address, line, TIME_LIMIT)
        }
    }
}

/// Takes one of few places, as long as the file is open.
pub(crate) fn take_slot() -> io::Result<File> {
    let made = DirBuilder::new().mode(0o700).create(SLOTS_PLACE);
    made.or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Ok(()),
        _ => Err(error),
    })?;
    for number in 0..SLOTS {
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(format!("{SLOTS_PLACE}/{number}"))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Ok(file);
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// One write at the end: lines of several nodes do not mix where the file system can append.
fn append(line: &str, path: &Path) -> io::Result<()> {
    // Neither a pipe without a reader nor a link is to be had instead.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let mut options = File::options();
    options.append(true).create(true).mode(0o640);
    let mut file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != 0 || found.mode() & 0o022 != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // A second write would be a line of its own if another process writes in between.
    let written = file.write(line.as_bytes())?;
    if written == line.len() { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
}

/// A message as the C library sends it.
fn log(line: &str, path: &Path) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    let time = Zoned::now().strftime("%b %e %H:%M:%S").to_string();
    let number = std::process::id();
    let message = format!("<{PRIORITY}>{time} cabane[{number}]: {}", line.trim_end());
    socket.send_to(message.as_bytes(), path).map(drop)
}
