// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What `kernel.json` says.

use std::path::PathBuf;

use cabane_environment::ImageRequest;
use cabane_label::{Digest, Label};
use cabane_report::{Kind, Report, Result};
use cabane_resolve::{ConcreteEnvironment, ConcreteImage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What Jupyter replaces by the path of a file with ports and a key.
pub(crate) const CONNECTION_FILE: &str = "{connection_file}";
/// The member of the metadata by which kernels of Cabane are recognized.
const MARK: &str = "cabane";
/// The version of what is recorded.
const FORMAT: u32 = 1;

/// A kernel, as Jupyter reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelSpec {
    /// The command. Jupyter fills in the path of the connection file.
    pub argv: Vec<String>,
    /// The name that people see.
    #[serde(default)]
    pub display_name: String,
    /// The programming language.
    #[serde(default)]
    pub language: String,
    /// How a cell is interrupted; with `signal`, by SIGINT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_mode: Option<String>,
    /// What frontends want to know, and what Cabane records.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Everything else, as the kernel says it about itself.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// What Cabane records about a kernel that it has installed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) format: u32,
    /// The images and views, as they are in the command.
    pub(crate) request: RecordedRequest,
    /// The global options that are in the command.
    pub(crate) options: Vec<String>,
    /// What the request meant when the kernel was installed.
    pub(crate) images: Vec<RecordedImage>,
}

/// Which images and views a kernel has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RecordedRequest {
    pub(crate) images: Option<String>,
    pub(crate) environment: Option<String>,
    pub(crate) view: Option<String>,
    pub(crate) no_default_view: bool,
}

impl From<ImageRequest> for RecordedRequest {
    fn from(request: ImageRequest) -> Self {
        let ImageRequest { images, environment, view, no_default_view, .. } = request;
        Self { images, environment, view, no_default_view }
    }
}

impl From<RecordedRequest> for ImageRequest {
    fn from(request: RecordedRequest) -> Self {
        let RecordedRequest { images, environment, view, no_default_view } = request;
        Self { images, environment, view, no_default_view, ..Self::default() }
    }
}

/// An image of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedImage {
    /// Its label, if it is in a repository.
    pub label: Option<Label>,
    /// Its digest, if it is in a repository.
    pub digest: Option<Digest>,
    /// Its file.
    pub path: PathBuf,
}

impl RecordedImage {
    /// Whether both are the same image, also if one was named by its digest or the repository was moved.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.digest, &other.digest) {
            (None, None) => self.path == other.path,
            (one, other) => one == other,
        }
    }
}

impl Record {
    /// Whether an environment has the images that are recorded, in their order.
    pub(crate) fn has_images_of(&self, environment: &ConcreteEnvironment) -> bool {
        let now = images_of(environment);
        let mut pairs = self.images.iter().zip(&now);
        now.len() == self.images.len() && pairs.all(|(then, now)| then.is_same(now))
    }

    pub(crate) fn new(
        request: ImageRequest,
        options: Vec<String>,
        environment: &ConcreteEnvironment,
    ) -> Self {
        Self { format: FORMAT, request: request.into(), options, images: images_of(environment) }
    }
}

/// Returns the images of an environment.
pub(crate) fn images_of(environment: &ConcreteEnvironment) -> Vec<RecordedImage> {
    let recorded = |image: &ConcreteImage| RecordedImage {
        label: image.label.clone(),
        digest: image.digest.clone(),
        path: image.path.clone(),
    };
    environment.images.iter().map(recorded).collect()
}

impl KernelSpec {
    /// Adds what Cabane records.
    ///
    /// # Errors
    ///
    /// It cannot be written as JSON.
    pub(crate) fn mark(&mut self, record: &Record) -> Result<()> {
        let value = serde_json::to_value(record)
            .map_err(|error| Report::caused(Kind::Failure, "cannot record the images", error))?;
        self.metadata.insert(MARK.to_owned(), value);
        Ok(())
    }

    /// Whether Cabane has installed this kernel, also another version of Cabane.
    pub(crate) fn is_marked(&self) -> bool {
        self.metadata.contains_key(MARK)
    }

    /// Returns what Cabane has recorded, if this version of Cabane can read it.
    pub(crate) fn record(&self) -> Option<Record> {
        let record: Record = serde_json::from_value(self.metadata.get(MARK)?.clone()).ok()?;
        (record.format == FORMAT).then_some(record)
    }
}
