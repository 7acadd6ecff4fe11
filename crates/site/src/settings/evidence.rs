// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whose evidence counts.

use std::path::PathBuf;

use cabane_recipe::{EvidenceSettings, PathTemplate, Settings};
use cabane_report::Result;

use super::{Layers, Origin};

/// Whose statements about tests and builds count, and since when.
#[derive(Clone, Debug, Default)]
pub struct EvidenceSetting {
    /// Files with the public keys of testers.
    pub testers: Vec<PathBuf>,
    /// Files with the public keys of builders.
    pub builders: Vec<PathBuf>,
    /// The URI of what builds images here.
    pub builder_id: Option<String>,
    /// The present generation of the system.
    pub generation: Option<String>,
}

impl Layers<'_> {
    /// Returns whose evidence counts. What the file of the site says, no other file changes.
    pub(super) fn evidence(&self) -> Result<EvidenceSetting> {
        let word = |word: fn(&EvidenceSettings) -> &Option<String>| {
            self.files.iter().find_map(|(_, found)| word(&found.evidence).clone())
        };
        Ok(EvidenceSetting {
            testers: self.keys(|file| file.evidence.testers.as_ref())?,
            builders: self.keys(|file| file.evidence.builders.as_ref())?,
            builder_id: word(|evidence| &evidence.builder_id),
            generation: word(|evidence| &evidence.generation),
        })
    }

    /// Returns the keys that the first file with such a list names.
    pub(super) fn keys(
        &self,
        list: fn(&Settings) -> Option<&Vec<PathTemplate>>,
    ) -> Result<Vec<PathBuf>> {
        let mut files = self.files.iter();
        let named = files.find_map(|(file, found)| Some((file, list(found)?)));
        let Some((file, keys)) = named else {
            return Ok(Vec::new());
        };
        let origin = Origin::File(file.clone());
        keys.iter().map(|path| self.variables.resolve(path, &origin)).collect()
    }
}
