// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image add`: an image under a label.

use std::path::Path;

use cabane_environment::{complete_label, find_image};
use cabane_label::{ImageDescription, Label, LabelPattern};
use cabane_process::Scratch;
use cabane_report::{IoContext as _, Kind, Report, Result};
use cabane_repository::{AddRequest, Added, Repository, Transfer};
use cabane_run::{metadata, open_image};
use clap::Args;

use crate::added::print_changes;
use crate::setup::Setup;

/// Add an image file under a label, or give an image another label
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane image add mpi-python/1.0:v1@daint%zen3 ./image.squashfs
  cabane image add mpi-python/1.0:latest mpi-python/1.0:v1

Defaults for missing parts of the label: the tag v1; this system, or `local`; the
microarchitecture of this processor family.")]
pub(crate) struct AddArgs {
    /// The label: name/version:tag@system%uarch
    label: String,
    /// An image file, or an image of a repository: label, ID, or digest
    image: String,
    /// Remove the file when it is in the repository
    #[arg(long = "move")]
    moves: bool,
    /// Move the label from the image that has it
    #[arg(long)]
    force: bool,
}

pub(crate) fn add(setup: &Setup, args: &AddArgs) -> Result<()> {
    let pattern: LabelPattern = args.label.parse()?;
    let label = complete_label(setup, &pattern)?;
    let description: ImageDescription = args.image.parse()?;
    let how = if args.moves { Transfer::Move } else { Transfer::Copy };
    let added = match &description {
        ImageDescription::Path(path) => add_file(setup, label, path, how, args.force)?,
        _ => tag(setup, label, &description, args.force)?,
    };
    print_changes(setup, &added);
    Ok(())
}

/// Adds an image file, with the metadata in it, to the repository for new images.
///
/// # Errors
///
/// The file is no image, the label is taken and must not be replaced, or the repository cannot be
/// written.
pub(crate) fn add_file(
    setup: &Setup,
    label: Label,
    path: &Path,
    how: Transfer,
    replace: bool,
) -> Result<Added> {
    let located = find_image(setup, &ImageDescription::Path(path.to_owned()))?;
    let directory = Scratch::new().or_failed(|| "make a temporary directory".to_owned())?;
    let file = open_image(&located.path, located.format)?;
    metadata::copy(&file, &setup.mount_methods(), directory.path())
        .map_err(|error| error.with_kind(Kind::Failure))?;
    let repository = setup.repository_to_write()?;
    let request = AddRequest { label, image: &located.path, meta: directory.path(), how, replace };
    add_watched(setup, &repository.repository, &request)
}

/// Adds an image, and shows how much of it is read or copied.
fn add_watched(setup: &Setup, repository: &Repository, request: &AddRequest<'_>) -> Result<Added> {
    let watched = setup.transfer(&format!("adding {}", request.label));
    let added = repository.add_with_progress(request, &mut |done, total| watched.show(done, total));
    watched.end();
    added.map_err(Report::from)
}

/// Gives an image of a repository a label in the repository for new images.
///
/// # Errors
///
/// As [`add_file`]; and there is no such image.
pub(crate) fn tag(
    setup: &Setup,
    label: Label,
    description: &ImageDescription,
    replace: bool,
) -> Result<Added> {
    let located = find_image(setup, description)?;
    let written = setup.repository_to_write()?;
    match &located.digest {
        Some(digest) if located.repository.as_deref() == Some(written.name.as_str()) => {
            written.repository.tag(digest, label, replace).map_err(Report::from)
        }
        // An image of another repository is copied, with the metadata beside it.
        _ => {
            let meta = located.path.with_file_name("meta");
            let request = AddRequest {
                label,
                image: &located.path,
                meta: &meta,
                how: Transfer::Copy,
                replace,
            };
            add_watched(setup, &written.repository, &request)
        }
    }
}
