// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where `cabane export` writes: a layout, an archive, a registry.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use cabane_container::export::{
    ArchiveForm, ArchiveTarget, Exported, LooseTarget, Target, check_layout,
};
use cabane_label::escape;
use cabane_registry::{ContainerBlob, ContainerName, ContainerNameError, ContainerPush, Registry};
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;

use crate::import::reference::path_and_name;

/// Where a container image goes, as it was typed.
#[derive(Clone, Debug)]
pub(crate) enum Destination {
    /// A layout of OCI, and the name of the image in it.
    Layout(PathBuf, Option<String>),
    /// One file, and the name of the image in it.
    Archive(PathBuf, Option<String>, ArchiveForm),
    /// A registry.
    Registry(Box<ContainerName>),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DestinationError {
    #[error(transparent)]
    Name(#[from] ContainerNameError),
    #[error("`{}` does not say what is to be written there", escape(.text))]
    NoForm { text: String },
    #[error("`{}` cannot be the name of a container image", escape(.name))]
    BadName { name: String },
    #[error("`{name}` has a digest, which is known only when the image is made")]
    Digest { name: String },
}

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let of = |scheme: &str| text.strip_prefix(scheme).filter(|rest| !rest.is_empty());
        if let Some(rest) = of("oci:") {
            let (path, name) = named(rest, is_oci_name)?;
            return Ok(Self::Layout(path, name));
        }
        if let Some(rest) = of("oci-archive:") {
            let (path, name) = named(rest, is_oci_name)?;
            return Ok(Self::Archive(path, name, ArchiveForm::Oci));
        }
        if let Some(rest) = of("docker-archive:") {
            let (path, name) = named(rest, is_docker_name)?;
            return Ok(Self::Archive(path, name, ArchiveForm::Docker));
        }
        if text.starts_with(['/', '.', '~']) {
            let text = text.to_owned();
            return Err(DestinationError::NoForm { text });
        }
        let name: ContainerName = of("docker://").unwrap_or(text).parse()?;
        match &name.digest {
            None => Ok(Self::Registry(Box::new(name))),
            Some(_) => Err(DestinationError::Digest { name: name.to_string() }),
        }
    }
}

fn named(
    rest: &str,
    is_name: fn(&str) -> bool,
) -> Result<(PathBuf, Option<String>), DestinationError> {
    let (path, name) = path_and_name(rest, Path::new(""));
    match name {
        Some(name) if !is_name(&name) => Err(DestinationError::BadName { name }),
        name => Ok((path, name)),
    }
}

/// As the specification of layouts has it.
fn is_oci_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric();
    let parts = name.split(['/', ':', '@', '.', '-', '_', '+']);
    parts.clone().count() > 0 && parts.into_iter().all(|part| part.bytes().all(is_word)) && {
        let ends = (name.bytes().next(), name.bytes().last());
        matches!(ends, (Some(first), Some(last)) if is_word(first) && is_word(last))
    }
}

/// A name, perhaps with a tag, as `docker load` knows them.
fn is_docker_name(name: &str) -> bool {
    let whole = match name.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => name.to_owned(),
        _ => format!("localhost/{name}"),
    };
    let read = whole.parse::<ContainerName>();
    read.is_ok_and(|name| name.digest.is_none())
}

impl DestinationError {
    /// Returns what could be typed instead.
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Name(ContainerNameError::Short { .. }) => {
                "put the registry in front of it, as in `registry.example.org/tool:1.0`, or write \
                 `oci:DIRECTORY`"
                    .to_owned()
            }
            Self::Name(ContainerNameError::Address(error)) => error.hint()?,
            Self::NoForm { text } => format!(
                "write `oci-archive:{0}` or `docker-archive:{0}` for a file, `oci:{0}` for a \
                 directory",
                escape(text)
            ),
            Self::Digest { .. } => "name a tag: `registry.example.org/tool:1.0`".to_owned(),
            _ => return None,
        })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, path, name) = match self {
            Self::Registry(name) => return name.fmt(f),
            Self::Layout(path, name) => ("oci", path, name),
            Self::Archive(path, name, ArchiveForm::Oci) => ("oci-archive", path, name),
            Self::Archive(path, name, ArchiveForm::Docker) => ("docker-archive", path, name),
        };
        write!(f, "{scheme}:{}", escape(&path.to_string_lossy()))?;
        match name {
            Some(name) => write!(f, ":{name}"),
            None => Ok(()),
        }
    }
}

/// A target that was opened.
pub(crate) enum Opened {
    Loose(LooseTarget),
    Archive(ArchiveTarget),
}

