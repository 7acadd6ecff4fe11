// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is inside of an image: `meta/packages.json`.
//!
//! The file says it without the image being mounted. It is written by the builder of the
//! image, and is not trusted; keys that are not known are skipped.

use serde::de::Error as _;
use serde::{Deserialize, Serialize};

/// The packages of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageList {
    version: u32,
    /// In the order of their names, versions and hashes.
    pub packages: Vec<PackageRecord>,
}

/// One package.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PackageRecord {
    /// Its name.
    pub name: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// The hash that tells it from other builds of the same version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// What installed it: `spack`, `python`, or `easybuild`.
    pub manager: String,
    /// Its variants and flags, as Spack writes them: `+shared build_system=makefile`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variants: String,
    /// The compilers that made it: `gcc@12.2.0`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compilers: Vec<String>,
    /// The operating system it was built on: `debian12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// The processors it was built for: `x86_64_v3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Where it is when the image is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// How many bytes its files have; what is not in the image has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Whether the recipe asks for it, and not only another package.
    #[serde(default)]
    pub explicit: bool,
    /// Whether it is a part of the system, and not of the image.
    #[serde(default)]
    pub external: bool,
    /// The packages that it is linked with or runs, by their hashes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
}

impl PackageList {
    /// The name of the file in `meta/`.
    pub const FILE: &str = "packages.json";
    /// The most that is read, in bytes: 64 MiB.
    pub const MAX_SIZE: u64 = 64 * 1024 * 1024;
    const VERSION: u32 = 1;

    /// Makes a list; the packages are put in their order.
    #[must_use]
    pub fn new(mut packages: Vec<PackageRecord>) -> Self {
        packages.sort();
        packages.dedup();
        Self { version: Self::VERSION, packages }
    }

    /// Reads the contents of a `packages.json`.
    pub fn from_json(text: &[u8]) -> serde_json::Result<Self> {
        let list: Self = serde_json::from_slice(text)?;
        if list.version == Self::VERSION {
            return Ok(list);
        }
        let found = list.version;
        Err(serde_json::Error::custom(format_args!(
            "version {found} of the list of packages is not known"
        )))
    }

    /// Writes the contents of a `packages.json`, with a newline at the end: the same
    /// packages give the same bytes.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Only maps with keys that are not text, and values that refuse, can fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Returns how many packages the image holds, and how many of the system it uses.
    #[must_use]
    pub fn count(&self) -> (usize, usize) {
        let outside = self.packages.iter().filter(|one| one.external).count();
        (self.packages.len() - outside, outside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_in_which_packages_are_found_does_not_matter() {
        let [one, other] = ["zlib", "bzip2"]
            .map(|name| PackageRecord { name: name.to_owned(), ..PackageRecord::default() });
        let forward = PackageList::new(vec![one.clone(), other.clone()]).to_json();
        assert_eq!(forward, PackageList::new(vec![other, one]).to_json());
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        let list = PackageList::new(vec![PackageRecord {
            name: "lz4".to_owned(),
            size: Some(17),
            ..PackageRecord::default()
        }]);
        assert_eq!(PackageList::from_json(list.to_json().as_bytes()).ok(), Some(list));
    }

    #[test]
    fn a_list_of_the_future_is_refused() {
        let error = PackageList::from_json(br#"{"version": 2, "packages": []}"#).unwrap_err();
        assert_eq!(error.to_string(), "version 2 of the list of packages is not known");
    }
}
