// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The part of `config.toml` about signatures: which images must have one, and whose.
//!
//! Each file decides for itself. An image must do what all of them want, so that the file of
//! a user can add to what the site wants and take nothing away.

use cabane_label::Namespace;

use super::PathTemplate;
use super::sections::sections;
use super::values::path_template;
use crate::ask::{Field, Section, each};
use crate::diagnostic::quote;

/// Stands for all parts of a registry that have no rule of their own.
const ALL: &str = "*";

/// What one file says about signatures; there is at least one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustPolicy {
    /// The rules; no two are for the same part of a registry.
    pub rules: Vec<TrustRule>,
}

/// What is wanted of the images in a part of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustRule {
    /// For which part of a registry.
    pub namespaces: Namespaces,
    /// What is wanted.
    pub requirement: Requirement,
    /// Of which images it is wanted whenever one is started, too.
    pub at_start: AtStart,
}

/// Which images are checked when they are started, and not only when they are pulled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtStart {
    /// None.
    #[default]
    Never,
    /// Those that belong to another user than the one who starts them.
    Others,
    /// All.
    All,
}

impl AtStart {
    const WORDS: &[(&str, Self)] =
        &[("never", Self::Never), ("others", Self::Others), ("all", Self::All)];
}

/// The parts of a registry for which a rule is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// All that have no rule of their own.
    All,
    /// This one.
    One(Namespace),
}

impl Namespaces {
    /// Returns how it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::All => ALL,
            Self::One(namespace) => namespace.as_str(),
        }
    }
}

/// What an image must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// Nothing.
    Nothing,
    /// A signature that was made with one of these keys; there is at least one.
    Signature {
        /// Files with public keys.
        keys: Vec<PathTemplate>,
        /// What happens if the signature is not for the label, or older than what the label had.
        labels: Labels,
    },
}

/// What happens to an image whose signature does not fit its label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// A warning.
    #[default]
    Warn,
    /// It is not pulled.
    Refuse,
}

impl Labels {
    pub(super) fn read(field: &Field<'_>) -> Option<Self> {
        field.choice(&[("warn", Self::Warn), ("refuse", Self::Refuse)])
    }
}

impl TrustPolicy {
    /// Returns what is wanted of the images in a part of a registry.
    #[must_use]
    pub fn requirement(&self, namespace: &Namespace) -> &Requirement {
        let rule = self.rule(Some(namespace));
        rule.map_or(&Requirement::Nothing, |rule| &rule.requirement)
    }

    /// Returns the rule for a part of a registry, or for images of which no one knows where
    /// they come from.
    #[must_use]
    pub fn rule(&self, namespace: Option<&Namespace>) -> Option<&TrustRule> {
        let of = |wanted: &Namespaces| self.rules.iter().find(|rule| rule.namespaces == *wanted);
        let own = namespace.and_then(|namespace| of(&Namespaces::One(namespace.clone())));
        own.or_else(|| of(&Namespaces::All))
    }

    /// Returns whether anything is checked when an image is started.
    #[must_use]
    pub fn is_for_starts(&self) -> bool {
        self.rules.iter().any(|rule| rule.at_start != AtStart::Never)
    }
}

/// Reads the rules of a file; one with a mistake has been noted.
pub(super) fn read(file: &Section<'_>) -> Vec<TrustPolicy> {
    let mut rules: Vec<TrustRule> = Vec::new();
    for section in sections(file, "trust", "a rule of `trust`") {
        let hint = "add a line such as `namespace = \"deploy\"`, or `namespace = \"*\"` for all";
        let place = section.require("namespace", hint);
        let namespaces = place.as_ref().and_then(|field| namespaces(field));
        let requirement = requirement(&section);
        let at_start = at_start(&section);
        let (Some(place), Some(namespaces)) = (place, namespaces) else {
            continue;
        };
        if rules.iter().any(|known| known.namespaces == namespaces) {
            let message = format!("there are two rules for {}", quote(namespaces.as_str()));
            let hint = "several keys for one namespace go into the list `keys`";
            file.report.problem_with_hint(place.place(), &message, hint);
        } else if let (Some(requirement), Some(at_start)) = (requirement, at_start) {
            rules.push(TrustRule { namespaces, requirement, at_start });
        }
    }
    if rules.is_empty() { Vec::new() } else { vec![TrustPolicy { rules }] }
}

fn namespaces(field: &Field<'_>) -> Option<Namespaces> {
    if field.text()? == ALL {
        return Some(Namespaces::All);
    }
    field.word().map(Namespaces::One)
}

/// Returns nothing for a mistake.
fn at_start(section: &Section<'_>) -> Option<AtStart> {
    let Some(field) = section.get("at_start") else {
        return Some(AtStart::Never);
    };
    field.choice(AtStart::WORDS)
}

fn requirement(section: &Section<'_>) -> Option<Requirement> {
    let hint = "add a line `require = \"signature\"` or `require = \"nothing\"`";
    let field = section.require("require", hint)?;
    let wants_signature = field.choice(&[("signature", true), ("nothing", false)])?;
    if !wants_signature {
        let refused = [
            ("keys", "keys say nothing where nothing is required"),
            ("at_start", "where nothing is required there is nothing to check"),
            ("labels", "where nothing is required there is nothing to check"),
        ];
        for (key, message) in refused {
            if let Some(field) = section.get(key) {
                let hint = "write `require = \"signature\"` if a signature is wanted";
                return section.report.refuse(field.key_place, message, hint);
            }
        }
        return Some(Requirement::Nothing);
    }
    let example = "add a line such as `keys = [\"/etc/cabane/keys/site.pub\"]`";
    let keys = section.require("keys", example)?;
    let items = keys.items("a key")?;
    if items.is_empty() {
        return keys.refuse("a signature by no key is none", example);
    }
    let labels = match section.get("labels") {
        Some(field) => Labels::read(&field)?,
        None => Labels::default(),
    };
    Some(Requirement::Signature { keys: each(items, |item| path_template(&item))?, labels })
}
