// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is searched for.

use cabane_evidence::{Outcome, Wanted};
use cabane_label::{ImageDescription, NameMatch};
use cabane_report::Result;
use cabane_view::PackagePattern;

/// What is searched for, as it was typed.
#[derive(Clone, Debug, Default)]
pub struct SearchRequest {
    /// A label with parts left out, an ID, or a digest; none for all images.
    pub pattern: Option<String>,
    /// Whether a name is only that name, and not the beginning of longer ones.
    pub exact: bool,
    /// Packages that an image must have, as Spack specs.
    pub packages: Vec<String>,
    /// In a registry: ask for each image, whatever the list says, and ask again for the packages
    /// of images that did not list them.
    pub refresh: bool,
    /// In a registry: also get the signatures of the images.
    pub signatures: bool,
    /// In a registry: also get what was tested, and keep the images with this outcome.
    pub tested: Option<TestedQuery>,
}

/// Which results of tests are searched for.
#[derive(Clone, Debug)]
pub struct TestedQuery {
    /// The outcome.
    pub outcome: Outcome,
    /// Of which system, and since when.
    pub wanted: Wanted,
}

impl SearchRequest {
    /// A text that begins with `/` is a version: where an image is run it would be a path, but a
    /// search has no use for one.
    pub(crate) fn description(&self) -> Result<Option<ImageDescription>> {
        Ok(match self.pattern.as_deref() {
            Some(text) if text.starts_with('/') => Some(ImageDescription::Pattern(text.parse()?)),
            Some(text) => Some(text.parse()?),
            None => None,
        })
    }

    pub(crate) fn patterns(&self) -> Result<Vec<PackagePattern>> {
        self.packages.iter().map(|text| Ok(text.parse()?)).collect()
    }

    pub(crate) fn name_match(&self) -> NameMatch {
        if self.exact { NameMatch::Exact } else { NameMatch::Prefix }
    }
}
