// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Mounts an image and becomes a command: the mount steps of `cabane run` and
//! nothing else, to find out what the rest of `cabane run` costs.
//!
//! ```text
//! cabane-bench-mount squashfs|erofs IMAGE MOUNT-POINT COMMAND…
//! ```

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use cabane_mount::{Backend, FusePrograms, ImageFile, ImageFormat, MountPlan, Operation, perform};

fn main() -> ExitCode {
    let error = match mount_and_exec(std::env::args_os().skip(1)) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    let _ = writeln!(io::stderr(), "error: {error}");
    ExitCode::FAILURE
}

fn mount_and_exec(
    mut words: impl Iterator<Item = OsString>,
) -> Result<std::convert::Infallible, Box<dyn std::error::Error>> {
    let mut next = || {
        words
            .next()
            .ok_or("usage: FORMAT IMAGE MOUNT-POINT COMMAND…")
    };
    let format = match next()?.to_str() {
        Some("squashfs") => ImageFormat::Squashfs,
        Some("erofs") => ImageFormat::Erofs,
        _ => return Err("the format is squashfs or erofs".into()),
    };
    let path = PathBuf::from(next()?);
    let image = ImageFile {
        file: File::open(&path)?,
        path,
        format,
    };
    let mount_point = PathBuf::from(next()?);
    let program = next()?;
    perform(MountPlan {
        backend: Backend::detect(),
        fuse: FusePrograms::default(),
        operations: vec![Operation::Image { image, mount_point }],
    })?;
    Err(Command::new(program).args(words).exec().into())
}
