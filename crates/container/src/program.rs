// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `mksquashfs`: whether it can read archives.

use std::path::Path;
use std::process::{Command, Stdio};

use cabane_label::{escape, shown};

use crate::Error;
use crate::error::failure;

/// The first that reads archives.
const OLDEST: (u32, u32) = (4, 5);
const OLDEST_TEXT: &str = "4.5";

/// Finds out whether the `mksquashfs` at a path can write images of what is imported.
///
/// # Errors
///
/// It cannot be run, or is too old to read archives.
pub fn check_program(mksquashfs: &Path) -> Result<(), Error> {
    let mut command = Command::new(mksquashfs);
    let output = command.arg("-version").env_clear().stdin(Stdio::null()).output();
    let output = output.map_err(|_| Error::no_program())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text
        .split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .unwrap_or("unknown");
    let mut numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse().unwrap_or_default());
    let found: (u32, u32) =
        (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    if found >= OLDEST {
        return Ok(());
    }
    let (path, version) = (shown(mksquashfs), escape(version));
    let report = failure(format!("{path} is version {version}, and {OLDEST_TEXT} is needed"));
    let hint = "squashfs-tools 4.5 or newer read archives; `PATH` decides which is used";
    Err(Error::Refused(report.hinted(hint.to_owned())))
}
