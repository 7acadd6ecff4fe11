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

use crate::{Change, Container, EnvPatch, ListOperation, Meta, Needs, View, ViewName};

impl Meta {
    /// Writes the contents of an `env.json`, with a newline at the end.
    ///
    /// What is read from it has the same effect; of each variable, changes
    /// that a later one makes void are left out. A path that is not UTF-8
    /// cannot be written in JSON and is changed.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = match serde_json::to_string_pretty(&Document::from(self)) {
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
    mount: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_view: Option<&'a ViewName>,
    views: BTreeMap<&'a ViewName, ViewDocument<'a>>,
    cabane: OwnSection<'a>,
}

#[derive(Serialize)]
struct ViewDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    activate: Option<&'a str>,
    env: Env<'a>,
}

#[derive(Serialize)]
struct Env<'a> {
    version: u32,
    values: Values<'a>,
}

#[derive(Serialize)]
struct Values<'a> {
    list: Lists<'a>,
    scalar: Scalars<'a>,
}

struct Lists<'a>(&'a EnvPatch);

struct Scalars<'a>(&'a EnvPatch);

#[derive(Serialize)]
struct Operation<'a> {
    op: &'static str,
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
}

impl<'a> From<&'a Meta> for Document<'a> {
    fn from(meta: &'a Meta) -> Self {
        Self {
            name: &meta.name,
            description: meta.description.as_deref(),
            mount: meta.mount.as_ref().map(MountPoint::as_str),
            default_view: meta.default_view.as_ref(),
            views: meta.views.iter().map(|(name, view)| (name, view.into())).collect(),
            cabane: OwnSection {
                version: 1,
                engine: meta.engine.as_deref(),
                needs: (meta.needs != Needs::default()).then_some(&meta.needs),
                container: meta.container.as_ref(),
            },
        }
    }
}

impl<'a> From<&'a View> for ViewDocument<'a> {
    fn from(view: &'a View) -> Self {
        let values = Values { list: Lists(&view.patch), scalar: Scalars(&view.patch) };
        Self {
            description: view.description.as_deref(),
            root: view.root.as_deref(),
            activate: view.activate.as_deref(),
            env: Env { version: 1, values },
        }
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

impl Serialize for Scalars<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().filter_map(|(variable, changes)| {
            match split(changes).0? {
                Change::Set(value) => Some((variable, Some(value))),
                _ => Some((variable, None)),
            }
        }))
    }
}

impl Serialize for Lists<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().filter_map(|(variable, changes)| {
            let operations: Vec<_> = split(changes).1.iter().filter_map(operation).collect();
            (!operations.is_empty()).then_some((variable, operations))
        }))
    }
}

fn operation(change: &Change) -> Option<Operation<'_>> {
    let Change::List { operation, values } = change else {
        return None;
    };
    let op = match operation {
        ListOperation::Set => "set",
        ListOperation::Prepend => "prepend",
        ListOperation::Append => "append",
        ListOperation::Unset => "unset",
    };
    Some(Operation { op, value: values })
}
