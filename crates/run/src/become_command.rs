// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Becoming a command.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::RunError;

/// Becomes a command with the variables of this process.
///
/// Returns only if that failed.
pub fn become_command(words: Vec<OsString>) -> RunError {
    exec(words, None)
}

/// Becomes a command with these variables and no others, or else with its own.
pub(crate) fn exec(
    words: Vec<OsString>,
    variables: Option<BTreeMap<OsString, OsString>>,
) -> RunError {
    let mut words = words.into_iter();
    let program = PathBuf::from(words.next().unwrap_or_default());
    let mut command = Command::new(&program);
    command.args(words);
    if let Some(variables) = variables {
        command.env_clear().envs(variables);
    }
    let source = command.exec();
    match source.kind() {
        io::ErrorKind::NotFound => RunError::NotFound { program },
        _ => RunError::Exec { program, source },
    }
}
