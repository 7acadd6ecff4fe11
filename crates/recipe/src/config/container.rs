// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The section `container:`.

use std::path::{Component, Path, PathBuf};

use super::path::{Reach, path};
use crate::ask::{Field, Section, each, instead};
use crate::diagnostic::quote;
use crate::node::{Place, Value};
use crate::recipe::{CommandLine, ContainerConfig, RunCommand};
use crate::report::Report;

pub(super) const KEYS: &[&str] =
    &["from", "platform", "images", "files", "run", "entrypoint", "command", "working-directory"];
/// The keys of a command with more to say about it.
const COMMAND_KEYS: &[&str] = &["command", "network"];
/// Each is a layer, and overlayfs takes so many.
const MOST_COMMANDS: usize = 100;

const ADD_SECTION: &str =
    "add the container image:\ncontainer:\n  from: registry.example.org/tool:1.0";
/// How places are named that are directories or files.
const LOCAL: &[&str] = &["oci:", "oci-archive:", "docker-archive:", "sif:", "dir:", "image:"];

pub(super) fn read(file: &Section<'_>) -> Option<ContainerConfig> {
    let field = file.require("container", ADD_SECTION)?;
    let section = field.section()?;
    section.refuse_unknown(KEYS, |key| match key {
        "image" => instead("write `from:`"),
        "env" => instead("variables belong into `views:`, as for other engines"),
        "post" => instead("write the commands below `run:`"),
        "network" => instead("write it at the command: `- {command: …, network: true}`"),
        _ => None,
    });
    let hint = "add where it is: `from: registry.example.org/tool:1.0`";
    let from = section.needed("from", hint, reference);
    let platform = section.optional("platform", Field::string);
    let images = section.given_or("images", Vec::new(), |field| texts(field, "an image"));
    let files = section.given_or("files", Vec::new(), files);
    let run = section.given_or("run", Vec::new(), commands);
    let entrypoint = command_line(&section, "entrypoint");
    let command = command_line(&section, "command");
    let working_directory = section.given_or("working-directory", None, |field| {
        let text = field.text()?;
        place(field.report, field.place(), text).map(Some)
    });
    Some(ContainerConfig {
        from: from?,
        platform: platform?,
        images: images?,
        files: files?,
        run: run?,
        entrypoint: entrypoint?,
        command: command?,
        working_directory: working_directory?,
    })
}

fn reference(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let is_local = LOCAL.iter().any(|scheme| text.starts_with(scheme));
    let problem = if text.is_empty() || text.contains(char::is_control) {
        "it is no name of a container image"
    } else if text.starts_with(['/', '.', '~']) {
        "a path does not say what is there"
    } else if !is_local && !text.contains('/') {
        "it does not say in which registry it is"
    } else {
        return Some(text.to_owned());
    };
    let message = format!("{} cannot be {}: {problem}", field.name, quote(text));
    let hint = "write `registry.example.org/tool:1.0`, `oci:DIR:NAME`, `oci-archive:FILE`, \
                `docker-archive:FILE`, `sif:FILE`, `dir:DIR`, or `image:LABEL`";
    field.refuse(&message, hint)
}

/// Reads what is put where: a place in the image, and what it is in the recipe.
fn files(field: &Field<'_>) -> Option<Vec<(String, PathBuf)>> {
    let section = field.section()?;
    each(section.entries, |entry| {
        let field = Field::of(field.report, entry);
        let place = place(field.report, entry.key_place, &entry.key);
        let source = path(&field, Reach::Recipe);
        Some((place?, source?))
    })
}

/// Reads the commands that are run while the image is built.
fn commands(field: &Field<'_>) -> Option<Vec<RunCommand>> {
    let items = field.items("a command")?;
    if let Some(item) = items.get(MOST_COMMANDS) {
        let message = format!("more than {MOST_COMMANDS} commands");
        return item.refuse(
            &message,
            "combine several commands in one item: write `- |`, then one command a line",
        );
    }
    each(items, |item| command(&item))
}

fn command(field: &Field<'_>) -> Option<RunCommand> {
    let line = field.report.source.line_number(field.place().start);
    if !matches!(field.node.value, Value::Section(_)) {
        return Some(RunCommand { command: what_is_run(field)?, network: false, line });
    }
    let section = field.section_with(COMMAND_KEYS)?;
    let hint = "add the command to run: `command: make install`";
    let command = section.needed("command", hint, what_is_run);
    let network = section.given_or("network", false, Field::truth);
    Some(RunCommand { command: command?, network: network?, line })
}

/// Reads a text for a shell, or a list of words.
fn what_is_run(field: &Field<'_>) -> Option<CommandLine> {
    let hint = "write a command: `make install`, or `[make, install]`";
    if !matches!(field.node.value, Value::List(_)) {
        let text = field.text_if(|text| !text.trim().is_empty(), "is no command", hint)?;
        return Some(CommandLine::Shell(text));
    }
    let words = texts(field, "a word")?;
    if words.first().is_none_or(String::is_empty) {
        return field.refuse("the command has no program", hint);
    }
    Some(CommandLine::Words(words))
}

/// Checks a place in the image: an absolute path in its shortest form.
fn place(report: &Report<'_>, at: Place, text: &str) -> Option<String> {
    let components = Path::new(text).components();
    let parts: Vec<String> = components
        .clone()
        .filter_map(|part| match part {
            Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
            _ => None,
        })
        .collect();
    let goes_up = components.into_iter().any(|part| part == Component::ParentDir);
    if text.starts_with('/') && !goes_up && !text.contains(char::is_control) {
        return Some(format!("/{}", parts.join("/")));
    }
    let message = format!("{} is no place in the image", quote(text));
    let hint = "write an absolute path, such as `/opt/tool`";
    report.refuse(at, &message, hint)
}

/// Reads a command line as a list; an empty one takes away what the container image has.
#[expect(clippy::option_option, reason = "wrong, not given, given as a list")]
fn command_line(section: &Section<'_>, key: &str) -> Option<Option<Vec<String>>> {
    section.get(key).map_or(Some(None), |field| texts(&field, "a word").map(Some))
}

fn texts(field: &Field<'_>, what: &str) -> Option<Vec<String>> {
    each(field.items(what)?, |item| item.string())
}
