// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which images must be signed, and by whom, and which only a Unix group may read here: what each
//! configuration file says.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use cabane_recipe::{Requirement, RestrictedRule, TrustPolicy};
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

/// A rule of a configuration file. Of those for one image the first counts, and those of the
/// site come first.
#[derive(Clone, Debug)]
pub struct RestrictedSetting {
    /// The file.
    pub file: PathBuf,
    /// What it says.
    pub rule: RestrictedRule,
}

impl Layers<'_> {
    pub(super) fn trust(&self) -> Vec<TrustSetting> {
        let files = self.files.iter();
        let rules = files.flat_map(|(file, found)| found.trust.iter().map(move |one| (file, one)));
        rules.map(|(file, one)| TrustSetting { file: file.clone(), policy: one.clone() }).collect()
    }

    pub(super) fn restricted(&self) -> Vec<RestrictedSetting> {
        let files = self.files.iter();
        let rules =
            files.flat_map(|(file, found)| found.restricted.iter().map(move |one| (file, one)));
        rules
            .map(|(file, one)| RestrictedSetting { file: file.clone(), rule: one.clone() })
            .collect()
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
        let Requirement::Signature { keys, .. } = requirement else {
            return Ok(None);
        };
        let origin = Origin::File(self.file.clone());
        let keys = keys.iter().map(|key| Variables(calling).resolve(key, &origin));
        keys.collect::<Result<_>>().map(Some)
    }
}
