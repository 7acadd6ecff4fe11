// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From images of ours to a container image.
//!
//! ```text
//! layers of a base ─▶ kept, byte for byte ─┐
//! trees of images  ─▶ archives, compressed ┼▶ blobs of a target ─▶ configuration, manifest
//! ```
//!
//! The same layers and the same texts give the same digest.

mod archive;
mod compression;
mod config;
mod gzip;
mod layout;
mod walk;
mod zstd;

pub use archive::{ArchiveForm, ArchiveTarget};
pub use compression::{Compression, CompressionError};
pub use config::{About, Variables, config_of, variables_of};
pub use layout::{LooseTarget, check_layout};
pub use walk::{Walked, Walking, write_tree};

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;

use cabane_label::Digest;
use compression::{Compressed, Failure, Method, compress};
use serde::Serialize;

use crate::digest::{self, Summing};
use crate::error::failure;
use crate::{Error, Layer, Progress};

pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Content by its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The digest.
    pub digest: Digest,
    /// How many bytes it has.
    pub size: u64,
}

/// Writes a blob, and says what it is.
pub type WriteBlob<'a> = dyn FnMut(&mut dyn Write) -> Result<Blob, Error> + 'a;

/// Where blobs go.
pub trait Target {
    /// Takes what is written by `write`. No one sees it before the image is whole.
    ///
    /// # Errors
    ///
    /// Those of `write`, and of the disk.
    fn put(&mut self, write: &mut WriteBlob<'_>) -> Result<Blob, Error>;

    /// The file or directory that errors name.
    fn place(&self) -> &Path;
}

/// How layers are written.
#[derive(Clone, Copy)]
pub struct ExportSettings<'a> {
    /// How they are compressed.
    pub compression: Compression,
    /// The program `zstd`, which is needed for that compression.
    pub zstd: Option<&'a Path>,
    /// How many threads may work.
    pub jobs: usize,
    /// Receives how much was read.
    pub progress: &'a dyn Progress,
}

/// A container image that is being written.
pub struct Export<'a> {
    target: &'a mut dyn Target,
    settings: ExportSettings<'a>,
    layers: Vec<Made>,
    done: u64,
}

/// A layer that was written.
struct Made {
    kind: String,
    blob: Blob,
    diff_id: Digest,
    /// What it is, for people; nothing is known of those of a base.
    comment: Option<String>,
}

/// A container image that was written, but for its name.
#[derive(Clone, Debug)]
pub struct Exported {
    /// Its manifest, as it is written.
    pub manifest: Vec<u8>,
    /// The manifest as a blob.
    pub blob: Blob,
    /// What it says about itself.
    pub config: Blob,
    /// Its layers, the lowest first.
    pub layers: Vec<Blob>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'a> {
    schema_version: u32,
    media_type: &'static str,
    config: Descriptor<'a>,
    layers: Vec<Descriptor<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor<'a> {
    media_type: &'a str,
    digest: String,
    size: u64,
}

impl<'a> Descriptor<'a> {
    fn new(media_type: &'a str, blob: &Blob) -> Self {
        Self { media_type, digest: digest::written(&blob.digest), size: blob.size }
    }
}

impl<'a> Export<'a> {
    /// Begins to write.
    pub fn new(target: &'a mut dyn Target, settings: ExportSettings<'a>) -> Self {
        Self { target, settings, layers: Vec::new(), done: 0 }
    }

    /// Adds a layer of a base as it is, or compresses it where it comes without a digest.
    ///
    /// # Errors
    ///
    /// It is not what it should be; the target cannot be written.
    pub fn keep(&mut self, layer: &Layer<'_>) -> Result<(), Error> {
        let (Some(digest), Some(diff_id)) = (&layer.digest, &layer.diff_id) else {
            return self.pack(layer, None);
        };
        let failed = |error: io::Error| layer.failed(error.into());
        let (mut kind, place) = (LAYER.to_owned(), self.target.place().to_owned());
        let blob = self.target.put(&mut |output| {
            let mut source = (layer.open)().map_err(failed)?;
            let mut start = Vec::new();
            (&mut source).take(4).read_to_end(&mut start).map_err(failed)?;
            kind = kind_of(&start);
            let mut output = Summing::new(output);
            output.write_all(&start).map_err(Error::io("write", &place))?;
            copy(&mut source, &mut output, layer, &place, &self.settings)?;
            let (found, size) = output.finish().map_err(Error::io("write", &place))?;
            layer.compare("bytes", Some(digest), &found)?;
            Ok(Blob { digest: found, size })
        })?;
        self.layers.push(Made { kind, blob, diff_id: diff_id.clone(), comment: None });
        Ok(())
    }

