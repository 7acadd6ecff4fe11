// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The tree in an image, as a layer of a container image.
//!
//! The image is mounted for a moment, in the same ways as for running, by a copy of this
//! process that walks through it and writes an archive into a pipe. So nothing is unpacked,
//! and whatever can be mounted can be read, squashfs and EROFS alike.

use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use cabane_container::export::{Walked, Walking, write_tree};
use cabane_container::{Layer, streamed};
use cabane_label::escape;
use cabane_repository::ImageFormat;
use cabane_resolve::ConcreteImage;
use cabane_run::metadata::{MountMethods, look_into};
use cabane_run::open_image;
use cabane_site::Context;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Where a root image has the metadata of ours, which its container image had not.
const META: &[&str] = &["meta"];

/// What was found in a tree, once it was read to its end.
pub type Found = Arc<Mutex<Option<Walked>>>;

/// Returns the tree of an image as a layer, at the place where the image is mounted.
pub fn layer_of(context: &Context, image: &ConcreteImage) -> (Layer<'static>, Found) {
    let found = Found::default();
    let tree = ImageTree {
        methods: context.mount_methods(),
        image: image.path.clone(),
        format: image.format,
        place: image.mount_point.as_str().to_owned(),
        without: if image.mount_point.is_root() { META } else { &[] },
        found: Arc::clone(&found),
    };
    let label = image.label.as_ref().map(ToString::to_string);
    let name = label.unwrap_or_else(|| image.path.to_string_lossy().into_owned());
    let layer = Layer::of_files(escape(&name).to_string(), move || {
        let tree = tree.clone();
        streamed(move |into| tree.write(into))
    });
    (layer, found)
}

#[derive(Clone)]
struct ImageTree {
    methods: MountMethods,
    image: std::path::PathBuf,
    format: ImageFormat,
    place: String,
    without: &'static [&'static str],
    found: Found,
}

impl ImageTree {
    fn write(&self, into: PipeWriter) -> io::Result<()> {
        let image = open_image(&self.image, self.format)
            .map_err(|error| io::Error::other(error.into_error()))?;
        let parent = getpid();
        let answer = look_into(&[&image], &self.methods, move |mounts: &[OwnedFd]| {
            end_with(parent)?;
            let root = mounts.first().ok_or(io::ErrorKind::NotFound)?;
            let walking = Walking { place: &self.place, without: self.without, settled: None };
            let walked = write_tree(root.as_fd(), &walking, into)?;
            Ok(serde_json::to_vec(&walked)?)
        });
        let answer = answer.map_err(|error| io::Error::other(error.reason))?;
        let walked: Walked = serde_json::from_slice(&answer)?;
        if let Ok(mut found) = self.found.lock() {
            *found = Some(walked);
        }
        Ok(())
    }
}

/// Lets a copy of this process end when this process does: it holds the other end of the pipe
/// as well, and would wait for itself.
fn end_with(parent: rustix::process::Pid) -> io::Result<()> {
    if getpid() == parent {
        return Ok(());
    }
    set_parent_process_death_signal(Some(Signal::KILL))?;
    match getppid() {
        Some(now) if now == parent => Ok(()),
        _ => Err(io::ErrorKind::Interrupted.into()),
    }
}
