// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Environment patches: which variables change, and in which order.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// What is done to a variable that holds a list, such as `PATH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ListOperation {
    /// The values replace the list.
    Set,
    /// The values are put before the list.
    Prepend,
    /// The values are put after the list.
    Append,
    /// The variable is removed; the values mean nothing.
    Unset,
}

impl ListOperation {
    /// Returns its name, as in the metadata.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Prepend => "prepend",
            Self::Append => "append",
            Self::Unset => "unset",
        }
    }
}

/// One change to one variable.
///
/// In every value, `${@VAR@}` stands for what the variable `VAR` was before any
/// patch was applied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The variable gets this value.
    Set(String),
    /// The variable is removed.
    Unset,
    /// The variable is a list of elements separated by `:`.
    List {
        /// What is done to the list.
        operation: ListOperation,
        /// With which elements; one with a `:` inside counts as several.
        values: Vec<String>,
    },
}

/// Changes to variables, in order.
///
/// Variables are in the order in which they were first named, the changes to
/// each in the order in which they happen. Changes to different variables do
/// not influence each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvPatch {
    entries: Vec<(String, Vec<Change>)>,
    /// Where in `entries` a variable is.
    places: HashMap<String, usize>,
}

impl EnvPatch {
    /// Makes a patch that changes nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a change, to happen after all changes to the same variable.
    ///
    /// The name is expected to satisfy [`is_variable_name`]; changes to others
    /// are kept but have no effect, as no process can have such a variable.
    pub fn push(&mut self, variable: &str, change: Change) {
        self.changes_of(variable).push(change);
    }

    /// Adds all changes of a patch that is applied later.
    pub fn merge(&mut self, later: &Self) {
        for (variable, changes) in &later.entries {
            self.changes_of(variable).extend_from_slice(changes);
        }
    }

    fn changes_of(&mut self, variable: &str) -> &mut Vec<Change> {
        let next = self.entries.len();
        let place = *self.places.entry(variable.to_owned()).or_insert(next);
        if place == next {
            self.entries.push((variable.to_owned(), Vec::new()));
        }
        &mut self.entries[place].1
    }

    /// Goes through the texts of all changes.
    pub(crate) fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let changes = self.entries.iter_mut().flat_map(|(_, changes)| changes);
        changes.flat_map(|change| match change {
            Change::Set(text) => std::slice::from_mut(text),
            Change::Unset => &mut [],
            Change::List { values, .. } => values,
        })
    }

    /// Tells whether the patch names no variable.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Goes through the variables and what happens to each.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &[Change])> {
        self.entries.iter().map(|(variable, changes)| (variable.as_str(), changes.as_slice()))
    }
}

/// Tells whether a process can have a variable of this name: it is not empty
/// and holds neither `=` nor NUL.
#[must_use]
pub fn is_variable_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(['=', '\0'])
}
