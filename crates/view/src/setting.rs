// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What users themselves decide about variables, in an environment file.
//!
//! A setting is simpler than a patch: for each variable there is one, and it can be
//! written down again. Its values are taken as they are.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use crate::{Change, EnvPatch, ListOperation};

/// What becomes of one variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariableSetting {
    /// The value that replaces what was there; an empty one removes the variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// What is put before the list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepend: Vec<String>,
    /// What is put after the list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub append: Vec<String>,
}

/// What becomes of variables, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariableSettings(pub BTreeMap<String, VariableSetting>);

impl VariableSetting {
    /// Returns the setting that removes a variable or gives it a value.
    #[must_use]
    pub fn to(value: &str) -> Self {
        Self { set: Some(value.to_owned()), ..Self::default() }
    }

    /// Adds what a later setting says about the same variable.
    fn merge(&mut self, later: &Self) {
        if later.set.is_some() {
            *self = later.clone();
            return;
        }
        self.prepend = [later.prepend.as_slice(), &self.prepend].concat();
        self.append.extend_from_slice(&later.append);
    }

    fn push_to(&self, patch: &mut EnvPatch, variable: &str) {
        match self.set.as_deref() {
            None => {}
            Some("") => patch.push(variable, Change::Unset),
            Some(value) => patch.push(variable, Change::Set(value.to_owned())),
        }
        let lists =
            [(ListOperation::Prepend, &self.prepend), (ListOperation::Append, &self.append)];
        for (operation, values) in lists {
            if !values.is_empty() {
                let values = values.clone();
                patch.push(variable, Change::List { operation, values });
            }
        }
    }
}

impl VariableSettings {
    /// Tells whether nothing is decided.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds settings that are made after these: one value replaces the other, and
    /// lists become longer.
    pub fn merge(&mut self, later: &Self) {
        for (variable, setting) in &later.0 {
            self.0.entry(variable.clone()).or_default().merge(setting);
        }
    }

    /// Returns the whole environment that results.
    #[must_use]
    pub fn apply(
        &self,
        environment: &BTreeMap<OsString, OsString>,
    ) -> BTreeMap<OsString, OsString> {
        self.patch().apply_as_written(environment)
    }

    /// Returns the changes, of which the values are taken as they are.
    #[must_use]
    pub fn patch(&self) -> EnvPatch {
        let mut patch = EnvPatch::new();
        for (variable, setting) in &self.0 {
            setting.push_to(&mut patch, variable);
        }
        patch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(prepend: &[&str], append: &[&str]) -> VariableSetting {
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        VariableSetting { set: None, prepend: texts(prepend), append: texts(append) }
    }

    fn settings(pairs: &[(&str, VariableSetting)]) -> VariableSettings {
        let owned = |(name, setting): &(&str, VariableSetting)| (name.to_string(), setting.clone());
        VariableSettings(pairs.iter().map(owned).collect())
    }

    fn applied(settings: &VariableSettings, name: &str) -> Option<String> {
        let before = [("PATH", "/usr/bin:/bin"), ("GONE", "x")];
        let before = before.map(|(name, value)| (name.into(), value.into())).into();
        let value = settings.apply(&before).remove(&OsString::from(name));
        value.map(|value| value.into_string().unwrap())
    }

    #[test]
    fn a_list_is_extended_at_both_ends() {
        let settings = settings(&[("PATH", list(&["/a"], &["/z"]))]);
        assert_eq!(applied(&settings, "PATH").unwrap(), "/a:/usr/bin:/bin:/z");
    }

    #[test]
    fn an_empty_value_removes_a_variable() {
        let settings = settings(&[("GONE", VariableSetting::to(""))]);
        assert_eq!(applied(&settings, "GONE"), None);
    }

    #[test]
    fn a_value_is_taken_as_it_is() {
        let settings = settings(&[("X", VariableSetting::to("${@PATH@}"))]);
        assert_eq!(applied(&settings, "X").unwrap(), "${@PATH@}");
    }

    #[test]
    fn settings_that_are_merged_do_what_they_do_one_after_the_other() {
        let all = [
            VariableSetting::to("/s"),
            VariableSetting::to(""),
            list(&["/p", "/q"], &["/r"]),
            list(&["/t"], &[]),
            list(&[], &["/p", "/u"]),
        ];
        for first in &all {
            for second in &all {
                let (first, second) = ([("PATH", first.clone())], [("PATH", second.clone())]);
                let (first, second) = (settings(&first), settings(&second));
                let mut merged = first.clone();
                merged.merge(&second);
                let before = [("PATH".into(), "/usr/bin:/bin".into())].into();
                assert_eq!(
                    merged.apply(&before),
                    second.apply(&first.apply(&before)),
                    "{first:?} {second:?}"
                );
            }
        }
    }
}
