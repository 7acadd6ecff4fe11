// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What can be typed before and after every command.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anstream::ColorChoice;
use cabane_site::env_vars;
use cabane_site::settings::{BackendChoice, ColorChoice as Setting, Overrides};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, Args, Command};

use crate::printer::Printer;

/// Options that every command has, before it or after it.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Show more detail
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// When to color the output
    #[arg(long, value_name = "WHEN", value_parser = one_of(WHEN))]
    pub(crate) color: Option<ColorChoice>,
    /// Do not color the output
    #[arg(long, conflicts_with = "color")]
    pub(crate) no_color: bool,
    /// Repositories to use: names, absolute paths, or NAME=PATH, separated by commas
    #[arg(long, value_name = "LIST")]
    pub(crate) repo: Option<String>,
    /// The name of this system, or `*` for images of all systems; for recipes also the directory of its configuration
    #[arg(long, value_name = "SYSTEM")]
    pub(crate) system: Option<PathBuf>,
    /// How to mount images
    #[arg(long, value_name = "WAY", value_parser = one_of(BACKENDS))]
    pub(crate) backend: Option<BackendChoice>,
}

const WHEN: &[Choice<ColorChoice>] = &[
    ("auto", "If the output is a terminal", ColorChoice::Auto),
    ("always", "Always, also for files and pipes", ColorChoice::Always),
    ("never", "Never", ColorChoice::Never),
];

const BACKENDS: &[Choice<BackendChoice>] = &[
    ("auto", "The best way that works here", BackendChoice::Auto),
    ("root", "As root, by the kernel", BackendChoice::Root),
    ("helper", "By the kernel, through the set-uid helper cabane-mount", BackendChoice::Helper),
    ("user-namespace", "In a user namespace, through FUSE", BackendChoice::UserNamespace),
];

/// The global options, and whether a value follows.
const OPTIONS: &[(&str, bool)] = &[
    ("verbose", false),
    ("color", true),
    ("no-color", false),
    ("repo", true),
    ("system", true),
    ("backend", true),
];

/// Adds the global options to the command that is typed, and to those below it, if one of them or help
/// is typed behind it. Clap would copy them into every command at each start, which costs three times as
/// much as all else of it.
///
/// `typed` is the command line without the program.
pub(crate) fn with_global_options(parser: Command, typed: &[OsString]) -> Command {
    let Some((verb, behind)) = verb(typed) else { return parser };
    let mut behind = behind.iter().take_while(|word| *word != "--");
    if !behind.any(|word| needs_global_options(word)) {
        return parser;
    }
    // Not the alias that was typed.
    let Some(verb) = parser.find_subcommand(verb).map(|command| command.get_name().to_owned())
    else {
        return parser;
    };
    let options = GlobalArgs::augment_args(Command::new(""));
    let options = options.get_arguments().map(|option| option.clone().global(true));
    let options: Vec<Arg> = options.collect();
    parser.mut_subcommand(verb, |command| command.args(options))
}

/// Returns the first word that is neither a global option nor its value, and what follows it.
pub(crate) fn verb(typed: &[OsString]) -> Option<(&str, &[OsString])> {
    let mut words = typed.iter().enumerate();
    while let Some((place, word)) = words.next() {
        let word = word.to_str()?;
        if !word.starts_with('-') {
            return Some((word, &typed[place + 1..]));
        }
        let name = word.trim_start_matches('-');
        if OPTIONS.iter().any(|(option, has_value)| *has_value && *option == name) {
            words.next();
        }
    }
    None
}

/// Whether a word is a global option, or asks for help, or completes one.
fn needs_global_options(word: &OsStr) -> bool {
    let Some(word) = word.to_str() else { return false };
    let Some(long) = word.strip_prefix("--") else {
        return word == "-h" || word.starts_with("-v");
    };
    let name = long.split('=').next().unwrap_or(long);
    name == "help" || OPTIONS.iter().any(|(option, _)| *option == name)
}

impl GlobalArgs {
    /// Returns what wins over variables and configuration files.
    pub(crate) fn overrides(&self) -> Overrides {
        let system = self.system.as_ref().map(|system| system.to_string_lossy().into_owned());
        Overrides { repo: self.repo.clone(), system, backend: self.backend, ..Overrides::default() }
    }

    /// Returns the same for a command that also takes the directory of a system's configuration,
    /// which is no name.
    pub(crate) fn overrides_for_recipes(&self) -> Overrides {
        let is_directory = self.system.as_ref().is_some_and(|system| {
            system.is_dir() || system.parent().is_some_and(|parent| parent != Path::new(""))
        });
        let overrides = self.overrides();
        Overrides { system: overrides.system.filter(|_| !is_directory), ..overrides }
    }

    /// Returns the printer that these options ask for. The configuration may say
    /// otherwise; but an error in it must be printed, too.
    pub(crate) fn printer(&self) -> Printer {
        let usual = usual_color(self.no_color);
        Printer { color: self.color.unwrap_or(usual), verbosity: self.verbose, is_uenv: false }
    }

    /// Returns the printer that the configuration asks for, where neither an option nor a variable
    /// sets the color.
    pub(crate) fn configured(&self, printer: Printer, setting: Setting) -> Printer {
        if self.color.is_some() { printer } else { configured(printer, setting) }
    }
}

/// Returns when output is colored where no option says so.
pub(crate) fn usual_color(is_plain: bool) -> ColorChoice {
    let has_no_color = std::env::var_os(env_vars::NO_COLOR).is_some_and(|v| !v.is_empty());
    if is_plain || has_no_color { ColorChoice::Never } else { ColorChoice::Auto }
}

/// Returns the printer that the configuration asks for.
pub(crate) fn configured(printer: Printer, setting: Setting) -> Printer {
    match setting {
        _ if printer.color != ColorChoice::Auto => printer,
        Setting::Auto => printer,
        Setting::Always => Printer { color: ColorChoice::Always, ..printer },
        Setting::Never => Printer { color: ColorChoice::Never, ..printer },
    }
}

/// A value as it is typed, its help, and its meaning.
pub(crate) type Choice<T> = (&'static str, &'static str, T);

/// Returns the parser of an option whose value is one of these.
pub(crate) fn one_of<T: Copy + Send + Sync>(
    choices: &'static [Choice<T>],
) -> impl TypedValueParser<Value = T> {
    let values = choices.iter().map(|(typed, help, _)| PossibleValue::new(typed).help(help));
    PossibleValuesParser::new(values).try_map(|value| {
        let found = choices.iter().find(|(typed, ..)| *typed == value);
        found.map(|(.., meaning)| *meaning).ok_or("unknown")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_global_options_are_known_by_name() {
        let command = GlobalArgs::augment_args(Command::new(""));
        let options = command.get_arguments().map(|option| {
            let long = option.get_long().unwrap_or_default().to_owned();
            (long, option.get_action().takes_values())
        });
        let known = OPTIONS.iter().map(|(name, has_value)| ((*name).to_owned(), *has_value));
        assert_eq!(known.collect::<Vec<_>>(), options.collect::<Vec<_>>());
    }
}
