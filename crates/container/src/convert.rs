// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From a container image to an image of ours.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cabane_view::Meta;

use crate::layer::{Listing, list};
use crate::metadata::{self, Variables};
use crate::plan::Plan;
use crate::squash::{Settings, Squash};
use crate::tree::Tree;
use crate::{ContainerImage, Error, Report, digest};

/// The version of the way in which images are made. Another one gives other images.
pub const CONVERTER: u32 = 1;

/// What is to be made of a container image.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The name in the metadata.
    pub name: &'a str,
    /// What was asked for, in full.
    pub reference: &'a str,
    /// The file to be written; it must not exist.
    pub output: &'a Path,
    /// The program.
    pub mksquashfs: &'a Path,
    /// How many threads may work.
    pub jobs: usize,
    /// The level of the compression with zstd: 3 as a rule.
    pub level: u32,
}

/// Is told how much was done, and may end it.
pub trait Progress: Sync {
    /// How many layers were looked through, and of how many.
    fn looked(&self, done: usize, of: usize);
    /// How many bytes of files were written, and of how many.
    fn wrote(&self, done: u64, of: u64);
    /// Whether to go on.
    fn go_on(&self) -> bool;
}

/// An image that was made.
#[derive(Clone, Debug)]
pub struct Converted {
    /// What it says about itself.
    pub meta: Meta,
    /// What was done.
    pub report: Report,
}

/// Makes an image.
///
/// # Errors
///
/// Layers that are not what they should be, a full disk, a program that fails. Then there is
/// no file.
pub fn convert(
    image: &ContainerImage<'_>,
    request: &Request<'_>,
    progress: &dyn Progress,
) -> Result<Converted, Error> {
    let listings = look_through(image, request.jobs, progress)?;
    let mut tree = Tree::new();
    for (index, (layer, listing)) in image.layers.iter().zip(&listings).enumerate() {
        let put = tree.put(index, &listing.found);
        put.map_err(|problem| layer.failed(problem))?;
    }
    let mut report = Report {
        version: 1,
        converter: CONVERTER,
        reference: request.reference.to_owned(),
        platform: image.platform.to_string(),
        manifest: image.manifest.as_ref().map(digest::written),
        index: image.index.as_ref().map(digest::written),
        layers: listings
            .iter()
            .map(|listing| digest::written(&listing.diff_id))
            .collect(),
        ..Report::default()
    };
    let diff_ids: Vec<_> = listings.into_iter().map(|one| one.diff_id).collect();
    let plan = Plan::new(tree, &mut report)?;
    let settings = Settings {
        mksquashfs: request.mksquashfs,
        output: request.output,
        jobs: request.jobs,
        level: request.level,
    };
    let Variables { patch, left_out } = metadata::variables(&image.config);
    report.changed.variables = left_out;
    let (mut squash, input) = Squash::start(&settings)?;
    let written = plan.write(image, &diff_ids, input, progress, |glibc| {
        let meta = metadata::of(image, request.name, request.reference, &patch, glibc);
        (meta, report)
    });
    match written {
        Ok((converted, input)) => {
            squash.finish(input, plan.inodes())?;
            Ok(converted)
        }
        // Who reads has ended, and says why.
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::BrokenPipe => {
            Err(squash
                .settle(Err(source))
                .err()
                .unwrap_or(Error::Interrupted))
        }
        Err(error) => Err(error),
    }
}

/// Reads every layer once, several at a time.
fn look_through(
    image: &ContainerImage<'_>,
    jobs: usize,
    progress: &dyn Progress,
) -> Result<Vec<Listing>, Error> {
    let count = image.layers.len();
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Listing, Error>>>> =
        image.layers.iter().map(|_| Mutex::new(None)).collect();
    let failed = AtomicUsize::new(0);
    let go_on = || failed.load(Ordering::Relaxed) == 0 && progress.go_on();
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let (Some(layer), Some(result)) = (image.layers.get(index), results.get(index)) else {
                return;
            };
            let listed = list(layer, &go_on);
            if listed.is_err() {
                failed.store(1, Ordering::Relaxed);
            }
            if let Ok(mut result) = result.lock() {
                *result = Some(listed);
            }
            progress.looked(done.fetch_add(1, Ordering::Relaxed) + 1, count);
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, count.max(1)) {
            scope.spawn(work);
        }
    });
    let mut listings = Vec::new();
    let mut interrupted = None;
    for result in results {
        match result.into_inner().ok().flatten() {
            Some(Ok(listing)) => listings.push(listing),
            // Others ended because of the one that failed.
            Some(Err(Error::Interrupted)) | None => interrupted = Some(Error::Interrupted),
            Some(Err(error)) => return Err(error),
        }
    }
    interrupted.map_or(Ok(listings), Err)
}
