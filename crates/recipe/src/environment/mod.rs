// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Environment files: what is entered together.
//!
//! A file is read into an [`EnvironmentFile`]. Variables in it are replaced while it
//! is read, with what [`FileContext`] says, so that a variable that is missing is a
//! mistake at a place; relative paths become absolute. Bases are only named here:
//! anyone who can open files loads them and lays one over the other with
//! [`EnvironmentFile::merge`].
//!
//! Environment definition files (EDF) of container engines are read as well: a file is one if it
//! has one of their keys, such as `image`.

mod annotations;
mod container_reference;
mod engine;
mod mounts;
mod places;
mod read;
mod template;
mod write;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use cabane_label::{MountPoint, UenvDescription};
use cabane_view::{VariableSettings, ViewDescription};

use crate::DeviceRequest;

pub use container_reference::container_image;
pub use mounts::is_idle_mount_flag;
pub use places::{Part, Places};
pub use read::parse_environment_file;

/// What one or several environment files say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentFile {
    /// What it is for.
    pub description: Option<String>,
    /// The files to which this one is added, the first one first.
    pub bases: Vec<BaseReference>,
    /// The container image that is imported at first use and mounted at `/`.
    pub container: Option<UenvDescription>,
    /// The images.
    pub images: Vec<UenvDescription>,
    /// The views, in the order in which they take effect.
    pub views: Vec<ViewDescription>,
    /// Whether default views are used where no view is named.
    pub default_views: Option<bool>,
    /// Files and directories that appear at another place.
    pub mounts: Vec<MountEntry>,
    /// Devices of the machine that a container has.
    pub devices: Vec<DeviceRequest>,
    /// The directory in which the command starts.
    pub workdir: Option<PathBuf>,
    /// Whether the entry point of the container image is run.
    pub entrypoint: Option<bool>,
    /// Whether the root file system of the container image is writable.
    pub writable: Option<bool>,
    /// What becomes of variables, after the views.
    pub env: VariableSettings,
    /// What container engines tell their hooks, by the whole names: `com.hooks.cxi.enabled`.
    pub annotations: BTreeMap<String, String>,
    /// Where its parts are written.
    pub places: Places,
}

/// A file or directory that appears at another place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// Where it is, an absolute path.
    pub source: PathBuf,
    /// Where it appears.
    pub target: MountPoint,
    /// Whether writing is refused there.
    pub read_only: bool,
}

/// How an environment file is named: by a word to be looked up, or by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvironmentReference {
    /// A name, for which directories are searched.
    Name(String),
    /// A path.
    Path(PathBuf),
}

/// A file that is named as a base, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseReference {
    /// The file.
    pub file: EnvironmentReference,
    /// The line that names it, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

/// What a file is read with.
#[derive(Clone, Copy)]
pub struct FileContext<'a> {
    /// The directory of the file, an absolute path; relative paths begin there.
    pub directory: &'a Path,
    /// The working directory of the caller, an absolute path; relative paths of environment
    /// definition files begin there.
    pub working_directory: &'a Path,
    /// The variables of the caller.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl fmt::Debug for FileContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileContext").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl EnvironmentReference {
    /// Reads what was typed: a path has a `/` or ends in `.toml`. A relative one
    /// begins in `directory`.
    #[must_use]
    pub fn new(text: &str, directory: &Path) -> Self {
        if text.contains('/') || has_ending(text) {
            Self::Path(below(directory, Path::new(text)))
        } else {
            Self::Name(text.to_owned())
        }
    }
}

impl fmt::Display for EnvironmentReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

/// Tells whether a text ends as the names of environment files do.
fn has_ending(text: &str) -> bool {
    Path::new(text).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"))
}

/// Returns the path as seen from a directory, without `.` inside.
fn below(directory: &Path, path: &Path) -> PathBuf {
    directory.join(path).components().collect()
}

impl EnvironmentFile {
    /// Adds what a later file says: its lists go on where these end, its values
    /// replace these.
    ///
    /// What is in a list already is not added again, and something mounted at the
    /// same target takes the place of what was there.
    #[must_use]
    pub fn merge(self, later: Self) -> Self {
        let mut merged = Self {
            description: later.description.or(self.description),
            bases: self.bases,
            container: later.container.or(self.container),
            images: self.images,
            views: self.views,
            default_views: later.default_views.or(self.default_views),
            mounts: self.mounts,
            devices: self.devices,
            workdir: later.workdir.or(self.workdir),
            entrypoint: later.entrypoint.or(self.entrypoint),
            writable: later.writable.or(self.writable),
            env: self.env,
            annotations: self.annotations,
            places: self.places,
        };
        merged.places.extend(later.places);
        merged.annotations.extend(later.annotations);
        add_new(&mut merged.bases, later.bases);
        add_new(&mut merged.images, later.images);
        add_new(&mut merged.views, later.views);
        add_new(&mut merged.devices, later.devices);
        for mount in later.mounts {
            let is_there = |known: &&mut MountEntry| known.target == mount.target;
            match merged.mounts.iter_mut().find(is_there) {
                Some(known) => *known = mount,
                None => merged.mounts.push(mount),
            }
        }
        merged.env.merge(&later.env);
        merged
    }
}

fn add_new<T: PartialEq>(list: &mut Vec<T>, later: Vec<T>) {
    for item in later {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}
