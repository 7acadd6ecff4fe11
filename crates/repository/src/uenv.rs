// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Repositories of uenv: both tools use them in place, at the same time.
//!
//! Such a repository has a database instead of refs: each of its labels replaces one ref. The rest
//! is as in a repository of Cabane, below the directory [`PRIVATE`]. A file there caches the records.
//! Its name contains the state of the database, so that most readers do not need the database.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use cabane_label::{Digest, Label};
use cabane_report::Report;
use cabane_uenv_database::{self as database, Row};
use jiff::Timestamp;

use crate::index::{self, Index};
use crate::layout::{Layout, RefName};
use crate::record::KnownImage;
use crate::repository::read_meta_directory;
use crate::search::{Wanted, pick};
use crate::staging::Staging;
use crate::sum::NameSet;
use crate::{Error, ImageFormat, Record, access, disk};

/// The database of a repository of uenv.
pub(crate) const DATABASE: &str = "index.db";
/// The file of an image.
pub(crate) const IMAGE: &str = "store.squashfs";
/// The directory with everything that uenv does not know.
pub(crate) const PRIVATE: &str = ".cabane";

/// The start of the name of the file with the kept records; the state of the database follows.
const KEPT: &str = "index-";
/// A larger file is not read.
const MAX_KEPT_SIZE: u64 = 1024 * 1024 * 1024;

/// Which labels are wanted: by the name that their ref has, and by digest and label.
pub(crate) type IsWanted<'a> = dyn Fn(&RefName, &Digest, &Label) -> bool + 'a;

/// What a database says.
#[derive(Default)]
pub(crate) struct Labels {
    /// The labels with a digest, sorted, whether their images are there or not.
    pub(crate) records: Vec<Record>,
    /// The labels of which no record can be made, and why.
    pub(crate) bad: Vec<(String, String)>,
}

impl Labels {
    /// Reads those labels that are wanted.
    pub(crate) fn read(layout: &Layout, wanted: &IsWanted<'_>) -> Result<Self, Error> {
        let mut labels = Self::default();
        labels.bad = for_each(layout, |row, name, digest, label| {
            if wanted(&name, &digest, &label) {
                labels.records.push(record(layout, row, digest, label));
            }
        })?;
        labels.records.sort_by(Record::in_order);
        Ok(labels)
    }

    /// Reads all of them.
    pub(crate) fn read_all(layout: &Layout) -> Result<Self, Error> {
        Self::read(layout, &|_, _, _| true)
    }
}

/// Returns the names of the refs that the labels replace.
pub(crate) fn ref_names(layout: &Layout) -> Result<Vec<RefName>, Error> {
    let mut names = Vec::new();
    for_each(layout, |_, name, _, _| names.push(name))?;
    Ok(names)
}

/// Calls a function with each label, and returns the others with what is wrong with them.
fn for_each(
    layout: &Layout,
    mut take: impl FnMut(&Row, RefName, Digest, Label),
) -> Result<Vec<(String, String)>, Error> {
    let mut bad = Vec::new();
    for row in database::read(&database_of(layout))?.labels {
        match row.checked() {
            Ok((digest, label)) => {
                let name = RefName::new(&label, &digest, date_of(layout, &row, &digest));
                take(&row, name, digest, label);
            }
            Err(reason) => bad.push((row.label, reason)),
        }
    }
    Ok(bad)
}

