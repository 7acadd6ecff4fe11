// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Giving an image another label within a registry, and taking one away.

use std::collections::BTreeSet;

use cabane_label::{Digest, Namespace};
use cabane_report::{Kind, Report};

use crate::attestation::BUNDLE;
use crate::channel::base_tag;
use crate::document::{Annotations, Descriptor, EMPTY, MANIFEST, Manifest, OciDigest, to_bytes};
use crate::http::in_parentheses;
use crate::registry::referrers_tag;
use crate::signature::signatures_tag;
use crate::{Error, ErrorKind, Place, Registry, RemoteImage, Result};

/// What was copied.
#[derive(Clone, Debug)]
pub struct Copied {
    /// The image under its new label.
    pub image: RemoteImage,
    /// Whether it had this label before.
    pub unchanged: bool,
    /// The image that had the label before.
    pub replaced: Option<Digest>,
}

/// What was deleted.
#[derive(Clone, Debug)]
pub struct Deleted {
    /// The image that had the label.
    pub image: RemoteImage,
    /// Whether other labels of the same name and version still have the image.
    pub remains: bool,
}

impl Registry {
    /// Gives an image another label, with everything that is attached to it.
    ///
    /// The manifest stays what it is, so that signatures of it stay good. Nothing is moved:
    /// the registry lets the other repository have the same blobs.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LabelTaken`] if the label has another image and is not to be taken from it.
    pub fn copy(&self, from: &Place, to: &Place, replace: bool) -> Result<Copied> {
        let source = self.image(from)?;
        let is_same = |image: &RemoteImage| image.manifest == source.manifest;
        let before = self.image_before(to, replace, is_same)?;
        let unchanged = before.as_ref().is_some_and(is_same);
        let target = self.repository(to)?;
        let subject = OciDigest(source.manifest.clone());
        let manifest = self.copy_all(&source.repository, &target, &subject)?;
        self.put_document(&target, to.tag(), MANIFEST, &manifest)?;
        let image = self.image(to)?;
        let packages = self.packages_in_list(&from.namespace, &source.digest)?;
        self.note_label(&image.place, &source, packages.as_ref())?;
        Ok(Copied {
            image,
            unchanged,
            replaced: before.map(|image| image.digest).filter(|_| !unchanged),
        })
    }

    /// Lets another namespace have an image on which others are built, with everything that is attached
    /// to it and without a label. Returns `false` if it has the image already.
    ///
    /// # Errors
    ///
    /// Those of the registry.
    pub fn copy_base(&self, image: &RemoteImage, namespace: &Namespace) -> Result<bool> {
        let place = Place { namespace: namespace.clone(), label: image.place.label.clone() };
        if self.held_base(&place, &image.digest)?.is_some() {
            return Ok(false);
        }
        let target = self.repository(&place)?;
        let subject = OciDigest(image.manifest.clone());
        let manifest = self.copy_all(&image.repository, &target, &subject)?;
        self.put_document(&target, &base_tag(&image.digest), MANIFEST, &manifest)?;
        Ok(true)
    }

    /// Lets a repository have the parts of a manifest, what is attached to it, and its signatures. Returns
    /// the manifest, which the repository does not have yet.
    fn copy_all(&self, source: &str, target: &str, subject: &OciDigest) -> Result<Vec<u8>> {
        let manifest = self.copy_parts(source, target, subject)?;
        if target == source {
            return Ok(manifest);
        }
        for referrer in self.attached(source, subject)? {
            if !self.is_attached(source, &referrer, subject)? {
                continue;
            }
            let bytes = self.copy_parts(source, target, &referrer.digest)?;
            if referrer.artifact_type.as_deref() == Some(BUNDLE) {
                self.put_attestation(target, subject, &referrer, &bytes)?;
            } else {
                self.put_referrer(target, subject, &referrer, &bytes)?;
            }
        }
        self.copy_signatures(source, target, subject)?;
        Ok(manifest)
    }

    /// Lets a repository have the blobs of a manifest; returns the manifest.
    fn copy_parts(&self, source: &str, target: &str, digest: &OciDigest) -> Result<Vec<u8>> {
        let document = self.document(source, &digest.to_string())?;
        let document = document.ok_or_else(|| self.wrong(digest, "nothing"))?;
        let manifest: Manifest = self.client.parse("a manifest", &document.bytes)?;
        if source == target {
            return Ok(document.bytes);
        }
        let blobs = manifest.layers.iter().chain([&manifest.config]);
        for blob in blobs.map(|blob| &blob.digest).collect::<BTreeSet<_>>() {
            self.give_blob(source, target, blob)?;
        }
        Ok(document.bytes)
    }

