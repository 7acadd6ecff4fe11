// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the list of checks changes about checks that every image has.

use serde::{Deserialize, Serialize};

use crate::Check;

/// A change of a built-in check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltinChange {
    /// Its name: `programs`.
    pub builtin: String,
    /// Names that it leaves out: programs, compilers, or Python packages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// Whether it is left out as a whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip: bool,
    /// Why; always there for one that is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The list `checks` of a recipe: commands, and changes of built-in checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecipeChecks {
    /// The commands, whose names differ.
    pub commands: Vec<Check>,
    /// The changes, at most one of each built-in check.
    pub builtins: Vec<BuiltinChange>,
}

/// An item of the list.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Item {
    Builtin(BuiltinChange),
    Command(Check),
}

impl RecipeChecks {
    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.builtins.is_empty()
    }

    /// Returns the change of a built-in check.
    #[must_use]
    pub fn change_of(&self, builtin: &str) -> Option<&BuiltinChange> {
        self.builtins.iter().find(|change| change.builtin == builtin)
    }
}

impl BuiltinChange {
    /// Whether it is one that a recipe can have; an image can say anything.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        let has_reason = self.reason.as_ref().is_some_and(|reason| !reason.trim().is_empty());
        // Either all of it is left out, with a reason, or some names are.
        if self.skip { has_reason && self.except.is_empty() } else { !self.except.is_empty() }
    }
}
