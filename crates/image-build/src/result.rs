// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where the image of a build goes.

use std::fs;
use std::path::Path;

use cabane_builder::Built;
use cabane_label::Label;
use cabane_report::{IoContext, Result};
use cabane_repository::{AddRequest, Added, Record, Repository, Transfer};
use cabane_site::Context;

/// Adds the image of a build to the repository. Returns `None` if the label means this image
/// already.
///
/// # Errors
///
/// The repository cannot be written.
pub fn add_built(context: &Context, label: &Label, built: &Built) -> Result<Option<Added>> {
    let repository = context.repository_to_write()?.repository;
    // An image that is there already need not be read and compared again.
    let known = repository.by_label(label)?;
    if let Some(record) = known.filter(|record| record.digest == built.digest) {
        keep_source(context, &repository, &record, built);
        return Ok(None);
    }
    let request = AddRequest {
        label: label.clone(),
        image: &built.image,
        meta: &built.meta,
        how: Transfer::Copy,
        // A user who builds the same label again means the new image by it.
        replace: true,
    };
    let added = repository.add(&request)?;
    keep_source(context, &repository, &added.record, built);
    Ok(Some(added))
}

/// Records the container image of a build for `cabane import --check`.
fn keep_source(context: &Context, repository: &Repository, record: &Record, built: &Built) {
    if let Some(source) = &built.source
        && let Err(error) = repository.keep_reference(record, source)
    {
        context.warning(format_args!(
            "the source of {} cannot be recorded, so `cabane import --check` does not know it",
            record.label
        ));
        context.detail(&error);
    }
}

/// Writes the image of a build to a file.
///
/// # Errors
///
/// The file cannot be written. None is left then.
pub fn write_built(built: &Built, output: &Path) -> Result<()> {
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let temporary = output.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    let result = fs::copy(&built.image, &temporary)
        .and_then(|_| fs::File::open(&temporary)?.sync_all())
        .and_then(|()| fs::rename(&temporary, output));
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result.or_failed(|| format!("write {}", output.display()))
}
