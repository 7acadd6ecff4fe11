// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! An image of another registry, with everything that is attached to it.
//!
//! Manifests stay what they are, so that signatures of them stay good. The label comes last.

use std::fs;
use std::path::Path;

use cabane_report::{Kind, Report};

use crate::attestation::{BUNDLE, MAX_BUNDLE, newest_first};
use crate::chunks::{CHUNKS, MAX_LIST};
use crate::document::{Descriptor, EMPTY, MANIFEST, Manifest, OciDigest};
use crate::download::{Blob, Space};
use crate::image::{META, ROOT_SIGNATURE};
use crate::meta::MAX_ARCHIVE;
use crate::signature::signatures_tag;
use crate::sum::Progress;
use crate::upload::FileBlob;
use crate::{BaseImage, Error, ErrorKind, Place, Registry, RemoteImage, Result};

/// A blob of this size goes through a file, a smaller one through memory.
const LARGE: u64 = 1024 * 1024;
/// Anyone who may write to the source can attach as many as they like.
const MOST_ATTACHED: usize = 64;
/// As many statements about an image are copied, the newest ones.
const MOST_STATEMENTS: usize = 256;

/// What a mirror has of an image now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mirrored {
    /// Whether its label has another image than before, or was not there.
    pub is_new: bool,
    /// How many documents were added to it: metadata, chunk lists, and signatures.
    pub attached: usize,
    /// How many bytes were sent.
    pub sent: u64,
}

