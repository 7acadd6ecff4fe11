// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a host has, as `cabane system probe --facts` writes it.
//!
//! The file may come from another machine, and from an older or newer version. What is not known is
//! left out, and keys that are not known are skipped.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_label::shown;
use cabane_report::{Kind, Report, Result};
use serde::{Deserialize, Serialize};

/// The most that is read of a file, in bytes.
const MOST_BYTES: u64 = 64 << 20;

/// What a host has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct HostFacts {
    /// The version of this document.
    pub version: u32,
    /// The name that the operating system gives itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operating_system: Option<String>,
    /// The architecture, as the kernel calls it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    /// The release of the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The size of a page of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u64>,
    /// The version of the GNU C library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glibc: Option<String>,
    /// The features of the processor, as the kernel calls them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// The interpreters of Python in the usual places.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub python: Vec<PathBuf>,
    /// The values of `srun --mpi`, if Slurm is installed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub srun: Vec<String>,
    /// The GPUs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpu: Vec<HostGpu>,
    /// The packages that Spack could take from the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<HostPackage>,
    /// The directories of which all libraries are listed.
    pub searched: Vec<PathBuf>,
    /// The libraries that the loader finds, by name.
    pub libraries: Vec<HostLibrary>,
}

/// A library of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct HostLibrary {
    /// The name by which programs need it.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The versions of its symbols.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
}

/// A package of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostPackage {
    /// Its name, as Spack calls it.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Where it is.
    pub prefix: String,
}

/// The GPUs of a vendor in a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostGpu {
    /// `nvidia` or `amd`.
    pub vendor: String,
    /// The version of the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Their architectures, as Spack calls them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
}

impl HostFacts {
    pub(crate) const VERSION: u32 = 1;

    /// Reads a file with facts.
    ///
    /// # Errors
    ///
    /// That it cannot be read, or is no such file.
    pub fn read(path: &Path) -> Result<Self> {
        let refuse = |why: String| {
            let message = format!("cannot use the facts in {}: {why}", shown(path));
            let hint =
                "write the file on the other machine with `cabane system probe --facts FILE`";
            Report::new(Kind::BadInput, message).hinted(hint.to_owned())
        };
        let failed = |error: std::io::Error| {
            Report::caused(Kind::Failure, format!("cannot read {}", shown(path)), error)
        };
        if fs::metadata(path).map_err(failed)?.len() > MOST_BYTES {
            return Err(refuse("the file is larger than 64 MiB".to_owned()));
        }
        let text = fs::read(path).map_err(failed)?;
        let facts: Self =
            serde_json::from_slice(&text).map_err(|error| refuse(error.to_string()))?;
        if facts.version != Self::VERSION {
            return Err(refuse(format!("version {} of facts is not known", facts.version)));
        }
        Ok(facts)
    }

    /// Writes a file with facts.
    ///
    /// # Errors
    ///
    /// That it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        fs::write(path, self.to_json()).map_err(|error| {
            Report::caused(Kind::Failure, format!("cannot write {}", shown(path)), error)
        })
    }

    /// Writes the contents of a file with facts, with a newline at the end.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Only maps with keys that are not text, and values that refuse, can fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// Facts of a host, with what is looked up often.
#[derive(Debug)]
pub(crate) struct Host<'f> {
    pub(crate) facts: &'f HostFacts,
    libraries: HashMap<&'f str, Vec<&'f HostLibrary>>,
}

impl<'f> Host<'f> {
    pub(crate) fn new(facts: &'f HostFacts) -> Self {
        let mut libraries: HashMap<&str, Vec<&HostLibrary>> = HashMap::new();
        for library in &facts.libraries {
            libraries.entry(&library.name).or_default().push(library);
        }
        Self { facts, libraries }
    }

    /// Returns the libraries of a name.
    pub(crate) fn libraries(&self, name: &str) -> &[&'f HostLibrary] {
        self.libraries.get(name).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_the_future_and_other_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("facts.json");
        let refused = |text: &str| {
            fs::write(&path, text).unwrap();
            HostFacts::read(&path).unwrap_err().to_string()
        };
        assert!(refused(r#"{"version": 2}"#).ends_with("version 2 of facts is not known"));
        assert!(refused("[").contains("cannot use the facts in"));
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("facts.json");
        let library = HostLibrary {
            name: "libz.so.1".to_owned(),
            versions: vec!["ZLIB_1.2.9".to_owned()],
            ..HostLibrary::default()
        };
        let facts = HostFacts {
            version: HostFacts::VERSION,
            glibc: Some("2.36".to_owned()),
            libraries: vec![library],
            ..HostFacts::default()
        };
        fs::write(&path, facts.to_json()).unwrap();
        assert_eq!(HostFacts::read(&path).unwrap(), facts);
    }
}
