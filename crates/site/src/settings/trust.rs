// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which images must be signed, and by whom: what each configuration file says.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use cabane_recipe::{Requirement, TrustPolicy};
use cabane_report::Result;

use super::{Layers, Origin, Variables};

/// What one configuration file says. All of them hold.
#[derive(Clone, Debug)]
pub struct TrustSetting {
    /// The file.
    pub file: PathBuf,
    /// What it says.
    pub policy: TrustPolicy,
}

impl Layers<'_> {
    pub(super) fn trust(&self) -> Vec<TrustSetting> {
        let settings = self.files.iter().flat_map(|(path, settings)| {
            settings
                .trust
                .iter()
                .map(|policy| TrustSetting { file: path.clone(), policy: policy.clone() })
        });
        settings.collect()
    }
}

impl TrustSetting {
    /// Returns the files of the keys that a rule of this file wants one of; `None` if it wants
    /// nothing.
    ///
    /// # Errors
    ///
    /// A path that cannot be filled in.
    pub fn keys(
        &self,
        requirement: &Requirement,
        calling: &BTreeMap<OsString, OsString>,
    ) -> Result<Option<Vec<PathBuf>>> {
        let Requirement::Signature { keys } = requirement else {
            return Ok(None);
        };
        let origin = Origin::File(self.file.clone());
        let keys = keys.iter().map(|key| Variables(calling).resolve(key, &origin));
        keys.collect::<Result<_>>().map(Some)
    }
}