    /// Compresses a layer and adds it; `comment` says what it is.
    ///
    /// # Errors
    ///
    /// It cannot be read, or the target not be written.
    pub fn pack(&mut self, layer: &Layer<'_>, comment: Option<String>) -> Result<(), Error> {
        let ExportSettings { compression, zstd, jobs, progress } = self.settings;
        let method = match (compression, zstd) {
            (Compression::Gzip, _) => Method::Gzip,
            (Compression::Zstd, Some(program)) => Method::Zstd(program),
            (Compression::Zstd, None) => return Err(no_zstd()),
        };
        let failed = |error: io::Error| layer.failed(error.into());
        let place = self.target.place().to_owned();
        let before = self.done;
        let mut diff_id = None;
        let mut plain = 0;
        let blob = self.target.put(&mut |output| {
            let source = (layer.open)().map_err(failed)?;
            let source = crate::decompress::Decompressed::new(source).map_err(failed)?;
            let seen = std::cell::Cell::new(0);
            let go_on = |done: u64| {
                seen.set(done);
                progress.read(before + done, None);
                progress.go_on()
            };
            let compressed = compress(source, method, jobs, output, &go_on);
            let compressed = compressed.map_err(|failure| match failure {
                Failure::Read(error) => failed(error),
                Failure::Write(error) => Error::io("write", &place)(error),
                Failure::Program(message) => Error::program("zstd", &message),
                Failure::Interrupted => Error::Interrupted,
            })?;
            plain = seen.get();
            let Compressed { diff_id: found, digest, size } = compressed;
            layer.compare("content", layer.diff_id.as_ref(), &found)?;
            diff_id = Some(found);
            Ok(Blob { digest, size })
        })?;
        self.done += plain;
        let kind = format!("{LAYER}+{compression}");
        // A target calls once.
        let diff_id = diff_id.ok_or(Error::Interrupted)?;
        self.layers.push(Made { kind, blob, diff_id, comment });
        Ok(())
    }

    /// Writes what the image says about itself, and its manifest.
    ///
    /// # Errors
    ///
    /// The target cannot be written.
    pub fn finish(self, about: &About<'_>) -> Result<Exported, Error> {
        let diff_ids = self.layers.iter().map(|one| &one.diff_id);
        let comments = self.layers.iter().map(|one| one.comment.as_deref());
        let config = about.document(diff_ids, comments);
        let config = self.target.document(&config)?;
        let manifest = Manifest {
            schema_version: 2,
            media_type: MANIFEST,
            config: Descriptor::new(CONFIG, &config),
            layers: self.layers.iter().map(|one| Descriptor::new(&one.kind, &one.blob)).collect(),
            annotations: about.annotations.clone(),
        };
        // Strings, numbers and lists are always JSON.
        let manifest = serde_json::to_vec(&manifest).unwrap_or_default();
        let blob = self.target.document(&manifest)?;
        Ok(Exported {
            manifest,
            blob,
            config,
            layers: self.layers.into_iter().map(|one| one.blob).collect(),
        })
    }
}

impl dyn Target + '_ {
    fn document(&mut self, bytes: &[u8]) -> Result<Blob, Error> {
        let place = self.place().to_owned();
        self.put(&mut |output| {
            output.write_all(bytes).map_err(Error::io("write", &place))?;
            Ok(Blob { digest: digest::of(bytes), size: bytes.len() as u64 })
        })
    }
}

/// The program that compresses layers is missing.
fn no_zstd() -> Error {
    let hint = "the package is called `zstd` in most distributions; `--compression gzip` needs no \
                program";
    Error::Refused(failure("there is no `zstd`").hinted(hint.to_owned()))
}

/// Copies what is left of a layer.
fn copy(
    source: &mut impl Read,
    output: &mut impl Write,
    layer: &Layer<'_>,
    place: &Path,
    settings: &ExportSettings<'_>,
) -> Result<(), Error> {
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = source.read(&mut buffer);
        let read = read.map_err(|error| layer.failed(error.into()))?;
        if read == 0 {
            return Ok(());
        }
        let bytes = buffer.get(..read).unwrap_or_default();
        output.write_all(bytes).map_err(Error::io("write", place))?;
        if !settings.progress.go_on() {
            return Err(Error::Interrupted);
        }
    }
}

/// Which layer this is, by its first bytes: what documents say about it is often wrong.
fn kind_of(start: &[u8]) -> String {
    match start {
        [0x1f, 0x8b, ..] => format!("{LAYER}+gzip"),
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => format!("{LAYER}+zstd"),
        _ => LAYER.to_owned(),
    }
}
