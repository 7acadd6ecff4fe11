// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The cells of a pipeline: one recipe, built for one system.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use cabane_builder::{Base, Pins};
use cabane_evidence::Configuration;
use cabane_label::{
    Digest, Label, LabelPattern, MountPoint, Name, NameMatch, Namespace, System, SystemPattern,
    Tag, Uarch, Version,
};
use cabane_recipe::{Resources, Target};
use cabane_report::{Kind, Report};
use serde::{Deserialize, Serialize};

use crate::inputs::{Sums, combine};

/// Goes up when the same inputs make another image.
const VERSION: &str = "cabane-pipeline 1";

/// The name of a cell: `name/version@system%uarch`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the parts of a label")]
pub struct CellName {
    pub name: Name,
    pub version: Version,
    pub system: System,
    pub uarch: Uarch,
}

impl CellName {
    /// Returns the label of an image of the cell.
    #[must_use]
    pub fn label(&self, tag: Tag) -> Label {
        Label {
            name: self.name.clone(),
            version: self.version.clone(),
            tag,
            system: self.system.clone(),
            uarch: self.uarch.clone(),
        }
    }

    /// Returns the directory of the cell below that of all cells.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        let parts =
            [self.system.as_str(), self.uarch.as_str(), self.name.as_str(), self.version.as_str()];
        parts.iter().collect()
    }

    /// Whether a pattern means the cell. A tag in it is ignored: a cell has none.
    #[must_use]
    pub fn matches(&self, pattern: &LabelPattern) -> bool {
        let pattern = LabelPattern { tag: None, namespace: None, ..pattern.clone() };
        // Any tag will do.
        let label = "any".parse().map(|tag| self.label(tag));
        label.is_ok_and(|label| pattern.matches(&label, NameMatch::Exact))
    }
}

impl fmt::Display for CellName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}@{}%{}", self.name, self.version, self.system, self.uarch))
    }
}

impl FromStr for CellName {
    type Err = Report;

    fn from_str(text: &str) -> Result<Self, Report> {
        let pattern: LabelPattern = text.parse()?;
        if let LabelPattern {
            namespace: None,
            name: Some(name),
            version: Some(version),
            tag: None,
            system: Some(SystemPattern::Is(system)),
            uarch: Some(uarch),
        } = pattern
        {
            return Ok(Self { name, version, system, uarch });
        }
        let message = format!("`{pattern}` is not one cell of a pipeline");
        Err(Report::new(Kind::Usage, message)
            .hinted("write it as `name/version@system%uarch`".to_owned()))
    }
}

impl Serialize for CellName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CellName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error: Report| serde::de::Error::custom(error))
    }
}

/// What is done for one cell.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its name.
    pub name: CellName,
    /// The directory of its recipe.
    pub recipe: PathBuf,
    /// What its recipe names outside of that directory.
    pub outside: Vec<PathBuf>,
    /// The directory of the pipeline.
    pub home: PathBuf,
    /// The directory with the configuration of its system, if the pipeline has one.
    pub system_directory: Option<PathBuf>,
    /// Where its image is mounted.
    pub mount: MountPoint,
    /// The tag of its image when it is promoted, if the file names one.
    pub tag: Option<Tag>,
    /// The nodes that build and check it.
    pub target: Target,
    /// What its build needs.
    pub build: Resources,
    /// What its checks need.
    pub check: Resources,
    /// The tags of the GitLab runners of its system.
    pub runner_tags: Vec<String>,
    /// The line of its version in the file of the pipeline, from 1.
    pub line: usize,
    /// A word that is a part of what it is built from; often empty.
    pub revision: String,
    /// What the bases of its recipe mean, as far as the lock file has them.
    pub pins: Pins,
    /// The other bases of its recipe.
    pub unlocked: Vec<Base>,
    /// The suites that are run on its image.
    pub suites: Vec<CellSuite>,
    /// The sum of everything it is built from.
    pub inputs: Digest,
}

/// A suite that is run on the image of a cell.
#[derive(Clone, Debug)]
pub struct CellSuite {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub directory: PathBuf,
    /// More options of `reframe`.
    pub options: Vec<String>,
    /// The sum of its files and options.
    pub digest: Digest,
}

