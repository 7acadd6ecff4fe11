// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is written into the archive of which the image is made: files of layers, and the metadata.
//!
//! An image is mounted with root as the owner of everything, and used by people who are not
//! root. So everybody may read what is in it: whoever may read the image file could do that
//! anyhow. Nothing in it gives anybody rights: no set-user-id, no capabilities, no devices.

use std::io::{self, Read};

use crate::Error;
use crate::layer::{Attributes, Layer, Opened};
use crate::report::Converted;
use crate::squash::Input;
use crate::tar::{Entry, Head, Unfolded, Writer};

/// Where the metadata are.
pub(crate) const META: &str = "meta";
/// The longest path that can be opened.
pub(crate) const LONGEST_PATH: usize = 4095;

/// What everybody may do with what the owner may, and nobody more than that.
pub(crate) fn mode_of(attributes: Attributes, is_directory: bool) -> u32 {
    let mode = attributes.mode & 0o1777;
    let is_executable = is_directory || mode & 0o111 != 0;
    mode | 0o444 | if is_executable { 0o111 } else { 0 }
}

pub(crate) fn head(path: &[u8], attributes: Attributes, is_directory: bool) -> Head<'_> {
    Head {
        path,
        mode: mode_of(attributes, is_directory),
        mtime: attributes.mtime,
    }
}

/// Writes a file out of a layer; a copy is kept if that is wanted.
pub(crate) fn write_file(
    output: &mut Writer<Input>,
    head: Head<'_>,
    (layer, opened): (&Layer<'_>, &mut Opened<'_>),
    entry: &Entry,
    copy: Option<&mut Vec<u8>>,
) -> Result<(), Error> {
    let mut content = Content {
        inner: opened.content(),
        copy,
        failure: None,
    };
    let outcome = match &entry.pieces {
        Some(pieces) => {
            let mut whole = Unfolded::new(pieces, &mut content, entry.size);
            output.file(head, entry.size, &mut whole)
        }
        None => output.file(head, entry.size, &mut content),
    };
    if let Some(failure) = content.failure.take() {
        return Err(layer.failed(failure.into()));
    }
    outcome.map_err(not_written)
}

/// Tells failures of reading from those of writing, and keeps a copy if that is wanted.
struct Content<'a, R> {
    inner: R,
    copy: Option<&'a mut Vec<u8>>,
    failure: Option<io::Error>,
}

impl<R: Read> Read for Content<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.inner.read(buffer) {
            Ok(read) => {
                if let Some(copy) = &mut self.copy {
                    copy.extend_from_slice(buffer.get(..read).unwrap_or_default());
                }
                Ok(read)
            }
            Err(error) => {
                let same = io::Error::new(error.kind(), error.to_string());
                self.failure = Some(error);
                Err(same)
            }
        }
    }
}

pub(crate) fn not_written(error: io::Error) -> Error {
    Error::io("write to", "mksquashfs")(error)
}

/// Writes the metadata, where they are in every image.
pub(crate) fn write_meta(output: &mut Writer<Input>, converted: &Converted) -> io::Result<()> {
    let documents = converted.documents();
    let documents = documents.map(|(name, bytes)| (format!("{META}/{name}"), bytes));
    let head = |path, mode| Head {
        path,
        mode,
        mtime: 0,
    };
    output.directory(head(META.as_bytes(), 0o755))?;
    for (path, bytes) in &documents {
        let size = bytes.len() as u64;
        output.file(head(path.as_bytes(), 0o644), size, &mut bytes.as_slice())?;
    }
    Ok(())
}
