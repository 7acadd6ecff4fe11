// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Records, and how they are written into the files of the refs.

use std::cmp::Ordering;
use std::time::Duration;

use cabane_label::{Digest, Label, MountPoint};
use cabane_view::{Meta, ViewName};
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};

use crate::ImageFormat;
use crate::layout::RefName;

/// What the repository knows about one image under one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The label.
    pub label: Label,
    /// The sha256 of the image.
    pub digest: Digest,
    /// The size of the image in bytes.
    pub size: u64,
    /// When the image was given this label.
    pub date: Timestamp,
    /// The file system in the image.
    pub format: ImageFormat,
    /// Where the image wants to be mounted.
    pub mount: Option<MountPoint>,
    /// What the image is for, as its recipe describes it.
    pub description: Option<String>,
    /// The views of the image.
    pub views: Vec<ViewName>,
    /// The view that is used when none is named.
    pub default_view: Option<ViewName>,
}

/// The size above which a file is not taken for a ref.
pub(crate) const MAX_REF_SIZE: u64 = 1024 * 1024;
/// Descriptions are shown in lists; the rest of a longer one stays in the metadata.
const MAX_DESCRIPTION: usize = 4096;

/// The content of a ref's file.
#[derive(Serialize, Deserialize)]
struct RefFile {
    version: u32,
    #[serde(flatten)]
    record: Record,
}

const REF_VERSION: u32 = 1;

/// Why the file of a ref is not understood.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RefError {
    #[error("it cannot be read: {0}")]
    Io(#[from] std::io::Error),
    #[error("it is not a ref: {0}")]
    Json(#[from] serde_json::Error),
    #[error("it was written by a later version of this program")]
    Newer,
    #[error("its content is of `{0}`")]
    OtherLabel(Box<Label>),
}

/// What is read first: the rest may look different in another version.
#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

impl Record {
    /// Makes the record of an image from its metadata, when it has any.
    pub(crate) fn new(
        label: Label,
        image: &KnownImage,
        meta: Option<&Meta>,
        date: Timestamp,
    ) -> Self {
        Self {
            label,
            digest: image.digest.clone(),
            size: image.size,
            date,
            format: image.format,
            mount: meta.and_then(|meta| meta.mount.clone()),
            description: meta.and_then(|meta| meta.description.as_deref()).map(shortened),
            views: meta.map_or_else(Vec::new, |meta| meta.views.keys().cloned().collect()),
            default_view: meta.and_then(|meta| meta.default_view.clone()),
        }
    }

    /// Returns a newer record of the same that says nothing about what is in the image.
    pub(crate) fn without_content(&self) -> Self {
        let (views, same) = (Vec::new(), self.clone());
        let bare = Self { mount: None, description: None, views, default_view: None, ..same };
        if bare == *self {
            return bare;
        }
        Self { date: self.date.checked_add(1.nanosecond()).unwrap_or(self.date), ..bare }
    }

    /// Compares by label; of one label the newest comes last, which is the valid one.
    pub(crate) fn in_order(&self, other: &Self) -> Ordering {
        let labels = self.label.cmp(&other.label);
        let dates = || self.date.cmp(&other.date);
        labels.then_with(dates).then_with(|| self.digest.cmp(&other.digest))
    }

    pub(crate) fn ref_name(&self) -> RefName {
        RefName::new(&self.label, &self.digest, self.date)
    }

    pub(crate) fn to_ref(&self) -> Vec<u8> {
        let file = RefFile { version: REF_VERSION, record: self.clone() };
        // Strings, numbers and lists of them are always JSON.
        let mut bytes = serde_json::to_vec_pretty(&file).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    pub(crate) fn from_ref(name: &RefName, bytes: &[u8]) -> Result<Self, RefError> {
        let VersionOnly { version } = serde_json::from_slice(bytes)?;
        if version > REF_VERSION {
            return Err(RefError::Newer);
        }
        let RefFile { record, .. } = serde_json::from_slice(bytes)?;
        if record.ref_name() != *name {
            return Err(RefError::OtherLabel(Box::new(record.label)));
        }
        Ok(record)
    }
}

/// What is known about an image without its metadata.
#[derive(Clone, Debug)]
pub(crate) struct KnownImage {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    pub(crate) format: ImageFormat,
}

fn shortened(description: &str) -> String {
    let longest = description.len().min(MAX_DESCRIPTION);
    let end = (0..=longest).rev().find(|end| description.is_char_boundary(*end));
    description[..end.unwrap_or(0)].to_owned()
}

/// Returns, of the refs of one label in order, those that are not valid any more and need not be
/// kept: the next one is older than the grace, or the image is that of the valid one.
pub(crate) fn overtaken(refs: &[Record], grace: Duration) -> impl Iterator<Item = &Record> {
    let now = Timestamp::now();
    let newest = refs.last().map(|newest| &newest.digest);
    let is_over = move |next: &Record| {
        let end = next.date.checked_add(grace);
        grace.is_zero() || end.is_ok_and(|end| end <= now)
    };
    refs.iter().zip(refs.iter().skip(1)).filter_map(move |(one, next)| {
        (Some(&one.digest) == newest || is_over(next)).then_some(one)
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn record(label: &str, digit: char) -> Record {
        Record {
            label: label.parse().unwrap(),
            digest: digit.to_string().repeat(64).parse().unwrap(),
            size: 1234,
            date: "2026-11-21T10:00:00.123456789Z".parse().unwrap(),
            format: ImageFormat::Squashfs,
            mount: Some("/user-environment".parse().unwrap()),
            description: Some("a\ttab, a \\ and\na new line".to_owned()),
            views: vec!["default".parse().unwrap(), "modules".parse().unwrap()],
            default_view: Some("default".parse().unwrap()),
        }
    }

    #[test]
    fn what_is_written_into_a_ref_can_be_read_again() {
        let record = record("a/1:v1@s%u", 'a');
        let read = Record::from_ref(&record.ref_name(), &record.to_ref()).unwrap();
        assert_eq!(read, record);
    }

    #[test]
    fn a_ref_under_a_foreign_name_is_refused() {
        let (one, two) = (record("a/1:v1@s%u", 'a'), record("b/1:v1@s%u", 'a'));
        let error = Record::from_ref(&two.ref_name(), &one.to_ref()).unwrap_err();
        assert_eq!(error.to_string(), "its content is of `a/1:v1@s%u`");
    }

    #[test]
    fn a_ref_of_a_later_version_is_distinguished_from_a_broken_one() {
        let name = record("a/1:v1@s%u", 'a').ref_name();
        let error = Record::from_ref(&name, br#"{"version":2,"names":[]}"#).unwrap_err();
        assert_eq!(error.to_string(), "it was written by a later version of this program");
    }

    #[test]
    fn a_long_description_is_cut_between_two_characters() {
        assert_eq!(shortened(&"é".repeat(3000)).len(), MAX_DESCRIPTION);
    }
}
