// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Environment files, as commands name them.

use std::path::Path;

use cabane_label::{ImageDescription, UenvDescription, escape};
use cabane_recipe::{EnvironmentFile, EnvironmentReference, MountEntry};
use cabane_report::{IoContext, Result};
use cabane_resolve::EnvironmentFinder;
use cabane_run::loaded::{Additions, Bind};
use cabane_site::Context;

/// Returns what finds environment files.
pub fn finder(context: &Context) -> EnvironmentFinder<'_> {
    EnvironmentFinder {
        directories: &context.settings.environment_directories.value,
        variables: &context.calling,
    }
}

/// Tells which file a name or path on the command line means.
///
/// # Errors
///
/// The working directory is gone.
pub fn reference(text: &str) -> Result<EnvironmentReference> {
    let directory =
        std::env::current_dir().or_failed(|| "find the working directory".to_owned())?;
    Ok(EnvironmentReference::new(text, &directory))
}

/// Loads a file with its bases.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn load(context: &Context, text: &str) -> Result<EnvironmentFile> {
    finder(context).load(&reference(text)?)
}

/// Returns the path of an environment file that was typed where images are.
pub(crate) fn as_path(description: &UenvDescription) -> Option<&Path> {
    match (&description.image, &description.mount_point) {
        (ImageDescription::Path(path), None) => {
            path.extension().is_some_and(|ending| ending == "toml").then_some(path)
        }
        _ => None,
    }
}

/// Says which annotations of container engines have no effect.
pub fn announce_ignored(context: &Context, file: &EnvironmentFile) {
    let ignored = file.ignored_annotations();
    if !ignored.is_empty() {
        let names = ignored.iter().map(|name| escape(name)).collect::<Vec<_>>().join(", ");
        context.note(format_args!("these annotations have no effect here: {names}"));
    }
}

/// Takes what is neither an image nor a view out of a file.
pub(crate) fn additions(file: &mut EnvironmentFile) -> Additions {
    let optional_devices = file.devices_of_annotations();
    let bind = |mount: MountEntry| Bind {
        source: mount.source,
        target: mount.target,
        read_only: mount.read_only,
    };
    let mounts = std::mem::take(&mut file.mounts);
    Additions {
        binds: mounts.into_iter().map(bind).collect(),
        devices: file.devices.iter().map(ToString::to_string).collect(),
        variables: std::mem::take(&mut file.env),
        optional_devices: optional_devices.iter().map(ToString::to_string).collect(),
        working_directory: file.workdir.take(),
        starts_in_image: file.container.is_some(),
        ranks_for_pytorch: file.has_ranks_for_pytorch(),
        entry_point: file.entrypoint == Some(true),
        writable: file.writable == Some(true),
    }
}
