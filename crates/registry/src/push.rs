// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Pushing an image under a label.
//!
//! The label comes last: anyone who finds it finds the image, its metadata and its signature.

use std::path::Path;
use std::thread;

use cabane_label::Digest;
use cabane_report::{Kind, Report};
use jiff::Timestamp;

use crate::chunks::{CHUNKS, ChunkList, Format, SMALLEST_IMAGE};
use crate::contents::Packages;
use crate::document::{Descriptor, EMPTY, MANIFEST, Manifest, OciDigest, TITLE, to_bytes};
use crate::image::{EROFS, META, ROOT_SIGNATURE, SQUASHFS, dated};
use crate::meta::pack;
use crate::signature::SigningKey;
use crate::sum::Progress;
use crate::upload::FileBlob;
use crate::{Error, ErrorKind, Place, Registry, RemoteImage, Result};

/// What is to be pushed under which label.
#[derive(Clone, Debug)]
pub struct PushRequest<'a> {
    /// Where it will be found.
    pub place: &'a Place,
    /// The image.
    pub image: &'a Path,
    /// Its sha256.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// The file system in it.
    pub format: Format,
    /// Its metadata directory.
    pub meta: Option<&'a Path>,
    /// The packages in it, in lines that are kept for who looks for packages.
    pub packages: Option<&'a str>,
    /// When the image was made.
    pub created: Timestamp,
    /// Whether a label that another image has is taken from it.
    pub replace: bool,
    /// A directory for what is needed to go on after a kill.
    pub notes: Option<&'a Path>,
    /// The signature of its root hash, PKCS#7 in DER, which a kernel can check.
    pub root_signature: Option<&'a [u8]>,
    /// The key that signs it.
    pub sign: Option<&'a SigningKey>,
}

/// What was pushed.
#[derive(Clone, Debug)]
pub struct Pushed {
    /// The image as the registry has it now.
    pub image: RemoteImage,
    /// Whether the image itself had to be sent.
    pub sent: bool,
    /// Whether the label had this image before.
    pub unchanged: bool,
    /// The image that had the label before.
    pub replaced: Option<Digest>,
    /// Whether a signature was added that it did not have before.
    pub signed: bool,
}

/// Returns the sha256 of the manifest that an image gets when it is pushed; `created` is when its file
/// was written.
#[must_use]
pub fn manifest_of(format: Format, digest: &Digest, size: u64, created: Timestamp) -> Digest {
    OciDigest::of(&manifest((format, digest, size), created).1).0
}

fn manifest(
    (format, digest, size): (Format, &Digest, u64),
    created: Timestamp,
) -> (&'static str, Vec<u8>) {
    // The title is the name by which other tools save the image.
    let (media_type, title) = match format {
        Format::Squashfs => (SQUASHFS, "store.squashfs"),
        Format::Erofs => (EROFS, "store.erofs"),
    };
    let layer = Descriptor::new(media_type, OciDigest(digest.clone()), size).with(TITLE, title);
    (media_type, to_bytes(&Manifest::artifact(media_type, vec![layer], dated(created))))
}

impl Registry {
    /// Pushes an image and its metadata, and gives it a label.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LabelTaken`] if the label has another image and is not to be taken from it.
    pub fn push(&self, request: &PushRequest<'_>, progress: &mut Progress<'_>) -> Result<Pushed> {
        let repository = self.repository(request.place)?;
        let is_same = |image: &RemoteImage| image.digest == request.digest;
        let before = self.image_before(request.place, request.replace, is_same)?;
        if let Some(image) = before.as_ref().filter(|image| is_same(image)) {
            return self.push_again(request, image);
        }
        let blob = FileBlob {
            path: request.image,
            digest: OciDigest(request.digest.clone()),
            size: request.size,
            notes: request.notes,
        };
        // While the image is on its way, by another processor.
        let (sent, chunks) = thread::scope(|scope| {
            let is_large = request.size >= SMALLEST_IMAGE;
            let chunks =
                is_large.then(|| scope.spawn(|| ChunkList::of_file(request.image, request.format)));
            let sent = self.put_file(&repository, &blob, progress);
            (sent, chunks.and_then(|chunks| chunks.join().ok()))
        });
        let (sent, chunks) = (sent?, chunks.transpose()?);
        self.put_small_blob(&repository, EMPTY)?;
        let image = (request.format, &request.digest, request.size);
        let (media_type, manifest) = manifest(image, request.created);
        self.attach(&repository, &manifest, media_type, request, chunks.as_ref())?;
        // It comes back to a label that it may have had before.
        let sign = |key| self.sign_manifest(request.place, &OciDigest::of(&manifest), key, true);
        let signed = request.sign.map_or(Ok(false), sign)?;
        // An upload takes time, in which someone may have taken the label.
        let replaced = self.image_before(request.place, request.replace, is_same)?;
        let replaced = replaced.map(|image| image.digest);
        self.put_document(&repository, request.place.tag(), MANIFEST, &manifest)?;
        let image = self.image(request.place)?;
        self.note_label(&image.place, &image, packages_of(request).as_ref())?;
        Ok(Pushed { image, sent, unchanged: false, replaced, signed })
    }

    /// Whether an image is large enough for a chunk list and has none.
    ///
    /// # Errors
    ///
    /// That the registry does not tell what is attached.
    pub fn lacks_chunk_list(&self, image: &RemoteImage) -> Result<bool> {
        if image.size < SMALLEST_IMAGE {
            return Ok(false);
        }
        let subject = OciDigest(image.manifest.clone());
        Ok(self.referrers(&image.repository, &subject, CHUNKS)?.is_empty())
    }

