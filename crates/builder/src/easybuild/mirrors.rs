// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Directories with sources that the site names, as it names them for Spack.

use std::path::{Path, PathBuf};

use cabane_recipe::{FileText, malformed, parse_mirrors};
use cabane_report::{Kind, Report};

use crate::{BuildRequest, Result, disk};

/// The file in the configuration of a system.
const FILE: &str = "mirrors.yaml";
const SCHEME: &str = "file://";

/// Returns the directories of `sourcemirror`: those of the file that the request names, or of the system.
/// Other mirrors, and directories that are not there, are left out.
pub(super) fn directories(request: &BuildRequest) -> Result<Vec<PathBuf>> {
    let of_system = || Some(request.system_dir.as_ref()?.join(FILE)).filter(|path| path.exists());
    let Some(path) = request.mirrors.clone().or_else(of_system) else { return Ok(Vec::new()) };
    let bytes = disk::read(&path)?;
    let mirrors = parse_mirrors(&FileText { path: &path, text: &bytes })
        .map_err(|error| malformed("the mirrors", error.diagnostics()))?;
    let value = |name: &str| request.path_variables.get(name).cloned();
    let mirrors = mirrors.expanded(&value).map_err(|error| Report::new(Kind::Build, error))?;
    let addresses = mirrors.source_mirrors.iter().filter_map(|one| one.fetch.as_ref());
    let paths = addresses.map(|one| Path::new(one.url.strip_prefix(SCHEME).unwrap_or(&one.url)));
    let is_usable = |path: &&Path| path.is_absolute() && path.is_dir();
    Ok(paths.filter(is_usable).map(Path::to_owned).collect())
}
