// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Container images in a registry: their names, their documents and their layers.
//!
//! What the documents say is read by the callers. Here everything is verified by its
//! digest.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use cabane_label::{Digest, escape};
use cabane_report::{Kind, Report};

use crate::address::is_component;
use crate::document::{Descriptor, OciDigest};
use crate::download::{Blob, Space};
use crate::{Address, Progress, Registry, Result};

/// The name of a container image in a registry: `registry.example/tool:1`, perhaps with the
/// digest that it must have, `@sha256:…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerName {
    /// The registry.
    pub address: Address,
    /// The repository in it.
    pub repository: String,
    /// The tag; `latest` if neither a tag nor a digest is there.
    pub tag: Option<String>,
    /// The digest that the image, or the list of images, must have.
    pub digest: Option<Digest>,
}

impl FromStr for ContainerName {
    type Err = Report;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("https", text));
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(read_digest(digest)?)),
            None => (rest, None),
        };
        let short = || {
            bad_name(text, "does not say in which registry it is").hinted(
                "put the registry in front of it, as in `registry.example.org/tool:1.0`; one that \
                 was not named gets no request"
                    .to_owned(),
            )
        };
        let (host, path) = rest.split_once('/').ok_or_else(short)?;
        // `library/debian` names no host.
        let is_host = host == "localhost" || host.contains(['.', ':']);
        if !is_host && !text.contains("://") {
            return Err(short());
        }
        let (repository, tag) =
            path.rsplit_once(':').map_or((path, None), |(name, tag)| (name, Some(tag)));
        let (host, repository) = match host {
            "docker.io" | "index.docker.io" => (DOCKER_HUB, of_docker_hub(repository)),
            host => (host, repository.to_owned()),
        };
        if !repository.split('/').all(is_component) {
            return Err(bad_name(&repository, "cannot be the name of a container image"));
        }
        if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
            return Err(bad_name(tag, "cannot be the tag of a container image"));
        }
        let tag = tag.or(digest.is_none().then_some("latest"));
        Ok(Self {
            address: format!("{scheme}://{host}").parse()?,
            repository,
            tag: tag.map(str::to_owned),
            digest,
        })
    }
}

/// The host that answers for Docker Hub, which everyone calls `docker.io`.
pub(crate) const DOCKER_HUB: &str = "registry-1.docker.io";

/// Returns the name of a repository of Docker Hub: those without a slash are in `library`.
fn of_docker_hub(repository: &str) -> String {
    if repository.contains('/') { repository.to_owned() } else { format!("library/{repository}") }
}

/// What an image says about itself is smaller than this.
const MAX_CONFIG: u64 = 4 * 1024 * 1024;

fn bad_name(text: &str, what: &str) -> Report {
    Report::new(Kind::BadInput, format!("`{}` {what}", escape(text)))
}

fn read_digest(text: &str) -> Result<Digest, Report> {
    let digest = OciDigest::parse(text).map(|digest| digest.0);
    digest.ok_or_else(|| bad_name(text, "is not a digest, which is `sha256:` and 64 digits"))
}

/// Whether a text may be a tag: `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}`.
fn is_tag(text: &str) -> bool {
    let is_start = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let allowed = |byte: u8| is_start(byte) || matches!(byte, b'.' | b'-');
    text.len() <= 128 && text.bytes().next().is_some_and(is_start) && text.bytes().all(allowed)
}

impl ContainerName {
    /// Returns the text of a request to a registry.
    pub(crate) fn reference(&self) -> String {
        match &self.digest {
            Some(digest) => format!("sha256:{digest}"),
            None => self.tag.as_deref().unwrap_or("latest").to_owned(),
        }
    }
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.address.is_plain() {
            f.write_str("http://")?;
        }
        let host = self.address.host();
        let host = if host == DOCKER_HUB { "docker.io" } else { host };
        write!(f, "{host}/{}", self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@sha256:{digest}")?;
        }
        Ok(())
    }
}

impl Registry {
    /// Gets the manifest or the index that has a name. Its bytes have the digest that the name
    /// or the registry says.
    ///
    /// # Errors
    ///
    /// There is none, or it is something else than was announced.
    pub fn container_document(&self, name: &ContainerName) -> Result<Vec<u8>> {
        let found = self.document(&name.repository, &name.reference())?;
        Ok(found.ok_or_else(|| no_container(name, "no image has this name"))?.bytes)
    }

    /// Gets a manifest or an index by its digest.
    ///
    /// # Errors
    ///
    /// As [`Registry::container_document`].
    pub fn container_manifest(&self, name: &ContainerName, digest: &Digest) -> Result<Vec<u8>> {
        let found = self.document(&name.repository, &OciDigest(digest.clone()).to_string())?;
        Ok(found.ok_or_else(|| no_container(name, "one of its manifests is lost"))?.bytes)
    }

    /// Gets the configuration of a container image, or another small blob.
    ///
    /// # Errors
    ///
    /// It is larger than a document may be, or not what it should be.
    pub fn container_config(
        &self,
        name: &ContainerName,
        digest: &Digest,
        size: u64,
    ) -> Result<Vec<u8>> {
        let descriptor = Descriptor::new("", OciDigest(digest.clone()), size);
        self.small_blob(&name.repository, &descriptor, MAX_CONFIG)
    }

    /// Gets a blob of a container image into a directory of its own, or goes on where an
    /// attempt was cut off. The file that is returned has the digest.
    ///
    /// # Errors
    ///
    /// As [`Registry::fetch_image`].
    pub fn container_blob(
        &self,
        name: &ContainerName,
        digest: &Digest,
        size: u64,
        directory: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<PathBuf> {
        let digest = OciDigest(digest.clone());
        Space::of(directory)?.check(&name.to_string(), &digest, size)?;
        let whole = Blob::new(&name.repository, digest, size);
        Ok(self.fetch(&whole, None, directory, &[], progress)?.path)
    }
}

fn no_container(name: &ContainerName, reason: &str) -> Report {
    Report::new(Kind::NotFound, format!("{name} cannot be imported: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::ContainerName;

    fn read(text: &str) -> Result<String, String> {
        let name = text.parse::<ContainerName>();
        name.map(|name| name.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn names_are_printed_in_full() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let pinned = format!("registry.example/a/tool@{digest}");
        let seen = [
            "registry.example/tool",
            "localhost:5000/a/b:1",
            "http://[::1]:5000/t:x_Y.2-3",
            &pinned,
            "docker.io/debian:12",
            "index.docker.io/library/debian:12",
        ]
        .map(read);
        let expected = [
            "registry.example/tool:latest",
            "localhost:5000/a/b:1",
            "http://[::1]:5000/t:x_Y.2-3",
            &pinned,
            "docker.io/library/debian:12",
            "docker.io/library/debian:12",
        ];
        assert_eq!(seen, expected.map(|text| Ok(text.to_owned())));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let seen = [
            "debian:12",
            "library/debian",
            "registry.example/Tool",
            "registry.example/tool:a b",
            "registry.example/tool@md5:1",
            "ftp://registry.example/tool",
            "https://user@registry.example/tool",
        ]
        .map(|text| read(text).is_err());
        assert_eq!(seen, [true; 7]);
    }
}
