// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whose evidence counts.

use std::path::PathBuf;

use cabane_report::Result;

use super::{Layers, Origin};

/// Whose test results count, and since when.
#[derive(Clone, Debug, Default)]
pub struct EvidenceSetting {
    /// Files with the public keys of testers.
    pub testers: Vec<PathBuf>,
    /// The present generation of the system.
    pub generation: Option<String>,
}

impl Layers<'_> {
    /// Returns whose evidence counts. What the file of the site says, no other file changes.
    pub(super) fn evidence(&self) -> Result<EvidenceSetting> {
        let mut files = self.files.iter();
        let named = files.find_map(|(file, found)| Some((file, found.evidence.testers.as_ref()?)));
        let testers = match named {
            Some((file, testers)) => {
                let origin = Origin::File(file.clone());
                let paths = testers.iter().map(|path| self.variables.resolve(path, &origin));
                paths.collect::<Result<_>>()?
            }
            None => Vec::new(),
        };
        let generation = self.files.iter().find_map(|(_, found)| found.evidence.generation.clone());
        Ok(EvidenceSetting { testers, generation })
    }
}
