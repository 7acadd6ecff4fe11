// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The metadata that travels with an image.
//!
//! ```text
//! <image>/meta/
//! ├── env.json       version 1 of `env`, as uenv reads it; version 1 of `cabane`
//! └── packages.json  version 1: what is inside, see [`PackageList`](crate::PackageList)
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cabane_label::MountPoint;
use serde::{Serialize, Serializer};

use crate::{Container, EnvPatch, ViewName};

/// The contents of an image's `env.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The name of the image.
    ///
    /// It was written by the builder of the image, and may hold any text.
    pub name: String,
    /// What the image is for, in one sentence or more.
    pub description: Option<String>,
    /// Where the image must be mounted.
    pub mount: Option<MountPoint>,
    /// The view that is taken when none is requested; one of `views`.
    pub default_view: Option<ViewName>,
    /// The ways to enter the image.
    pub views: BTreeMap<ViewName, View>,
    /// What the image needs from the system.
    pub needs: Needs,
    /// What built the image: `python`, `tree`, `spack`, `container`.
    pub engine: Option<String>,
    /// What a root image says about itself; only these can be mounted at `/`.
    pub container: Option<Container>,
}

impl Meta {
    /// The largest `env.json` that is read, in bytes: 16 MiB.
    pub const MAX_SIZE: u64 = 16 * 1024 * 1024;
}

/// A named way to enter an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct View {
    /// What the view is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The directory inside of the image that the view shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// A shell script that does the same as the view; not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activate: Option<String>,
    /// What the view does to the variables.
    #[serde(rename = "env")]
    pub patch: EnvPatch,
}

/// What an image needs from the system it is used on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Needs {
    /// The interpreter of the system that the image was built with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<InterpreterNeed>,
    /// The oldest GNU C library with which all of its programs and libraries can be
    /// loaded: `2.34`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glibc: Option<String>,
    /// What its packages were compiled for, if that is more than any processor has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<ProcessorNeed>,
    /// Files and directories of the system to which it refers; a hundred at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<OutsideNeed>,
}

impl Needs {
    /// Says in a few words each what is needed, but for files outside.
    #[must_use]
    pub fn in_words(&self) -> Vec<String> {
        let interpreter = self.interpreter.iter();
        let interpreter =
            interpreter.map(|need| format!("Python {} at {}", need.version, need.path.display()));
        let glibc = self.glibc.iter().map(|version| format!("glibc {version}"));
        let processor = self.processor.iter();
        let processor =
            processor.map(|need| format!("a processor as good as {}", need.targets.join(" and ")));
        interpreter.chain(glibc).chain(processor).collect()
    }
}

/// A processor that can run what is in an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessorNeed {
    /// The names of what packages were compiled for, as Spack calls them: `x86_64_v3`.
    pub targets: Vec<String>,
    /// The features that all of them have together, by the names of the kernel.
    pub features: Vec<String>,
}

/// Something of the system to which an image refers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutsideNeed {
    /// Where it is.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// The package that it stands for, if it is one that was not built: `slurm@23.02`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
}

/// A program outside of the image that runs what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InterpreterNeed {
    /// Where it is: `/usr/bin/python3.11`.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// Its version: `3.11.2`.
    pub version: String,
}

/// Writes a path, of which what is not UTF-8 is changed.
fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}
