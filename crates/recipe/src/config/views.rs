// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The section `views:` of recipes whose engine leaves the views to them.

use std::collections::BTreeMap;

use cabane_view::ViewName;

use super::{description, env_vars};
use crate::ask::{Field, Section, each, similar_word};
use crate::diagnostic::quote;
use crate::node::Entry;
use crate::recipe::ViewRecipe;
use crate::report::Report;

const KEYS: &[&str] = &["description", "env_vars"];

/// Reads all views; `None` if any of them is wrong.
pub(super) fn read(
    report: &mut Report<'_>,
    file: &Section<'_>,
) -> Option<BTreeMap<ViewName, ViewRecipe>> {
    let Some(field) = file.get("views") else {
        return Some(BTreeMap::new());
    };
    let section = report.section(&field)?;
    each(section.entries(), |entry| view(report, entry))
}

fn view(report: &mut Report<'_>, entry: &Entry) -> Option<(ViewName, ViewRecipe)> {
    let name = match entry.key.parse::<ViewName>() {
        Ok(name) => Some(name),
        Err(error) => {
            let hint = similar_word::<ViewName>(&entry.key).map(|word| format!("write `{word}:`"));
            report.note(Some(entry.key_place), &error.to_string(), hint.as_deref());
            None
        }
    };
    let field = Field::of(entry).called(format!("the view {}", quote(&entry.key)));
    let section = report.section(&field)?;
    section.refuse_unknown(report, KEYS, |key| match key {
        "uenv" => Some((None, "write `env_vars:` directly below the view".to_owned())),
        "set" | "prepend_path" | "append_path" => {
            Some((None, "it belongs in `env_vars:`, indented by two spaces".to_owned()))
        }
        "link" | "select" | "exclude" | "projections" => {
            Some((None, "only the views of Spack recipes have it: remove it".to_owned()))
        }
        _ => None,
    });
    let description = description(report, &section);
    let env_vars =
        section.get_or(report, "env_vars", crate::recipe::EnvVars::default(), env_vars::read);
    Some((name?, ViewRecipe { description, env_vars: env_vars? }))
}
