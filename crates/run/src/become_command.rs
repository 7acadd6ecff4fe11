// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Becoming a command.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_report::{Kind, Report};
use rustix::io::Errno;

/// Becomes a command with the variables of this process.
///
/// Returns only if that failed.
pub fn become_command(arguments: Vec<OsString>) -> Report {
    exec(arguments, None)
}

/// Becomes a command with these variables and no others.
///
/// Returns only if that failed.
pub fn become_command_with(
    arguments: Vec<OsString>,
    variables: BTreeMap<OsString, OsString>,
) -> Report {
    exec(arguments, Some(variables))
}

/// Becomes a command with these variables and no others, or else with its own.
pub(crate) fn exec(
    arguments: Vec<OsString>,
    variables: Option<BTreeMap<OsString, OsString>>,
) -> Report {
    let mut arguments = arguments.into_iter();
    let program = PathBuf::from(arguments.next().unwrap_or_default());
    let mut command = Command::new(&program);
    command.args(arguments);
    if let Some(variables) = variables {
        command.env_clear().envs(variables);
    }
    let source = command.exec();
    if source.kind() == io::ErrorKind::NotFound {
        not_found(&program)
    } else {
        let message = format!("cannot start `{}`", program.display());
        // The kernel knows no way to start it.
        let is_unknown = source.raw_os_error() == Some(Errno::NOEXEC.raw_os_error());
        let hint = "it is for other processors than those of this machine, or no program";
        Report::caused(Kind::NotExecutable, message, source)
            .hinted(is_unknown.then(|| hint.to_owned()))
    }
}

fn not_found(program: &Path) -> Report {
    let hint = if program.components().count() > 1 {
        "the file is missing, or the interpreter that its first line names is"
    } else {
        "see which views the image has with `cabane image inspect`, and choose one with `--view`; \
         a container has only what is in its image"
    };
    let message = format!("there is no command `{}`", program.display());
    Report::new(Kind::CommandNotFound, message).hinted(hint.to_owned())
}
