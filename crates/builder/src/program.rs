// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Programs of the system, and asking them who they are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use cabane_label::{escape, shown};

use crate::process::lines;
use crate::{BuildError, Result};

/// Makes sure that a program exists, and returns its path free of links.
pub(crate) fn find(name: &str, path: Option<&Path>) -> Result<PathBuf> {
    path.and_then(|path| fs::canonicalize(path).ok())
        .filter(|path| path.is_file())
        .ok_or_else(|| BuildError::missing_program(name))
}

/// Asks a program for its version: the first number with a point in its first
/// line.
pub(crate) fn ask_version(path: &Path, option: &str) -> Result<String> {
    let strange = |answer: String| {
        let (path, answer) = (shown(path), escape(&answer));
        BuildError::refused(format!("cannot ask {path} for its version: {answer}"), None)
    };
    let line = first_line(path, option).map_err(|error| strange(error.to_string()))?;
    version_in(&line).ok_or_else(|| strange(line))
}

/// Returns the first line that a program prints with an option, such as that of its version.
pub(crate) fn first_line(path: &Path, option: &str) -> io::Result<String> {
    let output = Command::new(path).arg(option).env_clear().stdin(Stdio::null()).output()?;
    let output_lines = lines(&[output.stdout, output.stderr].concat());
    Ok(output_lines.into_iter().next().unwrap_or_default())
}

/// Asks a program something in a directory. It answers with one line, or the error is
/// what it printed first.
pub(crate) fn ask_line(
    program: &Path,
    directory: &Path,
    arguments: &[&str],
) -> Result<String, String> {
    let output = ask(program, directory, arguments).map_err(|error| error.to_string())?;
    let output_lines = lines(&output.stdout);
    match output_lines.as_slice() {
        [line] if output.status.success() => Ok(line.clone()),
        _ => Err(lines(&output.stderr).into_iter().next().unwrap_or_default()),
    }
}

/// Asks a program whether something is right; it answers with nothing, or the error is what it printed first.
pub(crate) fn ask_nothing(program: &Path, arguments: &[&str]) -> Result<(), String> {
    let output = ask(program, Path::new("/"), arguments).map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(lines(&output.stderr).into_iter().next().unwrap_or_default())
}

/// Whether a program that is started in a directory succeeds.
pub(crate) fn succeeds(program: &Path, directory: &Path, arguments: &[&str]) -> bool {
    ask(program, directory, arguments).is_ok_and(|output| output.status.success())
}

fn ask(program: &Path, directory: &Path, arguments: &[&str]) -> io::Result<Output> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    command.output()
}

fn version_in(line: &str) -> Option<String> {
    let is_version = |part: &&str| part.starts_with(|c: char| c.is_ascii_digit());
    let part = line.split(|c: char| c.is_whitespace() || c == '(').find(is_version)?;
    part.contains('.').then(|| part.to_owned())
}

/// A version, as far as it can be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(Vec<u32>);

impl Version {
    /// Reads the leading numbers: those of `4.5.1-rc2` are 4, 5 and 1.
    pub(crate) fn parse(text: &str) -> Self {
        let mut numbers = Vec::new();
        for part in text.split('.') {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            let Ok(number) = part[..digits].parse() else {
                break;
            };
            numbers.push(number);
            if digits < part.len() {
                break;
            }
        }
        Self(numbers)
    }

    /// Whether this is the other version or a more precise form of it.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_mksquashfs_is_found_before_its_date() {
        let version = version_in("mksquashfs version 4.5.1 (2022/03/17)");
        assert_eq!(version.as_deref(), Some("4.5.1"));
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(Version::parse("4.10") > Version::parse("4.5.1-rc2"));
    }

    #[test]
    fn python_3_11_is_not_python_3_1() {
        assert!(!Version::parse("3.11.2").is(&Version::parse("3.1")));
    }
}
