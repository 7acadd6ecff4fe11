// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The image with the debug files of another one.
//!
//! ```text
//! /user-environment-debug/
//! ├── .build-id/ab/cdef….debug     what gdb looks for
//! ├── buildid/abcdef…/debuginfo    links to them, which elfutils looks for
//! ├── bin/gdb                      starts the next gdb with this directory
//! ├── bin/debuginfod-find          what valgrind asks
//! └── meta/
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

use cabane_label::MountPoint;
use cabane_view::{Change, EnvPatch, HostNeeds, Meta, View, ViewName};

use super::BUILD_ID;
use crate::job::Job;
use crate::metadata::{CONFIGURE_JSON, ENV_JSON, prepend};
use crate::{BuildError, Result, disk};

/// The directories with debug files, as the programs below read it.
const DEBUG_PATH: &str = "CABANE_DEBUG_PATH";
const GDB: &str = include_str!("gdb.sh");
const DEBUGINFOD_FIND: &str = include_str!("debuginfod-find.sh");

/// Where the debug files of an image are mounted: beside it.
///
/// # Errors
///
/// The mount point would be too long.
pub(crate) fn mount_point(store: &MountPoint) -> Result<MountPoint> {
    format!("{store}-debug").parse().map_err(|error| {
        BuildError::refused(format!("the debug symbols cannot be mounted: {error}"), None)
    })
}

/// Whether any file had debug symbols.
pub(crate) fn has_any(job: &Job) -> bool {
    job.layout.symbols().join(BUILD_ID).is_dir()
}

/// Completes the tree of debug files, and writes its metadata.
pub(crate) fn write(job: &Job, mount: &MountPoint) -> Result<()> {
    let symbols = job.layout.symbols();
    let links = symbols.join("buildid");
    disk::make_empty(&links)?;
    for directory in disk::entries("look at", &symbols.join(BUILD_ID))? {
        let start = directory.file_name().to_string_lossy().into_owned();
        for file in disk::entries("look at", &directory.path())? {
            let name = file.file_name().to_string_lossy().into_owned();
            let rest = name.strip_suffix(".debug").unwrap_or(&name);
            let link = links.join(format!("{start}{rest}"));
            disk::make_directory(&link)?;
            let target = format!("../../{BUILD_ID}/{start}/{name}");
            symlink(target, link.join("debuginfo")).map_err(BuildError::file("write", &link))?;
        }
    }
    disk::put_executable(&symbols.join("bin/gdb"), GDB)?;
    disk::put_executable(&symbols.join("bin/debuginfod-find"), DEBUGINFOD_FIND)?;
    let meta = job.layout.symbols_meta();
    disk::make_empty(&meta)?;
    disk::put(&meta.join(ENV_JSON), env_json(job, mount))?;
    disk::put(&meta.join(HostNeeds::FILE), HostNeeds::default().to_json())?;
    let name = name(job);
    let configure = serde_json::json!({
        "version": 1, "name": name, "engine": job.engine.name(), "mount": mount.as_str(),
    });
    disk::put(&meta.join(CONFIGURE_JSON), format!("{configure:#}\n"))?;
    // It is the place where the metadata appear.
    fs::create_dir_all(symbols.join("meta")).map_err(BuildError::file("make", &symbols))
}

fn name(job: &Job) -> String {
    format!("{}-debug", job.recipe.name)
}

fn env_json(job: &Job, mount: &MountPoint) -> String {
    let mut patch = EnvPatch::new();
    patch.push("PATH", prepend(vec![format!("{mount}/bin")]));
    patch.push(DEBUG_PATH, prepend(vec![mount.to_string()]));
    // elfutils takes several, separated by spaces.
    let urls = format!("file://{mount} ${{@DEBUGINFOD_URLS@}}");
    patch.push("DEBUGINFOD_URLS", Change::Set(urls));
    let view = View {
        description: Some("debug symbols for gdb, valgrind, and elfutils".to_owned()),
        root: Some(mount.to_string()),
        activate: None,
        patch,
    };
    let default = "default".parse::<ViewName>().ok();
    let meta = Meta {
        name: name(job),
        description: Some(format!("Debug symbols of {}", job.recipe.name)),
        mount: Some(mount.clone()),
        views: default.iter().map(|name| (name.clone(), view.clone())).collect::<BTreeMap<_, _>>(),
        default_view: default,
        engine: Some(job.engine.name().to_owned()),
        ..Meta::default()
    };
    meta.to_json()
}
