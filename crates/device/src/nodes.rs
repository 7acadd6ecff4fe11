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
    let found = fs::metadata(path).map_err(|source| DeviceError::Place {
        file: file.to_owned(),
        line: node.line,
        path: path.clone(),
        source,
    })?;
    let other = |path: &Path, found: String, expected: String| DeviceError::Node {
        file: file.to_owned(),
        line: node.line,
        path: path.to_owned(),
        found,
        expected,
    };
    let kind = found.file_type();
    if !kind.is_char_device() && !kind.is_block_device() {
        return Err(other(path, "no device".to_owned(), "one".to_owned()));
    }
    if let Some(numbers) = node.numbers.filter(|numbers| *numbers != numbers_of(&found)) {
        let shown = |(major, minor)| format!("the device {major}:{minor}");
        return Err(other(path, shown(numbers_of(&found)), shown(numbers)));
    }
    let mut looked = Looked { refusal: refusal(node), ..Looked::default() };
    if node.path == *path {
        return Ok(looked);
    }
    if !node.path.starts_with(OF_HOST) {
        looked.place = Some((path.clone(), node.path.clone()));
        return Ok(looked);
    }
    match fs::metadata(&node.path) {
        Ok(seen) if seen.rdev() == found.rdev() => Ok(looked),
        Ok(_) => Err(other(
            &node.path,
            "another device of the host, whose /dev containers see".to_owned(),
            shown(path),
        )),
        Err(source) => Err(DeviceError::Place {
            file: file.to_owned(),
            line: node.line,
            path: node.path.clone(),
            source,
        }),
    }
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
