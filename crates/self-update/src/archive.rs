// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! An archive is unpacked, and its installer runs.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cabane_label::{escape, shown};
use cabane_report::{IoContext, Kind, Report, Result};
use flate2::read::GzDecoder;

use crate::version::Version;

const INSTALLER: &str = "install.sh";

/// Unpacks an archive, and returns its directory, which has the name of the archive.
pub(crate) fn unpack(archive: &Path, scratch: &Path, version: Version) -> Result<PathBuf> {
    let file = File::open(archive).or_failed(|| format!("open {}", shown(archive)))?;
    tar::Archive::new(GzDecoder::new(file))
        .unpack(scratch)
        .or_failed(|| format!("unpack {}", shown(archive)))?;
    let name = version.archive();
    let directory = scratch.join(name.trim_end_matches(".tar.gz"));
    if directory.join(INSTALLER).is_file() {
        return Ok(directory);
    }
    let name = shown(archive);
    Err(Report::new(
        Kind::BadInput,
        format!("{name} is no archive of Cabane: it has no {INSTALLER}"),
    ))
}

/// Runs the installer of an unpacked archive for a prefix. It checks every file before it installs the first, and
/// notes that they come from `origin`.
pub(crate) fn install(
    unpacked: &Path,
    origin: &Path,
    prefix: &Path,
    has_helper: bool,
) -> Result<()> {
    let installer = unpacked.join(INSTALLER);
    let mut command = Command::new(&installer);
    command.arg("--prefix").arg(prefix);
    // What was not installed before stays out: the choice was made then.
    if !has_helper {
        command.env("HELPER", "no");
    }
    let mut by = OsString::from("archive ");
    by.push(origin);
    command.env("INSTALLED_BY", by);
    for variable in ["DESTDIR", "PREFIX", "INSTALL_COMMAND"] {
        command.env_remove(variable);
    }
    let ended = command.stdin(Stdio::null()).output();
    let ended = ended.or_failed(|| format!("run {}", shown(&installer)))?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let said: Vec<_> = said.lines().map(escape).collect();
    let message = format!("the installer of the new release failed ({})", ended.status);
    Err(Report::new(Kind::Failure, message).detailed(said.join("\n")))
}
