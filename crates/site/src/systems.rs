// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The configuration of a system, by its directory or by its name.

use std::fs;
use std::path::{Path, PathBuf};

use cabane_label::{System, escape};
use cabane_report::{Kind, Report, Result};

use crate::Site;

/// The configuration of a system.
#[derive(Clone, Debug)]
pub struct SystemDirectory {
    /// Where it is.
    pub directory: PathBuf,
    /// What the system is called, if it was found by that.
    pub name: Option<System>,
}

/// Finds the configuration of a system: a directory, or a name in the directories of the site and the
/// user. By default it is the system of the settings, if it has a configuration.
///
/// # Errors
///
/// There is no such name.
pub fn find_system(site: &Site, typed: Option<&Path>) -> Result<Option<SystemDirectory>> {
    let directories = &site.settings.system_directories.value;
    let named = |name: &str| {
        let mut places = directories.iter().map(|directory| directory.join(name));
        places.find(|place| place.is_dir())
    };
    let Some(typed) = typed else {
        return Ok(site.system().and_then(|name| {
            let directory = named(name.as_str())?;
            let name = Some(name);
            Some(SystemDirectory { directory, name })
        }));
    };
    let name = typed.to_str().and_then(|name| name.parse::<System>().ok());
    let Some(name) = name.filter(|_| !typed.is_dir()) else {
        return Ok(Some(SystemDirectory { directory: typed.to_owned(), name: None }));
    };
    match named(name.as_str()) {
        Some(directory) => Ok(Some(SystemDirectory { directory, name: Some(name) })),
        None => Err(no_such_system(directories, name.as_str())),
    }
}

fn no_such_system(directories: &[PathBuf], name: &str) -> Report {
    let mut known: Vec<String> = directories
        .iter()
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flat_map(Iterator::flatten)
        .filter(|entry| entry.path().is_dir())
        .map(|entry| escape(&entry.file_name().to_string_lossy()).into_owned())
        .collect();
    known.sort();
    known.dedup();
    let hint = match (known.as_slice(), directories.first()) {
        ([], Some(first)) => {
            let place = first.join(name);
            let place = escape(&place.to_string_lossy()).into_owned();
            format!("`cabane system probe --output {place}` describes this machine under that name")
        }
        ([], None) => "name the directory of its configuration".to_owned(),
        (known, _) => format!("described are {}", known.join(", ")),
    };
    Report::new(Kind::BadInput, format!("there is no system `{}`", escape(name))).hinted(Some(hint))
}
