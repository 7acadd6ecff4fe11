// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Reports of test tools, attached to an image without a signature.
//!
//! Each is a manifest of its own that refers to the image, with the file as its layer. The type
//! `uenv/reframe` with a `JUnit` file is that of pipelines that attach their results with `oras`. Nobody
//! knows who attached a report, so it proves nothing.

use cabane_label::Digest;
use jiff::Timestamp;

use crate::attestation::{created, newest_first};
use crate::document::{Descriptor, Manifest, OciDigest, TITLE};
use crate::image::dated;
use crate::{Registry, RemoteImage, Result};

/// The largest report that is read or written, in bytes: 16 MiB.
pub const MAX_REPORT: u64 = 16 * 1024 * 1024;
/// The most that are listed for one image.
const MOST: usize = 256;

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportKind {
    /// XML of `JUnit`.
    Junit,
    /// JSON of `ReFrame`.
    Reframe,
}

impl ReportKind {
    const ALL: [Self; 2] = [Self::Junit, Self::Reframe];

    /// Returns its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Junit => "JUnit",
            Self::Reframe => "ReFrame",
        }
    }

    /// Returns how the names of its files end.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Junit => "junit.xml",
            Self::Reframe => "reframe.json",
        }
    }

    /// The kind of the manifest.
    fn artifact_type(self) -> &'static str {
        match self {
            Self::Junit => "uenv/reframe",
            Self::Reframe => "application/vnd.cabane.report.reframe.v4+json",
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Junit => "application/xml",
            Self::Reframe => "application/json",
        }
    }
}

/// A report that is attached to an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedReport {
    /// The sha256 of the manifest that holds it.
    pub manifest: Digest,
    /// Its format.
    pub kind: ReportKind,
    /// When it says that it was made.
    pub created: Option<Timestamp>,
}

impl Registry {
    /// Attaches a report to an image, and returns the digest of the manifest that holds it. The same report
    /// is attached once.
    ///
    /// # Errors
    ///
    /// That the registry refuses it.
    pub fn attach_report(
        &self,
        image: &RemoteImage,
        kind: ReportKind,
        created: Timestamp,
        report: &[u8],
    ) -> Result<Digest> {
        let name = format!("report.{}", kind.extension());
        let layer = Descriptor::of(kind.media_type(), report).with(TITLE, name);
        let manifest = Manifest::artifact(kind.artifact_type(), vec![layer], dated(created));
        self.attach_content(image, manifest, report)
    }

    /// Lists the reports that are attached to an image, the newest first; 256 at most. None is read.
    ///
    /// # Errors
    ///
    /// Those of reading.
    pub fn reports(&self, image: &RemoteImage) -> Result<Vec<AttachedReport>> {
        let subject = OciDigest(image.manifest.clone());
        let mut attached = self.attached(&image.repository, &subject)?;
        newest_first(&mut attached);
        attached.dedup_by(|one, other| one.digest == other.digest);
        let report = |one: Descriptor| {
            let kind = one.artifact_type.as_deref()?;
            let kind = ReportKind::ALL.into_iter().find(|known| known.artifact_type() == kind)?;
            Some(AttachedReport {
                manifest: one.digest.0,
                kind,
                created: created(&one.annotations),
            })
        };
        Ok(attached.into_iter().filter_map(report).take(MOST).collect())
    }

    /// Reads a report; `None` for one that is damaged, too large, or not attached to this image.
    ///
    /// # Errors
    ///
    /// Those of reading.
    pub fn report(&self, image: &RemoteImage, report: &AttachedReport) -> Result<Option<Vec<u8>>> {
        let subject = OciDigest(image.manifest.clone());
        let digest = OciDigest(report.manifest.clone());
        let document = self.document(&image.repository, &digest.to_string())?;
        let layer = document
            .filter(|found| found.digest == digest)
            .and_then(|document| serde_json::from_slice::<Manifest>(&document.bytes).ok())
            .filter(|manifest| manifest.is_attached_to(&subject))
            .and_then(|manifest| manifest.layers.into_iter().next())
            .filter(|layer| layer.size <= MAX_REPORT);
        match layer {
            Some(layer) => self.blob_if_good(&image.repository, &layer, MAX_REPORT),
            None => Ok(None),
        }
    }
}
