// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The catalog of a pipeline: a website of the images in the registry.

use std::path::PathBuf;

use cabane_catalogue::{GatherRequest, OtherEntries, Written, build, gather};
use cabane_label::shown;
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;

use crate::pipeline::Pipeline;
use crate::registry::Publishing;

/// A catalog that was written.
#[derive(Clone, Debug)]
pub struct PublishedCatalogue {
    /// Its directory.
    pub directory: PathBuf,
    /// The number of its images.
    pub images: usize,
    /// What changed in its files.
    pub written: Written,
}

/// Writes the catalog that the file of a pipeline describes.
///
/// # Errors
///
/// The file describes none; no registry is named or configured; those of reading the registry, and of writing
/// the site.
pub fn catalogue(
    context: &Context,
    pipeline: &Pipeline,
    publishing: &Publishing,
) -> Result<PublishedCatalogue> {
    if pipeline.catalogue.is_none() {
        let message = format!("{} describes no catalog", shown(&pipeline.file));
        let hint = "add a section such as `catalogue: {directory: public}`";
        return Err(Report::new(Kind::BadInput, message).hinted(hint.to_owned()));
    }
    // It says what is missing.
    publishing.registry.connect(context)?;
    publish(context, pipeline, publishing)?
        .ok_or_else(|| Report::new(Kind::Usage, "a catalog shows the images of a registry"))
}

/// Writes the catalog. `None` if the file describes none, or no registry is used.
///
/// # Errors
///
/// Those of reading the registry, and of writing the site.
pub(crate) fn publish(
    context: &Context,
    pipeline: &Pipeline,
    publishing: &Publishing,
) -> Result<Option<PublishedCatalogue>> {
    let Some(target) = &pipeline.catalogue else { return Ok(None) };
    if !publishing.has_registry(context) {
        return Ok(None);
    }
    let mut namespaces = target.namespaces.clone();
    if namespaces.is_empty() {
        let released = pipeline.promote.as_ref().map(|promote| &promote.namespace);
        namespaces.push(released.unwrap_or(&pipeline.publish).clone());
    }
    let request = GatherRequest {
        namespaces,
        title: target.title.clone(),
        base: target.url.clone(),
        ..GatherRequest::default()
    };
    let input = gather(context, &publishing.registry, &request)?;
    let directory = pipeline.directory.join(&target.directory);
    let written = build(&input, &directory, OtherEntries::Refuse)?;
    Ok(Some(PublishedCatalogue { directory, images: input.images.len(), written }))
}
