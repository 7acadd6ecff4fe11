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
use cabane_registry::{ContainerBlob, ContainerName, ContainerPush, Registry};
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;

use crate::export::ExportRequest;
use crate::import::reference::path_and_name;
use crate::registry::of_containers;
use crate::scratch::scratch_place;

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

impl FromStr for Destination {
    type Err = Report;

    fn from_str(text: &str) -> Result<Self> {
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
            return Err(no_form(text));
        }
        let name: Result<ContainerName> = of("docker://").unwrap_or(text).parse();
        let name = name.map_err(|error| {
            let unnamed = "; one that was not named gets no request";
            error.with_hints_about(unnamed, ", or write `oci:DIRECTORY`")
        })?;
        if name.digest.is_some() {
            let error =
                format!("`{name}` has a digest, which is known only when the image is made");
            return Err(Report::new(Kind::BadInput, error)
                .hinted("name a tag: `registry.example.org/tool:1.0`".to_owned()));
        }
        Ok(Self::Registry(Box::new(name)))
    }
}

fn no_form(text: &str) -> Report {
    let text = escape(text);
    let error = format!("`{text}` does not say what is to be written there");
    Report::new(Kind::BadInput, error).hinted(format!(
        "write `oci-archive:{text}` or `docker-archive:{text}` for a file, `oci:{text}` for a \
         directory"
    ))
}

fn named(rest: &str, is_name: fn(&str) -> bool) -> Result<(PathBuf, Option<String>)> {
    let (path, name) = path_and_name(rest, Path::new(""));
    if let Some(bad) = name.as_deref().filter(|name| !is_name(name)) {
        let error = format!("`{}` cannot be the name of a container image", escape(bad));
        return Err(Report::new(Kind::BadInput, error));
    }
    Ok((path, name))
}

/// As the specification of layouts has it.
fn is_oci_name(name: &str) -> bool {
    let is_alphanumeric = |byte: u8| byte.is_ascii_alphanumeric();
    let ends = [name.bytes().next(), name.bytes().last()];
    ends.into_iter().all(|end| end.is_some_and(is_alphanumeric))
        && name.bytes().all(|byte| is_alphanumeric(byte) || b"/:@.-_+".contains(&byte))
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

/// A destination that was opened, of which nothing is seen yet.
pub(crate) enum Opened<'a> {
    Layout(LooseTarget, &'a Path, Option<&'a str>),
    Archive(ArchiveTarget, Option<&'a str>),
    Registry(LooseTarget, &'a ContainerName, Box<Registry>),
}

impl<'a> Opened<'a> {
    /// Opens the destination of a request; what goes to a registry is kept in files until then.
    pub(crate) fn new(
        context: &Context,
        request: &ExportRequest,
        destination: &'a Destination,
    ) -> Result<Self> {
        Ok(match destination {
            Destination::Layout(path, name) => {
                check_layout(path)?;
                let directory = if path.is_dir() { path } else { parent_of(path) };
                Self::Layout(LooseTarget::new(directory, path), path, name.as_deref())
            }
            Destination::Archive(path, name, form) => {
                if !request.force && path.symlink_metadata().is_ok() {
                    return Err(cabane_container::Error::file_there(path).into());
                }
                Self::Archive(ArchiveTarget::new(path, *form)?, name.as_deref())
            }
            Destination::Registry(name) => {
                let (token, username) = (request.token.as_deref(), request.username.as_deref());
                let registry = of_containers(context, &name.address, token, username)?;
                let scratch = scratch_place(context)?;
                Self::Registry(LooseTarget::new(&scratch, &scratch), name, Box::new(registry))
            }
        })
    }

    pub(crate) fn target(&mut self) -> &mut dyn Target {
        match self {
            Self::Layout(target, ..) | Self::Registry(target, ..) => target,
            Self::Archive(target, _) => target,
        }
    }

    /// Gives the image its name; returns whether it was there already. A registry may have some
    /// of its layers in the repository `from`.
    pub(crate) fn publish(
        self,
        context: &Context,
        exported: &Exported,
        from: Option<&str>,
        replace: bool,
    ) -> Result<bool> {
        match self {
            Self::Layout(target, path, name) => {
                target.into_layout(path, name, exported, replace)?;
            }
            Self::Archive(target, name) => target.finish(name, exported, replace)?,
            Self::Registry(target, name, registry) => {
                // The manifest goes by another way than what it names.
                let blobs = target.files().filter(|(blob, _)| **blob != exported.blob);
                let blobs = blobs.map(|(blob, path)| {
                    let digest = blob.digest.clone();
                    ContainerBlob { path, digest, size: blob.size }
                });
                let blobs: Vec<ContainerBlob> = blobs.collect();
                let manifest = &exported.manifest;
                let push = ContainerPush { name, blobs: &blobs, manifest, from, replace };
                return send(context, &registry, &push);
            }
        }
        Ok(false)
    }
}

fn parent_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|one| !one.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

fn send(context: &Context, registry: &Registry, push: &ContainerPush<'_>) -> Result<bool> {
    let watched = context.transfer(&format!("sending {}", push.name));
    let pushed = registry.push_container(push, &mut |done, total| watched.show(done, total));
    watched.end();
    let pushed = pushed?;
    if let Some(replaced) = &pushed.replaced {
        context.note(format_args!("the tag was taken from the image {}", replaced.id()));
    }
    Ok(pushed.unchanged)
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
