// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Markers: which steps have been done, with which inputs.
//!
//! A marker is written after its step has succeeded, and removed before the step,
//! or one before it, is done again. So a build that was killed finds a marker
//! exactly for what is whole.

use std::path::PathBuf;

use cabane_label::Digest;
use serde::{Deserialize, Serialize};

use crate::fingerprint::Inputs;
use crate::layout::Layout;
use crate::{Result, StepName, disk};

const VERSION: u32 = 1;
const MAX_SIZE: u64 = 16 << 20;

/// What is remembered about a step that was done.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Marker {
    version: u32,
    pub(crate) fingerprint: Digest,
    pub(crate) inputs: Inputs,
    /// The image, if the step made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<ImageMark>,
}

/// What is remembered about an image.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct ImageMark {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    /// Seconds and nanoseconds since 1970: when the file was last changed.
    pub(crate) modified: (i64, i64),
}

impl Marker {
    pub(crate) fn new(fingerprint: Digest, inputs: Inputs, image: Option<ImageMark>) -> Self {
        Self { version: VERSION, fingerprint, inputs, image }
    }

    /// Reads the marker of a step. One that cannot be read is no marker.
    pub(crate) fn read(layout: &Layout, step: StepName) -> Option<Self> {
        let marker: Self = disk::read_json(&path(layout, step), MAX_SIZE)?;
        (marker.version == VERSION).then_some(marker)
    }

    pub(crate) fn write(&self, layout: &Layout, step: StepName) -> Result<()> {
        disk::write_json(&path(layout, step), self)
    }

    pub(crate) fn remove(layout: &Layout, step: StepName) -> Result<()> {
        disk::remove(&path(layout, step))
    }
}

fn path(layout: &Layout, step: StepName) -> PathBuf {
    layout.markers().join(format!("{step}.json"))
}