    /// Attaches a chunk list to an image that another tool pushed; `path` is the image. Readers compare
    /// the whole image with its digest, so a wrong list costs bytes and nothing else.
    ///
    /// # Errors
    ///
    /// The file cannot be read; and those of the registry.
    pub fn add_chunk_list(&self, image: &RemoteImage, path: &Path) -> Result<()> {
        let format = if image.media_type == EROFS { Format::Erofs } else { Format::Squashfs };
        let chunks = ChunkList::of_file(path, format)?;
        let mut subject = Descriptor::of(MANIFEST, &image.document);
        subject.artifact_type = Some(image.media_type.clone());
        let created = image.created.unwrap_or_else(Timestamp::now);
        self.attach_list(&image.repository, &subject, &chunks, created)
    }

    fn attach_list(
        &self,
        repository: &str,
        subject: &Descriptor,
        chunks: &ChunkList,
        created: Timestamp,
    ) -> Result<()> {
        let bytes = chunks.to_bytes();
        let content = Descriptor::of(CHUNKS, &bytes).with(TITLE, "chunks");
        self.attach_one(repository, subject, (CHUNKS, content, &bytes), created)
    }

    /// Returns the image that has the label, unless it is another one that must not be
    /// replaced.
    pub(crate) fn image_before(
        &self,
        place: &Place,
        replace: bool,
        is_same: impl Fn(&RemoteImage) -> bool,
    ) -> Result<Option<RemoteImage>> {
        match self.image_if_there(place) {
            Ok(Some(image)) if !replace && !is_same(&image) => {
                let id = image.digest.id();
                let message =
                    format!("the label `{place}` belongs to the image {id} in the registry");
                let report = Report::new(Kind::Failure, message)
                    .hinted("`--force` gives the label to the new image".to_owned());
                Err(Error::new(ErrorKind::LabelTaken, report))
            }
            // `--force` means that the label is taken.
            Err(error) if replace && error.kind == ErrorKind::NotAnImage => Ok(None),
            outcome => outcome,
        }
    }

    /// Sees to it that an image that is there has its metadata and is listed.
    fn push_again(&self, request: &PushRequest<'_>, image: &RemoteImage) -> Result<Pushed> {
        let subject = OciDigest(image.manifest.clone());
        let has_meta = !self.referrers(&image.repository, &subject, META)?.is_empty();
        if !has_meta || request.replace {
            let document = self.document(&image.repository, &subject.to_string())?;
            let document = document.ok_or_else(|| self.no_such_image(request.place))?;
            self.attach(&image.repository, &document.bytes, &image.media_type, request, None)?;
        }
        if let Some(bytes) = request.root_signature
            && self.root_signature(image)?.as_deref() != Some(bytes)
        {
            let document = self.document(&image.repository, &subject.to_string())?;
            let document = document.ok_or_else(|| self.no_such_image(request.place))?;
            let mut subject = Descriptor::of(MANIFEST, &document.bytes);
            subject.artifact_type = Some(image.media_type.clone());
            self.attach_root_signature(&image.repository, &subject, bytes, request)?;
        }
        let sign = |key| self.sign_manifest(request.place, &subject, key, false);
        let signed = request.sign.map_or(Ok(false), sign)?;
        self.note_label(&image.place, image, packages_of(request).as_ref())?;
        Ok(Pushed { image: image.clone(), sent: false, unchanged: true, replaced: None, signed })
    }

    /// Attaches the metadata and the list of chunks to the manifest of an image.
    fn attach(
        &self,
        repository: &str,
        manifest: &[u8],
        kind: &str,
        request: &PushRequest<'_>,
        chunks: Option<&ChunkList>,
    ) -> Result<()> {
        let mut subject = Descriptor::of(MANIFEST, manifest);
        subject.artifact_type = Some(kind.to_owned());
        if let Some(chunks) = chunks {
            self.attach_list(repository, &subject, chunks, request.created)?;
        }
        if let Some(directory) = request.meta {
            let (bytes, descriptor) = pack(directory)?;
            self.attach_one(repository, &subject, (META, descriptor, &bytes), request.created)?;
        }
        request.root_signature.map_or(Ok(()), |bytes| {
            self.attach_root_signature(repository, &subject, bytes, request)
        })
    }

    fn attach_root_signature(
        &self,
        repository: &str,
        subject: &Descriptor,
        bytes: &[u8],
        request: &PushRequest<'_>,
    ) -> Result<()> {
        let content = Descriptor::of(ROOT_SIGNATURE, bytes).with(TITLE, "store.verity.p7s");
        self.attach_one(repository, subject, (ROOT_SIGNATURE, content, bytes), request.created)
    }

    fn attach_one(
        &self,
        repository: &str,
        subject: &Descriptor,
        (kind, content, bytes): (&str, Descriptor, &[u8]),
        created: Timestamp,
    ) -> Result<()> {
        self.put_small_blob(repository, EMPTY)?;
        self.put_small_blob(repository, bytes)?;
        let mut manifest = Manifest::artifact(kind, vec![content], dated(created));
        manifest.subject = Some(subject.clone());
        let bytes = to_bytes(&manifest);
        let mut referrer = Descriptor::of(MANIFEST, &bytes);
        referrer.artifact_type = manifest.artifact_type;
        referrer.annotations = manifest.annotations;
        self.put_referrer(repository, &subject.digest, &referrer, &bytes)
    }
}

fn packages_of(request: &PushRequest<'_>) -> Option<Packages> {
    request.packages.and_then(Packages::pack)
}
