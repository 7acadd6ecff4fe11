// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The `env.json` of an image.

use std::collections::BTreeMap;
use std::ffi::OsString;

use cabane_view::{Meta, MetaError, is_variable_name};

use super::{Verdict, compare};

/// Reads metadata, and enters each view.
pub fn run(bytes: &[u8]) -> Verdict {
    let meta = match Meta::from_json(bytes) {
        Ok(meta) => meta,
        Err(error) => return check_refusal(&error),
    };
    if let Some(name) = wrong_variable(&meta) {
        return Verdict::Wrong(format!("`{}` was made a variable", name.display()));
    }
    let printed = meta.to_json();
    compare(&meta, &printed, Meta::from_json(printed.as_bytes()))
}

fn check_refusal(error: &MetaError) -> Verdict {
    let message = error.to_string();
    if error.line == 0 || error.column == 0 || message.chars().any(char::is_control) {
        return Verdict::Wrong(format!("this cannot be shown: {message:?}"));
    }
    Verdict::Refused
}

/// Enters every view, and returns a variable that no process can have.
fn wrong_variable(meta: &Meta) -> Option<OsString> {
    let calling: BTreeMap<OsString, OsString> =
        [("PATH", "/usr/bin:/bin"), ("MANPATH", ":"), ("HOME", "/home/ada")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
    let mut environments = meta.views.values().map(|view| view.patch.apply(&calling));
    environments.find_map(|environment| {
        let is_wrong = |name: &OsString, value: &OsString| {
            !name.to_str().is_some_and(is_variable_name) || value.as_encoded_bytes().contains(&0)
        };
        environment.into_iter().find(|(name, value)| is_wrong(name, value)).map(|(name, _)| name)
    })
}
