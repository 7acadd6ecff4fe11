// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image copy` and `cabane image delete`: labels of a registry.

use cabane_label::{ImageDescription, Label, LabelPattern};
use cabane_registry::RemoteImage;
use cabane_report::{Kind, Report, Result};
use cabane_transfer::{Connection, CopiedImage, built_on_remote, copy as copy_image, find_remote};
use clap::Args;

use crate::registry::RegistryArgs;
use crate::setup::Setup;

/// Give an image in a registry another label
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane image copy build::cp2k/2025.1:1234567890@daint%gh200 deploy::cp2k/2025.1:v1@daint%gh200

The image is not transferred, and its signatures stay valid. Missing parts of the second
label are taken from the first. If the label is in another namespace, that namespace also gets the
images on which the image is built, without labels.")]
pub(crate) struct CopyArgs {
    /// The image: label, ID, or digest
    from: String,
    /// The new label: name/version:tag@system%uarch, optionally after a namespace of the registry
    to: String,
    /// Move the label from the image that has it
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// Remove a label from an image in a registry, and the image with its last label
#[derive(Debug, Args)]
#[command(after_help = "\
An image on which other images of the namespace are built is deleted only with --force. The others
cannot be pulled completely any more.")]
pub(crate) struct DeleteArgs {
    /// The image: a label
    image: String,
    /// Delete an image on which other images are built
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn copy(setup: &Setup, args: &CopyArgs) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let from: ImageDescription = args.from.parse()?;
    let to: LabelPattern = args.to.parse()?;
    let found = find_remote(setup, &connection, &args.from, &from)?;
    // Of one image several labels may be found, and one is as good as another.
    let Some(source) = found.first() else {
        return Ok(());
    };
    let known = &source.place.label;
    let whole = LabelPattern {
        namespace: to.namespace,
        name: to.name.or_else(|| Some(known.name.clone())),
        version: to.version.or_else(|| Some(known.version.clone())),
        tag: to.tag.or_else(|| Some(known.tag.clone())),
        system: to.system.or_else(|| LabelPattern::from(known).system),
        uarch: to.uarch.or_else(|| Some(known.uarch.clone())),
    };
    let place = connection.new_place(setup, &whole)?;
    let CopiedImage { copied, bases } = copy_image(setup, &connection, source, &place, args.force)?;
    for base in &bases {
        let namespace = &place.namespace;
        setup.note(format_args!("copied the base {} to {namespace}, without a label", base.id()));
    }
    let id = copied.image.digest.id();
    if copied.unchanged {
        setup.note(format_args!("{place} already names the image {id}"));
        return Ok(());
    }
    setup.note(format_args!("copied {} to {place} ({id})", source.place));
    if let Some(replaced) = &copied.replaced {
        let replaced = replaced.id();
        setup.note(format_args!("the label was taken from the image {replaced}"));
    }
    Ok(())
}

pub(crate) fn delete(setup: &Setup, args: &DeleteArgs) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let description: ImageDescription = args.image.parse()?;
    if let ImageDescription::Pattern(pattern) = &description {
        connection.refuse_channel(setup, pattern)?;
    }
    let found = find_remote(setup, &connection, &args.image, &description)?;
    let [image] = found.as_slice() else {
        let error = format!(
            "`{typed}` matches {count} labels, and only one is deleted at a time",
            typed = args.image,
            count = found.len()
        );
        let labels = found.iter().map(|image| format!("  {}", image.place));
        let detail = labels.collect::<Vec<_>>().join("\n");
        return Err(Report::new(Kind::Ambiguous, error).detailed(detail));
    };
    check_base(setup, &connection, image, args.force)?;
    let deleted = connection.registry.delete(&image.place)?;
    let id = deleted.image.digest.id();
    let rest = if deleted.remains {
        "; other labels still have the image"
    } else {
        ", and the image with it"
    };
    setup.note(format_args!("deleted {} ({id}){rest}", deleted.image.place));
    Ok(())
}

/// Refuses to delete an image without which others of the registry cannot be used, or says which these are
/// if it is deleted nevertheless.
fn check_base(
    setup: &Setup,
    connection: &Connection,
    image: &RemoteImage,
    force: bool,
) -> Result<()> {
    let labels = built_on_remote(setup, connection, image)?;
    let Some(first) = labels.first() else {
        return Ok(());
    };
    let (label, id) = (&image.place.label, image.digest.id());
    let list = labels.iter().map(Label::to_string).collect::<Vec<_>>().join(", ");
    if force {
        setup.warning(format_args!("{list} cannot be pulled completely without the image {id}"));
        return Ok(());
    }
    let namespace = &image.place.namespace;
    let message = format!("images of {namespace} are built on {label} ({id}): {list}");
    Err(Report::new(Kind::Failure, message).hinted(format!(
        "delete them first (`cabane image delete {namespace}::{first}`), or `cabane image delete --force \
         {namespace}::{label}` deletes the image nevertheless"
    )))
}
