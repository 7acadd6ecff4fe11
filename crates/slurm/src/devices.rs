// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! On a node: what its devices bring into the images of a step.
//!
//! The files that say so are the node's. [`query`](crate::query) says who reads them.

use std::ffi::OsString;
use std::path::Path;

use cabane_mount::{JobImage, JobRoot};

use crate::query::{Answer, Query, TIME_LIMIT, lines_of};
use crate::spank::Spank;

/// Adds what the devices of a list bring on this node. Returns what the user sees.
///
/// # Errors
///
/// A device that must be there and is not, in lines for the user.
pub(crate) fn add(
    spank: &dyn Spank,
    query: Query<'_>,
    images: &[JobImage],
    root: &mut JobRoot,
) -> Result<Vec<String>, Vec<String>> {
    let finished = query
        .ask(&arguments(images, root), &[], None, TIME_LIMIT)
        .map_err(|error| vec![format!("cannot ask for the devices of this node: {error}")])?;
    let mut lines = lines_of(&finished.errors);
    if !finished.is_well {
        if lines.is_empty() {
            lines.push("the devices of this node are not known".to_owned());
        }
        return Err(lines);
    }
    let answer = Answer::parse(&finished.output).ok_or_else(|| {
        vec![
            "the answer about the devices of this node is malformed: is `cabane` another version?"
                .to_owned(),
        ]
    })?;
    answer.execute(spank, root)?;
    Ok(lines)
}

fn arguments(images: &[JobImage], root: &JobRoot) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut images = images.iter();
    if let Some(image) = images.find(|image| image.mount_point == Path::new("/")) {
        arguments.extend(["--image".into(), image.path.clone().into()]);
    }
    for device in &root.devices {
        let option = if device.must_be { "--device" } else { "--usual-device" };
        arguments.extend([option.into(), OsString::from(&device.name)]);
    }
    arguments
}
