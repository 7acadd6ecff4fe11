// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Programs, and their versions.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cabane_site::settings::find_program;

use super::QUICK;
use crate::facts::{Answer, Program};
use crate::probe::within;

/// Looks for a program in `PATH` and asks it for its version.
pub(crate) fn look_for_program(
    name: &str,
    option: &str,
    path: Option<&OsStr>,
) -> Answer<Option<Program>> {
    introduced(within(QUICK, || find_program(name, path)), option)
}

/// Asks a program at a certain place for its version, if it is there.
pub(crate) fn look_at_program(path: &Path, option: &str) -> Answer<Option<Program>> {
    let found = within(QUICK, || path.is_file().then(|| path.to_owned()));
    introduced(found, option)
}

fn introduced(found: Answer<Option<PathBuf>>, option: &str) -> Answer<Option<Program>> {
    Ok(found?.map(|path| program(&path, option)))
}

/// Tells where a program is and what version it says.
pub(super) fn program(path: &Path, option: &str) -> Program {
    Program { path: path.to_string_lossy().into_owned(), version: version_of(path, option) }
}

/// Asks a program for its version.
fn version_of(path: &Path, option: &str) -> Option<String> {
    let output = within(QUICK, || {
        let output =
            Command::new(path).arg(option).env_clear().stdin(Stdio::null()).output().ok()?;
        let output = [output.stdout, output.stderr].concat();
        Some(String::from_utf8_lossy(&output).into_owned())
    });
    version_in(&output.ok()??)
}

/// The first part that looks like a version.
fn version_in(output: &str) -> Option<String> {
    let parts = output.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ','));
    let mut versions = parts.filter(|part| {
        part.starts_with(|c: char| c.is_ascii_digit())
            && part.contains('.')
            && part.len() < 30
            && part.chars().all(|c| c.is_ascii_graphic())
    });
    versions.next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        let output = [
            "mksquashfs version 4.5.1 (2022/03/17)\n",
            "squashfuse 0.1.104 (c) 2012 Somebody\n",
            "uv 0.9.2\n",
            "GNU gdb (Debian 13.1-3) 13.1\n",
            "usage: nothing\n",
        ];
        let versions = output.map(|output| version_in(output).unwrap_or_default());
        assert_eq!(versions, ["4.5.1", "0.1.104", "0.9.2", "13.1-3", ""]);
    }
}