impl Registry {
    /// Copies an image of another registry into this one under its label, with what is attached to it
    /// and its signatures. `directory` is for large blobs; what a killed process has left there is
    /// used. Attached documents of other kinds than ours, and damaged ones, are left out.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LabelTaken`] if the label has another image and is not to be taken from it; those of
    /// reading and writing. The label does not change then.
    pub fn mirror(
        &self,
        source: &Self,
        image: &RemoteImage,
        replace: bool,
        directory: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<Mirrored> {
        let place = &image.place;
        let is_same = |there: &RemoteImage| there.manifest == image.manifest;
        self.image_before(place, replace, is_same)?;
        let target = self.repository(place)?;
        let mut mirrored = self.take_image(source, image, &target, directory, progress)?;
        let before = self.digest_of(&target, place.tag())?;
        if before.is_none_or(|before| before.0 != image.manifest) {
            self.put_document(&target, place.tag(), MANIFEST, &image.document)?;
            mirrored.is_new = true;
        }
        if mirrored.is_new || mirrored.attached > 0 || !self.is_listed(place, image)? {
            let packages = source.packages_in_list(&place.namespace, &image.digest)?;
            let image = self.image(place)?;
            self.note_label(place, &image, packages.as_ref())?;
        }
        Ok(mirrored)
    }

    /// Copies an image, on which others are built, without its label: it is found by its digest.
    ///
    /// # Errors
    ///
    /// As those of [`Registry::mirror`].
    pub fn mirror_base(
        &self,
        source: &Self,
        image: &RemoteImage,
        directory: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<Mirrored> {
        let target = self.repository(&image.place)?;
        let is_new = self.held_base(&image.place, &image.digest)?.is_none();
        let mirrored = self.take_image(source, image, &target, directory, progress)?;
        self.hold_base(image)?;
        Ok(Mirrored { is_new, ..mirrored })
    }

    /// Copies an image with what is attached to it into a repository, without a label.
    fn take_image(
        &self,
        source: &Self,
        image: &RemoteImage,
        target: &str,
        directory: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<Mirrored> {
        let subject = OciDigest(image.manifest.clone());
        let mut mirrored = Mirrored::default();
        let manifest: Manifest = self.client.parse("a manifest", &image.document)?;
        let moved = Moved { source, from: &image.repository, to: target, directory };
        for blob in manifest.layers.iter().chain([&manifest.config]) {
            let needed = source.bases_of(&blob.digest.0);
            mirrored.sent += if needed.is_empty() || self.has_blob(target, &blob.digest)? {
                self.take_blob(&moved, blob, progress)?
            } else {
                self.complete(&moved, image, &needed, progress)?
            };
        }
        // By its digest first: what refers to it wants it to be there.
        self.put_document(target, &subject.to_string(), MANIFEST, &image.document)?;
        let known = self.attached(target, &subject)?;
        let is_new = |one: &&Descriptor| !known.iter().any(|known| known.digest == one.digest);
        let mut referrers = source.attached(&image.repository, &subject)?;
        newest_first(&mut referrers);
        let is_statement = |one: &&Descriptor| one.artifact_type.as_deref() == Some(BUNDLE);
        let statements = referrers.iter().filter(is_statement).take(MOST_STATEMENTS);
        let others = referrers.iter().filter(|one| !is_statement(one)).take(MOST_ATTACHED);
        for referrer in others.chain(statements).filter(is_new) {
            if let Some(sent) = self.take_referrer(&moved, &subject, referrer)? {
                mirrored.sent += sent;
                mirrored.attached += 1;
            }
        }
        mirrored.attached += self.take_signatures(source, &image.repository, target, &subject)?;
        Ok(mirrored)
    }

    /// Returns whether the list of this registry has an image under its label.
    fn is_listed(&self, place: &Place, image: &RemoteImage) -> Result<bool> {
        let lines = self.tags(&self.index_of(&place.namespace))?;
        let entries = lines.iter().filter(|line| crate::entry::is_of(line, &place.label));
        let mut entries = entries.filter_map(|line| crate::entry::Entry::read(line));
        Ok(entries.any(|entry| entry.digest == image.digest))
    }

    /// Copies an image of which the source has only what other images lack, with those that this
    /// registry has. Returns how many bytes were sent.
    fn complete(
        &self,
        moved: &Moved<'_>,
        image: &RemoteImage,
        needed: &[BaseImage],
        progress: &mut Progress<'_>,
    ) -> Result<u64> {
        let mut bases = Vec::new();
        for base in needed {
            let found = self.image_if_there(&base.place)?.filter(|one| one.digest == base.digest);
            let found = found.ok_or_else(|| self.lacks_base(image, base))?;
            let directory = moved.directory.join(base.digest.id().as_str());
            fs::create_dir_all(&directory).map_err(Error::io("make", &directory))?;
            bases.push(self.fetch_image(&found, &directory, &[], &mut |_, _| ())?.path);
        }
        let fetched = moved.source.fetch_image(image, moved.directory, &bases, progress)?;
        let file = FileBlob {
            path: &fetched.path,
            digest: OciDigest(image.digest.clone()),
            size: image.size,
            notes: Some(moved.directory),
        };
        self.put_file(moved.to, &file, progress)?;
        Ok(image.size)
    }

    fn lacks_base(&self, image: &RemoteImage, base: &BaseImage) -> Error {
        let (place, wanted, id) = (&image.place, &base.place, base.digest.id());
        let message = format!(
            "the registry {} lacks {wanted} ({id}), with which {place} is complete",
            self.address()
        );
        let report = Report::new(Kind::NotFound, message).hinted(
            "mirror the bundle before this one first, or make one without `--since`".to_owned(),
        );
        Error::new(ErrorKind::NoSuchImage, report)
    }

    /// Copies a blob, unless it is there. Returns how many bytes were sent.
    fn take_blob(
        &self,
        moved: &Moved<'_>,
        blob: &Descriptor,
        progress: &mut Progress<'_>,
    ) -> Result<u64> {
        if self.has_blob(moved.to, &blob.digest)? {
            return Ok(0);
        }
        if blob.digest == OciDigest::of(EMPTY) {
            self.put_small_blob(moved.to, EMPTY)?;
            return Ok(0);
        }
        if blob.size <= LARGE {
            let bytes = moved.source.small_blob(moved.from, blob, LARGE)?;
            self.put_small_blob(moved.to, &bytes)?;
            return Ok(blob.size);
        }
        let space = Space::of(moved.directory)?;
        space.check(moved.from, &blob.digest, blob.size)?;
        let whole = Blob::new(moved.from, blob.digest.clone(), blob.size);
        let twice = blob.size.saturating_mul(2);
        let fetched = moved.source.fetch(&whole, None, moved.directory, &[], &mut |done, _| {
            progress(done, twice);
        })?;
        let file = FileBlob {
            path: &fetched.path,
            digest: blob.digest.clone(),
            size: blob.size,
            notes: Some(moved.directory),
        };
        self.put_file(moved.to, &file, &mut |done, _| progress(blob.size + done, twice))?;
        let _ = std::fs::remove_file(&fetched.path);
        Ok(blob.size)
    }

    /// Copies what is attached to an image, and returns how many bytes were sent; `None` if it is of no
    /// kind that is known here, refers to something else, or is damaged.
    fn take_referrer(
        &self,
        moved: &Moved<'_>,
        subject: &OciDigest,
        referrer: &Descriptor,
    ) -> Result<Option<u64>> {
        let document = moved.source.document(moved.from, &referrer.digest.to_string())?;
        let document = document.filter(|found| found.digest == referrer.digest);
        let Some(document) = document else {
            return Ok(None);
        };
        let Ok(manifest) = serde_json::from_slice::<Manifest>(&document.bytes) else {
            return Ok(None);
        };
        let limit = match manifest.kind() {
            META => MAX_ARCHIVE,
            CHUNKS => MAX_LIST,
            ROOT_SIGNATURE => LARGE,
            BUNDLE => MAX_BUNDLE,
            _ => return Ok(None),
        };
        // Otherwise it would be attached to another image of the target.
        if manifest.subject.as_ref().map(|one| &one.digest) != Some(subject) {
            return Ok(None);
        }
        let blobs: Vec<_> = manifest.layers.iter().chain([&manifest.config]).collect();
        if blobs.iter().any(|blob| blob.size > limit) {
            return Ok(None);
        }
        let mut sent = 0;
        for blob in blobs {
            match self.take_blob(moved, blob, &mut |_, _| ()) {
                Ok(bytes) => sent += bytes,
                Err(error) if is_damage(error.kind) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let mut attached = Descriptor::of(MANIFEST, &document.bytes);
        let manifest_kind = manifest.kind().to_owned();
        attached.artifact_type = Some(manifest_kind.clone());
        attached.annotations = manifest.annotations;
        if manifest_kind == BUNDLE {
            self.put_attestation(moved.to, subject, &attached, &document.bytes)?;
        } else {
            self.put_referrer(moved.to, subject, &attached, &document.bytes)?;
        }
        Ok(Some(sent))
    }

    /// Copies the signatures of a manifest, beside those there. Returns how many are new.
    fn take_signatures(
        &self,
        source: &Self,
        from: &str,
        to: &str,
        subject: &OciDigest,
    ) -> Result<usize> {
        let tag = signatures_tag(subject);
        let Some(signatures) = source.parsed_document::<Manifest>("signatures", from, &tag)? else {
            return Ok(0);
        };
        let known: Option<Manifest> = self.parsed_document("signatures", to, &tag)?;
        let known = known.map(|known| known.layers).unwrap_or_default();
        let is_new = |layer: &&Descriptor| !known.contains(layer);
        let mut new = Vec::new();
        for layer in signatures.layers.iter().filter(is_new).take(MOST_ATTACHED) {
            // One bad signature does not spoil the others.
            if let Some(bytes) = source.blob_if_good(from, layer, LARGE)? {
                self.put_small_blob(to, &bytes)?;
                new.push(layer.clone());
            }
        }
        if !new.is_empty() {
            self.add_layers(to, subject, &new)?;
        }
        Ok(new.len())
    }
}

/// Whether a registry does not have what it names.
fn is_damage(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WrongContent | ErrorKind::Status(404))
}

/// From where to where blobs are copied.
struct Moved<'a> {
    source: &'a Registry,
    from: &'a str,
    to: &'a str,
    /// For large ones.
    directory: &'a Path,
}