/// Returns when an image was made; when its file was written if the database does not say.
fn date_of(layout: &Layout, row: &Row, digest: &Digest) -> Timestamp {
    let written = || {
        let found = fs::metadata(layout.image(digest)).ok()?;
        Timestamp::try_from(found.modified().ok()?).ok()
    };
    row.date().or_else(written).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn record(layout: &Layout, row: &Row, digest: Digest, label: Label) -> Record {
    let date = date_of(layout, row, &digest);
    let found = fs::metadata(layout.image(&digest));
    let size = found.as_ref().map_or(row.size.unwrap_or(0), fs::Metadata::len);
    // What an image for a few holds is not written where everyone reads it.
    let meta = if layout.is_closed(&digest) {
        None
    } else {
        read_meta_directory(&layout.meta(&digest)).ok().flatten()
    };
    let image = KnownImage { digest, size, format: ImageFormat::Squashfs };
    Record::new(label, &image, meta.as_ref(), date)
}

/// Returns the wanted records of images that are there, sorted by label.
pub(crate) fn records(layout: &Layout, wanted: &Wanted<'_>) -> Result<Vec<Record>, Error> {
    if let Some(records) = kept_records(layout, wanted) {
        return Ok(with_image(layout, records));
    }
    // Only the owner of the database writes records for others: root must not write into the
    // directories of users who only have it list their images.
    if is_owner(layout)
        && keep(layout).is_some()
        && let Some(records) = kept_records(layout, wanted)
    {
        return Ok(with_image(layout, records));
    }
    let is_wanted = |_: &RefName, digest: &Digest, label: &Label| {
        (wanted.digest)(digest.as_str()) && (wanted.label)(label)
    };
    Ok(with_image(layout, Labels::read(layout, &is_wanted)?.records))
}

fn with_image(layout: &Layout, mut records: Vec<Record>) -> Vec<Record> {
    /// For more, the directory of the images is read.
    const FEW: usize = 32;
    let is_there = |one: &Record| access::is_there(&fs::metadata(layout.image(&one.digest)));
    if records.len() <= FEW {
        records.retain(is_there);
        return records;
    }
    let images = disk::names(&layout.images()).unwrap_or_default();
    let there: NameSet<'_> = images.iter().collect();
    records.retain(|one| there.contains(one.digest.as_str()));
    records
}

/// Takes what is wanted from the kept records, if they are of the present state of the database.
fn kept_records(layout: &Layout, wanted: &Wanted<'_>) -> Option<Vec<Record>> {
    let state = database::stamp(&database_of(layout))?;
    let path = kept_path(layout, &state);
    let (kept, owner) = (fs::symlink_metadata(&path).ok()?, owner(layout)?);
    // Others, who may write beside the database, do not decide what is in it.
    if !kept.is_file() || ![owner, 0, rustix::process::geteuid().as_raw()].contains(&kept.uid()) {
        return None;
    }
    let bytes = disk::read(&path, MAX_KEPT_SIZE).ok()?;
    pick(Index::open(&bytes)?, wanted)
}

fn owner(layout: &Layout) -> Option<u32> {
    fs::metadata(database_of(layout)).ok().map(|found| found.uid())
}

fn is_owner(layout: &Layout) -> bool {
    owner(layout) == Some(rustix::process::geteuid().as_raw())
}

/// Keeps all records for the present state of the database. A reader can do without, so that
/// failure is no error.
pub(crate) fn keep(layout: &Layout) -> Option<()> {
    let state = database::stamp(&database_of(layout))?;
    let records = Labels::read_all(layout).ok()?.records;
    let staging = Staging::open(layout).ok()?;
    let (new, place) = (staging.free_name("index"), kept_path(layout, &state));
    let written = fs::write(&new, index::render(&records));
    // Records of another state must not get the name of this one.
    let is_same = database::stamp(&database_of(layout)).as_ref() == Some(&state);
    let kept = written.ok().filter(|()| is_same).and_then(|()| fs::rename(&new, &place).ok());
    if kept.is_some() {
        remove_others(layout, &place);
    }
    let _ = disk::remove_all(staging.path());
    kept
}

/// Removes the records of earlier states.
fn remove_others(layout: &Layout, kept: &Path) {
    let names = disk::names(&layout.private()).unwrap_or_default();
    for path in names.iter().filter(|name| name.starts_with(KEPT)) {
        let path = layout.private().join(path);
        if path != kept {
            let _ = fs::remove_file(path);
        }
    }
}

fn kept_path(layout: &Layout, state: &str) -> PathBuf {
    layout.private().join(format!("{KEPT}{state}"))
}

fn database_of(layout: &Layout) -> PathBuf {
    layout.root.join(DATABASE)
}

/// Writes a record in place of that of another image; `false` if the label has another image by now.
pub(crate) fn write(
    layout: &Layout,
    record: &Record,
    before: Option<&Digest>,
) -> Result<bool, Error> {
    let Record { label, digest, size, date, .. } = record;
    let new = database::NewLabel { label, before, digest, size: *size, date: *date };
    Ok(database::set_label(&database_of(layout), &new)?)
}

/// Removes the record with this name; it is no error if it is gone already.
pub(crate) fn remove(layout: &Layout, name: &RefName) -> Result<(), Error> {
    // A label that is too long for a name of a file is looked for.
    let label = if let Some(label) = name.label() {
        Some(label)
    } else {
        let records = Labels::read(layout, &|one, _, _| one == name)?.records;
        records.into_iter().next().map(|record| record.label)
    };
    if let (Some(label), Ok(id)) = (label, name.id_part().parse()) {
        database::remove_label(&database_of(layout), &label, &id)?;
    }
    Ok(())
}

/// Returns whether a label of the database names an image, be it one that only uenv understands.
pub(crate) fn is_named(layout: &Layout, digest: &Digest) -> Result<bool, Error> {
    let rows = database::read(&database_of(layout))?;
    Ok(rows.labels.iter().any(|row| row.sha256 == digest.as_str()))
}

/// Refuses a database of a release that is read only.
pub(crate) fn check_can_change(layout: &Layout) -> Result<(), Error> {
    Ok(database::refuse_old(&database_of(layout))?)
}

/// Removes the row of an image that no label has.
pub(crate) fn forget(layout: &Layout, digest: &Digest) -> Result<(), Error> {
    Ok(database::forget(&database_of(layout), &digest.id())?)
}

/// Makes the files of an empty repository in a directory.
pub(crate) fn create(layout: &Layout) -> Result<(), Error> {
    let images = layout.images();
    disk::create_directory(&images).map_err(Error::io("create", &images))?;
    Ok(database::create(&database_of(layout))?)
}

/// Returns whether there is a repository of uenv in a directory.
pub(crate) fn is_there(root: &Path) -> bool {
    fs::metadata(root.join(DATABASE)).is_ok_and(|found| found.is_file())
}

impl From<Report> for Error {
    fn from(report: Report) -> Self {
        Self::Database(Box::new(report))
    }
}
