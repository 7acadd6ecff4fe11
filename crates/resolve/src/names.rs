// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Lists of names in messages.

use cabane_label::{Label, enumerate, escape};

/// Joins names with commas.
pub(crate) fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{}`", escape(name))).collect();
    names.join(", ")
}

/// Returns the labels as they may be in a message; of many only the first.
pub(crate) fn some_of(labels: &[Label]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = labels.iter().take(SHOWN).map(ToString::to_string).collect();
    match labels.len().saturating_sub(SHOWN) {
        0 => enumerate(&shown, "or"),
        more => format!("{}, or one of {more} more", quoted(&shown)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_labels_only_some_are_shown() {
        let label = |number| format!("a/{number}:v1@s%u").parse().unwrap();
        let labels: Vec<Label> = (1..6).map(label).collect();
        assert_eq!(some_of(&labels), "`a/1:v1@s%u`, `a/2:v1@s%u`, `a/3:v1@s%u`, or one of 2 more");
    }
}
