// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a site shows. It is gathered elsewhere, and only what its readers may see is in it.

use std::hash::{Hash, Hasher};

use cabane_channel::ChannelDocument;
use cabane_evidence::{Measured, Outcome};
use cabane_image_search::ImageDetails;
use cabane_impact::Assessment;
use cabane_label::{Digest, Label, Namespace};
use cabane_view::PackageIndex;
use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

/// What a site shows.
#[derive(Clone, Debug)]
pub struct CatalogueInput {
    /// The name of the site.
    pub title: String,
    /// Where the images are.
    pub source: Source,
    /// Where the site will be, with a slash at the end. Feed readers need it.
    pub base: Option<String>,
    /// The day, in UTC, on which images are or are not retired.
    pub day: Date,
    /// The images. Several may have one digest.
    pub images: Vec<CatalogueImage>,
    /// The packages of the images, by digest.
    pub packages: PackageIndex,
    /// The channels, each with its newest document first.
    pub channels: Vec<Vec<ChannelDocument>>,
    /// What changes of the host do to the images.
    pub upgrades: Vec<Assessment>,
}

/// Where images are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A registry with this address.
    Registry(String),
    /// The repositories of a system.
    Repositories,
}

/// An image under a label.
#[derive(Clone, Debug, Hash)]
pub struct CatalogueImage {
    /// The part of the registry, or the name of the repository.
    pub namespace: Namespace,
    /// The label.
    pub label: Label,
    /// The sha256 of the image.
    pub digest: Digest,
    /// The sha256 of its manifest, if it is known.
    pub manifest: Option<Digest>,
    /// The size in bytes.
    pub size: u64,
    /// When it was pushed, if that is known.
    pub date: Option<Timestamp>,
    /// What its metadata say.
    pub details: ImageDetails,
    /// Who signed it, in words; `None` if that was not asked for.
    pub signature: Option<String>,
    /// Results of tests and statements of builders that count, the newest first; `None` if they were
    /// not asked for.
    pub evidence: Option<ImageEvidence>,
}

/// The statements about an image.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
pub struct ImageEvidence {
    /// Results of tests that count, the newest first.
    pub results: Vec<TestResult>,
    /// From what it was built, by statements that count.
    pub built: Vec<BuiltImage>,
    /// How many more statements there are that do not count.
    pub ignored: usize,
}

/// A result of tests.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
pub struct TestResult {
    /// The system, if it is known.
    pub system: Option<String>,
    /// What came of the tests.
    pub outcome: Outcome,
    /// When they ended.
    pub finished: Option<Timestamp>,
    /// The state of the system, as the site calls it.
    pub generation: Option<String>,
    /// What ran them: `reframe 4.10`.
    pub runner: String,
    /// How many tests passed.
    pub passed: usize,
    /// Those that did not, each with the reason.
    pub failed: Vec<(String, String)>,
    /// Whether some tests were left out.
    pub is_partial: bool,
    /// What was measured.
    pub figures: Vec<Figure>,
    /// The name of the key that signed it.
    pub key: String,
}

/// A number that a test measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The test.
    pub test: String,
    /// The number.
    #[serde(flatten)]
    pub measured: Measured,
}

impl Hash for Figure {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let text = serde_json::to_string(self).unwrap_or_default();
        text.hash(state);
    }
}

/// From what an image was built.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BuiltImage {
    /// The address and the commit of the recipe.
    pub recipe: Option<(String, String)>,
    /// When it was complete.
    pub finished: Option<Timestamp>,
    /// What it was built on, as far as these are images: those that the site has are named.
    pub bases: Vec<Digest>,
    /// The name of the key that signed it.
    pub key: String,
}

/// The sum of the input of a page. A page is written again only if it changes.
pub(crate) struct InputSum(sha2::Sha256);

impl InputSum {
    pub(crate) fn of(input: &impl Hash) -> [u8; 32] {
        use sha2::Digest as _;
        let mut sum = Self(sha2::Sha256::new());
        input.hash(&mut sum);
        sum.0.finalize().into()
    }
}

impl Hasher for InputSum {
    fn write(&mut self, bytes: &[u8]) {
        use sha2::Digest as _;
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}
