// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How container images are named on the command line.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use cabane_container::Sif;
use cabane_label::escape;
use cabane_registry::{ContainerName, ContainerNameError};
use cabane_report::{Kind, Report};

/// Where a container image is, as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A layout of OCI, as a directory or an archive, and the name of one of its images.
    Layout(PathBuf, Option<String>),
    /// What `docker save` wrote, and the name of one of its images.
    DockerArchive(PathBuf, Option<String>),
    /// An image of Singularity or Apptainer.
    Sif(PathBuf),
    /// A root file system.
    Directory(PathBuf),
    /// In a registry.
    Registry(Box<ContainerName>),
}

/// Why a text names no container image.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// The name of a registry is malformed.
    #[error(transparent)]
    Name(#[from] ContainerNameError),
    /// There is no path.
    #[error("nothing follows `{scheme}`")]
    NoPath {
        /// The scheme, such as `oci:`.
        scheme: &'static str,
    },
    /// The file cannot be read.
    #[error("cannot read {}", escape(&.path.to_string_lossy()))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{} holds no container image", escape(&.path.to_string_lossy()))]
    NoImage {
        /// The file.
        path: PathBuf,
    },
}

/// What can be in front of a path.
const SCHEMES: [&str; 5] = ["oci:", "oci-archive:", "docker-archive:", "sif:", "dir:"];

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(reference) = of_scheme(text, Path::new(""))? {
            return Ok(reference);
        }
        let (path, name) = path_and_name(text, Path::new(""));
        if text.starts_with(['/', '.']) || (name.is_none() && path.exists()) {
            return of_path(&path, name);
        }
        match in_registry(text) {
            // An address it is not, and `PATH:NAME` it may be.
            Err(_) if path.exists() => of_path(&path, name),
            read => read,
        }
    }
}

impl Reference {
    /// Reads what is in a file in a directory: paths are relative to it, and have their
    /// kind before them. What happens to lie where a command is typed changes nothing.
    pub fn in_file(text: &str, directory: &Path) -> Result<Self, ReferenceError> {
        of_scheme(text, directory)?.map_or_else(|| in_registry(text), Ok)
    }
}

/// Reads a path whose kind precedes it.
fn of_scheme(text: &str, directory: &Path) -> Result<Option<Reference>, ReferenceError> {
    if let Some(scheme) = SCHEMES.into_iter().find(|scheme| *scheme == text) {
        return Err(ReferenceError::NoPath { scheme });
    }
    let of = |scheme: &str| text.strip_prefix(scheme);
    let named = |rest: &str| {
        let (path, name) = path_and_name(rest, directory);
        (directory.join(path), name)
    };
    Ok(if let Some(rest) = of("oci:").or_else(|| of("oci-archive:")) {
        let (path, name) = named(rest);
        Some(Reference::Layout(path, name))
    } else if let Some(rest) = of("docker-archive:") {
        let (path, name) = named(rest);
        Some(Reference::DockerArchive(path, name))
    } else if let Some(rest) = of("sif:") {
        Some(Reference::Sif(directory.join(rest)))
    } else {
        of("dir:").map(|rest| Reference::Directory(directory.join(rest)))
    })
}

fn in_registry(text: &str) -> Result<Reference, ReferenceError> {
    let name = text.strip_prefix("docker://").unwrap_or(text);
    Ok(Reference::Registry(Box::new(name.parse()?)))
}

/// Cuts `PATH:NAME`; a path may have a colon in it, and then it is there. Relative ones are
/// looked for below `directory`.
pub(crate) fn path_and_name(text: &str, directory: &Path) -> (PathBuf, Option<String>) {
    match text.split_once(':') {
        Some((path, name)) if !directory.join(text).exists() => {
            let name = Some(name.to_owned()).filter(|name| !name.is_empty());
            (PathBuf::from(path), name)
        }
        _ => (PathBuf::from(text), None),
    }
}

/// Finds out by its content what a file or directory is.
fn of_path(path: &Path, name: Option<String>) -> Result<Reference, ReferenceError> {
    let no_image = || ReferenceError::NoImage { path: path.to_owned() };
    let unreadable = |source| ReferenceError::Unreadable { path: path.to_owned(), source };
    let has_name = name.is_some();
    if path.is_dir() {
        fs::read_dir(path).map_err(unreadable)?;
        let is_root = ["bin", "usr", "etc"].iter().any(|name| path.join(name).is_dir());
        return match path.join("oci-layout").is_file() {
            true => Ok(Reference::Layout(path.to_owned(), name)),
            false if is_root && !has_name => Ok(Reference::Directory(path.to_owned())),
            false => Err(no_image()),
        };
    }
    let mut start = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    let read = file.take(512).read_to_end(&mut start);
    read.map_err(unreadable)?;
    let is_compressed = matches!(start.as_slice(), [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..]);
    if Sif::is_one(&start) && !has_name {
        Ok(Reference::Sif(path.to_owned()))
    } else if is_compressed || start.get(257..262) == Some(b"ustar") {
        // Newer ones are layouts, too. This is read first, since it names no image for
        // platforms that are not in it.
        Ok(Reference::DockerArchive(path.to_owned(), name))
    } else {
        Err(no_image())
    }
}

impl ReferenceError {
    /// Makes the error that is shown of it.
    pub fn into_report(self) -> Report {
        let kind = match &self {
            Self::Unreadable { .. } => Kind::Failure,
            _ => Kind::BadInput,
        };
        let hint = self.hint();
        Report::new(kind, self).hinted(hint)
    }

    /// Returns what could be typed instead.
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Name(ContainerNameError::Short { .. }) => {
                "put the registry in front of it, as in `registry.example.org/tool:1.0`; one that \
                 was not named is not asked"
                    .to_owned()
            }
            Self::Name(ContainerNameError::Address(error)) => error.hint()?,
            Self::NoPath { scheme } => match *scheme {
                "oci:" | "dir:" => format!("name a directory: `{scheme}DIRECTORY`"),
                scheme => format!("name a file: `{scheme}FILE`"),
            },
            Self::NoImage { path } if path.is_dir() => format!(
                "`dir:{}` takes any directory as a root file system",
                escape(&path.to_string_lossy())
            ),
            _ => return None,
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(name) => name.fmt(f),
            Self::Layout(path, name) => named(f, "oci", path, name.as_deref()),
            Self::DockerArchive(path, name) => named(f, "docker-archive", path, name.as_deref()),
            Self::Sif(path) => named(f, "sif", path, None),
            Self::Directory(path) => named(f, "dir", path, None),
        }
    }
}

fn named(f: &mut fmt::Formatter<'_>, scheme: &str, path: &Path, name: Option<&str>) -> fmt::Result {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    write!(f, "{scheme}:{}", path.display())?;
    match name {
        Some(name) => write!(f, ":{name}"),
        None => Ok(()),
    }
}
