// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The steps of a build.

use std::fmt;

use cabane_label::{Digest, escape};
use serde::{Deserialize, Serialize};

use crate::fingerprint::Inputs;

/// One step of a plan.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Its name.
    pub name: StepName,
    /// What it does, in short.
    pub what: String,
    /// The commands it runs, as they could be typed in the sandbox.
    pub commands: Vec<String>,
    /// What goes into it, by name: digests, versions, settings.
    pub inputs: Inputs,
    /// Changes when the step would give another result.
    pub fingerprint: Digest,
    /// Whether it has been done.
    #[serde(flatten)]
    pub state: State,
}

/// Whether a step has been done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "reason")]
pub enum State {
    /// It has, with the same inputs.
    Done,
    /// It has not, and why.
    ToDo(String),
}

/// The name of a step; its log is called so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepName {
    /// The build tool and its recipes are there.
    Sources,
    /// Requirements become exact versions with hashes.
    Lock,
    /// Layers and files become the image in which commands run.
    Base,
    /// Commands of the recipe run in the image.
    Run,
    /// Specs become packages with all their variants.
    Concretize,
    /// The sources of packages are downloaded.
    Fetch,
    /// Packages are put into the tree.
    Install,
    /// Python modules are compiled.
    Bytecode,
    /// Views, module files and configuration are made.
    Views,
    /// Debug symbols are separated from programs and libraries.
    Split,
    /// Views and metadata are written.
    Metadata,
    /// The tree becomes an image.
    Pack,
    /// The debug symbols become an image.
    Symbols,
}

impl Step {
    /// Returns a step of a build elsewhere, of which the name alone is known here.
    #[must_use]
    pub fn named(name: StepName) -> Self {
        Self {
            name,
            what: String::new(),
            commands: Vec::new(),
            inputs: Inputs::new(),
            fingerprint: crate::digest_of(&[]),
            state: State::Done,
        }
    }
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::ToDo(reason) => write!(f, "to do: {}", escape(reason)),
        }
    }
}
