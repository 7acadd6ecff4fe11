// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What Spack notes beside a package: where its source came from, and its license.
//!
//! Spack 1.2 and later write it for the package and for all that it depends on, so that
//! one of them knows the license of what belongs to the system, too.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::disk;
use crate::inside::SourceFile;

/// The most that is read of one file, in bytes.
const MOST: u64 = 4 << 20;
/// What Spack writes where it does not know.
const UNKNOWN: [&str; 3] = ["NOASSERTION", "NONE", "UNKNOWN"];

/// Notes about packages, by name and version.
#[derive(Debug, Default)]
pub(super) struct Notes(BTreeMap<(String, String), Note>);

/// What is noted about one package.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Note {
    name: String,
    #[serde(default)]
    version_info: String,
    #[serde(default)]
    download_location: String,
    #[serde(default)]
    license_declared: String,
    #[serde(default, alias = "checksums")]
    checksum: Vec<Checksum>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Checksum {
    algorithm: String,
    checksum_value: String,
}

#[derive(Deserialize)]
struct Document {
    packages: Vec<Note>,
}

impl Notes {
    /// Adds what a file says. Older Spack writes none, and a build does not fail for it.
    pub(super) fn read(&mut self, path: &Path) {
        let text = disk::read_start(path, MOST).unwrap_or_default();
        let Ok(document) = serde_json::from_slice::<Document>(&text) else {
            return;
        };
        for note in document.packages {
            let key = (note.name.clone(), note.version_info.clone());
            self.0.entry(key).or_insert(note);
        }
    }

    pub(super) fn find(&self, name: &str, version: &str) -> Option<&Note> {
        self.0.get(&(name.to_owned(), version.to_owned()))
    }
}

impl Note {
    pub(super) fn licence(&self) -> Option<String> {
        known(&self.license_declared)
    }

    pub(super) fn source(&self) -> Option<SourceFile> {
        let sha256 = self.checksum.iter().find(|one| one.algorithm == "SHA256");
        Some(SourceFile {
            url: known(&self.download_location)?,
            sha256: sha256.map(|one| one.checksum_value.clone()),
        })
    }
}

fn known(text: &str) -> Option<String> {
    (!text.is_empty() && !UNKNOWN.contains(&text)).then(|| text.to_owned())
}
