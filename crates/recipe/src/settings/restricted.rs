// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The part of `config.toml` about images of a registry that only a Unix group may read here.

use cabane_label::{Label, LabelPattern, NameMatch, Namespace};

use super::sections::sections;
use crate::ask::{Field, Section};

/// Which images are for which group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestrictedRule {
    /// The images: a part of a registry, a name, or both, and whatever else a pattern has.
    pub images: LabelPattern,
    /// The name or the number of the group.
    pub group: String,
}

impl RestrictedRule {
    /// Returns whether the rule is for an image of a registry.
    #[must_use]
    pub fn is_for(&self, namespace: &Namespace, label: &Label) -> bool {
        let here = self.images.namespace.as_ref();
        here.is_none_or(|one| one == namespace) && self.images.matches(label, NameMatch::Exact)
    }
}

/// Reads the rules of a file; one with a mistake has been noted.
pub(super) fn read(file: &Section<'_>) -> Vec<RestrictedRule> {
    let mut rules: Vec<RestrictedRule> = Vec::new();
    for section in sections(file, "restricted", "a rule of `restricted`") {
        let hint = "add a line such as `images = \"licensed::\"` or `images = \"vasp\"`";
        let images = section.needed("images", hint, Field::word);
        let hint = "add a line such as `group = \"vaspusers\"`";
        let group = section.needed("group", hint, group_name);
        if let (Some(images), Some(group)) = (images, group) {
            rules.push(RestrictedRule { images, group });
        }
    }
    rules
}

fn group_name(field: &Field<'_>) -> Option<String> {
    let is_odd = |one: char| one.is_whitespace() || one.is_control() || one == ':';
    let is_name = |text: &str| !text.is_empty() && !text.starts_with('-') && !text.contains(is_odd);
    field.text_if(is_name, "is not the name of a group", "`id` lists your groups")
}
