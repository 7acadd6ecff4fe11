// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! With `--verbose`, conflicts between views are shown before a command starts.
//!
//! They are visible only once the images are mounted, and the process that mounts them becomes the
//! command. So it becomes this program first, which shows the conflicts and becomes the command.

use std::ffi::OsString;
use std::path::Path;

use cabane_report::Result;
use cabane_resolve::{ConcreteEnvironment, ConcreteImage};
use cabane_site::Context;

/// The command of this program that shows conflicts, then becomes another command.
const CONFLICTS_COMMAND: &str = "explain-start";

/// Puts this program before a command if details are shown and the environment does not hide it.
pub(crate) fn with_conflicts(
    context: &Context,
    environment: &ConcreteEnvironment,
    command: Vec<OsString>,
) -> Result<Vec<OsString>> {
    if !context.is_verbose() || environment.views.is_empty() {
        return Ok(command);
    }
    let mut arguments = context.own_program()?;
    if covering(environment, Path::new(&arguments[0])).is_some() {
        return Ok(command);
    }
    arguments.extend([CONFLICTS_COMMAND.into(), "--".into()]);
    arguments.extend(command);
    Ok(arguments)
}

/// Returns the image that is mounted over a file of the host, if there is one.
pub(crate) fn covering<'a>(
    environment: &'a ConcreteEnvironment,
    file: &Path,
) -> Option<&'a ConcreteImage> {
    let mut images = environment.images.iter();
    images.find(|image| file.starts_with(image.mount_point.as_path()))
}
