// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The command line: arguments in, calls to the engines, text and exit codes out.
//!
//! `commands::run_command` is the table of contents. A command is a file in
//! `commands/` with its `…Args` and one function.

#![forbid(unsafe_code)]

mod added;
mod args;
mod change;
mod commands;
mod exit_codes;
mod format;
mod host_change;
mod image_args;
mod interrupt;
mod launch;
mod printer;
mod progress;
pub mod reference;
mod registry;
mod setup;
mod shown_image;
mod table;
mod uenv;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Command, CommandFactory, FromArgMatches};

use crate::commands::Args;

/// Runs the command line to its end and returns the exit code.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.peekable();
    if let Some(called) = arguments.peek().and_then(|name| uenv::Called::by(name)) {
        return ExitCode::from(called.main(arguments).code);
    }
    let args: Args = match parse(Args::command(), arguments) {
        Ok(args) => args,
        Err(code) => return ExitCode::from(code.code),
    };
    let printer = args.global.printer();
    let result = commands::run_command(&args.global, printer, args.command);
    let code = result.unwrap_or_else(|error| {
        printer.failure(&error);
        error.kind().into()
    });
    ExitCode::from(code.code)
}

/// Reads arguments. The error is the exit code: help, the version, or the mistake was printed.
fn parse<T: FromArgMatches>(
    mut parser: Command,
    arguments: impl Iterator<Item = OsString>,
) -> Result<T, exit_codes::ExitCode> {
    let args = parser
        .try_get_matches_from_mut(arguments)
        .and_then(|mut matches| T::from_arg_matches_mut(&mut matches))
        .map_err(|error| error.format(&mut parser));
    // A tenth of a short command's instructions would free it.
    std::mem::forget(parser);
    args.map_err(|error| {
        // Help and version go to standard output, mistakes to standard error.
        let _ = error.print();
        if error.use_stderr() { exit_codes::USAGE } else { exit_codes::SUCCESS }
    })
}
