// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Variables that several views set as a whole: the last one wins, silently.
//!
//! Here only patches are compared. Whether two views bring files of the same name can
//! only be seen where the images are mounted.

use std::collections::BTreeMap;

use cabane_view::{Change, EnvPatch, ListOperation};

/// What one view does to one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It gets this value, whatever it had.
    Set(String),
    /// It is removed.
    Unset,
    /// Something is added to what is there.
    Added(Vec<String>),
}

/// A variable that a later view takes from an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalarConflict {
    /// The variable.
    pub variable: String,
    /// The place, in the order of the patches, of the one that wins.
    pub winner: usize,
    /// What it does.
    pub effect: Effect,
    /// The earlier ones that wanted something else, and what.
    pub losers: Vec<(usize, Effect)>,
}

/// Finds the variables that one patch sets although an earlier one wanted something
/// else. The patches are in the order in which they are applied; to want the same
/// value is no conflict, and neither is adding to what an earlier one has set.
#[must_use]
pub fn scalar_conflicts<'a>(patches: impl Iterator<Item = &'a EnvPatch>) -> Vec<ScalarConflict> {
    let mut touched: BTreeMap<&str, Vec<(usize, Effect)>> = BTreeMap::new();
    for (place, patch) in patches.enumerate() {
        for (variable, changes) in patch.iter() {
            if let Some(effect) = effect(changes) {
                touched.entry(variable).or_default().push((place, effect));
            }
        }
    }
    touched.into_iter().filter_map(|(variable, effects)| conflict(variable, effects)).collect()
}

fn conflict(variable: &str, mut effects: Vec<(usize, Effect)>) -> Option<ScalarConflict> {
    let is_whole = |(_, effect): &(usize, Effect)| !matches!(effect, Effect::Added(_));
    let last = effects.iter().rposition(is_whole)?;
    effects.truncate(last + 1);
    let (winner, effect) = effects.pop()?;
    effects.retain(|(_, other)| *other != effect);
    (!effects.is_empty()).then(|| ScalarConflict {
        variable: variable.to_owned(),
        winner,
        effect,
        losers: effects,
    })
}

/// Returns what is left of the changes that one patch makes to one variable.
#[must_use]
pub fn effect(changes: &[Change]) -> Option<Effect> {
    let mut result = None;
    for change in changes {
        result = Some(match (change, result) {
            (Change::Set(value), _) => Effect::Set(value.clone()),
            (Change::Unset, _) => Effect::Unset,
            (Change::List { operation, values }, before) => match operation {
                ListOperation::Unset => Effect::Unset,
                ListOperation::Set => Effect::Set(values.join(":")),
                ListOperation::Prepend => add(values, before, true),
                ListOperation::Append => add(values, before, false),
            },
        });
    }
    result
}

fn add(values: &[String], before: Option<Effect>, is_first: bool) -> Effect {
    let joined = |old: Vec<String>| {
        let new = values.to_vec();
        if is_first { [new, old].concat() } else { [old, new].concat() }
    };
    match before {
        None => Effect::Added(values.to_vec()),
        Some(Effect::Added(old)) => Effect::Added(joined(old)),
        Some(Effect::Unset) => Effect::Set(values.join(":")),
        Some(Effect::Set(old)) => Effect::Set(joined(vec![old]).join(":")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(changes: &[(&str, Change)]) -> EnvPatch {
        let mut patch = EnvPatch::new();
        for (variable, change) in changes {
            patch.push(variable, change.clone());
        }
        patch
    }

    fn set(value: &str) -> Change {
        Change::Set(value.to_owned())
    }

    fn list(operation: ListOperation, value: &str) -> Change {
        Change::List { operation, values: vec![value.to_owned()] }
    }

    fn summary(patches: &[EnvPatch]) -> Vec<(String, usize, usize)> {
        let conflicts = scalar_conflicts(patches.iter());
        let summary = |one: ScalarConflict| (one.variable, one.winner, one.losers.len());
        conflicts.into_iter().map(summary).collect()
    }

    #[test]
    fn the_last_of_two_views_that_set_a_variable_wins() {
        let patches = [patch(&[("CC", set("gcc"))]), patch(&[("CC", set("clang"))])];
        assert_eq!(summary(&patches), [("CC".to_owned(), 1, 1)]);
    }

    #[test]
    fn the_same_value_twice_is_no_conflict() {
        let patches = [patch(&[("CC", set("gcc"))]), patch(&[("CC", set("gcc"))])];
        assert_eq!(summary(&patches), []);
    }

    #[test]
    fn lists_to_which_both_add_are_no_conflict() {
        let one = patch(&[("PATH", list(ListOperation::Prepend, "/a"))]);
        let other = patch(&[("PATH", list(ListOperation::Append, "/b"))]);
        assert_eq!(summary(&[one, other]), []);
    }

    #[test]
    fn a_list_that_is_set_takes_away_what_was_added() {
        let one = patch(&[("PATH", list(ListOperation::Prepend, "/a"))]);
        let other = patch(&[("PATH", list(ListOperation::Set, "/b"))]);
        assert_eq!(summary(&[one, other]), [("PATH".to_owned(), 1, 1)]);
    }

    #[test]
    fn changes_of_one_view_are_no_conflict() {
        let one = patch(&[("CC", set("gcc")), ("CC", Change::Unset)]);
        assert_eq!(summary(&[one]), []);
    }

    #[test]
    fn what_is_added_to_a_value_of_the_same_view_is_part_of_it() {
        let changes = [set("/a"), list(ListOperation::Prepend, "/b")];
        assert_eq!(effect(&changes), Some(Effect::Set("/b:/a".to_owned())));
    }
}
