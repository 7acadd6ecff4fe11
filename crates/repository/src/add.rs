// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Adding an image, and giving an image another label.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cabane_label::{Digest, Label, shown};
use cabane_view::Meta;
use jiff::{Timestamp, ToSpan};

use crate::access::make_readable;
use crate::meta_copy::copy_meta;
use crate::parts::PartList;
use crate::record::KnownImage;
use crate::repository::read_meta_directory;
use crate::transfer::{Progress, Source, Transfer, format_of};
use crate::writer::{Published, Writer};
use crate::{Access, Error, Record, Repository, disk, tree};

/// What is to be added under which label.
#[derive(Clone, Debug)]
pub struct AddRequest<'a> {
    /// The label under which the image will be found.
    pub label: Label,
    /// The image.
    pub image: &'a Path,
    /// The metadata directory of the image; without an `env.json` in it nothing is known about
    /// the image's views and mount point.
    pub meta: &'a Path,
    /// What happens to the image where it is now.
    pub how: Transfer,
    /// Whether a label that another image has is taken from it.
    pub replace: bool,
}

/// What was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// The record of the image under its label.
    pub record: Record,
    /// Whether the image had this label before, so that nothing has changed.
    pub unchanged: bool,
    /// The image that had the label before.
    pub replaced: Option<Digest>,
    /// The replaced image, if no label names it any more and it stays for some time.
    pub kept: Option<Digest>,
    /// The images that were removed because nothing names them any more.
    pub removed: Vec<Digest>,
    /// Whether an image that was to be moved could not be removed from where it was.
    pub source_remains: bool,
}

/// How often an image is brought that others remove at the same time, and a label given that others
/// change.
const ATTEMPTS: u32 = 4;

impl Repository {
    /// Brings an image into the repository and gives it a label.
    ///
    /// When this returns, image and label are on disk. When it fails or is killed, the label
    /// points to what it pointed to before.
    pub fn add(&self, request: &AddRequest<'_>) -> Result<Added, Error> {
        self.add_with_progress(request, &mut |_, _| ())
    }

    /// Does what [`Repository::add`] does and tells how many bytes are done, and of how many.
    pub fn add_with_progress(
        &self,
        request: &AddRequest<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<Added, Error> {
        for _ in 1..ATTEMPTS {
            match self.try_to_add(request, progress) {
                // Only where there is no lock; the image itself is still where it was.
                Err(Error::RemovedMeanwhile { .. }) => {}
                outcome => return outcome,
            }
        }
        self.try_to_add(request, progress)
    }

    fn try_to_add(
        &self,
        request: &AddRequest<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<Added, Error> {
        let source = Source::open(request.image)?;
        if request.how == Transfer::Move && source.is_inside(self.layout()) {
            return Err(Error::Refused {
                message: format!(
                    "{} is in the repository already and cannot be moved there",
                    shown(request.image)
                ),
                hint: Some(
                    "`cabane image add LABEL IMAGE` gives an image a second label".to_owned(),
                ),
            });
        }
        let meta = read_meta_directory(request.meta)?;
        let mut writer = Writer::begin(self.layout())?;
        if !request.replace {
            refuse_early(&writer, request, &source)?;
        }
        writer.unlock();

        let parcel = Parcel::pack(&writer, &source, request, progress)?;
        writer.claim(&parcel.image.digest);
        writer.lock();
        let (label, replace) = (request.label.clone(), request.replace);
        let mut added = parcel.publish(&writer, label, None, replace, meta.as_ref())?;
        if request.how == Transfer::Move {
            added.source_remains = fs::remove_file(request.image).is_err();
        }
        Ok(added)
    }

    /// Gives an image of the repository another label.
    pub fn tag(&self, digest: &Digest, label: Label, replace: bool) -> Result<Added, Error> {
        self.tag_since(digest, label, None, replace)
    }

    /// Does the same for a label that the image has had elsewhere since a date.
    pub fn tag_since(
        &self,
        digest: &Digest,
        label: Label,
        date: Option<Timestamp>,
        replace: bool,
    ) -> Result<Added, Error> {
        let mut writer = Writer::open(self.layout())?;
        writer.lock();
        let image = self.known_image(digest, &writer)?;
        let meta = read_meta_directory(&self.layout().meta(digest))?;
        let naming = Naming { label, date, image, meta: meta.as_ref(), replace, spare: None };
        let added = naming.execute(&writer)?;
        // Only now: a killed writer may have left this very image without a label.
        writer.sweep()?;
        Ok(added)
    }
}

impl Repository {
    /// Looks at an image that is in the repository.
    fn known_image(&self, digest: &Digest, writer: &Writer<'_>) -> Result<KnownImage, Error> {
        if self.is_deduplicated(digest) {
            let parts = self.layout().parts(digest);
            let list = PartList::read(&parts).map_err(Error::io("read", &parts))?;
            return Ok(KnownImage { digest: digest.clone(), size: list.size, format: list.format });
        }
        let path = self.image_path(digest);
        let file = match disk::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A killed writer may have it in the trash.
                writer.sweep()?;
                disk::open(&path)
            }
            opened => opened,
        };
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Error::NoSuchImage { digest: digest.clone(), repository: self.path().to_owned() }
            }
            _ => Error::io("read", &path)(error),
        })?;
        let format = format_of(&file, &path)?;
        let size = file.metadata().map_err(Error::io("inspect", &path))?.len();
        Ok(KnownImage { digest: digest.clone(), size, format })
    }
}