impl Cell {
    /// Returns the digest of everything that the cell would be built from now.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn inputs_now(&self) -> Result<Digest, Report> {
        self.inputs_with(&mut Sums::default())
    }

    pub(crate) fn inputs_with(&self, sums: &mut Sums) -> Result<Digest, Report> {
        let of_recipe = sums.directory(&self.recipe)?;
        let of_system = self.system_directory.as_deref();
        let of_system = of_system.map(|one| sums.directory(one)).transpose()?;
        let of_system = of_system.as_ref().map_or("", |sum| sum.as_str());
        let title = self.name.to_string();
        let mut parts = vec![VERSION, &title, self.mount.as_str(), of_recipe.as_str(), of_system];
        let of_others = self.outside.iter().map(|path| sums.outside(path, &self.home));
        let of_others: Vec<Digest> = of_others.collect::<Result<_, _>>()?;
        parts.extend(of_others.iter().map(Digest::as_str));
        // Pipelines without revisions keep their sums.
        parts.extend(Some(self.revision.as_str()).filter(|word| !word.is_empty()));
        // Those without pins, too.
        parts.extend(self.pins.iter().flat_map(|(base, meaning)| [base, meaning]));
        Ok(combine(&parts))
    }

    /// Returns the suites that were not run in this form, by what was run.
    pub(crate) fn suites_that_differ(&self, ran: &[Configuration]) -> Vec<&str> {
        let has = |suite: &CellSuite| ran.iter().any(|one| suite.is_that_of(one));
        self.suites.iter().filter(|suite| !has(suite)).map(|suite| suite.name.as_str()).collect()
    }

    /// Returns the label under which the image is published. Its tag stands for what the image was built
    /// from, so that an image that is there need not be built again.
    ///
    /// # Errors
    ///
    /// None: the digits of a sum are a tag.
    pub fn published(&self) -> Result<Label, Report> {
        Ok(self.name.label(self.inputs.id().as_str().parse()?))
    }

    /// Returns the label that the image gets when it is promoted.
    ///
    /// # Errors
    ///
    /// None, as above.
    pub fn promoted(&self) -> Result<Label, Report> {
        match &self.tag {
            Some(tag) => Ok(self.name.label(tag.clone())),
            None => self.published(),
        }
    }

    /// Returns a label with its namespace, as it is typed.
    #[must_use]
    pub fn typed(namespace: &Namespace, label: &Label) -> String {
        format!("{namespace}::{label}")
    }

    /// Whether a path belongs to the recipe.
    #[must_use]
    pub fn is_built_from(&self, path: &Path) -> bool {
        path.starts_with(&self.recipe)
            || self.outside.iter().any(|outside| path.starts_with(outside))
            || self.system_directory.as_ref().is_some_and(|directory| path.starts_with(directory))
    }
}

impl CellSuite {
    pub(crate) fn new(
        name: &str,
        directory: PathBuf,
        options: Vec<String>,
        sums: &mut Sums,
    ) -> Result<Self, Report> {
        let of_files = sums.directory(&directory)?;
        let digest = combine(&[of_files.as_str(), &options.join("\n")]);
        Ok(Self { name: name.to_owned(), directory, options, digest })
    }

    /// Whether it is still what it was when the pipeline was read.
    pub(crate) fn is_unchanged(&self) -> Result<bool, Report> {
        let (directory, options) = (self.directory.clone(), self.options.clone());
        let now = Self::new(&self.name, directory, options, &mut Sums::default())?;
        Ok(now.digest == self.digest)
    }

    /// Whether a run of checks was made with this suite, as it is now.
    fn is_that_of(&self, ran: &Configuration) -> bool {
        ran.name == self.name && ran.content() == Some(self.digest.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_read_back() {
        let name: CellName = "app/1.0@daint%gh200".parse().unwrap();
        assert_eq!(name.to_string(), "app/1.0@daint%gh200");
        assert_eq!(name.directory(), Path::new("daint/gh200/app/1.0"));
        for wrong in ["app", "app/1.0:v1@daint%gh200", "app/1.0@*%gh200", "build::app/1.0@daint%a"]
        {
            assert!(wrong.parse::<CellName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_pattern_may_leave_parts_out() {
        let name: CellName = "app/1.0@daint%gh200".parse().unwrap();
        for (pattern, is_meant) in
            [("app", true), ("/1.0", true), ("@daint", true), ("%zen3", false), ("ap", false)]
        {
            assert_eq!(name.matches(&pattern.parse().unwrap()), is_meant, "{pattern}");
        }
    }
}
