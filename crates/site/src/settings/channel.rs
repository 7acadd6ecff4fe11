// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The channels: which there are, and whose keys count.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cabane_label::{ChannelName, Namespace};
use cabane_recipe::{ChannelRule, Labels, PathTemplate, Regressions};
use cabane_report::Result;

use super::{Layers, Origin};

/// A channel of a configuration file.
#[derive(Clone, Debug)]
pub struct ChannelSetting {
    /// The file.
    pub file: PathBuf,
    /// The channel.
    pub name: ChannelName,
    /// The part of the registry.
    pub namespace: Namespace,
    /// Files with the public keys of the release managers.
    pub keys: Vec<PathBuf>,
    /// What happens when a document has expired.
    pub expired: Labels,
    /// The lowest serial number that is accepted.
    pub minimum_serial: u64,
    /// Files with public keys; an image that is promoted has a signature of one of them.
    pub signed_by: Vec<PathBuf>,
    /// The channel in which an image must be to be promoted.
    pub from: Option<ChannelName>,
    /// For how long.
    pub age: Option<Duration>,
    /// Within which time its checks must have passed.
    pub tested_within: Option<Duration>,
    /// The Git repositories of which one must have its recipe; `*` is any recipe.
    pub built_from: Vec<String>,
    /// What happens if a figure of its checks is worse than that of the released image.
    pub regressions: Option<Regressions>,
    /// Files with facts of hosts on which it must run.
    pub runs_on: Vec<PathBuf>,
    /// The suites of `ReFrame` that its newest results must have.
    pub suites: Vec<String>,
}

impl Layers<'_> {
    /// Returns the channels, those of the site first. A file cannot replace a channel of a file before
    /// it: the site says whose keys count.
    pub(super) fn channels(&self, default: &Namespace) -> Result<Vec<ChannelSetting>> {
        let mut channels: Vec<ChannelSetting> = Vec::new();
        for (file, settings) in &self.files {
            for rule in &settings.channels {
                let channel = self.channel(file, rule, default)?;
                let is_same = |known: &ChannelSetting| {
                    known.name == channel.name && known.namespace == channel.namespace
                };
                if !channels.iter().any(is_same) {
                    channels.push(channel);
                }
            }
        }
        Ok(channels)
    }

    fn channel(
        &self,
        file: &Path,
        rule: &ChannelRule,
        default: &Namespace,
    ) -> Result<ChannelSetting> {
        let origin = Origin::File(file.to_owned());
        let paths = |templates: &[PathTemplate]| {
            let paths = templates.iter().map(|path| self.variables.resolve(path, &origin));
            paths.collect::<Result<Vec<_>>>()
        };
        Ok(ChannelSetting {
            file: file.to_owned(),
            name: rule.name.clone(),
            namespace: rule.namespace.as_ref().unwrap_or(default).clone(),
            keys: paths(&rule.keys)?,
            expired: rule.expired,
            minimum_serial: rule.minimum_serial,
            signed_by: paths(&rule.gate.signed_by)?,
            from: rule.gate.from.clone(),
            age: rule.gate.age,
            tested_within: rule.gate.tested_within,
            built_from: rule.gate.built_from.clone(),
            regressions: rule.gate.regressions,
            runs_on: paths(&rule.gate.runs_on)?,
            suites: rule.gate.suites.clone(),
        })
    }
}
