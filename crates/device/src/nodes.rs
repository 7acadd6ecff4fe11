// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Device nodes: those of the host are in a container, so that it is only to be seen whether
//! they are what they should be.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use cabane_label::shown;
use cabane_recipe::DeviceNode;
use cabane_report::{Kind, Report};
use rustix::fs::{Access, AtFlags, CWD, accessat, major, minor};

use crate::error::DeviceError;

/// Where the nodes of the host are seen in every container.
const OF_HOST: &str = "/dev";

/// What a node comes to.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// Where it is to be seen, if that is not where it is anyhow.
    pub(crate) place: Option<(PathBuf, PathBuf)>,
    /// What the kernel says if the user may not open it.
    pub(crate) refusal: Option<io::Error>,
}

/// Looks at a node that a specification names.
pub(crate) fn look(node: &DeviceNode, file: &Path) -> Result<Looked, DeviceError> {
    let path = &node.host_path;
    let not_there = |path| move |error| DeviceError::place(file, node.line, path, error);
    let found = fs::metadata(path).map_err(not_there(path))?;
    let other = |path: &Path, found: &str, expected: &str| {
        let (file, line, path) = (shown(file), node.line, shown(path));
        let message = format!("{file}:{line}: {path} is {found}, and should be {expected}");
        DeviceError::outdated(Report::new(Kind::NotStarted, message))
    };
    let kind = found.file_type();
    if !kind.is_char_device() && !kind.is_block_device() {
        return Err(other(path, "no device", "one"));
    }
    if let Some(numbers) = node.numbers.filter(|numbers| *numbers != numbers_of(&found)) {
        let shown = |(major, minor)| format!("the device {major}:{minor}");
        return Err(other(path, &shown(numbers_of(&found)), &shown(numbers)));
    }
    let mut looked = Looked { refusal: refusal(node), ..Looked::default() };
    if node.path == *path {
        return Ok(looked);
    }
    if !node.path.starts_with(OF_HOST) {
        looked.place = Some((path.clone(), node.path.clone()));
        return Ok(looked);
    }
    let seen = fs::metadata(&node.path).map_err(not_there(&node.path))?;
    if seen.rdev() != found.rdev() {
        let seen = "another device of the host, whose /dev containers see";
        return Err(other(&node.path, seen, &shown(path)));
    }
    Ok(looked)
}

fn numbers_of(found: &Metadata) -> (u32, u32) {
    (major(found.rdev()), minor(found.rdev()))
}

/// Asks the kernel, which checks the control groups of a job here as when it is opened. To open
/// a device only to see whether that works can switch it on.
fn refusal(node: &DeviceNode) -> Option<io::Error> {
    let mut access = Access::empty();
    access.set(Access::READ_OK, node.is_read);
    access.set(Access::WRITE_OK, node.is_written);
    if access.is_empty() {
        return None;
    }
    accessat(CWD, &node.host_path, access, AtFlags::EACCESS).err().map(io::Error::from)
}