impl Opened {
    /// Opens a destination, of which nothing is seen yet; what goes to a registry is kept in
    /// `scratch` until then.
    pub(crate) fn new(
        destination: &Destination,
        replace: bool,
        scratch: &dyn Fn() -> Result<PathBuf>,
    ) -> Result<Self> {
        match destination {
            Destination::Layout(path, _) => {
                check_layout(path)?;
                let directory = if path.is_dir() { path } else { parent_of(path) };
                Ok(Self::Loose(LooseTarget::new(directory, path)))
            }
            Destination::Archive(path, _, form) => {
                if !replace && path.symlink_metadata().is_ok() {
                    let path = path.clone();
                    let error = cabane_container::Error::FileThere { path };
                    return Err(Report::from(error));
                }
                let target = ArchiveTarget::new(path, *form);
                Ok(Self::Archive(target?))
            }
            Destination::Registry(_) => {
                let scratch = scratch()?;
                Ok(Self::Loose(LooseTarget::new(&scratch, &scratch)))
            }
        }
    }

    pub(crate) fn target(&mut self) -> &mut dyn Target {
        match self {
            Self::Loose(target) => target,
            Self::Archive(target) => target,
        }
    }
}

fn parent_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|one| !one.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Everything that is needed to let an image be seen.
pub(crate) struct Publishing<'a> {
    pub(crate) context: &'a Context,
    pub(crate) destination: &'a Destination,
    pub(crate) exported: &'a Exported,
    /// The registry to which it goes.
    pub(crate) registry: Option<&'a Registry>,
    /// A repository there that may have some of its layers.
    pub(crate) from: Option<&'a str>,
    pub(crate) replace: bool,
}

/// Whether the image was there already.
pub(crate) struct Published {
    pub(crate) unchanged: bool,
}

impl Publishing<'_> {
    /// Gives the image its name.
    pub(crate) fn publish(&self, opened: Opened) -> Result<Published> {
        let changed = Published { unchanged: false };
        match (self.destination, opened) {
            (Destination::Layout(path, name), Opened::Loose(target)) => {
                let done = target.into_layout(path, name.as_deref(), self.exported, self.replace);
                done.map_err(Report::from).map(|()| changed)
            }
            (Destination::Archive(_, name, _), Opened::Archive(target)) => {
                let done = target.finish(name.as_deref(), self.exported, self.replace);
                done.map_err(Report::from).map(|()| changed)
            }
            (Destination::Registry(name), Opened::Loose(target)) => self.push(name, &target),
            _ => Ok(changed),
        }
    }

    fn push(&self, name: &ContainerName, target: &LooseTarget) -> Result<Published> {
        let Some(registry) = self.registry else {
            return Err(Report::new(Kind::Registry, "no registry"));
        };
        // The manifest goes by another way than what it names.
        let blobs = target.files().filter(|(blob, _)| **blob != self.exported.blob);
        let blobs: Vec<ContainerBlob> = blobs
            .map(|(blob, path)| ContainerBlob {
                path,
                digest: blob.digest.clone(),
                size: blob.size,
            })
            .collect();
        let request = ContainerPush {
            name,
            blobs: &blobs,
            manifest: &self.exported.manifest,
            from: self.from,
            replace: self.replace,
        };
        let watched = self.context.transfer(&format!("sending {name}"));
        let pushed = registry.push_container(&request, &mut |done, total| {
            watched.show(done, total);
        });
        watched.end();
        let pushed = pushed?;
        if let Some(replaced) = &pushed.replaced {
            self.context.note(format_args!("the tag was taken from the image {}", replaced.id()));
        }
        Ok(Published { unchanged: pushed.unchanged })
    }
}

#[cfg(test)]
mod tests {
    use super::Destination;

    fn read(text: &str) -> Result<String, String> {
        let read = text.parse::<Destination>();
        read.map(|one| one.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn destinations_are_printed_as_they_were_meant() {
        for text in [
            "oci:here/layout",
            "oci:/here/layout:tool-1.0",
            "oci-archive:a.tar:1",
            "docker-archive:a.tar:site/tool:1",
            "localhost:5000/tool:1",
        ] {
            assert_eq!(read(text), Ok(text.to_owned()));
        }
        let docker = read("docker://registry.example/tool");
        assert_eq!(docker, Ok("registry.example/tool:latest".to_owned()));
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let digest = format!("registry.example/tool@sha256:{}", "0".repeat(64));
        for text in
            ["tool:1", "./out.tar", "oci:dir:a b", "oci:dir:-", "docker-archive:f:Upper", &digest]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
