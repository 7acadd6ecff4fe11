// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which devices a machine has.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cabane_recipe::{DeviceName, DeviceSpecification};

use crate::{DIRECTORIES, driver, read};

/// A file that says nothing, because something is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong, with its place.
    pub text: String,
}

/// The devices of a machine.
#[derive(Debug, Default)]
pub struct Devices {
    pub(crate) files: Vec<Specified>,
    /// The place of each device in the files, or those of the two that are in conflict.
    pub(crate) known: BTreeMap<DeviceName, Known>,
    problems: Vec<Problem>,
}

/// What a file says, and where it is.
#[derive(Debug)]
pub(crate) struct Specified {
    pub(crate) path: PathBuf,
    pub(crate) content: DeviceSpecification,
    /// The directory in which it lies, by its number.
    priority: usize,
}

/// Where a device is described: the file and the place in its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Once { file: usize, place: usize },
    InConflict([usize; 2]),
}

/// A device as it is shown to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device<'a> {
    /// Its name.
    pub name: &'a DeviceName,
    /// The file that describes it.
    pub file: &'a Path,
    /// The line there; 0 for a driver that no file describes, whose library is named then.
    pub line: u32,
    /// The nodes that a container gets with it.
    pub nodes: Vec<&'a Path>,
    /// How many files and directories a container gets with it.
    pub mounts: usize,
    /// The other file that describes it, if there is one: then it cannot be had.
    pub conflict: Option<&'a Path>,
}

impl Devices {
    /// Reads the specifications in some directories, those of later ones before others. A
    /// directory that is not there has none.
    #[must_use]
    pub fn look(directories: &[&Path]) -> Self {
        let mut devices = Self::default();
        for (priority, directory) in directories.iter().enumerate() {
            match specifications_in(directory) {
                Ok(paths) => paths.iter().for_each(|path| devices.add(path, priority)),
                Err(text) => devices.problems.push(Problem {
                    path: (*directory).to_owned(),
                    text: format!("{}: {text}", directory.display()),
                }),
            }
        }
        devices
    }

    /// Returns the devices of this machine: what its specifications say, and the drivers that none of
    /// them describes.
    #[must_use]
    pub fn of_machine() -> Self {
        let mut devices = Self::look(&DIRECTORIES.map(AsRef::as_ref));
        devices.add_drivers(Path::new("/"));
        devices
    }

    /// Adds the drivers of a machine with this root directory. A class of devices with a
    /// specification is left as it is described.
    pub fn add_drivers(&mut self, root: &Path) {
        let is_described =
            |kind: &str| self.files.iter().any(|file| file.content.kind.as_str() == kind);
        for (path, content) in driver::find(root, is_described) {
            self.insert(path, content, DIRECTORIES.len());
        }
    }

    fn add(&mut self, path: &Path, priority: usize) {
        match read::read(path) {
            Ok(content) => self.insert(path.to_owned(), content, priority),
            Err(text) => self.problems.push(Problem { path: path.to_owned(), text }),
        }
    }

    fn insert(&mut self, path: PathBuf, content: DeviceSpecification, priority: usize) {
        let file = self.files.len();
        for (place, device) in content.devices.iter().enumerate() {
            let name = DeviceName { kind: content.kind.clone(), name: device.name.clone() };
            let before = self.known.get(&name).map(|known| match known {
                Known::Once { file, .. } | Known::InConflict([_, file]) => *file,
            });
            let is_same = |other: &usize| {
                let other = self.files.get(*other);
                other.is_some_and(|other| other.priority == priority)
            };
            let known = match before.filter(is_same) {
                Some(other) => Known::InConflict([other, file]),
                None => Known::Once { file, place },
            };
            self.known.insert(name, known);
        }
        self.files.push(Specified { path, content, priority });
    }

    /// Returns the files with which something is wrong.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Tells whether there is neither a device nor a file with something wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty() && self.problems.is_empty()
    }

    /// Returns the devices in the order of their names.
    pub fn all(&self) -> impl Iterator<Item = Device<'_>> {
        self.known.iter().filter_map(|(name, known)| {
            let (file, other) = match known {
                Known::Once { file, .. } => (*file, None),
                Known::InConflict([other, file]) => (*file, Some(*other)),
            };
            let file = self.files.get(file)?;
            let mut devices = file.content.devices.iter();
            let device = devices.find(|device| device.name == name.name)?;
            let edits = [&file.content.edits, &device.edits];
            let nodes = edits.iter().flat_map(|edits| &edits.nodes);
            Some(Device {
                name,
                file: &file.path,
                line: device.line,
                nodes: nodes.map(|node| node.path.as_path()).collect(),
                mounts: edits.iter().map(|edits| edits.mounts.len()).sum(),
                conflict: other
                    .and_then(|other| self.files.get(other))
                    .map(|other| other.path.as_path()),
            })
        })
    }
}

/// Returns the specifications in a directory in the order of their names.
fn specifications_in(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
    };
    let found = fs::metadata(directory).map_err(|error| error.to_string())?;
    read::check(&found)?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if matches!(ending, Some("json" | "yaml")) && !path.is_dir() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
