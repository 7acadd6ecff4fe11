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

use cabane_mount::{
    Backend, FusePrograms, ImageFile, ImageFormat, MountPlan, Operation, Way, perform,
};
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

fn execute(mut arguments: Words) -> Outcome {
    let task = next(&mut arguments)?;
    match task.to_str() {
        Some("exec") => become_command(arguments),
        Some("mount") => mount(arguments),
        Some("ask") => ask(arguments),
        Some("stamp") => stamp(arguments),
        Some("elapsed") => elapsed(),
        Some("ready") => ready(arguments),
        Some("spin") => loop {
            std::hint::spin_loop();
        },
        _ => Err("the first word is no task; the source lists them".into()),
    }
}

fn next(arguments: &mut Words) -> Result<OsString, Box<dyn Error>> {
    arguments.next().ok_or_else(|| "a word is missing".into())
}

fn next_format(arguments: &mut Words) -> Result<ImageFormat, Box<dyn Error>> {
    match next(arguments)?.to_str() {
        Some("squashfs") => Ok(ImageFormat::Squashfs),
        Some("erofs") => Ok(ImageFormat::Erofs),
        _ => Err("the format is squashfs or erofs".into()),
    }
}

fn become_command(mut arguments: Words) -> Outcome {
    Err(Command::new(next(&mut arguments)?).args(arguments).exec().into())
}

fn mount(mut arguments: Words) -> Outcome {
    let format = next_format(&mut arguments)?;
    let path = PathBuf::from(next(&mut arguments)?);
    let image = ImageFile { file: File::open(&path)?, path, format, verity: None };
    let mount_point = PathBuf::from(next(&mut arguments)?);
    perform(MountPlan {
        backend: Backend::detect(),
        fuse: FusePrograms::default(),
        operations: vec![Operation::Image { image, way: Way::Kernel, mount_point }],
    })?;
    become_command(arguments)
}

/// The time is taken when the request is ready.
fn ask(mut arguments: Words) -> Outcome {
    let helper = PathBuf::from(next(&mut arguments)?);
    let format = next_format(&mut arguments)?;
    let image = PathBuf::from(next(&mut arguments)?);
    let mount_point = PathBuf::from(next(&mut arguments)?);
    let variables = vec![format!("{BEGUN}={}", now()).into()];
    let request =
        PreparedRequest::new(format, &image, &mount_point, arguments.collect(), variables)?;
    Err(request.command(&helper).exec().into())
}

fn stamp(mut arguments: Words) -> Outcome {
    let mut command = Command::new(next(&mut arguments)?);
    Err(command.args(arguments).env(BEGUN, now().to_string()).exec().into())
}

fn elapsed() -> Outcome {
    let now = now();
    let begun: i64 = std::env::var(BEGUN)?.parse()?;
    writeln!(io::stdout(), "{}", now.saturating_sub(begun))?;
    Ok(())
}

fn ready(mut arguments: Words) -> Outcome {
    let status = Command::new(next(&mut arguments)?)
        .args(arguments)
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
