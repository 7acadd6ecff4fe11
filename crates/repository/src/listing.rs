// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Reading all refs once, without a lock.
//!
//! A reader takes what the index has for the files that exist, and reads the other files.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use cabane_label::Digest;

use crate::disk::Names;
use crate::index::Index;
use crate::layout::{Layout, RefName};
use crate::record::{MAX_REF_SIZE, RefError, overtaken};
use crate::sum::{NameSet, sum};
use crate::uenv::Labels;
use crate::{Error, Record, disk, uenv};

/// A larger index is not read; 10,000 records take about 3 MiB.
const MAX_INDEX_SIZE: u64 = 1024 * 1024 * 1024;

/// What the refs say, and which images there are.
#[derive(Default)]
pub(crate) struct Listing {
    /// What the refs say, sorted by label; of one label the valid one comes last.
    pub(crate) refs: Vec<Record>,
    /// The refs that are not understood.
    pub(crate) unreadable: Vec<(RefName, RefError)>,
    /// The files in the directory of the refs that are not refs.
    pub(crate) strangers: Vec<String>,
    /// The labels in a database of which no record can be made, and why.
    pub(crate) bad: Vec<(String, String)>,
    /// The directories of images, whole or not.
    images: Names,
    /// Whether there is an image for every ref.
    pub(crate) is_complete: bool,
    /// Whether something vanished that was there a moment ago.
    pub(crate) has_changed: bool,
    /// The sum of the index that was used.
    pub(crate) index: u64,
}

impl Listing {
    /// Reads the refs as they are at this moment.
    pub(crate) fn read(layout: &Layout) -> Result<Self, Error> {
        let bytes = read_index(layout);
        let listing = Self::read_with(layout, Index::open(&bytes).unwrap_or_default())?;
        Ok(Self { index: sum(&bytes), ..listing })
    }

    /// Reads the refs without the index.
    pub(crate) fn read_files(layout: &Layout) -> Result<Self, Error> {
        Self::read_with(layout, Index::default())
    }

    fn read_with(layout: &Layout, index: Index<'_>) -> Result<Self, Error> {
        if layout.is_uenv() {
            return Self::read_database(layout);
        }
        let (refs, images) = (layout.refs(), layout.images());
        // One directly after the other, the refs first: an image is there before its ref.
        let names = disk::names(&refs).map_err(Error::io("read", &refs))?;
        let images = disk::names(&images).map_err(Error::io("read", &images))?;
        let mut listing = Self { images, ..Self::default() };
        listing.refs.reserve(names.len());
        let mut unread: NameSet<'_> = names.iter().collect();
        for line in index.lines() {
            if !unread.remove(line.file()) {
                listing.has_changed = true;
            } else if let Some(record) = line.record() {
                listing.refs.push(record);
            } else {
                listing.read_file(layout, line.file());
            }
        }
        for file in unread {
            listing.read_file(layout, file);
        }
        // The index is in order, so there is little to sort.
        listing.refs.sort_by(Record::in_order);
        let there = listing.image_names();
        listing.is_complete = listing.refs.iter().all(|one| there.contains(one.digest.as_str()));
        Ok(listing)
    }

    fn read_database(layout: &Layout) -> Result<Self, Error> {
        let Labels { records: refs, bad } = Labels::read_all(layout)?;
        let path = layout.images();
        // In a repository into which nothing was put there are none.
        let images = match disk::names(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && refs.is_empty() => None,
            images => Some(images.map_err(Error::io("read", &path))?),
        };
        let mut listing = Self { refs, bad, images: images.unwrap_or_default(), ..Self::default() };
        let there = listing.image_names();
        listing.is_complete = listing.refs.iter().all(|one| there.contains(one.digest.as_str()));
        Ok(listing)
    }

