// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What `kernel.json` says.

use std::path::PathBuf;

use cabane_environment::ImageRequest;
use cabane_label::{Digest, Label, escape};
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
/// The member of the metadata that says whether a frontend can offer its debugger.
const DEBUGGER: &str = "debugger";
/// The most characters of the name of a language that an image says.
const LONGEST_LANGUAGE: usize = 40;

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

/// Whether a text has no character that a terminal could obey, or a reader could not see.
pub(crate) fn is_plain(text: &str) -> bool {
    escape(text) == text
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

/// The members of a `kernel.json` that are taken from an image.
#[derive(Debug, Deserialize)]
struct Described {
    argv: Vec<String>,
    #[serde(default)]
    language: Value,
    #[serde(default)]
    interrupt_mode: Value,
    #[serde(default)]
    metadata: Value,
}

impl KernelSpec {
    /// Returns what is needed of a kernel, as an image describes it. Whoever made the image may have put
    /// anything there: variables for Jupyter, a program that Jupyter starts outside of the image, and
    /// characters that a terminal obeys are left out. `language` is what it is for if it does not say so.
    ///
    /// Returns `None` if there is no command.
    pub(crate) fn described(value: Value, language: &str) -> Option<Self> {
        let described: Described = serde_json::from_value(value).ok()?;
        if described.argv.is_empty() || described.argv.iter().any(|word| word.contains('\0')) {
            return None;
        }
        let is_language = |text: &&str| {
            !text.is_empty() && text.chars().count() <= LONGEST_LANGUAGE && is_plain(text)
        };
        let modes = ["signal", "message"].into_iter();
        let mode = modes.into_iter().find(|mode| described.interrupt_mode == *mode);
        let debugger = described.metadata.get(DEBUGGER).filter(|value| value.is_boolean());
        Some(Self {
            argv: described.argv,
            display_name: String::new(),
            language: described
                .language
                .as_str()
                .filter(is_language)
                .unwrap_or(language)
                .to_owned(),
            interrupt_mode: mode.map(str::to_owned),
            metadata: debugger
                .map(|is_there| (DEBUGGER.to_owned(), is_there.clone()))
                .into_iter()
                .collect(),
        })
    }

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_what_an_image_says_only_what_is_known_and_harmless_is_taken() {
        let described = json!({
            "argv": ["python", "-f", CONNECTION_FILE], "display_name": "\u{1b}[2J", "language": "\u{1b}[2J",
            "interrupt_mode": "message", "env": {"LD_PRELOAD": "/tmp/evil.so"}, "unknown": 1,
            "metadata": {"debugger": true, "kernel_provisioner": {"provisioner_name": "evil"}, "cabane": {}},
        });
        let taken = KernelSpec::described(described, "python").unwrap();
        let expected = json!({
            "argv": ["python", "-f", CONNECTION_FILE], "display_name": "", "language": "python",
            "interrupt_mode": "message", "metadata": {"debugger": true},
        });
        assert_eq!(serde_json::to_value(taken).unwrap(), expected);
    }

    #[test]
    fn values_of_other_types_are_left_out() {
        let described = json!({"argv": ["R"], "language": "x".repeat(41), "interrupt_mode": "kill",
            "metadata": {"debugger": {"argv": ["evil"]}}});
        let taken = KernelSpec::described(described, "R").unwrap();
        assert_eq!((taken.language.as_str(), &taken.interrupt_mode), ("R", &None));
        assert!(taken.metadata.is_empty());
        let described =
            json!({"argv": ["R"], "language": ["R"], "interrupt_mode": 1, "metadata": "x"});
        assert!(KernelSpec::described(described, "R").is_some());
    }

    #[test]
    fn a_kernel_without_a_command_is_none() {
        for argv in
            [json!([]), json!("python"), json!([["python"]]), json!(["py\0thon"]), json!(null)]
        {
            assert_eq!(KernelSpec::described(json!({"argv": argv}), "python"), None);
        }
    }
}
