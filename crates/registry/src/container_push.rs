// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Putting container images into a registry.

use std::path::PathBuf;

use cabane_label::Digest;
use cabane_report::{Kind, Report};

use crate::container::ContainerName;
use crate::document::{MANIFEST, OciDigest};
use crate::upload::FileBlob;
use crate::{Progress, Registry, Result};

/// A blob of a container image, in a file.
#[derive(Clone, Debug)]
pub struct ContainerBlob {
    /// Where it is.
    pub path: PathBuf,
    /// Its digest.
    pub digest: Digest,
    /// How many bytes it has.
    pub size: u64,
}

/// A container image to be put into a registry.
#[derive(Clone, Debug)]
pub struct ContainerPush<'a> {
    /// Its name there.
    pub name: &'a ContainerName,
    /// Everything that its manifest names.
    pub blobs: &'a [ContainerBlob],
    /// Its manifest, as OCI specifies it.
    pub manifest: &'a [u8],
    /// A repository of the same registry that may have some of the blobs: what it has is
    /// taken from there and not sent.
    pub from: Option<&'a str>,
    /// Whether a tag that another image has is taken from it.
    pub replace: bool,
}

/// A container image that was put into a registry.
#[derive(Clone, Debug)]
pub struct PushedContainer {
    /// Whether the tag had this image before.
    pub unchanged: bool,
    /// The digest that the tag had before.
    pub replaced: Option<Digest>,
}

impl Registry {
    /// Puts a container image into the registry: what it is made of first, its name last.
    ///
    /// # Errors
    ///
    /// Another image has the tag, and it is not to be taken from it.
    pub fn push_container(
        &self,
        request: &ContainerPush<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<PushedContainer> {
        let ContainerPush { name, manifest, .. } = request;
        let digest = OciDigest::of(manifest);
        let before = self.tag_before(request, &digest)?;
        if before.as_ref() == Some(&digest) {
            return Ok(PushedContainer { unchanged: true, replaced: None });
        }
        let total = request.blobs.iter().map(|blob| blob.size).sum();
        let mut done = 0;
        for blob in request.blobs {
            let file = FileBlob {
                path: &blob.path,
                digest: OciDigest(blob.digest.clone()),
                size: blob.size,
                notes: None,
            };
            let mut tell = |part, _| progress(done + part, total);
            if !self.is_there(name, request.from, &file.digest)? {
                self.put_file(&name.repository, &file, &mut tell)?;
            }
            done += blob.size;
            progress(done, total);
        }
        // Sending takes time, in which someone may have taken the tag.
        let replaced = self.tag_before(request, &digest)?;
        self.put_document(&name.repository, &name.reference(), MANIFEST, manifest)?;
        Ok(PushedContainer { unchanged: false, replaced: replaced.map(|digest| digest.0) })
    }

    /// Whether the registry has a blob, also after a mount from another repository.
    fn is_there(
        &self,
        name: &ContainerName,
        from: Option<&str>,
        digest: &OciDigest,
    ) -> Result<bool> {
        let repository = name.repository.as_str();
        // What cannot be taken from there is sent.
        let mount = |from| self.mount_blob(repository, from, digest).unwrap_or(false);
        let from = from.filter(|from| *from != repository);
        Ok(self.has_blob(repository, digest)? || from.is_some_and(mount))
    }

    /// Returns what the tag stands for, unless it must not be taken from that.
    fn tag_before(
        &self,
        request: &ContainerPush<'_>,
        digest: &OciDigest,
    ) -> Result<Option<OciDigest>> {
        let name = request.name;
        let before = self.digest_of(&name.repository, &name.reference())?;
        match before {
            Some(before) if before != *digest && !request.replace => {
                let message = format!("`{name}` is another image already: {before}");
                Err(Report::new(Kind::Failure, message)
                    .hinted("`--force` gives the tag to the new image".to_owned())
                    .into())
            }
            before => Ok(before),
        }
    }
}
