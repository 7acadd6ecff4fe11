// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `config.toml`: what a site and its users have configured.
//!
//! Each file is read into [`Settings`]. Where the files are, and which of several values is in
//! effect, is for the caller to decide.

mod amount;
mod channel;
mod container;
mod evidence;
mod mpi;
mod path;
mod read;
mod restricted;
mod sections;
pub mod table;
mod trust;
mod uenv;
mod values;

use std::num::NonZeroU32;
use std::time::Duration;

pub use amount::{AmountError, parse_size, parse_time};
pub use channel::{ChannelRule, GateRules, Regressions};
pub use container::{BindSetting, ContainerSettings};
pub use evidence::EvidenceSettings;
pub use mpi::MpiRule;
pub use path::{PathTemplate, PathTemplateError};
pub use read::parse_settings;
pub use restricted::RestrictedRule;
pub use trust::{AtStart, Labels, Namespaces, Requirement, TrustPolicy, TrustRule};
pub use uenv::parse_uenv_settings;

/// The content of one configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The settings with one value, by key.
    values: Vec<(&'static str, String)>,
    /// The indexes of Python packages, the first before the others.
    pub index_urls: Option<Vec<String>>,
    /// Files with the public keys that sign packages of the shared cache.
    pub shared_cache_keys: Option<Vec<PathTemplate>>,
    /// Hosts that may get the password for a registry.
    pub token_services: Vec<String>,
    /// Where images are looked for; no two have the same name.
    pub repositories: Vec<RepositorySettings>,
    /// Whose signatures images must have.
    pub trust: Vec<TrustPolicy>,
    /// The channels; of two for one channel, that of the site counts.
    pub channels: Vec<ChannelRule>,
    /// Whose evidence counts.
    pub evidence: EvidenceSettings,
    /// Files with the public keys of releases of Cabane.
    pub update_keys: Option<Vec<PathTemplate>>,
    /// Which images only a group may read; the first rule for one counts.
    pub restricted: Vec<RestrictedRule>,
    /// How container images are entered.
    pub container: ContainerSettings,
    /// The MPIs of the machine that may replace others.
    pub mpi: Vec<MpiRule>,
    /// In a file of uenv: the collector of the records of job steps.
    pub elastic: Option<String>,
}

impl Settings {
    /// Returns a setting with one value, as valid text; `None` if the file does not have it.
    pub fn get(&self, setting: &table::Setting) -> Option<&str> {
        let found = self.values.iter().find(|(key, _)| *key == setting.key);
        found.map(|(_, value)| value.as_str())
    }
}

/// A repository that is searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositorySettings {
    /// What its users call it.
    pub name: String,
    /// The directory.
    pub path: PathTemplate,
    /// Those with higher priority are searched first.
    pub priority: i32,
    /// What `cabane repo gc` removes there.
    pub retention: RetentionSettings,
}

/// How long and how much is kept in a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionSettings {
    /// What was not used for so long is removed.
    pub older_than: Option<Duration>,
    /// So many of each name, system and microarchitecture are kept.
    pub keep_last: Option<NonZeroU32>,
    /// How many bytes the images may have together.
    pub max_size: Option<u64>,
    /// What was used or added within this time is kept whatever the other limits are.
    pub spare: Option<Duration>,
    /// Images that were not used for so long are deduplicated.
    pub deduplicate: Option<Duration>,
}

impl RepositorySettings {
    /// The priority of a repository for which none is given.
    pub const DEFAULT_PRIORITY: i32 = 10;
}
