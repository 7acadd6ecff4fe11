// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The part of `config.toml` about evidence: whose test results count, and since when.

use super::PathTemplate;
use super::values::path_template;
use crate::ask::{Field, Section, each};

/// Whose evidence counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvidenceSettings {
    /// Files with the public keys of testers.
    pub testers: Option<Vec<PathTemplate>>,
    /// A word that the site changes when the system changes, such as at a maintenance.
    pub generation: Option<String>,
}

/// Reads the table; what is wrong in it has been noted.
pub(super) fn read(section: &Section<'_>) -> EvidenceSettings {
    let testers = section
        .get("testers")
        .and_then(|field| each::<_, _, Vec<_>>(field.items("a key")?, |item| path_template(&item)));
    let generation = section.optional("generation", generation).flatten();
    EvidenceSettings { testers, generation }
}

fn generation(field: &Field<'_>) -> Option<String> {
    let is_right = |text: &str| {
        let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        (1..=64).contains(&text.len()) && text.chars().all(is_usual)
    };
    field.text_if(is_right, "is no generation", "use a date or a version, such as `2026-11-20`")
}
