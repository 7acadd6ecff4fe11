// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Root file systems in directories.

use std::fs;
use std::path::Path;

use cabane_container::{ContainerImage, Platform, directory};
use cabane_report::{IoContext, Result};

/// Opens a root file system in a directory.
///
/// # Errors
///
/// A directory that is not there or cannot be read.
pub fn directory_of(path: &Path, platform: &Platform) -> Result<ContainerImage<'static>> {
    let path = fs::canonicalize(path).or_failed(|| format!("find {}", path.display()))?;
    fs::read_dir(&path).or_failed(|| format!("read {}", path.display()))?;
    Ok(directory(&path, platform, false))
}
