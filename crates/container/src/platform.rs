// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Platforms: for which machines an image is.

use std::fmt;
use std::str::FromStr;

use cabane_label::escape;
use serde::Deserialize;

use crate::Error;
use crate::document::Descriptor;

/// What Linux and Rust call architectures, and what container images call them.
const MACHINES: [(&str, &str); 4] =
    [("x86_64", "amd64"), ("aarch64", "arm64"), ("powerpc64", "ppc64le"), ("x86", "386")];

/// An operating system and an architecture, by the names of container images.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Platform {
    /// `linux`
    #[serde(default)]
    pub os: String,
    /// `amd64`, `arm64`
    #[serde(default)]
    pub architecture: String,
    /// `v8`, `v3`
    pub variant: Option<String>,
}

/// A text that names no platform.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a platform, such as `linux/amd64`", escape(.text))]
pub struct PlatformError {
    text: String,
}

impl Platform {
    /// Returns the platform of a machine of this architecture, as Linux and Rust call it.
    #[must_use]
    pub fn of_machine(architecture: &str) -> Self {
        let known = MACHINES.iter().find(|(machine, _)| *machine == architecture);
        Self {
            os: "linux".to_owned(),
            architecture: known.map_or(architecture, |(_, name)| name).to_owned(),
            variant: (architecture == "aarch64").then(|| "v8".to_owned()),
        }
    }

    /// Returns what the processors are called where a label has no microarchitecture, as
    /// `of_machine` takes it.
    #[must_use]
    pub fn machine(&self) -> &str {
        let known = MACHINES.iter().find(|(_, name)| *name == self.architecture);
        known.map_or(&self.architecture, |(machine, _)| machine)
    }

    /// How well an image for `other` fits here: `None` if not at all, and the more the better.
    ///
    /// A processor may run what is for a lesser variant. Which variant it has is not known
    /// where none is named; then the image without one is the best.
    pub(crate) fn fitness(&self, other: &Self) -> Option<u32> {
        if self.os != other.os || self.architecture != other.architecture {
            return None;
        }
        let level = |variant: &Option<String>| -> Option<u32> {
            variant.as_deref()?.strip_prefix('v')?.parse().ok()
        };
        match (&self.variant, &other.variant) {
            (wanted, there) if wanted == there => Some(100),
            (_, None) => Some(50),
            // All machines of this architecture are v8 at least.
            (None, Some(there)) if self.architecture == "arm64" && there == "v8" => Some(60),
            (Some(_), Some(_)) => {
                let (wanted, there) = (level(&self.variant)?, level(&other.variant)?);
                (there < wanted).then_some(there)
            }
            (None, Some(_)) => None,
        }
    }

    /// Chooses of an index what is for this platform.
    pub(crate) fn choose<'a>(&self, index: &'a [Descriptor]) -> Result<&'a Descriptor, Error> {
        let images = || index.iter().filter(|one| !one.is_attached);
        let fitting = images().filter_map(|one| Some((self.fitness(one.platform.as_ref()?)?, one)));
        // Of two that fit as well the first is taken, as others do.
        if let Some((_, best)) = fitting.rev().max_by_key(|(fitness, _)| *fitness) {
            return Ok(best);
        }
        // One without a platform is for whatever its configuration says.
        let mut bare = images().filter(|one| one.platform.is_none());
        if let (Some(one), None) = (bare.next(), bare.next()) {
            return Ok(one);
        }
        let there = images().filter_map(|one| Some(one.platform.as_ref()?.to_string()));
        Err(Error::no_platform(self, &there.collect::<Vec<_>>()))
    }

    /// Whether an image that says this about itself may be taken.
    pub fn takes(&self, other: &Self) -> bool {
        other.architecture == "unknown" || self.fitness(other).is_some()
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", escape(&self.os), escape(&self.architecture))?;
        match &self.variant {
            Some(variant) => write!(f, "/{}", escape(variant)),
            None => Ok(()),
        }
    }
}

impl FromStr for Platform {
    type Err = PlatformError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || PlatformError { text: text.to_owned() };
        let is_name = |part: &&str| -> bool {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        let parts: Vec<&str> = text.split('/').collect();
        if !parts.iter().all(is_name) {
            return Err(wrong());
        }
        let (os, architecture, variant) = match parts.as_slice() {
            [architecture] => ("linux", *architecture, None),
            [os, architecture] => (*os, *architecture, None),
            [os, architecture, variant] => (*os, *architecture, Some((*variant).to_owned())),
            _ => return Err(wrong()),
        };
        Ok(Self { os: os.to_owned(), architecture: architecture.to_owned(), variant })
    }
}
