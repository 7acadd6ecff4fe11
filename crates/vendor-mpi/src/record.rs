// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What was packed so far: a file for each version, beside the package for Spack.
//!
//! ```text
//! packages/vendor_mpich/
//! ├── package.py      made from all records
//! ├── 4.0.2.json      a record: the tarballs of a version, what it depends on
//! └── 4.1.json
//! ```
//!
//! The record is also what Spack takes for the source of a version: it names the
//! checksums of the tarballs, and so another tarball is another package.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use cabane_label::shown;
use cabane_recipe::{VendorLanguage, VendorManifest};
use cabane_report::{Kind, Report, Result};
use serde::{Deserialize, Serialize};

use crate::contents::make_directory;
use crate::failed;

/// A version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) description: Option<String>,
    pub(crate) homepage: Option<String>,
    pub(crate) url: Option<String>,
    /// The languages that have a wrapper.
    pub(crate) languages: Vec<String>,
    pub(crate) depends: Vec<String>,
    pub(crate) conflicts: Vec<(String, String)>,
    pub(crate) gpu: BTreeMap<String, Vec<String>>,
    /// By processors and compiler.
    pub(crate) tarballs: BTreeMap<String, BTreeMap<String, Recorded>>,
}

/// A tarball of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Recorded {
    pub(crate) file: String,
    pub(crate) sha256: String,
    /// The versions of the compiler that fit.
    pub(crate) versions: Option<String>,
}

/// A tarball that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tarball {
    /// The compiler.
    pub compiler: String,
    /// What it is called where the package has an address for it.
    pub file: String,
    /// Its checksum.
    pub sha256: String,
    /// How many bytes it has.
    pub size: u64,
}

impl Record {
    pub(crate) fn new(manifest: &VendorManifest, tarballs: &[Tarball]) -> Self {
        let wrappers = manifest.compilers.iter().flat_map(|compiler| &compiler.wrappers);
        let mut languages: BTreeSet<_> = wrappers.map(|wrapper| wrapper.language).collect();
        if languages.is_empty() {
            // What only runs is for a compiler as well.
            languages.insert(VendorLanguage::C);
        }
        let recorded = manifest.compilers.iter().zip(tarballs).map(|(compiler, tarball)| {
            let recorded = Recorded {
                file: tarball.file.clone(),
                sha256: tarball.sha256.clone(),
                versions: compiler.versions.clone(),
            };
            (compiler.name.value.clone(), recorded)
        });
        let gpu = manifest.gpu.iter().map(|gpu| (gpu.name.clone(), gpu.depends.clone()));
        Self {
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            description: manifest.description.clone(),
            homepage: manifest.homepage.clone(),
            url: manifest.url.clone(),
            languages: languages.iter().map(|language| language.name().to_owned()).collect(),
            depends: manifest.depends.clone(),
            conflicts: manifest.conflicts.clone(),
            gpu: gpu.collect(),
            tarballs: BTreeMap::from([(manifest.arch.clone(), recorded.collect())]),
        }
    }

    pub(crate) fn file_name(&self) -> String {
        format!("{}.json", self.version)
    }

    /// Returns the text of the file.
    pub(crate) fn text(&self) -> String {
        // These types have nothing that JSON has not.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Adds what an earlier record of the same version says about other processors.
    fn with(mut self, earlier: Option<Self>) -> Self {
        for (arch, tarballs) in earlier.into_iter().flat_map(|earlier| earlier.tarballs) {
            self.tarballs.entry(arch).or_insert(tarballs);
        }
        self
    }
}

/// Returns the records of all versions with a new one, the newest version first.
pub(crate) fn all(directory: &Path, new: Record) -> Result<Vec<Record>> {
    let mut records = earlier(directory)?;
    let same = records.iter().position(|record| record.version == new.version);
    let same = same.map(|at| records.remove(at));
    records.push(new.with(same));
    records.sort_by_key(|record| std::cmp::Reverse(parts(&record.version)));
    Ok(records)
}

fn earlier(directory: &Path) -> Result<Vec<Record>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("list", directory)(error)),
    };
    let mut records = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed("list", directory))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = fs::read(&path).map_err(failed("read", &path))?;
        let record = serde_json::from_slice(&text).map_err(|source| {
            let path = shown(&path);
            let text = format!("`{path}` is not what was written there");
            Report::caused(Kind::BadInput, text, source).hinted(format!("remove it: rm {path}"))
        });
        records.push(record?);
    }
    Ok(records)
}

/// The numbers and texts of a version, for sorting.
fn parts(version: &str) -> Vec<(u64, String)> {
    let parts = version.split(['.', '-', '_']);
    parts.map(|part| (part.parse().unwrap_or(0), part.to_owned())).collect()
}

/// Writes the records and the package.
pub(crate) fn save(directory: &Path, files: &[(String, String)]) -> Result<()> {
    make_directory(directory)?;
    for (name, text) in files {
        let path = directory.join(name);
        let before = fs::read(&path).ok();
        if before.as_deref() != Some(text.as_bytes()) {
            fs::write(&path, text).map_err(failed("write", &path))?;
        }
    }
    Ok(())
}
