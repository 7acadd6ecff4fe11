// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The checks that an image brings: `checks` in the section `cabane` of its `env.json`.
//!
//! They are written from the `checks` of a recipe and are not trusted; keys that are not known are
//! skipped.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ViewName;
use crate::builtin_checks::{Item, RecipeChecks};

/// The checks of an image, as text: every start reads the metadata, and only a check reads these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckList(Option<String>);

/// A command, and what it must do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its name: letters, digits, `.`, `_`, and `-`.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The view in which it runs; the default view if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<ViewName>,
    /// How many ranks run it. One is started without a launcher.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub ranks: u32,
    /// The exit code that it must have.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub exit_code: i32,
    /// A regular expression that must match its standard output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
    /// After how many seconds it is stopped and has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// What it measures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
}

/// A number in the standard output of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name, such as `bandwidth`.
    pub name: String,
    /// A regular expression whose first group is the number.
    pub pattern: String,
    /// Its unit, such as `MB/s`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// What it is compared with, by the name of the system; `*` is any other one. Without a reference
    /// the number is recorded only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reference: BTreeMap<String, Decimal>,
    /// How far below the reference it may be, as a fraction of the reference: `-0.1`. Without it,
    /// there is no lower limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower: Option<Decimal>,
    /// How far above the reference it may be, as a fraction of the reference: `0.1`. Without it, there
    /// is no upper limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper: Option<Decimal>,
}

/// A number of a recipe, which is finite.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Decimal(f64);

// It is never NaN.
impl Eq for Decimal {}

impl Decimal {
    /// Returns the number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Decimal {
    type Error = &'static str;

    fn try_from(number: f64) -> Result<Self, Self::Error> {
        number.is_finite().then_some(Self(number)).ok_or("the number is not finite")
    }
}

impl From<Decimal> for f64 {
    fn from(number: Decimal) -> Self {
        number.0
    }
}

impl Check {
    /// The most ranks of a check.
    pub const MOST_RANKS: u32 = 100_000;

    /// Whether it is one that a recipe can have; an image can say anything.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        (1..=Self::MOST_RANKS).contains(&self.ranks)
            && (0..=255).contains(&self.exit_code)
            && !self.command.is_empty()
            && self.figures.len() <= 1000
            && is_name(&self.name)
            && self.figures.iter().all(|figure| is_name(&figure.name))
    }
}

/// Whether a text can be the name of a check or of a figure: they are in reports, file names, and the
/// options of other tools.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=64).contains(&text.len()) && text.chars().all(is_usual)
}

impl Figure {
    /// Returns the reference for a system, if there is one.
    #[must_use]
    pub fn reference_for(&self, system: &str) -> Option<f64> {
        let reference = self.reference.get(system).or_else(|| self.reference.get("*"));
        reference.map(|number| number.get())
    }

    /// Returns whether a number is within the limits around a reference.
    #[must_use]
    pub fn is_within(&self, number: f64, reference: f64) -> bool {
        let limit = |fraction: Decimal| reference + reference.abs() * fraction.get();
        self.lower.is_none_or(|lower| number >= limit(lower))
            && self.upper.is_none_or(|upper| number <= limit(upper))
    }
}

impl CheckList {
    /// Writes the list of a recipe: first the changes of built-in checks.
    #[must_use]
    pub fn new(checks: &RecipeChecks) -> Self {
        let changes = checks.builtins.iter().cloned().map(Item::Builtin);
        let items: Vec<Item> =
            changes.chain(checks.commands.iter().cloned().map(Item::Command)).collect();
        // Numbers are finite, and everything else can be written.
        Self(serde_json::to_string(&items).ok().filter(|_| !items.is_empty()))
    }

    pub(crate) fn of_text(text: &str) -> Self {
        Self(Some(text.to_owned()))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Reads the checks, in the order of the recipe.
    ///
    /// # Errors
    ///
    /// That they are malformed.
    pub fn read(&self) -> serde_json::Result<RecipeChecks> {
        let mut checks = RecipeChecks::default();
        let items: Vec<Item> = match &self.0 {
            Some(text) => serde_json::from_str(text)?,
            None => Vec::new(),
        };
        for item in items {
            match item {
                Item::Builtin(change) => checks.builtins.push(change),
                Item::Command(check) => checks.commands.push(check),
            }
        }
        Ok(checks)
    }
}

impl Serialize for CheckList {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // As it is: numbers too large for us are none for a reader either.
        let text = self.0.clone().unwrap_or_else(|| "[]".to_owned());
        RawValue::from_string(text).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BuiltinChange;

    fn number(number: f64) -> Decimal {
        number.try_into().unwrap()
    }

    fn bandwidth() -> Figure {
        Figure {
            name: "bandwidth".to_owned(),
            pattern: r"^4194304\s+(\S+)".to_owned(),
            unit: "MB/s".to_owned(),
            reference: [("daint".to_owned(), number(24000.0)), ("*".to_owned(), number(100.0))]
                .into(),
            lower: Some(number(-0.1)),
            upper: None,
        }
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        let check = Check {
            name: "bandwidth".to_owned(),
            command: vec!["osu_bw".to_owned()],
            view: Some("default".parse().unwrap()),
            ranks: 2,
            exit_code: 0,
            expect: Some("Bandwidth".to_owned()),
            limit: Some(60),
            figures: vec![bandwidth()],
        };
        let change = BuiltinChange {
            builtin: "programs".to_owned(),
            except: vec!["licensed".to_owned()],
            skip: false,
            reason: None,
        };
        assert!(change.is_possible());
        assert!(!BuiltinChange { skip: true, ..change.clone() }.is_possible());
        let checks = RecipeChecks { commands: vec![check], builtins: vec![change] };
        assert_eq!(CheckList::new(&checks).read().unwrap(), checks);
        assert!(CheckList::new(&RecipeChecks::default()).is_empty());
    }

    #[test]
    fn a_short_check_has_defaults() {
        let list = CheckList::of_text(r#"[{"name": "a", "command": ["true"], "later": 1}]"#);
        let checks = list.read().unwrap().commands;
        assert_eq!((checks[0].ranks, checks[0].exit_code), (1, 0));
        assert!(CheckList::of_text("{}").read().is_err());
    }

    #[test]
    fn limits_are_fractions_of_the_reference_of_the_system() {
        let figure = bandwidth();
        let reference = figure.reference_for("daint").unwrap();
        assert!(figure.is_within(21600.0, reference) && !figure.is_within(21599.0, reference));
        assert!(figure.is_within(1e9, reference));
        assert_eq!(figure.reference_for("eiger"), Some(100.0));
        // Below a negative reference is further from zero.
        assert!(figure.is_within(-110.0, -100.0) && !figure.is_within(-111.0, -100.0));
    }
}
