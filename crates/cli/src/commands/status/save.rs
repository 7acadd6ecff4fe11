// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane status --save`: what is loaded, as an environment file.
//!
//! Images are pinned by their digests; the label of each is a comment. What is
//! written is what the variables contain: they may have been changed.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cabane_label::{ImageDescription, ParseError, UenvDescription};
use cabane_recipe::{DeviceRequest, EnvironmentFile, MountEntry};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_run::loaded::{Loaded, LoadedImage};
use cabane_view::ViewDescription;

use crate::setup::Setup;

const HEAD: &str = "# Written by `cabane status --save`. `cabane start -e FILE` enters it again.\n";

/// Writes the file, or prints it where the path is `-`.
pub(crate) fn save(setup: &Setup, loaded: &Loaded, path: &Path, force: bool) -> Result<()> {
    let file = as_file(loaded)?;
    let notes: Vec<String> = loaded.images.iter().map(note).collect();
    let text = format!("{HEAD}{}", file.to_toml(&notes));
    if path == Path::new("-") {
        setup.printer.data(text);
        return Ok(());
    }
    write(path, &text, force)?;
    setup.note(format_args!("saved in {}", path.display()));
    Ok(())
}

fn note(image: &LoadedImage) -> String {
    match (&image.digest, &image.label) {
        (Some(_), Some(label)) => label.clone(),
        _ => String::new(),
    }
}

fn as_file(loaded: &Loaded) -> Result<EnvironmentFile, ParseError> {
    let mut file = EnvironmentFile::default();
    file.workdir.clone_from(&loaded.additions.working_directory);
    for image in &loaded.images {
        file.images.push(as_description(image)?);
    }
    for view in &loaded.views {
        let text = format!("{}:{}", view.mount_point.display(), view.view);
        file.views.push(text.parse::<ViewDescription>()?);
    }
    // Without it an image would come with its default view.
    file.default_views = loaded.views.is_empty().then_some(false);
    for bind in &loaded.additions.binds {
        file.mounts.push(MountEntry {
            source: bind.source.clone(),
            target: bind.target.clone(),
            read_only: bind.read_only,
        });
    }
    for device in &loaded.additions.devices {
        // What others wrote there is no device.
        file.devices.extend(device.parse::<DeviceRequest>());
    }
    file.env = loaded.additions.variables.clone();
    Ok(file)
}

fn as_description(image: &LoadedImage) -> Result<UenvDescription, ParseError> {
    let description = match &image.digest {
        Some(digest) => ImageDescription::Digest(digest.parse()?),
        None => image.path.to_string_lossy().parse()?,
    };
    Ok(UenvDescription {
        image: description,
        mount_point: Some(image.mount_point.to_string_lossy().parse()?),
    })
}

/// Writes the whole file or nothing.
fn write(path: &Path, text: &str, force: bool) -> Result<()> {
    let failed = || format!("write {}", path.display());
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        // Less what the user's umask takes away.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .or_failed(failed)?;
    file.write_all(text.as_bytes()).or_failed(failed)?;
    file.as_file().sync_all().or_failed(failed)?;
    let persisted = if force { file.persist(path) } else { file.persist_noclobber(path) };
    match persisted {
        Ok(_) => Ok(()),
        Err(error) if !force && error.error.kind() == std::io::ErrorKind::AlreadyExists => {
            let path = path.display().to_string();
            let hint = "`--force` replaces it".to_owned();
            Err(Report::new(Kind::Failure, format!("{path} exists already")).hinted(hint))
        }
        Err(error) => Err(error.error).or_failed(failed),
    }
}