/// Finds out before a long copy that the label is taken.
///
/// The same image may be added again, which changes nothing; only its digest tells that.
fn refuse_early(
    writer: &Writer<'_>,
    request: &AddRequest<'_>,
    source: &Source<'_>,
) -> Result<(), Error> {
    match writer.refs_of(&request.label)?.pop() {
        Some(record) if record.digest != source.digest()? => {
            Err(taken(&request.label, record.digest))
        }
        _ => Ok(()),
    }
}

pub(crate) fn taken(label: &Label, digest: Digest) -> Error {
    Error::LabelTaken { label: Box::new(label.clone()), digest }
}

/// A complete image directory that is not visible yet.
pub(crate) struct Parcel {
    pub(crate) directory: PathBuf,
    pub(crate) image: KnownImage,
}

impl Parcel {
    pub(crate) fn pack(
        writer: &Writer<'_>,
        source: &Source<'_>,
        request: &AddRequest<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<Self, Error> {
        let directory = writer.staging.free_name("new");
        fs::create_dir(&directory).map_err(Error::io("create", &directory))?;
        let (access, place) =
            (source.access(&directory)?, directory.join(writer.layout.image_name()));
        access.close_directory(&directory)?;
        copy_meta(request.meta, &directory.join("meta"))?;
        let is_closed = access.is_closed(&source.metadata()?);
        let how = match request.how {
            // A second name has the mode of the first, which is not ours to change.
            Transfer::Share if !is_closed => Transfer::Copy,
            how => how,
        };
        let image = source.import(&place, how, progress)?;
        if how == Transfer::Move && access == Access::AsNewFiles {
            make_readable(&place);
        }
        let found = fs::metadata(&place).map_err(Error::io("inspect", &place))?;
        if how != Transfer::Share || !access.is_closed(&found) {
            access.close_file(&place)?;
        }
        tree::write_beside(&place, &directory.join(writer.layout.tree_name()), access)?;
        disk::sync_directory(&directory).map_err(Error::io("write", &directory))?;
        Ok(Self { directory, image })
    }

    /// Brings the image to its place and gives it a label, which it may have had elsewhere since a
    /// date.
    pub(crate) fn publish(
        self,
        writer: &Writer<'_>,
        label: Label,
        date: Option<Timestamp>,
        replace: bool,
        meta: Option<&Meta>,
    ) -> Result<Added, Error> {
        let KnownImage { digest, size, .. } = &self.image;
        let there = match writer.publish(&self.directory, digest, *size)? {
            Published::Installed => None,
            // The record describes what is in the repository, which is not what was brought.
            Published::WasThere => read_meta_directory(&writer.layout.meta(digest)).ok().flatten(),
        };
        let naming = Naming {
            label,
            date,
            meta: there.as_ref().or(meta),
            image: self.image,
            replace,
            spare: Some(&self.directory),
        };
        naming.execute(writer)
    }
}

/// An image that is in the repository and is to have a label.
struct Naming<'a> {
    label: Label,
    /// Since when it has had this label elsewhere, if it has.
    date: Option<Timestamp>,
    image: KnownImage,
    meta: Option<&'a Meta>,
    replace: bool,
    /// Where there is another copy of the image, if there is one.
    spare: Option<&'a Path>,
}