    fn read_file(&mut self, layout: &Layout, file: &str) {
        let Some(name) = RefName::from_file_name(file) else {
            self.strangers.push(file.to_owned());
            return;
        };
        match read_ref(layout, &name) {
            Ok(record) => self.refs.push(record),
            Err(RefError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                self.has_changed = true;
            }
            Err(error) => self.unreadable.push((name, error)),
        }
    }

    fn image_names(&self) -> NameSet<'_> {
        self.images.iter().collect()
    }

    /// Returns the digests of the images that are there, whole or not, sorted.
    pub(crate) fn images(&self) -> Vec<Digest> {
        let mut digests: Vec<_> = self.images.iter().filter_map(|name| name.parse().ok()).collect();
        digests.sort();
        digests
    }

    /// Returns the images that no ref names, sorted. A ref that cannot be read still names one.
    pub(crate) fn images_without_ref(&self) -> Vec<Digest> {
        let readable = self.refs.iter().map(|one| one.digest.id().to_string());
        let unreadable = self.unreadable.iter().map(|(name, _)| name.id_part().to_owned());
        let ids: HashSet<String> = readable.chain(unreadable).collect();
        let mut digests = self.images();
        digests.retain(|digest| !ids.contains(digest.id().as_str()));
        digests
    }

    /// Returns the refs for which there is no image.
    pub(crate) fn without_image(&self) -> Vec<&Record> {
        let there = self.image_names();
        self.refs.iter().filter(|one| !there.contains(one.digest.as_str())).collect()
    }

    /// Returns the refs that another ref of the same label has overtaken, longer ago than the
    /// grace.
    pub(crate) fn overtaken(&self, grace: Duration) -> impl Iterator<Item = &Record> {
        let labels = self.refs.chunk_by(|one, next| one.label == next.label);
        labels.flat_map(move |refs| overtaken(refs, grace))
    }

    /// Keeps what points to an image, and of each label the last, which is the newest.
    pub(crate) fn into_records(self) -> Vec<Record> {
        let there: NameSet<'_> = self.images.iter().collect();
        let mut records = self.refs;
        if !self.is_complete {
            records.retain(|one| there.contains(one.digest.as_str()));
        }
        records.dedup_by(|next, kept| {
            let same = next.label == kept.label;
            if same {
                std::mem::swap(next, kept);
            }
            same
        });
        records
    }
}

/// Returns the index as it is; nothing when there is none that can be read.
pub(crate) fn read_index(layout: &Layout) -> Vec<u8> {
    disk::read(&layout.index(), MAX_INDEX_SIZE).unwrap_or_default()
}

/// Reads the file of one ref.
pub(crate) fn read_ref(layout: &Layout, name: &RefName) -> Result<Record, RefError> {
    let bytes = disk::read(&layout.refs().join(name.as_str()), MAX_REF_SIZE)?;
    Record::from_ref(name, &bytes)
}

/// Returns the readable refs whose names are wanted, in order.
pub(crate) fn refs(
    layout: &Layout,
    wanted: &dyn Fn(&RefName) -> bool,
) -> Result<Vec<Record>, Error> {
    if layout.is_uenv() {
        return Ok(Labels::read(layout, &|name, _, _| wanted(name))?.records);
    }
    Ok(read_refs(layout, ref_names(layout)?.into_iter().filter(wanted)))
}

/// Reads the files of these refs, and returns those that are readable, in order.
pub(crate) fn read_refs(layout: &Layout, names: impl Iterator<Item = RefName>) -> Vec<Record> {
    let mut refs: Vec<Record> = names.filter_map(|name| read_ref(layout, &name).ok()).collect();
    refs.sort_by(Record::in_order);
    refs
}

/// Returns the names of the refs; their content is not looked at.
pub(crate) fn ref_names(layout: &Layout) -> Result<Vec<RefName>, Error> {
    let directory = layout.refs();
    disk::freshen(&directory);
    if layout.is_uenv() {
        return uenv::ref_names(layout);
    }
    let names = disk::names(&directory).map_err(Error::io("read", &directory))?;
    Ok(names.iter().filter_map(RefName::from_file_name).collect())
}
