// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Files of this machine as a layer that is on a container image.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use crate::export::{Walking, write_tree};
use crate::{Bytes, Layer, streamed};

/// Returns a file or a directory as a layer, at a place in the image: an absolute path. All
/// files have the time `settled`, in seconds since 1970, and the usual modes, so that the same
/// content is the same layer. A link is put there as it is and not followed.
#[must_use]
pub fn added<'a>(source: &Path, place: &str, settled: u32) -> Layer<'a> {
    let (source, place) = (source.to_owned(), place.to_owned());
    // Names that would hide others are errors.
    Layer::of_files(cabane_label::shown(&source), move || {
        let root = File::open(&source)?;
        let place = place.clone();
        let bytes: Bytes<'a> = streamed(move |into| {
            let walking = Walking { place: &place, without: &[], settled: Some(settled) };
            write_tree(root.as_fd(), &walking, into).map(drop)
        })?;
        Ok(bytes)
    })
}
