// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The section `views:` of recipes whose engine leaves the views to them.

use std::collections::BTreeMap;

use cabane_label::ParseError;
use cabane_view::ViewName;

use super::{description, env_vars};
use crate::ask::{Field, Section, instead, similar_word};
use crate::node::Entry;
use crate::recipe::{EnvVars, ViewRecipe};
use crate::report::Report;

const KEYS: &[&str] = &["description", "env_vars"];

/// Reads all views; `None` if any of them is wrong.
pub(super) fn read(file: &Section<'_>) -> Option<BTreeMap<ViewName, ViewRecipe>> {
    file.chosen("views", view)
}

/// Reads the name of a view, which is a key.
pub(crate) fn view_name(report: &Report<'_>, entry: &Entry) -> Option<ViewName> {
    let noted = |error: ParseError| {
        let hint = similar_word::<ViewName>(&entry.key).map(|word| format!("write `{word}:`"));
        report.note(Some(entry.key_place), &error.to_string(), hint.as_deref());
    };
    entry.key.parse().map_err(noted).ok()
}

fn view(report: &Report<'_>, entry: &Entry) -> Option<(ViewName, ViewRecipe)> {
    let name = view_name(report, entry);
    let section = Field::named(report, "the view", entry).section()?;
    section.refuse_unknown(KEYS, |key| match key {
        "uenv" => instead("write `env_vars:` directly below the view"),
        "set" | "prepend_path" | "append_path" => {
            instead("it belongs in `env_vars:`, indented by two spaces")
        }
        "link" | "select" | "exclude" | "projections" => {
            instead("only the views of Spack recipes have it: remove it")
        }
        _ => None,
    });
    let description = description(&section);
    let env_vars = section.given_or("env_vars", EnvVars::default(), env_vars::read);
    Some((name?, ViewRecipe { description, env_vars: env_vars? }))
}