impl Naming<'_> {
    fn execute(self, writer: &Writer<'_>) -> Result<Added, Error> {
        for _ in 0..ATTEMPTS {
            if let Some(added) = self.try_to_name(writer)? {
                return Ok(added);
            }
        }
        Err(Error::LabelChanges { label: Box::new(self.label) })
    }

    /// Returns `None` if another process has changed the label in the meantime.
    fn try_to_name(&self, writer: &Writer<'_>) -> Result<Option<Added>, Error> {
        let before = writer.refs_of(&self.label)?;
        let valid = before.last();
        let replaced = valid.map(|record| record.digest.clone());
        let unchanged = replaced.as_ref() == Some(&self.image.digest);
        if let (Some(digest), false, false) = (&replaced, unchanged, self.replace) {
            return Err(taken(&self.label, digest.clone()));
        }
        // What an image for a few holds is not written where everyone reads it.
        let is_closed = writer.layout.is_closed(&self.image.digest);
        let record = match valid {
            Some(record) if unchanged => record.clone(),
            _ => Record::new(
                self.label.clone(),
                &self.image,
                self.meta.filter(|_| !is_closed),
                date_after(&before, self.date),
            ),
        };
        if !unchanged && !writer.give_label(&record, replaced.as_ref())? {
            return Ok(None);
        }
        let confirmed = writer.confirm(&record, self.spare);
        if let (Err(_), Some(valid), true) = (&confirmed, valid, writer.layout.is_uenv()) {
            // A database has no earlier ref that is valid again.
            writer.give_label(valid, None)?;
        }
        confirmed?;
        let removed = self.settle(writer, &record)?;
        writer.write_index();
        let replaced = replaced.filter(|_| !unchanged);
        let kept = match &replaced {
            Some(digest) if writer.is_named(digest)? && !writer.has_label(digest)? => {
                Some(digest.clone())
            }
            _ => None,
        };
        Ok(Some(Added { record, unchanged, replaced, kept, removed, source_remains: false }))
    }

    /// Retires the refs that the label had before, when their time has come.
    ///
    /// Where there is no lock another writer may have been faster: the newest ref is valid, and
    /// to find one's own overtaken is an error only for who was not to replace anything.
    fn settle(&self, writer: &Writer<'_>, record: &Record) -> Result<Vec<Digest>, Error> {
        let refs = writer.refs_of(&self.label)?;
        let beaten = refs.last().filter(|newest| newest.digest != record.digest);
        let beaten = beaten.filter(|_| !self.replace);
        let grace = match beaten {
            Some(_) => Duration::ZERO,
            None => writer.layout.grace,
        };
        let removed = writer.retire(&writer.superfluous(&refs, grace))?;
        match beaten {
            Some(newest) => Err(taken(&self.label, newest.digest.clone())),
            None => Ok(removed),
        }
    }
}

/// Returns the wanted date or the present, but a moment after the newest ref at least: the
/// clocks of hosts may differ.
fn date_after(refs: &[Record], wanted: Option<Timestamp>) -> Timestamp {
    let wanted = wanted.unwrap_or_else(Timestamp::now);
    let newest = refs.iter().map(|one| one.date).max();
    let next = newest.and_then(|newest| newest.checked_add(1.nanosecond()).ok());
    next.map_or(wanted, |next| next.max(wanted))
}
