// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image push`: from the repository, or from a file, into a registry.

use std::path::PathBuf;

use cabane_label::{Digest, ImageDescription, LabelPattern};
use cabane_registry::{Format, PushRequest, Pushed, sum};
use cabane_repository::ImageFormat;
use cabane_resolve::LocatedImage;
use cabane_run::{metadata, open_image};
use clap::Args;
use jiff::Timestamp;

use crate::exit_codes::{self, ExitCode};
use crate::packages::lines_beside;
use crate::registry::RegistryArgs;
use crate::report::{CommandResult, IoContext, Kind, Report};
use crate::setup::Setup;
use cabane_environment::find_image;
use cabane_report::size;
use cabane_signature_policy as signature_policy;
use cabane_transfer::Connection;
use cabane_transfer::Scratch;

/// Upload an image to a registry
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane image push prgenv-gnu/24.11:v2 prgenv-gnu/24.11:v2@daint%gh200
  cabane image push ./image.squashfs build::cp2k/2025.1:dev@daint%gh200

Missing parts of the label get the defaults of `image add`. An interrupted push resumes when
you run it again.")]
pub(crate) struct PushArgs {
    /// An image file, or an image of a repository: label, ID, or digest
    image: String,
    /// The label in the registry: name/version:tag@system%uarch, optionally after a namespace of the registry; default: the label of the image
    label: Option<String>,
    /// Move the label from the image that has it in the registry
    #[arg(long)]
    force: bool,
    /// Sign the image with this private key; see `cabane image sign`
    #[arg(long, value_name = "FILE")]
    sign: Option<PathBuf>,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn push(setup: &Setup, args: &PushArgs) -> CommandResult<ExitCode> {
    let key = args.sign.as_deref();
    let key = key
        .map(|path| signature_policy::signing_key(setup, path))
        .transpose()?;
    let connection = args.registry.connect(setup)?;
    let description: ImageDescription = args.image.parse()?;
    let pattern = args.label.as_deref().map(str::parse::<LabelPattern>);
    let pattern = pattern.transpose()?;
    let located = find_image(setup, &description)?;
    let pattern = match (pattern, &located.label) {
        (Some(pattern), _) => pattern,
        (None, Some(label)) => LabelPattern::from(label),
        // Then the name says at least what is missing.
        (None, None) => LabelPattern::default(),
    };
    let place = connection.new_place(setup, &pattern)?;
    let path = &located.path;
    let shown = || format!("read {}", path.display());
    let file = std::fs::metadata(path).or_failed(shown)?;
    let directory = Scratch::new()?;
    let meta = metadata_of(setup, &located, directory.path())?;
    let packages = lines_beside(&meta);
    let cache = setup.settings.cache_directory.value.as_ref();
    let notes = cache.map(|cache| cache.join("uploads"));
    let request = PushRequest {
        place: &place,
        image: path,
        digest: digest_of(setup, &located)?,
        size: file.len(),
        format: match located.format {
            ImageFormat::Erofs => Format::Erofs,
            ImageFormat::Squashfs => Format::Squashfs,
        },
        meta: Some(&meta),
        packages: packages.as_deref(),
        created: date_of(&file),
        replace: args.force,
        notes: notes.as_deref(),
        sign: key.as_ref(),
    };
    let watched = setup.transfer(&format!("pushing {place}"));
    let pushed = connection.registry.push(&request, &mut |done, total| {
        watched.show(done, total);
    });
    watched.end();
    let pushed = pushed?;
    tell(setup, &pushed);
    remember(setup, &connection, &located, &pushed);
    if let Some(key) = key.filter(|_| pushed.signed) {
        let id = key.public().fingerprint();
        setup
            .printer
            .note(format_args!("signed with the key {}", id.id()));
    }
    Ok(exit_codes::SUCCESS)
}

/// Returns when the image was made: the same image is the same in the registry, whoever
/// pushes it and when.
fn date_of(file: &std::fs::Metadata) -> Timestamp {
    let changed = file.modified().ok();
    let date = changed.and_then(|time| Timestamp::try_from(time).ok());
    date.unwrap_or_else(Timestamp::now)
}

fn digest_of(setup: &Setup, located: &LocatedImage) -> CommandResult<Digest> {
    if let Some(digest) = &located.digest {
        return Ok(digest.clone());
    }
    let watched = setup.transfer("summing");
    let digest = sum::file(&located.path, &mut |done, total| watched.show(done, total));
    watched.end();
    digest.map_err(Report::from)
}

/// Returns the metadata beside the image, or those in it.
fn metadata_of(
    setup: &Setup,
    located: &LocatedImage,
    directory: &std::path::Path,
) -> CommandResult<PathBuf> {
    let beside = located
        .digest
        .as_ref()
        .map(|_| located.path.with_file_name("meta"));
    if let Some(beside) = beside.filter(|beside| beside.is_dir()) {
        return Ok(beside);
    }
    let file = open_image(&located.path, located.format)?;
    metadata::copy(&file, &setup.ways(), directory)
        .map_err(|error| Report::from(error).with_kind(Kind::Failure))?;
    Ok(directory.to_owned())
}

/// Keeps the signatures that the image has now beside it, so that it can be started where
/// they are wanted.
fn remember(setup: &Setup, connection: &Connection, located: &LocatedImage, pushed: &Pushed) {
    let repositories = setup.repositories().unwrap_or_default();
    let mut holders = repositories.iter();
    let holder = holders.find(|one| Some(&one.name) == located.repository.as_ref());
    let record = connection.registry.fetch_record(&pushed.image);
    if let (Some(holder), Ok(record)) = (holder, record) {
        signature_policy::remember(setup, &holder.repository, &pushed.image.digest, record);
    }
}

fn tell(setup: &Setup, pushed: &Pushed) {
    let image = &pushed.image;
    let (place, id) = (&image.place, image.digest.id());
    let printer = setup.printer;
    if pushed.unchanged {
        printer.note(format_args!("{place} is the image {id} already"));
        return;
    }
    let sent = if pushed.sent {
        ""
    } else {
        ", which the registry had already"
    };
    printer.note(format_args!(
        "pushed {place} ({id}, {}{sent})",
        size(image.size)
    ));
    if let Some(replaced) = &pushed.replaced {
        printer.note(format_args!(
            "the label was taken from the image {}",
            replaced.id()
        ));
    }
}
