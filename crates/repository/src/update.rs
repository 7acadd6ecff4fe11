// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Putting a repository in order.

use std::fs;

use cabane_label::{Digest, Label};
use serde::Serialize;

use crate::index::{Index, Line};
use crate::layout::RefName;
use crate::listing::{Listing, read_index};
use crate::parts::PartList;
use crate::record::{KnownImage, RefError};
use crate::repository::read_meta_directory;
use crate::writer::Writer;
use crate::{Error, ImageFormat, Record, Repository, disk};

/// What an update found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Repaired {
    /// How many temporary files of killed writers were removed.
    pub leftovers: usize,
    /// The images that a killed writer had taken away, and that are back.
    pub restored: Vec<Digest>,
    /// The labels whose damaged ref was written anew from what is known about the image, and, if all
    /// refs were lost, those that the index has.
    pub rewritten: Vec<Label>,
    /// The files of refs that were removed, since there is no image for them.
    pub dropped: Vec<String>,
    /// The images that were removed, since a killed writer had left them without a label.
    pub removed: Vec<Digest>,
    /// The images without a label of which no one knows why; they are kept.
    pub without_label: Vec<Digest>,
    /// Whether the index could be written.
    pub index_written: bool,
}

impl Repaired {
    /// Returns whether there was nothing to do.
    pub fn is_nothing(&self) -> bool {
        *self
            == Self {
                without_label: self.without_label.clone(),
                index_written: true,
                ..Self::default()
            }
    }
}

impl Repository {
    /// Sweeps what killed writers left, drops the refs whose image is gone, writes damaged refs
    /// anew where that is possible, and rebuilds the index.
    ///
    /// An image without a label is reported and kept, unless a killed writer is known to have
    /// left it so.
    pub fn update(&self) -> Result<Repaired, Error> {
        let mut writer = Writer::open(self.layout())?;
        writer.lock();
        let mut repaired = writer.sweep()?;
        restore_refs(&writer, &mut repaired)?;
        repair_refs(&writer, &mut repaired)?;
        // The index is made from the files alone, whatever the index held before.
        writer.collect_packs();
        let listing = Listing::read_files(self.layout())?;
        repaired.index_written = writer.write_index_of(&listing);
        repaired.without_label = listing.images_without_ref();
        Ok(repaired)
    }
}

/// Where there is no ref at all, takes what the index has of the images that are there: whoever
/// removes the last label leaves no index with it.
fn restore_refs(writer: &Writer<'_>, repaired: &mut Repaired) -> Result<(), Error> {
    let refs = writer.layout.refs();
    disk::create_directory(&refs).map_err(Error::io("create", &refs))?;
    if disk::names(&refs).map_err(Error::io("read", &refs))?.iter().next().is_some() {
        return Ok(());
    }
    let bytes = read_index(writer.layout);
    let lines = Index::open(&bytes).unwrap_or_default().lines();
    for record in lines.filter_map(Line::record) {
        if writer.layout.has_image(&record.digest) {
            writer.write_ref(&record)?;
            repaired.rewritten.push(record.label);
        }
    }
    Ok(())
}

fn repair_refs(writer: &Writer<'_>, repaired: &mut Repaired) -> Result<(), Error> {
    let listing = Listing::read_files(writer.layout)?;
    let images = listing.images();
    for one in listing.without_image() {
        drop_ref(writer, &one.ref_name(), repaired)?;
    }
    for (name, error) in &listing.unreadable {
        // What a later version has written, or what may not be read, is not damaged.
        if !matches!(error, RefError::Json(_) | RefError::OtherLabel(_)) {
            continue;
        }
        match record_of(writer, name, &images)? {
            Some(record) => {
                writer.write_ref(&record)?;
                repaired.rewritten.push(record.label);
            }
            None => drop_ref(writer, name, repaired)?,
        }
    }
    Ok(())
}

fn drop_ref(writer: &Writer<'_>, name: &RefName, repaired: &mut Repaired) -> Result<(), Error> {
    writer.remove_ref(name)?;
    repaired.dropped.push(name.as_str().to_owned());
    Ok(())
}

/// Makes the record of a damaged ref from the name of its file and from the image.
fn record_of(
    writer: &Writer<'_>,
    name: &RefName,
    images: &[Digest],
) -> Result<Option<Record>, Error> {
    let digest = images.iter().find(|digest| name.names(digest));
    let (Some(digest), Some(label), Some(date)) = (digest, name.label(), name.date()) else {
        return Ok(None);
    };
    let path = writer.layout.image(digest);
    let (format, size) = match PartList::read(&writer.layout.parts(digest)) {
        Ok(list) if writer.layout.is_deduplicated(digest) => (list.format, list.size),
        _ => {
            let Ok(format) = ImageFormat::of_path(&path) else {
                return Ok(None);
            };
            (format, fs::metadata(&path).map_err(Error::io("inspect", &path))?.len())
        }
    };
    let image = KnownImage { digest: digest.clone(), size, format };
    let meta = read_meta_directory(&writer.layout.meta(digest)).ok().flatten();
    let meta = meta.filter(|_| !writer.layout.is_closed(digest));
    Ok(Some(Record::new(label, &image, meta.as_ref(), date)))
}
