// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The command line: arguments in, calls to the engines, text and exit codes out.
//!
//! `commands::run_command` is the table of contents. A command is a file in
//! `commands/` with its `…Args` and one function.

#![forbid(unsafe_code)]

mod added;
mod apptainer;
mod args;
mod change;
mod commands;
mod complete;
mod exit_codes;
mod format;
mod host_change;
mod image_args;
mod interrupt;
mod json_pages;
mod launch;
mod mistyped;
mod pick;
mod printer;
mod progress;
mod recipe_files;
pub mod reference;
mod registry;
mod results;
mod setup;
mod shown_image;
mod table;
mod uenv;

use std::ffi::OsString;
use std::process::ExitCode;

use anstream::ColorChoice;
use clap::{Command, CommandFactory, FromArgMatches};

use crate::args::with_global_options;
use crate::commands::Args;
use crate::printer::Printer;

/// Runs the command line to its end and returns the exit code.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut typed: Vec<OsString> = arguments.collect();
    if let Some(program) = std::env::var_os(cabane_mount::JOB_TASK) {
        typed = task(typed, program);
    }
    if let Some(called) = typed.first().and_then(|name| uenv::Called::by(name)) {
        return ExitCode::from(called.main(&typed).code);
    }
    if complete::is_asked(&typed) {
        let words = [typed.get(3..).unwrap_or_default(), &["--help".into()]].concat();
        let parser = with_global_options(Args::command(), &words);
        return ExitCode::from(complete::code(&complete::answer(&typed, parser, false)).code);
    }
    let words = typed.get(1..).unwrap_or_default();
    let args = match read_often_typed(&typed, words) {
        Some(args) => args,
        None => match parse(with_global_options(Args::command(), words), &typed, not_understood) {
            Ok(args) => args,
            Err(code) => return ExitCode::from(code.code),
        },
    };
    let printer = args.global.printer();
    let result = commands::run_command(&args.global, printer, args.command.settled(&typed));
    let code = result.unwrap_or_else(|error| {
        printer.failure(&error);
        error.kind().into()
    });
    ExitCode::from(code.code)
}

/// Returns the command line of a task that enters its environment by itself: it has the arguments of
/// the program that it becomes.
fn task(typed: Vec<OsString>, program: OsString) -> Vec<OsString> {
    let plan = std::env::var_os(cabane_mount::JOB_PLAN).unwrap_or_default();
    let own =
        [typed.first().cloned().unwrap_or_default(), "run-plan".into(), plan, "--".into(), program];
    own.into_iter().chain(typed.into_iter().skip(1)).collect()
}

/// Reads a command that is typed often, if there is no mistake in it.
fn read_often_typed(typed: &[OsString], words: &[OsString]) -> Option<Args> {
    let parser = commands::parser_of(args::verb(words)?.0)?;
    let mut parser = with_global_options(parser, words);
    let args = read(&mut parser, typed).ok();
    std::mem::forget(parser);
    args
}

fn read<T: FromArgMatches>(parser: &mut Command, typed: &[OsString]) -> Result<T, clap::Error> {
    T::from_arg_matches_mut(&mut parser.try_get_matches_from_mut(typed)?)
}

/// Reads arguments. The error is the exit code: help, the version, or the mistake was printed by
/// `not_understood`.
fn parse<T: FromArgMatches>(
    mut parser: Command,
    typed: &[OsString],
    not_understood: fn(clap::Error, &[OsString], Command) -> exit_codes::ExitCode,
) -> Result<T, exit_codes::ExitCode> {
    match read(&mut parser, typed) {
        Ok(args) => {
            // A tenth of a short command's instructions would free it.
            std::mem::forget(parser);
            Ok(args)
        }
        Err(error) => Err(not_understood(error, typed, parser)),
    }
}

/// Prints why a command line was not understood, or the help that it asked for.
fn not_understood(error: clap::Error, typed: &[OsString], parser: Command) -> exit_codes::ExitCode {
    if mistyped::help(&error, typed).is_some() {
        return exit_codes::SUCCESS;
    }
    if let Some(report) = mistyped::known_elsewhere(&error, typed) {
        Printer { color: ColorChoice::Auto, verbosity: 0, is_uenv: false }.failure(&report);
        return exit_codes::USAGE;
    }
    print_mistake(error, typed, parser)
}

/// Prints a mistake or the help as the parser of the command line writes it.
fn print_mistake(
    error: clap::Error,
    _typed: &[OsString],
    mut parser: Command,
) -> exit_codes::ExitCode {
    let error = error.format(&mut parser);
    std::mem::forget(parser);
    // Help and version go to standard output, mistakes to standard error.
    let _ = error.print();
    if error.use_stderr() { exit_codes::USAGE } else { exit_codes::SUCCESS }
}
