// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From metadata to `env.json`.
//!
//! The same metadata gives the same bytes, so that images built twice are
//! equal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cabane_label::MountPoint;
use serde::{Serialize, Serializer};

use crate::{
    Change, CheckList, Container, EnvPatch, ImageBase, ListOperation, Meta, Needs, View, ViewName,
};

impl Meta {
    /// Writes the contents of an `env.json`, with a newline at the end.
    ///
    /// What is read from it has the same effect; of each variable, changes
    /// that a later one makes void are left out. A path that is not UTF-8
    /// cannot be written in JSON and is changed.
    #[must_use]
    pub fn to_json(&self) -> String {
        let document = Document {
            name: &self.name,
            description: self.description.as_deref(),
            mount: self.mount.as_ref(),
            default_view: self.default_view.as_ref(),
            views: &self.views,
            cabane: OwnSection {
                version: 1,
                engine: self.engine.as_deref(),
                needs: (self.needs != Needs::default()).then_some(&self.needs),
                container: self.container.as_ref(),
                checks: &self.checks,
                bases: &self.bases,
            },
        };
        let mut text = match serde_json::to_string_pretty(&document) {
            Ok(text) => text,
            Err(error) => unreachable!("all keys are strings, all values plain: {error}"),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text);
        text
    }
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Document<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mount: Option<&'a MountPoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_view: Option<&'a ViewName>,
    views: &'a BTreeMap<ViewName, View>,
    cabane: OwnSection<'a>,
}

#[derive(Serialize)]
struct Env<'a> {
    version: u32,
    values: Values<'a>,
}

#[derive(Serialize)]
struct Values<'a> {
    #[serde(serialize_with = "lists")]
    list: &'a EnvPatch,
    #[serde(serialize_with = "scalars")]
    scalar: &'a EnvPatch,
}

#[derive(Serialize)]
struct Operation<'a> {
    op: ListOperation,
    value: &'a [String],
}

#[derive(Serialize)]
struct OwnSection<'a> {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    needs: Option<&'a Needs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<&'a Container>,
    #[serde(skip_serializing_if = "CheckList::is_empty")]
    checks: &'a CheckList,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    bases: &'a [ImageBase],
}

/// As the `env` of a view.
impl Serialize for EnvPatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = Values { list: self, scalar: self };
        Env { version: 1, values }.serialize(serializer)
    }
}

/// Returns the last change that gives a whole value, and the list operations
/// after it.
///
/// Nothing before it has an effect; and scalars are read before lists, so that
/// this pair is all that has to be written.
fn split(changes: &[Change]) -> (Option<&Change>, &[Change]) {
    match changes.iter().rposition(|change| !matches!(change, Change::List { .. })) {
        None => (None, changes),
        Some(last) => (Some(&changes[last]), &changes[last + 1..]),
    }
}

fn scalars<S: Serializer>(patch: &EnvPatch, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(patch.iter().filter_map(|(variable, changes)| match split(changes).0? {
        Change::Set(value) => Some((variable, Some(value))),
        _ => Some((variable, None)),
    }))
}

fn lists<S: Serializer>(patch: &EnvPatch, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(patch.iter().filter_map(|(variable, changes)| {
        let operations: Vec<_> = split(changes).1.iter().filter_map(operation).collect();
        (!operations.is_empty()).then_some((variable, operations))
    }))
}

fn operation(change: &Change) -> Option<Operation<'_>> {
    let Change::List { operation, values } = change else {
        return None;
    };
    Some(Operation { op: *operation, value: values })
}
