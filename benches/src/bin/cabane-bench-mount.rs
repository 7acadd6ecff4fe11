// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The small programs of the measurements, in one that is linked statically, as the
//! helper is. The first word says what it does:
//!
//! ```text
//! exec COMMAND…                               nothing, and becomes a command
//! mount FORMAT IMAGE MOUNT-POINT COMMAND…     the mount steps of `cabane run`, and that
//! ask HELPER FORMAT IMAGE MOUNT-POINT COMMAND…  the same through the helper
//! stamp COMMAND…                              notes the time in a variable, and that
//! elapsed                                     prints the nanoseconds since that time
//! ready COMMAND…                              runs a command, says so with one byte, and
//!                                             stays until its input ends
//! spin                                        keeps a processor busy
//! ```

#![forbid(unsafe_code)]

#[path = "../request.rs"]
mod request;

use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use cabane_mount::{Backend, FusePrograms, ImageFile, ImageFormat, MountPlan, Operation, perform};
use request::PreparedRequest;
use rustix::time::{ClockId, clock_gettime};

/// When it began, in nanoseconds of the monotonic clock.
const BEGUN: &str = "CABANE_BENCH_BEGUN";

type Words = std::iter::Skip<std::env::ArgsOs>;
type Outcome = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    match execute(std::env::args_os().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn execute(mut words: Words) -> Outcome {
    let task = next(&mut words)?;
    match task.to_str() {
        Some("exec") => become_command(words),
        Some("mount") => mount(words),
        Some("ask") => ask(words),
        Some("stamp") => stamp(words),
        Some("elapsed") => elapsed(),
        Some("ready") => ready(words),
        Some("spin") => loop {
            std::hint::spin_loop();
        },
        _ => Err("the first word is no task; the source lists them".into()),
    }
}

fn next(words: &mut Words) -> Result<OsString, Box<dyn Error>> {
    words.next().ok_or_else(|| "a word is missing".into())
}

fn next_format(words: &mut Words) -> Result<ImageFormat, Box<dyn Error>> {
    match next(words)?.to_str() {
        Some("squashfs") => Ok(ImageFormat::Squashfs),
        Some("erofs") => Ok(ImageFormat::Erofs),
        _ => Err("the format is squashfs or erofs".into()),
    }
}

fn become_command(mut words: Words) -> Outcome {
    Err(Command::new(next(&mut words)?).args(words).exec().into())
}

fn mount(mut words: Words) -> Outcome {
    let format = next_format(&mut words)?;
    let path = PathBuf::from(next(&mut words)?);
    let image = ImageFile { file: File::open(&path)?, path, format };
    let mount_point = PathBuf::from(next(&mut words)?);
    perform(MountPlan {
        backend: Backend::detect(),
        fuse: FusePrograms::default(),
        operations: vec![Operation::Image { image, mount_point }],
    })?;
    become_command(words)
}

/// The time is taken when the request is ready.
fn ask(mut words: Words) -> Outcome {
    let helper = PathBuf::from(next(&mut words)?);
    let format = next_format(&mut words)?;
    let image = PathBuf::from(next(&mut words)?);
    let mount_point = PathBuf::from(next(&mut words)?);
    let variables = vec![format!("{BEGUN}={}", now()).into()];
    let request = PreparedRequest::new(format, &image, &mount_point, words.collect(), variables)?;
    Err(request.command(&helper).exec().into())
}

fn stamp(mut words: Words) -> Outcome {
    let mut command = Command::new(next(&mut words)?);
    Err(command.args(words).env(BEGUN, now().to_string()).exec().into())
}

fn elapsed() -> Outcome {
    let now = now();
    let begun: i64 = std::env::var(BEGUN)?.parse()?;
    writeln!(io::stdout(), "{}", now.saturating_sub(begun))?;
    Ok(())
}

fn ready(mut words: Words) -> Outcome {
    let status = Command::new(next(&mut words)?)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    if !status.success() {
        return Err(status.to_string().into());
    }
    io::stdout().write_all(b".")?;
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
