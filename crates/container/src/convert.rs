// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From a container image to an image of ours.

use std::io::Read;
use std::path::Path;

use cabane_view::{Meta, MpiNeed, PackageList};

use crate::budget::{Budget, MAX_UNPACKED};
use crate::import_record::{CONVERTER, Converted, ImportRecord};
use crate::layer::{Listing, list};
use crate::metadata::{self, Variables};
use crate::plan::Plan;
use crate::progress::{Progress, tell};
use crate::reference::recorded;
use crate::speculative::{Ahead, Written, total_of};
use crate::squash::Squash;
use crate::tree::Tree;
use crate::{ContainerImage, Error, digest, glibc};

/// What is to be made of a container image.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What was requested, in full. The image gets its name, and records it without the directory of a
    /// file.
    pub reference: &'a str,
    /// Where it starts, if not where the image says; made if nothing is there.
    pub working_directory: Option<&'a str>,
    /// The packages in the image, if they are known.
    pub packages: Option<&'a PackageList>,
    /// The file to be written; it must not exist.
    pub output: &'a Path,
    /// The program.
    pub mksquashfs: &'a Path,
    /// How many threads may work.
    pub jobs: usize,
    /// How many bytes all layers may unpack to: [`MAX_UNPACKED`] by default.
    pub max_unpacked: u64,
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
    convert_with(image, request, progress, &|_, _| ())
}

/// Makes an image whose metadata are changed by `edit` before they are written.
///
/// # Errors
///
/// As [`convert`].
pub fn convert_with(
    image: &ContainerImage<'_>,
    request: &Request<'_>,
    progress: &dyn Progress,
    edit: &dyn Fn(&mut Meta, &mut ImportRecord),
) -> Result<Converted, Error> {
    make(image, request, progress, edit).map_err(|error| {
        // A terminal interrupts `mksquashfs` as well, and then that is what fails.
        if progress.go_on() { error } else { Error::Interrupted }
    })
}

fn make(
    image: &ContainerImage<'_>,
    request: &Request<'_>,
    progress: &dyn Progress,
    edit: &dyn Fn(&mut Meta, &mut ImportRecord),
) -> Result<Converted, Error> {
    let start = || Squash::start(request.mksquashfs, request.output, request.jobs);
    let (mut squash, pool) = start()?;
    let mut ahead = Ahead::new(pool, image.layers.len());
    let budget = Budget::new(request.max_unpacked, progress);
    let listings = match ahead.read(image, &budget, progress) {
        Ok(listings) => listings,
        Err(error) => {
            drop(ahead);
            return Err(squash.blamed_for(error));
        }
    };
    let Ahead { mut pool, written, .. } = ahead;
    let nothing = Written::default();
    let (mut plan, mut report) = flatten(image, request, &listings, &written)?;
    if !plan.is_confirmed() {
        drop(squash);
        (squash, pool) = start()?;
        (plan, report) = flatten(image, request, &listings, &nothing)?;
    }
    let Variables { patch, left_out } = metadata::variables(&image.config);
    report.changed.variables = left_out;
    report.changed.computed =
        image.config.run.as_ref().map(|run| run.computed.clone()).unwrap_or_default();
    let has_mpi = plan.has_mpi();
    let made = plan.write(image, &listings, (&mut pool, &budget.again()), progress, |glibc| {
        let mut meta = metadata::of(image, request.reference, &patch, glibc);
        // The node that starts ranks looks which one it is.
        meta.needs.mpi = has_mpi.then(MpiNeed::default);
        edit(&mut meta, &mut report);
        Converted { meta, report, packages: request.packages.cloned() }
    });
    match made {
        Ok(converted) => {
            squash.finish(pool, plan.contents())?;
            Ok(converted)
        }
        Err(error) => {
            drop(pool);
            Err(squash.blamed_for(error))
        }
    }
}

/// Puts the layers on top of each other.
fn flatten<'a>(
    image: &ContainerImage<'_>,
    request: &Request<'_>,
    listings: &[Listing],
    written: &'a Written,
) -> Result<(Plan<'a>, ImportRecord), Error> {
    let mut tree = Tree::new();
    for (index, (layer, listing)) in image.layers.iter().zip(listings).enumerate() {
        let fits = if layer.is_of_container { Ok(()) } else { tree.fits(&listing.found) };
        let put = fits.and_then(|()| tree.put(index, &listing.found));
        put.map_err(|problem| layer.failed(problem))?;
    }
    let diff_ids = listings.iter().map(|listing| &listing.sums.diff_id);
    let mut report = ImportRecord {
        version: 1,
        converter: CONVERTER,
        reference: recorded(request.reference),
        platform: image.platform.to_string(),
        manifest: image.manifest.as_ref().map(digest::written),
        index: image.index.as_ref().map(digest::written),
        layers: diff_ids.map(digest::written).collect(),
        ..ImportRecord::default()
    };
    let its = metadata::working_directory(image);
    let working_directory = request.working_directory.or(its.as_deref());
    let plan = Plan::new(tree, written, working_directory, &mut report)?;
    Ok((plan, report))
}

/// Finds the version of the GNU C library in an image, if it has one. All layers are read
/// and verified for that.
///
/// # Errors
///
/// Layers that are not what they should be.
pub fn library_of(
    image: &ContainerImage<'_>,
    progress: &dyn Progress,
) -> Result<Option<String>, Error> {
    let total = total_of(image);
    let budget = Budget::new(MAX_UNPACKED, progress);
    let mut done = 0;
    let mut tree = Tree::new();
    for (index, layer) in image.layers.iter().enumerate() {
        let listing =
            list(layer, &budget, |opened, _, _| tell(progress, done + opened.bytes_read(), total))?;
        done += listing.size;
        let put = tree.put(index, &listing.found);
        put.map_err(|problem| layer.failed(problem))?;
    }
    let file = glibc::file_in(&tree).and_then(|id| tree.files.get(id));
    let Some((file, layer)) = file.and_then(|file| Some((file, image.layers.get(file.layer)?)))
    else {
        return Ok(None);
    };
    let again = budget.again();
    let mut opened = layer.read_again(&again)?;
    for _ in 0..=file.entry {
        let next = opened.next_entry();
        next.map_err(|problem| layer.failed(problem))?;
    }
    let mut bytes = Vec::new();
    let content = opened.content().take(glibc::LARGEST);
    let read = { content }.read_to_end(&mut bytes);
    read.map_err(|error| layer.failed(error.into()))?;
    Ok(glibc::version_in(&bytes))
}