    /// Lets a repository have a blob of another.
    pub(crate) fn give_blob(&self, source: &str, target: &str, blob: &OciDigest) -> Result<()> {
        let is_there = self.has_blob(target, blob)? || self.mount_blob(target, source, blob)?;
        if !is_there && *blob == OciDigest::of(EMPTY) {
            self.put_small_blob(target, EMPTY)?;
        } else if !is_there {
            let host = self.address().host();
            let message =
                format!("the registry {host} does not share {blob} of {source} with {target}");
            let hint = "a proxy may have changed the names of repositories; `cabane image pull LABEL` and \
                        `cabane image push LABEL OTHER_LABEL` give an image another label, too";
            return Err(Report::new(Kind::Registry, message).hinted(hint.to_owned()).into());
        }
        Ok(())
    }

    /// Takes a label away, and the image with everything that is attached if no other label
    /// of this name and version has it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoSuchImage`]; [`ErrorKind::NoDeletion`] where the registry does not delete, or
    /// says that it does and still has the label.
    pub fn delete(&self, place: &Place) -> Result<Deleted> {
        let image = self.image(place)?;
        let subject = OciDigest(image.manifest.clone());
        let others = self.has_other_label(&image)?;
        if others {
            self.delete_tag(&image)?;
        } else {
            // What is attached first: it would not be found without the image.
            for referrer in self.attached(&image.repository, &subject)? {
                if self.is_attached(&image.repository, &referrer, &subject)? {
                    self.delete_by_digest(&image.repository, &referrer.digest)?;
                }
            }
            for tag in [referrers_tag(&subject), signatures_tag(&subject)] {
                if let Some(digest) = self.digest_of(&image.repository, &tag)? {
                    self.delete_by_digest(&image.repository, &digest)?;
                }
            }
            self.delete_by_digest(&image.repository, &subject)?;
        }
        self.check_deleted(&image)?;
        self.forget_label(place)?;
        Ok(Deleted { image, remains: others })
    }

    /// Returns whether a manifest says itself that it refers to an image. The index of a registry without
    /// the request for referrers can name any manifest, such as that of another image.
    fn is_attached(
        &self,
        repository: &str,
        referrer: &Descriptor,
        subject: &OciDigest,
    ) -> Result<bool> {
        let document = self.document(repository, &referrer.digest.to_string())?;
        let manifest = document.and_then(|found| serde_json::from_slice(&found.bytes).ok());
        Ok(manifest.is_some_and(|manifest: Manifest| manifest.is_attached_to(subject)))
    }

    /// Looks whether a label is gone: a registry may accept the request and ignore it.
    fn check_deleted(&self, image: &RemoteImage) -> Result<()> {
        if self.digest_of(&image.repository, image.place.tag())?.is_none() {
            return Ok(());
        }
        let (host, place) = (self.address().host(), &image.place);
        let message =
            format!("the registry {host} accepted the deletion of {place} and still has it");
        let hint =
            "`cabane image find --refresh` shows what it has; its administrator can delete it";
        let report = Report::new(Kind::Registry, message).hinted(hint.to_owned());
        Err(Error::new(ErrorKind::NoDeletion, report))
    }

    /// Returns whether the image has other labels with the same name and version.
    ///
    /// # Errors
    ///
    /// Those of asking.
    pub fn has_other_label(&self, image: &RemoteImage) -> Result<bool> {
        let digest = &OciDigest(image.manifest.clone());
        for tag in self.tags(&image.repository)? {
            let is_label = tag != image.place.tag() && !tag.starts_with("sha256-");
            if is_label && self.digest_of(&image.repository, &tag)?.as_ref() == Some(digest) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes a tag away from a manifest that others have.
    fn delete_tag(&self, image: &RemoteImage) -> Result<()> {
        let tag = image.place.tag();
        if self.delete_document(&image.repository, tag)?.is_none() {
            return Ok(());
        }
        // Where only manifests can be deleted the tag gets one of its own first.
        let deleted = ("org.cabane.deleted".to_owned(), image.place.to_string());
        let annotations = Annotations::from([deleted]);
        let kind = "application/vnd.cabane.nothing.v1";
        let nothing = Manifest::artifact(kind, vec![Descriptor::empty_config()], annotations);
        let bytes = to_bytes(&nothing);
        let digest = OciDigest::of(&bytes);
        self.put_small_blob(&image.repository, EMPTY)?;
        // First beside the tag: where nothing can be deleted the tag must not move.
        for reference in [&digest.to_string(), tag] {
            self.put_document(&image.repository, reference, MANIFEST, &bytes)?;
            self.delete_by_digest(&image.repository, &digest)?;
        }
        Ok(())
    }

    pub(crate) fn delete_by_digest(&self, repository: &str, digest: &OciDigest) -> Result<()> {
        let Some(details) = self.delete_document(repository, &digest.to_string())? else {
            return Ok(());
        };
        let (host, details) = (self.address().host(), in_parentheses(&details));
        let message = format!("the registry {host} does not let anything be deleted{details}");
        let hint = "in the registry's own configuration deletion can be switched on".to_owned();
        Err(Error::new(ErrorKind::NoDeletion, Report::new(Kind::Registry, message).hinted(hint)))
    }
}
