// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an image needs of the host and offers, in full: `meta/needs.json`.
//!
//! `env.json` has the part of it that is checked at every start. This file has the rest, and says who
//! in the image needs it. It is made from the files of the image alone, so that the same tree gives
//! the same file on every machine. It was written by the builder of the image, and is not trusted;
//! keys that are not known are skipped.

use serde::de::Error as _;
use serde::{Deserialize, Serialize};

mod gather;

pub use gather::FileLinks;

/// What an image needs of the host, and what it offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct HostNeeds {
    /// The version of this document.
    pub version: u32,
    /// How many programs and libraries were read.
    pub files: u64,
    /// For which architectures they are, as the kernel calls them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
    /// The largest size of a page of memory with which all of them can be loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u64>,
    /// The libraries that are needed and that the image does not have, by name.
    pub libraries: Vec<NeededLibrary>,
    /// Directories outside of the image in which its files look for libraries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub search_paths: Vec<String>,
    /// The libraries that the image has.
    pub provides: Vec<ProvidedLibrary>,
    /// The MPIs that the image has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mpi: Vec<ProvidedMpi>,
    /// The GPUs for which it was built.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpu: Vec<NeededGpu>,
    /// The packages of the system on which its own packages were built.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub externals: Vec<NeededExternal>,
    /// Whether some of it was left out, because there was too much.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

/// A library of the host that an image needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct NeededLibrary {
    /// Its soname: `libibverbs.so.1`.
    pub name: String,
    /// The versions of its symbols that are needed: `IBVERBS_1.1`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
    /// Those that need not be there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weak_versions: Vec<String>,
    /// The first files that need it, relative to the root of the image.
    pub users: Vec<String>,
    /// How many files need it.
    pub count: u64,
    /// Whether no program of the image is linked with it, directly or through libraries of the
    /// image. Plugins and modules of Python are loaded later, if at all.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub later: bool,
}

/// A library that an image has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ProvidedLibrary {
    /// Its soname.
    pub name: String,
    /// The versions of its symbols.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
}

/// An MPI that an image has.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ProvidedMpi {
    /// Its family: `mpich`, `open-mpi`, or `mpi5-abi`.
    pub family: String,
    /// Who makes it.
    pub product: String,
    /// Its version, if it tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The values of `srun --mpi` with which its ranks find each other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub srun: Vec<String>,
}

/// GPUs for which packages of an image were built.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct NeededGpu {
    /// `nvidia` or `amd`.
    pub vendor: String,
    /// The architectures, as Spack calls them: `90`, `gfx90a`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
    /// The version of CUDA or `ROCm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toolkit: Option<String>,
}

/// A package of the system that packages of an image use.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct NeededExternal {
    /// Its name, as Spack calls it.
    pub name: String,
    /// The version with which the image was built.
    pub version: String,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The first packages of the image that are linked with it or run it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<String>,
    /// How many there are.
    pub count: u64,
}

impl HostNeeds {
    /// The name of the file in `meta/`.
    pub const FILE: &str = "needs.json";
    /// The most that is read, in bytes: 16 MiB.
    pub const MAX_SIZE: u64 = 16 * 1024 * 1024;
    /// How many users and dependents are named.
    pub const MOST_NAMED: usize = 5;
    /// The version of this document.
    pub const VERSION: u32 = 1;

    /// Reads the contents of a `needs.json`.
    ///
    /// # Errors
    ///
    /// What is no such document, or one of another version.
    pub fn from_json(text: &[u8]) -> serde_json::Result<Self> {
        if text.len() as u64 > Self::MAX_SIZE {
            return Err(serde_json::Error::custom("the file is larger than 16 MiB"));
        }
        let needs: Self = serde_json::from_slice(text)?;
        if needs.version == Self::VERSION {
            return Ok(needs);
        }
        let found = needs.version;
        Err(serde_json::Error::custom(format_args!(
            "version {found} of the needs of an image is not known"
        )))
    }

    /// Writes the contents of a `needs.json`, with a newline at the end: the same needs give the
    /// same bytes.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Only maps with keys that are not text, and values that refuse, can fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Returns the needed libraries that a start checks: those without which no program of the
    /// image starts that is linked with them. The C library is checked by its version.
    pub fn at_start(&self) -> impl Iterator<Item = &NeededLibrary> {
        self.libraries.iter().filter(|one| !one.later && !is_of_c_library(&one.name))
    }
}

/// Tells whether a library is a part of the GNU C library, whose version says all about it.
#[must_use]
pub fn is_of_c_library(soname: &str) -> bool {
    const PARTS: [&str; 11] = [
        "libBrokenLocale",
        "libanl",
        "libc",
        "libc_malloc_debug",
        "libdl",
        "libm",
        "libmvec",
        "libpthread",
        "libresolv",
        "librt",
        "libutil",
    ];
    let stem = soname.split_once(".so").map_or(soname, |(stem, _)| stem);
    PARTS.contains(&stem) || stem.starts_with("ld-linux") || stem == "ld64"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_again() {
        let needs = HostNeeds::gather(Vec::new(), &std::collections::BTreeSet::new());
        assert_eq!(HostNeeds::from_json(needs.to_json().as_bytes()).ok(), Some(needs));
    }

    #[test]
    fn needs_of_the_future_are_refused_and_new_keys_are_skipped() {
        let error = HostNeeds::from_json(br#"{"version": 2}"#).unwrap_err();
        assert_eq!(error.to_string(), "version 2 of the needs of an image is not known");
        assert!(HostNeeds::from_json(br#"{"version": 1, "moon": "full"}"#).is_ok());
    }

    #[test]
    fn what_is_no_document_has_no_needs() {
        for text in ["", "[]", "{}", r#"{"version": 1, "libraries": 7}"#] {
            assert!(HostNeeds::from_json(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn the_parts_of_the_c_library_are_known_by_name() {
        let names = ["libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6", "libpthread.so.0"];
        assert!(names.iter().all(|name| is_of_c_library(name)));
        assert!(
            !["libcrypt.so.1", "libnsl.so.1", "libz.so.1"].iter().any(|one| is_of_c_library(one))
        );
    }
}
