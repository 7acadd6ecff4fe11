// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Sets a machine up for all its users: mount points, a repository, the configuration, and the plugin for Slurm. What
//! is there stays as it is, so that a second call changes nothing.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_doctor::{FirstConfiguration, MOUNT_POINTS, Saved};
use cabane_job::{InstallRequest, Installed, has_plugin, install};
use cabane_label::shown;
use cabane_report::{IoContext, Kind, Notices, Report, Result};
use cabane_repository::Repository;
use cabane_site::open_repository;
use rustix::fs::Mode;
use rustix::process::{geteuid, umask};

/// Where the configuration of all users is.
const CONFIGURATION: &str = "/etc/cabane";

/// What a call did, and the command that takes it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What was done, or what was there.
    pub what: String,
    /// The words of the command that takes it back; nothing was done if there is none.
    pub undo: Option<Vec<String>>,
}

impl Change {
    /// A path that was made, and the words before it in the command that removes it.
    fn made(what: &str, path: &Path, undo: &[&str]) -> Self {
        let mut words: Vec<String> = undo.iter().map(|word| (*word).to_owned()).collect();
        words.push(path.display().to_string());
        Self { what: format!("{what} {}", shown(path)), undo: Some(words) }
    }

    fn kept(path: &Path) -> Self {
        Self { what: format!("kept the existing {}", shown(path)), undo: None }
    }
}

/// Sets this machine up, and returns what was done, in this order. `calling` are the variables of the caller,
/// `repository` is the directory of a repository for all users, which is made if there is none.
///
/// # Errors
///
/// The caller is not root, or something cannot be made or written. What was done before stays, and the next call goes on
/// from there.
pub fn set_up(
    calling: &BTreeMap<OsString, OsString>,
    repository: Option<&Path>,
    notices: &dyn Notices,
) -> Result<Vec<Change>> {
    if !geteuid().is_root() {
        let error = Report::new(Kind::Failure, "only root can set a machine up for all users");
        return Err(error.hinted("type the same with `sudo`".to_owned()));
    }
    // All users read what is made here, also where root's own files are closed.
    umask(Mode::WGRP | Mode::WOTH);
    let mut changes = mount_points()?;
    let repository = repository.map(|path| make_repository(path, &mut changes)).transpose()?;
    let first = FirstConfiguration::of_machine(calling, repository.as_deref());
    for saved in first.save(Path::new(CONFIGURATION))? {
        changes.push(match saved {
            Saved::Written(path) => Change::made("wrote", &path, &["rm"]),
            Saved::Kept(path) => Change::kept(&path),
        });
    }
    let is_named = |path: &PathBuf| FirstConfiguration::is_named_in(Path::new(CONFIGURATION), path);
    if let Some(path) = repository.filter(|path| !is_named(path)) {
        notices.warning(&format!("{CONFIGURATION}/config.toml does not name {}", shown(&path)));
        notices.hint(&format!(
            "add these lines to it:\n[[repositories]]\nname = \"site\"\npath = \"{}\"\npriority = 5",
            path.display()
        ));
    }
    if first.has_slurm {
        changes.extend(plugin(notices));
    }
    Ok(changes)
}

/// Makes the usual mount points that are missing.
fn mount_points() -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    for place in MOUNT_POINTS.map(Path::new) {
        if !place.is_dir() {
            fs::create_dir(place).or_failed(|| format!("make the mount point {}", shown(place)))?;
            changes.push(Change::made("made the mount point", place, &["rmdir"]));
        }
    }
    Ok(changes)
}

/// Makes a repository where there is none, and returns its path.
fn make_repository(path: &Path, changes: &mut Vec<Change>) -> Result<PathBuf> {
    let path = std::path::absolute(path).or_failed(|| format!("find {}", shown(path)))?;
    if open_repository(&path).is_ok() {
        changes.push(Change::kept(&path));
        return Ok(path);
    }
    Repository::create(&path)?;
    changes.push(Change::made("made the repository", &path, &["rm", "-r"]));
    Ok(path)
}

/// Adds the plugin to Slurm. Without one for this release of Slurm, everything but jobs works, so this is no error.
fn plugin(notices: &dyn Notices) -> Option<Change> {
    let request = InstallRequest {
        plugin: None,
        plugstack: None,
        record: None,
        no_record: false,
        container_options: "auto".to_owned(),
        remove: false,
    };
    if let Some(plugstack) = has_plugin() {
        return Some(Change::kept(&plugstack));
    }
    match install(&request) {
        Ok((plugstack, Installed::Added(line))) => Some(Change {
            what: format!("added to {}: {line}", shown(&plugstack)),
            undo: Some(["cabane", "slurm", "install", "--remove"].map(str::to_owned).to_vec()),
        }),
        Ok((plugstack, _)) => Some(Change::kept(&plugstack)),
        Err(report) => {
            let (text, hint) = report.texts();
            notices.warning(&format!("jobs of Slurm get no images yet: {text}"));
            notices.hint(&hint.unwrap_or_else(|| "then type `cabane slurm install`".to_owned()));
            None
        }
    }
}
