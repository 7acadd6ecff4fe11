// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an image needs of the system, as it is in `env.json`.

use serde::Serialize;

use crate::{InterpreterNeed, Needs, OutsideNeed, ProcessorNeed};

#[derive(Serialize)]
pub(crate) struct NeedsDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    interpreter: Option<Interpreter<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    glibc: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processor: Option<Processor<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outside: Vec<Outside<'a>>,
}

#[derive(Serialize)]
struct Interpreter<'a> {
    path: String,
    version: &'a str,
}

#[derive(Serialize)]
struct Processor<'a> {
    targets: &'a [String],
    features: &'a [String],
}

#[derive(Serialize)]
struct Outside<'a> {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    package: Option<&'a str>,
}

impl<'a> NeedsDocument<'a> {
    /// Returns nothing where nothing is needed.
    pub(crate) fn of(needs: &'a Needs) -> Option<Self> {
        (*needs != Needs::default()).then(|| Self {
            interpreter: needs.interpreter.as_ref().map(Interpreter::from),
            glibc: needs.glibc.as_deref(),
            processor: needs.processor.as_ref().map(Processor::from),
            outside: needs.outside.iter().map(Outside::from).collect(),
        })
    }
}

impl<'a> From<&'a InterpreterNeed> for Interpreter<'a> {
    fn from(need: &'a InterpreterNeed) -> Self {
        Self { path: need.path.to_string_lossy().into_owned(), version: &need.version }
    }
}

impl<'a> From<&'a ProcessorNeed> for Processor<'a> {
    fn from(need: &'a ProcessorNeed) -> Self {
        Self { targets: &need.targets, features: &need.features }
    }
}

impl<'a> From<&'a OutsideNeed> for Outside<'a> {
    fn from(need: &'a OutsideNeed) -> Self {
        Self { path: need.path.to_string_lossy().into_owned(), package: need.package.as_deref() }
    }
}
