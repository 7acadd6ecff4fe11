// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How container images are named on the command line.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use cabane_container::Sif;
use cabane_label::{escape, shown};
use cabane_registry::ContainerName;
use cabane_report::{IoContext, Kind, Report, Result};

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

/// What can be in front of a path.
pub(crate) const SCHEMES: [&str; 5] = ["oci:", "oci-archive:", "docker-archive:", "sif:", "dir:"];

impl FromStr for Reference {
    type Err = Report;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::named(text, None)
    }
}

impl Reference {
    /// Reads what was typed. A name without a registry is in the default one, if there is one.
    ///
    /// # Errors
    ///
    /// A text that is malformed, a file that cannot be read, or a name without a registry.
    pub fn named(text: &str, default_registry: Option<&str>) -> Result<Self> {
        if let Some(reference) = of_scheme(text, Path::new(""))? {
            return Ok(reference);
        }
        // A directory with such a name does not take its place.
        if text.contains("://") || text.contains('#') {
            return in_registry(text, default_registry).map_err(|error| with_setting(text, error));
        }
        let (path, name) = path_and_name(text, Path::new(""));
        if text.starts_with(['/', '.']) || (name.is_none() && path.exists()) {
            return of_path(&path, name);
        }
        match in_registry(text, default_registry) {
            // An address it is not, and `PATH:NAME` it may be.
            Err(_) if path.exists() => of_path(&path, name),
            read => read.map_err(|error| with_setting(text, error)),
        }
    }

    /// Reads what is in a file in a directory: paths are relative to it, and have their
    /// kind before them. What happens to lie where a command is typed changes nothing.
    pub fn in_file(text: &str, directory: &Path) -> Result<Self> {
        of_scheme(text, directory)?.map_or_else(|| in_registry(text, None), Ok)
    }
}

/// Reads a path whose kind precedes it.
fn of_scheme(text: &str, directory: &Path) -> Result<Option<Reference>> {
    let parts = SCHEMES.iter().find_map(|scheme| Some((*scheme, text.strip_prefix(scheme)?)));
    let Some((scheme, rest)) = parts else {
        return Ok(None);
    };
    // So Apptainer writes it.
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    if rest.is_empty() {
        return Err(no_path(scheme));
    }
    let (path, name) = path_and_name(rest, directory);
    Ok(Some(match scheme {
        "oci:" | "oci-archive:" => Reference::Layout(directory.join(path), name),
        "docker-archive:" => Reference::DockerArchive(directory.join(path), name),
        "sif:" => Reference::Sif(directory.join(rest)),
        _ => Reference::Directory(directory.join(rest)),
    }))
}

/// What can be in front of a name in a registry. With `oras://` it is an image of Apptainer.
const IN_REGISTRIES: [&str; 2] = ["docker://", "oras://"];

/// What can be in front of images that other programs have: where they are, and what to type.
const ELSEWHERE: [(&str, &str, &str); 6] = [
    ("docker-daemon://", "the store of Docker", SAVED),
    ("docker-daemon:", "the store of Docker", SAVED),
    ("dockerd://", "the store of Docker", SAVED),
    ("podman://", "the store of Podman", SAVED),
    ("library://", "a library of Singularity", PULLED),
    ("shub://", "Singularity Hub", PULLED),
];
const SAVED: &str = "save it with `docker save {} -o image.tar` or `podman save {} -o image.tar`, and name \
                     the file: `docker-archive:image.tar`";
const PULLED: &str =
    "fetch it with `apptainer pull image.sif {}`, and name the file: `./image.sif`";

/// Returns the name of an image that another program has, which program that is, and what to type.
fn elsewhere(text: &str) -> Option<(&str, &'static str, &'static str)> {
    let found = |(scheme, what, hint): &(&str, &'static str, &'static str)| {
        text.strip_prefix(scheme).map(|name| (name, *what, *hint))
    };
    ELSEWHERE.iter().find_map(found)
}

fn no_path(scheme: &str) -> Report {
    let error = Report::new(Kind::BadInput, format!("nothing follows `{scheme}`"));
    error.hinted(match scheme {
        "oci:" | "dir:" => format!("name a directory: `{scheme}DIRECTORY`"),
        scheme => format!("name a file: `{scheme}FILE`"),
    })
}

fn in_registry(text: &str, default_registry: Option<&str>) -> Result<Reference> {
    if let Some((name, what, hint)) = elsewhere(text) {
        let message = format!("`{}` is in {what}, which Cabane cannot read", escape(text));
        let name = if hint == PULLED { text } else { name };
        let hint = hint.replace("{}", escape(name).as_ref());
        return Err(Report::new(Kind::BadInput, message).hinted(hint));
    }
    let name = IN_REGISTRIES.iter().find_map(|scheme| text.strip_prefix(scheme)).unwrap_or(text);
    let is_named = name.contains('#');
    let name = match name.split_once('#') {
        None => name.to_owned(),
        Some((host, name)) if host.contains('@') => {
            let host = host.rsplit('@').next().unwrap_or_default();
            let message = format!("`{}` names a user", escape(text));
            let hint = format!(
                "type `docker://{host}/{name}`; the password comes from `podman login {host}`",
                host = escape(host),
                name = escape(name),
            );
            return Err(Report::new(Kind::BadInput, message).hinted(hint));
        }
        Some((host, name)) => format!("{host}/{name}"),
    };
    let name = match default_registry {
        Some(registry) if !is_named && !names_registry(&name) => format!("{registry}/{name}"),
        _ => name,
    };
    Ok(Reference::Registry(Box::new(name.parse()?)))
}

/// Adds how the configuration names a registry for names without one.
fn with_setting(text: &str, error: Report) -> Report {
    let name = IN_REGISTRIES.iter().find_map(|scheme| text.strip_prefix(scheme)).unwrap_or(text);
    let is_short = !names_registry(name) && elsewhere(text).is_none();
    let hint = "`default_registry = \"docker.io\"` below `[container]` in the configuration makes it a \
                name of that registry";
    error.hinted(is_short.then(|| hint.to_owned()))
}

/// Whether a name begins with a host.
fn names_registry(name: &str) -> bool {
    let host = name.split_once('/').map_or("", |(host, _)| host);
    name.contains("://") || host == "localhost" || host.contains(['.', ':'])
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
fn of_path(path: &Path, name: Option<String>) -> Result<Reference> {
    let shown = shown(path);
    let no_image = || Report::new(Kind::BadInput, format!("{shown} holds no container image"));
    let read = || format!("read {shown}");
    let has_name = name.is_some();
    if path.is_dir() {
        fs::read_dir(path).or_failed(read)?;
        let is_root = ["bin", "usr", "etc"].iter().any(|name| path.join(name).is_dir());
        return match path.join("oci-layout").is_file() {
            true => Ok(Reference::Layout(path.to_owned(), name)),
            false if is_root && !has_name => Ok(Reference::Directory(path.to_owned())),
            false => Err(no_image()
                .hinted(format!("`dir:{shown}` takes any directory as a root file system"))),
        };
    }
    let mut start = Vec::new();
    let file = File::open(path).or_failed(read)?;
    file.take(512).read_to_end(&mut start).or_failed(read)?;
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
