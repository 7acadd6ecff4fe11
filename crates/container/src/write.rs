// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is written into an image: files of layers.
//!
//! An image is mounted with root as the owner of everything, and used by people who are not
//! root. So everyone may read what is in it: anyone who may read the image file could do that
//! anyhow. Nothing in it gives anyone rights: no set-user-id, no capabilities, no devices.

use std::io::{self, Read};

use crate::Error;
use crate::layer::{Layer, Opened};
use crate::squash::{Place, Pool, not_written};
use crate::tar::{Entry, Unfolded};

/// Where the metadata are.
pub(crate) const META: &str = "meta";

/// Puts the content of a file out of a layer into the pool; a copy is kept if that is wanted.
pub(crate) fn store_file(
    pool: &mut Pool,
    (layer, opened): (&Layer<'_>, &mut Opened<'_, '_>),
    entry: &Entry,
    copy: Option<&mut Vec<u8>>,
) -> Result<Place, Error> {
    let mut content = Content { inner: opened.content(), copy, failure: None };
    let outcome = match &entry.pieces {
        Some(pieces) => pool.add(entry.size, &mut Unfolded::new(pieces, &mut content, entry.size)),
        None => pool.add(entry.size, &mut content),
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
