// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an image with a root file system of its own says about itself.
//!
//! Such a *root image* is mounted at `/`, and was imported from a container image. Its
//! `env.json` has a `container` in the section `cabane`:
//!
//! ```json
//! "container": {
//!   "entrypoint": ["/entry.sh"], "command": ["serve"], "working-directory": "/data",
//!   "user": "1000:1000", "labels": {"org.opencontainers.image.version": "12"},
//!   "glibc": "2.36",
//!   "source": {"reference": "registry.example/tool:1", "platform": "linux/amd64",
//!              "manifest": "sha256:…", "index": "sha256:…", "configuration": "sha256:…"}
//! }
//! ```

use std::collections::BTreeMap;

use serde::Serialize;

/// What a root image says about itself, as the container image did from which it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Container {
    /// The program that is started, and its first arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entrypoint: Vec<String>,
    /// Its arguments where none are given; the program, if there is no entry point.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The directory in which it starts; an absolute path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// As whom it was meant to run. Not used: a command runs as the user who starts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What its author says about it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The version of the GNU C library in it, if it has one: `2.36`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glibc: Option<String>,
    /// From where it was imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ContainerSource>,
}

/// From where a root image was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ContainerSource {
    /// What was requested, in full: `registry.example/tool:1`.
    pub reference: String,
    /// Operating system and architecture, maybe with a variant: `linux/arm64/v8`.
    pub platform: String,
    /// The digest of the manifest, `sha256:…`, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// The digest of the index in which the manifest was found, if it was in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// The digest of its configuration, which names the content of all layers, where there is
    /// one: the same in a registry and in an archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
}

impl Container {
    /// Returns one that says nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entrypoint: Vec::new(),
            command: Vec::new(),
            working_directory: None,
            user: None,
            labels: BTreeMap::new(),
            glibc: None,
            source: None,
        }
    }
}
