// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is typed from habit, and the command that it means here.

use std::ffi::OsString;

use cabane_label::import_command;
use cabane_report::{Kind, Report, shell_word};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error};

use crate::args::with_global_options;
use crate::commands::Args;

/// Words that other tools have as commands, and the commands to type here.
const MEANT: &[(&str, &str)] = &[
    ("activate", "start"),
    ("concretize", "recipe check --concretize"),
    ("convert", "recipe convert"),
    ("cp", "image copy"),
    ("create", "build"),
    ("delete", "image rm"),
    ("enter", "start"),
    ("env", "environment"),
    ("find", "image find"),
    ("gc", "repo gc"),
    ("images", "image ls"),
    ("inspect", "image inspect"),
    ("install", "build"),
    ("list", "image ls"),
    ("load", "start"),
    ("ls", "image ls"),
    ("mount", "run"),
    ("probe", "system probe"),
    ("promote", "channel promote"),
    ("pull", "image pull"),
    ("push", "image push"),
    ("rm", "image rm"),
    ("self-update", "self update"),
    ("sign", "image sign"),
    ("test", "check"),
    ("uninstall", "image rm"),
    ("verify", "image verify"),
    ("version", "--version"),
];

/// Returns the report of an unknown command that is known elsewhere, with what to type instead.
///
/// `typed` is the whole command line, and `error` is what it led to.
pub(crate) fn known_elsewhere(error: &Error, typed: &[OsString]) -> Option<Report> {
    let unknown = unknown_command(error)?;
    let typed: Vec<&str> = typed.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
    let place = typed.iter().position(|word| *word == unknown)?;
    let is_first = typed[1..place].iter().all(|word| word.starts_with('-'));
    if unknown == "help" {
        let message = "there is no help for these words";
        let hint = "`cabane --help` lists the commands";
        return Some(Report::new(Kind::Usage, message).hinted(hint.to_owned()));
    }
    let (_, meant) = MEANT.iter().find(|(word, _)| is_first && *word == unknown)?;
    let message = format!("there is no command `{unknown}`");
    // `apptainer pull FILE docker://…`: the label takes the place of the file.
    let is_in_registry =
        |word: &&str| ["docker://", "oras://"].iter().any(|one| word.starts_with(one));
    if let Some(image) =
        typed[place..].iter().find(|word| unknown == "pull" && is_in_registry(word))
    {
        let hint = format!("type `{}`", import_command(image));
        return Some(Report::new(Kind::Usage, message).hinted(hint));
    }
    let rest = typed.get(place + 1..)?.iter().copied();
    let words = ["cabane"].into_iter().chain(typed[1..place].iter().copied());
    let line: Vec<_> = words.chain(meant.split(' ')).chain(rest).map(shell_word).collect();
    let line = line.join(" ");
    Some(Report::new(Kind::Usage, message).hinted(format!("type `{line}`")))
}

/// Prints the help of the command that `help` was typed for: `cabane help image ls`.
///
/// Returns nothing if it was not, or if there is no such command.
pub(crate) fn help(error: &Error, typed: &[OsString]) -> Option<()> {
    if unknown_command(error)? != "help" {
        return None;
    }
    let is_name = |word: &&OsString| *word != "help" && !word.as_encoded_bytes().starts_with(b"-");
    let names: Vec<OsString> = typed.iter().skip(1).filter(is_name).cloned().collect();
    let with_help = [&names[..], &["--help".into()]].concat();
    let mut parser = with_global_options(Args::command(), &with_help);
    parser.build();
    let mut command = &mut parser;
    for name in names {
        command = command.find_subcommand_mut(name)?;
    }
    command.print_long_help().ok()
}

fn unknown_command(error: &Error) -> Option<&str> {
    match (error.kind(), error.get(ContextKind::InvalidSubcommand)?) {
        (ErrorKind::InvalidSubcommand, ContextValue::String(name)) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::{Args, MEANT};

    #[test]
    fn what_is_meant_is_a_command_and_what_is_typed_is_none() {
        let mut parser = Args::command();
        parser.build();
        for (typed, meant) in MEANT {
            assert!(parser.find_subcommand(typed).is_none(), "{typed} is a command");
            let mut names = meant.split(' ').filter(|word| !word.starts_with('-'));
            let found = names.try_fold(&parser, |command, name| command.find_subcommand(name));
            assert!(found.is_some(), "{meant} is no command");
        }
        assert!(MEANT.is_sorted());
    }
}
