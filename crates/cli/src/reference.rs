// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The reference pages, made from the code they describe.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use cabane_recipe::settings::table::{self, example_file};
use cabane_site::env_vars;
use clap::{Command, CommandFactory};

use crate::commands::Args;
use crate::exit_codes;
use crate::json_pages;
pub use crate::json_pages::json_schemas;

const HEAD: &str = "<!-- Made by `make docs`; do not edit. -->\n\n";

/// Writes the reference pages into a directory, which must exist.
///
/// # Errors
///
/// Those of writing files.
pub fn write_pages(directory: &Path) -> io::Result<()> {
    fs::write(directory.join("commands.md"), commands())?;
    fs::write(directory.join("configuration.md"), configuration())?;
    fs::write(directory.join("exit-codes.md"), codes())?;
    fs::write(directory.join("variables.md"), variables())?;
    json_pages::write(directory)
}

/// Returns the definition of the command line, for manual pages.
pub fn command() -> Command {
    Args::command()
}

/// Returns the names of all commands that are shown, each with its usage.
pub fn usages() -> Vec<(String, String)> {
    fn add(command: &mut Command, parents: &str, usages: &mut Vec<(String, String)>) {
        let name = format!("{parents}{}", command.get_name());
        usages.push((name.clone(), command.render_usage().to_string()));
        for child in command.get_subcommands_mut().filter(|child| !child.is_hide_set()) {
            add(child, &format!("{name} "), usages);
        }
    }
    let mut root = Args::command();
    root.build();
    let mut usages = Vec::new();
    add(&mut root, "", &mut usages);
    usages
}

fn commands() -> String {
    let mut text = format!("{HEAD}# Commands\n");
    let mut root = Args::command().term_width(80);
    root.build();
    describe(&mut text, &mut root, "");
    text
}

fn describe(text: &mut String, command: &mut Command, parents: &str) {
    let name = format!("{parents}{}", command.get_name());
    let help = command.render_long_help().to_string();
    let help = help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    let _ = write!(text, "\n## `{name}`\n\n```text\n{}\n```\n", help.trim_end());
    let shown = |child: &&mut Command| !child.is_hide_set();
    for child in command.get_subcommands_mut().filter(shown) {
        describe(text, child, &format!("{name} "));
    }
}

fn configuration() -> String {
    format!(
        "{HEAD}# Configuration file\n\nCabane reads `/etc/cabane/config.toml`, then \
         `$XDG_CONFIG_HOME/cabane/config.toml` (`~/.config/cabane/config.toml`); the later one \
         overrides the first. Variables and options override both. `cabane config` shows the values in \
         effect and the source of each. All keys, with examples:\n\n```toml\n{}```\n",
        example_file()
    )
}

fn codes() -> String {
    let mut text =
        format!("{HEAD}# Exit codes\n\n| code | name | meaning |\n| --- | --- | --- |\n");
    for code in exit_codes::ALL {
        let _ = writeln!(text, "| {} | {} | {} |", code.code, code.name, code.meaning.trim());
    }
    text
}

/// Returns the variables that override settings, and what these are for.
fn variables_of_settings() -> impl Iterator<Item = (&'static str, String)> {
    // Some variables have another form than the setting, and a purpose of their own.
    let is_described = |name| env_vars::all().any(|variable| variable.name == name);
    let settings = table::ALL.iter();
    settings.filter_map(move |setting| {
        let name = setting.variable.filter(|name| !is_described(*name))?;
        let overrides = match setting.option {
            Some(option) => format!("The option `{option}` overrides it."),
            None => format!("It overrides `{}` in the configuration.", setting.key),
        };
        let help: Vec<&str> = setting.help.iter().map(|line| line.trim()).collect();
        Some((name, format!("{} {overrides}", help.join(" "))))
    })
}

fn variables() -> String {
    let mut text = format!("{HEAD}# Environment variables\n");
    for (title, is_set) in [("Read", false), ("Set for what runs in an environment", true)] {
        let _ = write!(text, "\n## {title}\n\n| variable | purpose |\n| --- | --- |\n");
        let mut rows: Vec<(&str, String)> = env_vars::all()
            .filter(|variable| variable.is_set == is_set)
            .map(|variable| (variable.name, variable.purpose.trim().to_owned()))
            .collect();
        if !is_set {
            rows.splice(0..0, variables_of_settings());
        }
        for (name, purpose) in rows {
            let _ = writeln!(text, "| `{name}` | {} |", purpose.replace('|', "\\|"));
        }
    }
    let passed = env_vars::PASSED_TO_BUILDS.iter().map(|name| format!("`{name}`"));
    let _ = write!(
        text,
        "\n## Passed on to builds\n\nA build sees none of your variables but these, without which \
         packages cannot be fetched at many sites: {}.\n",
        passed.collect::<Vec<_>>().join(", ")
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_configuration_is_read_without_a_mistake() {
        let path = Path::new("configuration.toml");
        let mistakes = cabane_recipe::parse_settings(path, example_file().as_bytes())
            .err()
            .map(|error| error.to_string());
        assert_eq!(mistakes, None);
    }

    #[test]
    fn every_command_stands_in_the_reference() {
        let text = commands();
        let missing: Vec<_> = ["start", "image add", "repo status", "recipe check", "build"]
            .into_iter()
            .filter(|name| !text.contains(&format!("## `cabane {name}`")))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
