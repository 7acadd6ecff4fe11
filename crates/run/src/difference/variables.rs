// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What two patches do differently.

use std::collections::BTreeMap;

use cabane_view::{Change, EnvPatch};
use serde::Serialize;

/// A variable that two patches change differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VariableDifference {
    /// The variable.
    pub variable: String,
    /// What only the first does: `set gcc`, `prepend /opt/bin`.
    pub removed: Vec<String>,
    /// What only the second does.
    pub added: Vec<String>,
}

/// Compares what two patches do. Where both do the same in another order, everything
/// that they do is shown.
#[must_use]
pub fn compare_variables(from: &EnvPatch, to: &EnvPatch) -> Vec<VariableDifference> {
    let mut all: BTreeMap<&str, (Vec<String>, Vec<String>)> = BTreeMap::new();
    for (variable, changes) in from.iter() {
        all.entry(variable).or_default().0 = describe(changes);
    }
    for (variable, changes) in to.iter() {
        all.entry(variable).or_default().1 = describe(changes);
    }
    let differing = all.into_iter().filter(|(_, (from, to))| from != to);
    differing
        .map(|(variable, (from, to))| {
            let only = |one: &[String], other: &[String]| -> Vec<String> {
                let is_other = |text: &&String| !other.contains(text);
                one.iter().filter(is_other).cloned().collect()
            };
            let (mut removed, mut added) = (only(&from, &to), only(&to, &from));
            if removed.is_empty() && added.is_empty() {
                (removed, added) = (from, to);
            }
            VariableDifference { variable: variable.to_owned(), removed, added }
        })
        .collect()
}

/// Takes changes apart, so that one element more is one difference more.
fn describe(changes: &[Change]) -> Vec<String> {
    let mut texts = Vec::new();
    for change in changes {
        match change {
            Change::Set(value) => texts.push(format!("set {value}")),
            Change::Unset => texts.push("unset".to_owned()),
            Change::List { operation, values } => {
                let verb = operation.as_str();
                if values.is_empty() {
                    texts.push(verb.to_owned());
                }
                let elements = values.iter().flat_map(|value| value.split(':'));
                texts.extend(elements.map(|element| format!("{verb} {element}")));
            }
        }
    }
    // To do the same once more makes no difference.
    texts.dedup();
    texts
}

#[cfg(test)]
mod tests {
    use cabane_view::ListOperation;

    use super::*;

    fn prepending(elements: &[&str]) -> EnvPatch {
        let mut patch = EnvPatch::new();
        let change = Change::List {
            operation: ListOperation::Prepend,
            values: elements.iter().map(ToString::to_string).collect(),
        };
        patch.push("PATH", change);
        patch
    }

    #[test]
    fn one_element_more_is_one_difference() {
        let difference = compare_variables(&prepending(&["/a", "/b"]), &prepending(&["/a:/b:/c"]));
        let expected = VariableDifference {
            variable: "PATH".to_owned(),
            removed: Vec::new(),
            added: vec!["prepend /c".to_owned()],
        };
        assert_eq!(difference, [expected]);
    }

    #[test]
    fn another_order_is_a_difference() {
        let difference = compare_variables(&prepending(&["/a", "/b"]), &prepending(&["/b", "/a"]));
        assert_eq!(difference[0].removed, ["prepend /a", "prepend /b"]);
    }
}
