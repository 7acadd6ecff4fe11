// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Specs in files: each with its place.

use super::spec::{self, SpecParts};
use crate::ask::{Field, Section, each};
use crate::node::{Place, Value};

/// A spec of a list, where it is, and what was found in it.
#[derive(Debug)]
pub(super) struct SpecItem<'n> {
    pub(super) field: Field<'n>,
    pub(super) text: &'n str,
    pub(super) parts: SpecParts,
}

/// Whether a spec has to name a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Package,
    Anything,
}

/// Reads a list of specs; those that are wrong have been noted.
pub(super) fn specs<'n>(field: &Field<'n>, wanted: Wanted) -> Option<Vec<SpecItem<'n>>> {
    each(field.items("a spec")?, |field| {
        if let Value::Section(entries) = &field.node.value {
            let hint = match entries.first() {
                Some(entry) if entry.key == "matrix" => "write out the specs that are meant",
                _ => "put a spec that contains `: ` in quotes",
            };
            return field.wrong_type("text", Some(hint));
        }
        spec(field, wanted)
    })
}

/// Reads one spec.
pub(super) fn spec(field: Field<'_>, wanted: Wanted) -> Option<SpecItem<'_>> {
    let text = field.text()?;
    match spec::read(text) {
        Ok(parts) if parts.package.is_none() && wanted == Wanted::Package => {
            let message = "this spec does not begin with the name of a package";
            let hint = if text.trim_start().starts_with(['+', '~', '-', '%']) {
                Some("what holds for all packages belongs in `variants` or `prefer`")
            } else {
                None
            };
            field.refuse(message, hint)
        }
        Ok(parts) => Some(SpecItem { field, text, parts }),
        Err(problem) => {
            let place = place_of(&field, problem.place.into());
            field.report.refuse(place, &problem.message, problem.hint.as_deref())
        }
    }
}

/// Returns the place of some bytes of a text, as well as is known.
pub(super) fn place_of(field: &Field<'_>, bytes: std::ops::Range<usize>) -> Place {
    let start = field.place_within(bytes.start);
    if start == field.place() || bytes.is_empty() {
        return start;
    }
    Place { end: start.start + bytes.len(), ..start }
}

/// Returns the texts of a list that need not be there.
pub(super) fn texts_of(section: &Section<'_>, key: &str, wanted: Wanted) -> Option<Vec<String>> {
    match section.given(key) {
        None => Some(Vec::new()),
        Some(field) => texts(&field, wanted),
    }
}

/// Returns the texts of a list of specs.
pub(super) fn texts(field: &Field<'_>, wanted: Wanted) -> Option<Vec<String>> {
    let specs = specs(field, wanted)?;
    Some(specs.iter().map(|spec| spec.text.to_owned()).collect())
}
