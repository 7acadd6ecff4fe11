// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The part of `config.toml` about the MPIs of a machine.

use cabane_label::Name;

use super::PathTemplate;
use super::sections::sections;
use super::values::path_template;
use crate::ask::{Field, Section};
use crate::diagnostic::quote;

/// An MPI that may take the place of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiRule {
    /// What its users call it.
    pub name: String,
    /// Its prefix, or its library.
    pub prefix: PathTemplate,
    /// Directories with libraries that it needs and does not find by itself.
    pub libraries: Vec<PathTemplate>,
    /// Plug-ins that it gets: files, and directories of files.
    pub plugins: Vec<PathTemplate>,
    /// The command that starts its ranks, before their number: a program and its options. Empty if
    /// it is the one beside the library.
    pub launcher: Vec<String>,
}

/// Reads those of a file; one with a mistake has been noted.
pub(super) fn read(file: &Section<'_>) -> Vec<MpiRule> {
    let mut all: Vec<MpiRule> = Vec::new();
    for section in sections(file, "mpi", "an MPI") {
        let name = section.require("name", "add a line such as `name = \"fabric\"`");
        let hint = "add a line such as `prefix = \"/opt/mpich\"`";
        let prefix = section.needed("prefix", hint, path_template);
        let mut libraries = Vec::new();
        for item in section.items("libraries", "a directory of `libraries`") {
            libraries.extend(path_template(&item));
        }
        let mut plugins = Vec::new();
        for item in section.items("plugins", "a file or directory of `plugins`") {
            plugins.extend(path_template(&item));
        }
        let launcher = section.get("launcher");
        let launcher = launcher.and_then(|field| launcher_command(&field));
        let word = name.as_ref().and_then(Field::word::<Name>);
        let (Some(field), Some(word), Some(prefix)) = (name, word, prefix) else {
            continue;
        };
        let name = word.to_string();
        if all.iter().any(|known| known.name == name) {
            let message = format!("there are two MPIs {}", quote(&name));
            file.report.problem_with_hint(field.place(), &message, "give one of them another name");
        } else {
            let launcher = launcher.unwrap_or_default();
            all.push(MpiRule { name, prefix, libraries, plugins, launcher });
        }
    }
    all
}

/// Reads a program and its options: `srun --mpi=pmi2`.
fn launcher_command(field: &Field<'_>) -> Option<Vec<String>> {
    let text = field.text()?;
    let command: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let program = command.first().map_or("", String::as_str);
    if program.is_empty() || program.starts_with('-') || program.contains('=') {
        let message = format!("{} does not begin with a program", quote(text));
        let hint = "write what starts ranks, such as `launcher = \"srun --mpi=pmi2\"`";
        return field.refuse(&message, hint);
    }
    Some(command)
}
