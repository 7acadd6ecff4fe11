// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The part of `config.toml` about evidence: whose statements about tests and builds count, and since when.

use super::PathTemplate;
use super::values::path_template;
use crate::ask::{Field, Section, each};
use crate::diagnostic::quote;

/// Whose evidence counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvidenceSettings {
    /// Files with the public keys of testers.
    pub testers: Option<Vec<PathTemplate>>,
    /// Files with the public keys of builders.
    pub builders: Option<Vec<PathTemplate>>,
    /// The URI that names what builds images here.
    pub builder_id: Option<String>,
    /// A word that the site changes when the system changes, such as at a maintenance.
    pub generation: Option<String>,
}

/// Reads the table; what is wrong in it has been noted.
pub(super) fn read(section: &Section<'_>) -> EvidenceSettings {
    EvidenceSettings {
        testers: keys(section, "testers"),
        builders: keys(section, "builders"),
        builder_id: section.optional("builder_id", builder_id).flatten(),
        generation: section.optional("generation", generation).flatten(),
    }
}

/// Reads a list of files with keys; nothing if there is none.
pub(super) fn keys(section: &Section<'_>, key: &str) -> Option<Vec<PathTemplate>> {
    let field = section.get(key)?;
    each(field.items("a key")?, |item| path_template(&item))
}

fn builder_id(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let is_usual = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '<' | '>' | '\\');
    let rest = text.strip_prefix("https://").filter(|rest| !rest.is_empty());
    if rest.is_some() && text.len() <= 256 && text.chars().all(is_usual) {
        return Some(text.to_owned());
    }
    let message = format!("{} is no URI of a builder", quote(text));
    field.refuse(
        &message,
        "write an address of your site, such as `https://example.org/builders/daint`",
    )
}

fn generation(field: &Field<'_>) -> Option<String> {
    let is_right = |text: &str| {
        let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        (1..=64).contains(&text.len()) && text.chars().all(is_usual)
    };
    field.text_if(is_right, "is no generation", "use a date or a version, such as `2026-11-20`")
}
