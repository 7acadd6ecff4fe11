// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `config.toml`: what a site and its users have decided.
//!
//! A file is read into [`Settings`], in which everything may be absent. There
//! are several such files; [`Settings::merge`] lays one over the other. Where
//! they lie, what the environment says and what holds in the end is for the
//! caller: settings do not remember where they came from.

mod amount;
mod container;
mod mpi;
mod path;
mod read;
mod registry;
mod restricted;
mod trust;

use std::num::NonZeroU32;
use std::time::Duration;

use cabane_label::{System, Uarch};

pub use amount::{AmountError, parse_size, parse_time};
pub use container::{BindSetting, ContainerSettings};
pub use mpi::MpiRule;
pub use path::{PathTemplate, PathTemplateError};
pub use read::{SettingsError, parse_settings};
pub use registry::{ListingChoice, RegistrySettings};
pub use restricted::RestrictedRule;
pub use trust::{AtStart, Namespaces, Requirement, TrustPolicy, TrustRule};

/// What one or several configuration files say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Whether to print in colour.
    pub color: Option<ColorChoice>,
    /// The name of the system this is.
    pub system_name: Option<System>,
    /// The uarch to look for when a label names none.
    pub default_uarch: Option<Uarch>,
    /// Where images are looked for; no two have the same name.
    pub repositories: Vec<RepositorySettings>,
    /// How images are built.
    pub build: BuildSettings,
    /// Where images are shared.
    pub registry: RegistrySettings,
    /// Whose signatures images must have, as each file says it; all of them hold.
    pub trust: Vec<TrustPolicy>,
    /// Which images only a group may read; the first rule for one counts.
    pub restricted: Vec<RestrictedRule>,
    /// How images with a root file system of their own are entered.
    pub container: ContainerSettings,
    /// The MPIs of the machine that may take the place of others.
    pub mpi: Vec<MpiRule>,
}

/// When to print in colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorChoice {
    /// When somebody is looking.
    Auto,
    /// Always; also written as `true`.
    Always,
    /// Never; also written as `false`.
    Never,
}

/// A repository that is searched.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepositorySettings {
    /// What its users call it.
    pub name: String,
    /// The directory.
    pub path: PathTemplate,
    /// Those with higher priority are searched first.
    pub priority: i32,
    /// What is removed there when somebody asks for it.
    pub retention: RetentionSettings,
}

/// How long and how much is kept in a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetentionSettings {
    /// What was not used for so long is removed.
    pub older_than: Option<Duration>,
    /// So many of each name, system and micro-architecture are kept.
    pub keep_last: Option<NonZeroU32>,
    /// How many bytes the images may have together.
    pub max_size: Option<u64>,
    /// What was used or added within this time is kept whatever else is said.
    pub spare: Option<Duration>,
}

impl RepositorySettings {
    /// The priority of a repository for which none is given.
    pub const DEFAULT_PRIORITY: i32 = 10;
}

/// How images are built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildSettings {
    /// The format of new images.
    pub format: Option<FormatChoice>,
    /// How many things are done at the same time.
    pub jobs: Option<NonZeroU32>,
    /// Where builds take place.
    pub directory: Option<PathTemplate>,
    /// Where builds take place in memory if they fit and nothing else is said.
    pub memory: Option<PathTemplate>,
    /// Where downloads and the like are kept between builds.
    pub cache: Option<PathTemplate>,
    /// The program `uv`.
    pub uv: Option<PathTemplate>,
    /// A Python that has Spack's solver.
    pub spack_python: Option<PathTemplate>,
    /// Where Python packages come from, the first before the others.
    pub index_urls: Option<Vec<String>>,
}

/// The format of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatChoice {
    /// Squashfs.
    Squashfs,
    /// EROFS.
    Erofs,
}

impl Settings {
    /// Lays `higher` over `lower`: what it says holds, and what it leaves open
    /// is as in `lower`.
    ///
    /// Repositories are taken together; one of `higher` replaces one of
    /// `lower` with the same name, in its place. What either says about
    /// signatures holds.
    #[must_use]
    pub fn merge(lower: Self, higher: Self) -> Self {
        Self {
            color: higher.color.or(lower.color),
            system_name: higher.system_name.or(lower.system_name),
            default_uarch: higher.default_uarch.or(lower.default_uarch),
            repositories: merge_repositories(lower.repositories, higher.repositories),
            build: BuildSettings::merge(lower.build, higher.build),
            registry: RegistrySettings::merge(lower.registry, higher.registry),
            trust: [lower.trust, higher.trust].concat(),
            restricted: [lower.restricted, higher.restricted].concat(),
            mpi: [lower.mpi, higher.mpi].concat(),
            container: ContainerSettings {
                binds: [lower.container.binds, higher.container.binds].concat(),
                devices: [lower.container.devices, higher.container.devices].concat(),
            },
        }
    }
}

fn merge_repositories(
    lower: Vec<RepositorySettings>,
    higher: Vec<RepositorySettings>,
) -> Vec<RepositorySettings> {
    let mut merged = lower;
    for repository in higher {
        match merged
            .iter_mut()
            .find(|known| known.name == repository.name)
        {
            Some(known) => *known = repository,
            None => merged.push(repository),
        }
    }
    merged
}

impl BuildSettings {
    fn merge(lower: Self, higher: Self) -> Self {
        Self {
            format: higher.format.or(lower.format),
            jobs: higher.jobs.or(lower.jobs),
            directory: higher.directory.or(lower.directory),
            memory: higher.memory.or(lower.memory),
            cache: higher.cache.or(lower.cache),
            uv: higher.uv.or(lower.uv),
            spack_python: higher.spack_python.or(lower.spack_python),
            index_urls: higher.index_urls.or(lower.index_urls),
        }
    }
}
