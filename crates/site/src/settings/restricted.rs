// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which images of a registry only a Unix group may read here.

use std::path::PathBuf;

use cabane_recipe::RestrictedRule;

use super::Layers;

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
    pub(super) fn restricted(&self) -> Vec<RestrictedSetting> {
        let settings = self.files.iter().flat_map(|(path, settings)| {
            settings
                .restricted
                .iter()
                .map(|rule| RestrictedSetting { file: path.clone(), rule: rule.clone() })
        });
        settings.collect()
    }
}
