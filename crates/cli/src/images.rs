// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Finding the images and views that a command names.

use cabane_label::{
    ImageDescription, Label, LabelDefaults, LabelPattern, UenvDescription, parse_uenv_list,
};
use cabane_mount::{Backend, ImageFile};
use cabane_resolve::{ConcreteEnvironment, LocatedImage, Resolver, assemble};
use cabane_run::{RunError, metadata, open_image, read_metadata_through};
use cabane_view::{Meta, ViewDescription, parse_view_list};
use clap::Args;

use crate::convert;
use crate::exit_codes;
use crate::report::{CommandError, CommandResult};
use crate::setup::Setup;

/// Which images and views to load.
#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    /// Images: label, id, digest or path, each may be followed by :/mount/point;
    /// several are separated by commas
    #[arg(value_name = "IMAGES")]
    images: String,
    /// Views to load, in this order: VIEW or IMAGE:VIEW, separated by commas
    #[arg(short, long, value_name = "VIEWS")]
    view: Option<String>,
    /// Load no view if none is named
    #[arg(long, conflicts_with = "view")]
    no_default_view: bool,
    /// Print what would be mounted and set, and stop
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Finds what was typed.
///
/// # Errors
///
/// Whatever is malformed, missing or ambiguous.
pub(crate) fn find_environment(
    setup: &Setup,
    args: &ImageArgs,
) -> CommandResult<ConcreteEnvironment> {
    let descriptions = parse_uenv_list(&args.images).map_err(convert::parse_error)?;
    let views = match &args.view {
        Some(text) => parse_view_list(text).map_err(convert::parse_error)?,
        None => Vec::<ViewDescription>::new(),
    };
    let resolver = resolver_for(setup, &descriptions)?;
    let mut located = Vec::with_capacity(descriptions.len());
    for description in descriptions {
        let mut image = resolver
            .locate(&description)
            .map_err(convert::locate_error)?;
        fill_in_metadata(setup, &mut image)?;
        located.push((image, description));
    }
    let environment =
        assemble(located, &views, !args.no_default_view).map_err(convert::assemble_error)?;
    for warning in &environment.warnings {
        setup.printer.warning(&warning.to_string());
    }
    Ok(environment)
}

/// Opens the repositories only if something has to be looked up in them.
fn resolver_for(setup: &Setup, descriptions: &[UenvDescription]) -> CommandResult<Resolver> {
    let is_path =
        |description: &UenvDescription| matches!(description.image, ImageDescription::Path(_));
    let repositories = if descriptions.iter().all(is_path) {
        Vec::new()
    } else {
        setup.repositories()?
    };
    Ok(Resolver::new(repositories, setup.system()))
}

/// Finds one image.
///
/// # Errors
///
/// Nothing, or several, are what was typed.
pub(crate) fn find_image(setup: &Setup, image: &ImageDescription) -> CommandResult<LocatedImage> {
    let description = UenvDescription {
        image: image.clone(),
        mount_point: None,
    };
    resolver_for(setup, std::slice::from_ref(&description))?
        .locate(&description)
        .map_err(convert::locate_error)
}

/// Looks into the image if what is beside it says nothing about it.
pub(crate) fn fill_in_metadata(setup: &Setup, image: &mut LocatedImage) -> CommandResult<()> {
    if image.meta.is_some() {
        return Ok(());
    }
    let file: ImageFile = open_image(&image.path, image.format).map_err(convert::run_error)?;
    let bytes = read_metadata(setup, file).map_err(convert::run_error)?;
    if let Some(bytes) = bytes {
        let meta = Meta::from_json(&bytes).map_err(|error| {
            let place = format!("in meta/env.json of {}", image.path.display());
            CommandError::new(
                exit_codes::BAD_INPUT,
                BadMeta {
                    place,
                    source: error,
                },
            )
        })?;
        image.meta = Some(meta);
    }
    Ok(())
}

/// Through FUSE, or else through the helper: not every format has a FUSE program on
/// every system.
fn read_metadata(setup: &Setup, file: ImageFile) -> Result<Option<Vec<u8>>, RunError> {
    let error = match metadata::read(&file, setup.backend, &setup.fuse) {
        Err(error) if setup.backend != Backend::Root => error,
        result => return result,
    };
    match setup.helper() {
        Ok(helper) => read_metadata_through(&helper, file).map_err(|_| error),
        Err(_) => Err(error),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("malformed metadata {place}")]
struct BadMeta {
    place: String,
    source: cabane_view::MetaError,
}

/// Fills in the parts of a label that were left out.
///
/// # Errors
///
/// A name or version that is missing.
pub(crate) fn complete_label(setup: &Setup, pattern: &LabelPattern) -> CommandResult<Label> {
    let fixed = |text: &str| text.parse().map_err(convert::parse_error);
    let system = match setup.system() {
        Some(system) => system,
        None => "local".parse().map_err(convert::parse_error)?,
    };
    let defaults = LabelDefaults {
        tag: fixed("v1")?,
        system,
        uarch: setup.settings.uarch.value.clone(),
    };
    pattern
        .complete(&defaults)
        .map_err(convert::incomplete_label)
}
