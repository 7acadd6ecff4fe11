// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! One line, and the record in it.

use std::borrow::Cow;

use cabane_label::Digest;
use jiff::Timestamp;
use serde::Deserialize;

/// The version of records that is read here. Fields that are not known are left out.
const VERSION: u32 = 1;
/// With what every record begins: syslog puts something before it.
const BEGINNING: &str = "{\"record\":";

/// Why a line is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BrokenRecord {
    /// There is no record in it.
    NoRecord,
    /// It is not JSON, was cut off, or lacks something.
    Malformed,
    /// It is longer than any record.
    TooLong,
}

impl std::fmt::Display for BrokenRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoRecord => "no record",
            Self::Malformed => "cut off or malformed",
            Self::TooLong => "too long",
        })
    }
}

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A step that has its images, or fails.
    Begin,
    /// The end of it.
    End,
    /// Another node that fails.
    NodeFailure,
}

/// A record, as far as it is counted.
#[derive(Debug, Deserialize)]
pub(crate) struct Record<'a> {
    #[serde(borrow, rename = "record")]
    kind: Cow<'a, str>,
    version: u32,
    #[serde(borrow)]
    time: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) node: Cow<'a, str>,
    #[serde(borrow, default)]
    user: Option<Cow<'a, str>>,
    uid: u32,
    mounted: bool,
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) times_ms: Times,
    #[serde(default)]
    pub(crate) exit_code: Option<u32>,
    #[serde(borrow)]
    pub(crate) images: Vec<Image<'a>>,
}

/// How long it took until the images were there.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Times {
    pub(crate) lookup: Option<f64>,
    pub(crate) open: Option<f64>,
    pub(crate) mount: Option<f64>,
}

/// An image of a step.
#[derive(Debug, Deserialize)]
pub(crate) struct Image<'a> {
    #[serde(borrow, default)]
    digest: Option<Cow<'a, str>>,
    #[serde(borrow)]
    path: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) label: Option<Cow<'a, str>>,
}

impl<'a> Record<'a> {
    /// Finds the record in a line; none if it is of a kind or version that is not known.
    pub(crate) fn in_line(line: &'a [u8]) -> Result<Option<(Kind, Self)>, BrokenRecord> {
        let line = str::from_utf8(line).map_err(|_| BrokenRecord::Malformed)?;
        let start = line.find(BEGINNING).ok_or(BrokenRecord::NoRecord)?;
        let json = line.get(start..).unwrap_or_default();
        let known = |name: &str, version| kind_of(name).filter(|_| version == VERSION);
        match serde_json::from_str::<Self>(json) {
            Ok(record) => Ok(known(&record.kind, record.version).map(|kind| (kind, record))),
            // Another version may lack anything else.
            Err(_) => match serde_json::from_str::<Head<'_>>(json) {
                Ok(head) if known(&head.kind, head.version).is_none() => Ok(None),
                _ => Err(BrokenRecord::Malformed),
            },
        }
    }

    pub(crate) fn time(&self) -> Option<Timestamp> {
        self.time.parse().ok()
    }

    /// Names the owner of the job.
    pub(crate) fn user(&self) -> Cow<'_, str> {
        match &self.user {
            Some(user) => Cow::Borrowed(user),
            None => Cow::Owned(format!("uid {}", self.uid)),
        }
    }

    /// Says why the images are not mounted, if they are not.
    pub(crate) fn failure(&self) -> Option<&str> {
        let reason = self.reason.as_deref().unwrap_or("unknown");
        // The first records had the name of the node in some reasons.
        let rest = reason.strip_prefix(&*self.node);
        let rest = rest.and_then(|rest| rest.strip_prefix(' ')).unwrap_or(reason);
        (!self.mounted).then_some(rest)
    }
}

impl Image<'_> {
    /// Returns what tells the image from others: its digest, or its path.
    pub(crate) fn key(&self) -> &str {
        let digest = self.digest.as_deref().filter(|digest| digest.parse::<Digest>().is_ok());
        digest.unwrap_or(&self.path)
    }
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "record")]
    kind: Cow<'a, str>,
    version: u32,
}

fn kind_of(name: &str) -> Option<Kind> {
    match name {
        "cabane-step" => Some(Kind::Begin),
        "cabane-step-end" => Some(Kind::End),
        "cabane-node-failure" => Some(Kind::NodeFailure),
        _ => None,
    }
}
