// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Bases: what a recipe builds on, under a name that can mean something else tomorrow.

use std::collections::BTreeMap;
use std::fmt;

use cabane_label::{Digest, escape};
use cabane_recipe::{EngineConfig, GitSource, Recipe, SpackVersion};
use serde::{Deserialize, Serialize};

use crate::materials::split_digest;
use crate::spack::{is_archive, is_commit};
use crate::{BuildError, Result};

/// How a root image of a repository is named in `from:`.
pub(crate) const OWN: &str = "image:";
/// How files and directories are named in `from:`.
const FILES: [&str; 5] = ["oci:", "oci-archive:", "docker-archive:", "sif:", "dir:"];

/// What a recipe builds on, under a name that can mean something else tomorrow: a tag of a container
/// registry, a label, or a branch or tag of a Git repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Base {
    /// A container image in a registry.
    Container {
        /// Its name as the recipe has it.
        name: String,
        /// The platform that the recipe wants, `linux/arm64`.
        platform: Option<String>,
    },
    /// The label of an image in a repository of Cabane, as it is typed.
    Image(String),
    /// A Git repository.
    Git {
        /// Its address.
        repo: String,
        /// The branch or tag; `None` is what the repository has by default.
        reference: Option<String>,
    },
}

impl Base {
    fn of_git(source: &GitSource) -> Option<Self> {
        let is_fixed = source.commit.as_deref().is_some_and(is_commit) || is_archive(&source.repo);
        (!is_fixed)
            .then(|| Self::Git { repo: source.repo.clone(), reference: source.commit.clone() })
    }

    fn of_container(from: &str, platform: Option<&str>) -> Option<Self> {
        if let Some(label) = from.strip_prefix(OWN) {
            return Some(Self::Image(label.to_owned()));
        }
        let is_fixed = from.contains('@') || FILES.iter().any(|kind| from.starts_with(kind));
        (!is_fixed).then(|| Self::Container {
            name: from.to_owned(),
            platform: platform.map(str::to_owned),
        })
    }
}

impl Base {
    /// Whether a text is a digest or a commit, as the kind of the base wants it. It becomes an
    /// argument of Git.
    fn may_mean(&self, text: &str) -> bool {
        match self {
            Self::Git { .. } => is_commit(text),
            Self::Container { .. } | Self::Image(_) => text
                .strip_prefix("sha256:")
                .is_some_and(|digits| digits.len() == 64 && is_commit(digits)),
        }
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container { name, platform: None } => f.write_str(name),
            Self::Container { name, platform: Some(platform) } => write!(f, "{name} {platform}"),
            Self::Image(label) => write!(f, "{OWN}{label}"),
            Self::Git { repo, reference } => {
                write!(f, "{repo}@{}", reference.as_deref().unwrap_or("HEAD"))
            }
        }
    }
}

/// Returns the bases of a recipe, each once. Names with a digest or a commit are none, and neither are files.
#[must_use]
pub fn bases(recipe: &Recipe) -> Vec<Base> {
    let mut bases: Vec<Base> = match &recipe.engine {
        EngineConfig::Python(_) | EngineConfig::Tree(_) | EngineConfig::EasyBuild(_) => Vec::new(),
        EngineConfig::Container(config) => {
            let from = Base::of_container(&config.from, config.platform.as_deref());
            // A path names one file.
            let labels = config.images.iter().filter(|name| !name.starts_with(['/', '.', '~']));
            from.into_iter().chain(labels.cloned().map(Base::Image)).collect()
        }
        EngineConfig::Spack(config) => {
            let version = SpackVersion::of_commit(config.source.commit.as_deref(), recipe.format);
            let packages = cabane_spack::package_repositories(config, version);
            let sources = packages.into_iter().map(|one| one.source);
            let sources = sources.chain([config.source.clone()]);
            // A digest means one image.
            let label = config.base.iter().filter(|name| name.parse::<Digest>().is_err());
            let label = label.cloned().map(Base::Image);
            sources.filter_map(|one| Base::of_git(&one)).chain(label).collect()
        }
    };
    bases.sort();
    bases.dedup();
    bases
}

/// What some bases mean in a build, whatever they mean now: the name of each, and its digest or commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pins(BTreeMap<String, String>);

impl Pins {
    /// Returns what a base means: the digest `sha256:…` of an image, or the commit of a Git repository.
    /// `None` if it is not pinned, or not to something of its kind.
    #[must_use]
    pub fn of(&self, base: &Base) -> Option<&str> {
        let meaning = self.0.get(&base.to_string()).map(String::as_str);
        meaning.filter(|meaning| base.may_mean(meaning))
    }

    /// Says what a base means, and returns what it meant before.
    pub fn pin(&mut self, base: &Base, meaning: String) -> Option<String> {
        self.0.insert(base.to_string(), meaning)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns each name and its meaning.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, meaning)| (name.as_str(), meaning.as_str()))
    }

    /// Returns the first name that these pins and others do not agree about.
    #[must_use]
    pub fn difference<'a>(&'a self, other: &'a Self) -> Option<&'a str> {
        let differs = |name: &&String| self.0.get(*name) != other.0.get(*name);
        self.0.keys().chain(other.0.keys()).find(differs).map(String::as_str)
    }

    /// Returns the commit of a Git repository, as it is named or as it is pinned.
    pub(crate) fn commit_of(&self, source: &GitSource) -> Option<String> {
        let pinned = Base::of_git(source).and_then(|base| self.of(&base).map(str::to_owned));
        pinned.or_else(|| source.commit.clone())
    }

    /// Returns the name of a container image with its digest, if that is pinned.
    pub(crate) fn container(&self, from: &str, platform: Option<&str>) -> String {
        match Base::of_container(from, platform) {
            Some(base @ Base::Container { .. }) => match self.of(&base) {
                Some(digest) => format!("{from}@{digest}"),
                None => from.to_owned(),
            },
            _ => from.to_owned(),
        }
    }

    /// Returns the digest that an image of a repository must have, `sha256:…`.
    pub(crate) fn image(&self, label: &str) -> Option<&str> {
        self.of(&Base::Image(label.to_owned()))
    }
}

/// Fails if a label is pinned to another image than those that were found.
pub(crate) fn check_pin<'a>(
    pins: &Pins,
    label: &str,
    mut found: impl Iterator<Item = &'a str>,
) -> Result<()> {
    let Some(pin) = pins.image(label) else { return Ok(()) };
    // With and without the name of the algorithm.
    if found.any(|digest| split_digest(digest).1 == split_digest(pin).1) {
        return Ok(());
    }
    let message = format!("`{}` has changed: the lock file pins {pin}", escape(label));
    Err(BuildError::refused(message, "`cabane pipeline lock` pins the current image"))
}
