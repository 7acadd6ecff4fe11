// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The steps of which every change is made, in the order that makes them safe.
//!
//! Two rules keep a label and its image together, even where there is no lock:
//!
//! 1. A process that writes a ref looks for the image *afterwards*, and puts it back or takes the ref
//!    away again.
//! 2. A process that removes an image first takes it out of sight, and *afterwards* looks for a
//!    ref that names it; if there is one, the image goes back.
//!
//! Whichever comes first, one of the two sees what the other has done. Before a step after
//! which a kill could leave an image without a ref, the image is noted in the staging area, from
//! where the next writer takes it up.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::time::Duration;

use cabane_label::{Digest, Label};

use crate::layout::{Layout, RefName};
use crate::listing::{self, Listing};
use crate::lock::WriterLock;
use crate::record::overtaken;
use crate::staging::{Staging, Temporary, noted_orphans};
use crate::uenv_lock::{self, ImageLock};
use crate::{Error, Record, bases, disk, index, uenv};

/// One writer: a staging area, and the lock while it is needed.
pub(crate) struct Writer<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) staging: Staging,
    lock: Option<WriterLock>,
    /// An image that uenv must not download now.
    image: Option<(Digest, ImageLock)>,
    /// The images on which others are built, once they were looked for.
    needed: OnceCell<BTreeSet<Digest>>,
}

/// What became of an image that was to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Published {
    /// It is in its place now.
    Installed,
    /// It was there; what was brought is kept until the end, in case someone removes it.
    WasThere,
}

impl<'a> Writer<'a> {
    /// Begins a change. The lock is not taken yet.
    pub(crate) fn open(layout: &'a Layout) -> Result<Self, Error> {
        for directory in [layout.images(), layout.refs(), layout.tmp()] {
            match layout.make(&directory) {
                // Where nothing may be written, the directory that exists gives the better error.
                Err(_) if !layout.is_uenv() && directory.is_dir() => {}
                outcome => outcome.map_err(Error::io("create", &directory))?,
            }
        }
        let staging = Staging::open(layout)?;
        Ok(Self { layout, staging, lock: None, image: None, needed: OnceCell::new() })
    }

    /// Begins a change under the lock, when everything is swept.
    pub(crate) fn begin(layout: &'a Layout) -> Result<Self, Error> {
        let mut writer = Self::open(layout)?;
        writer.lock();
        writer.sweep()?;
        Ok(writer)
    }

    /// Takes the lock and learns what other hosts have changed.
    pub(crate) fn lock(&mut self) {
        if self.lock.is_none() {
            self.lock = Some(WriterLock::acquire(&self.layout.lock()));
            // Others may have added images in the meantime.
            self.needed = OnceCell::new();
        }
        disk::freshen(&self.layout.refs());
        disk::freshen(&self.layout.images());
    }

    /// Lets other writers work, for the time of a long copy.
    pub(crate) fn unlock(&mut self) {
        self.lock = None;
    }

    /// Waits until uenv does not download an image, and keeps it from beginning. The lock must not be
    /// held: a download takes long.
    pub(crate) fn claim(&mut self, digest: &Digest) {
        if self.layout.is_uenv() {
            self.image = Some((digest.clone(), ImageLock::acquire(self.layout, digest)));
        }
    }

    /// Returns whether uenv may be downloading an image, or about to give it a label.
    fn is_with_uenv(&self, digest: &Digest) -> bool {
        let is_ours = self.image.as_ref().is_some_and(|(claimed, _)| claimed == digest);
        self.layout.is_uenv() && !is_ours && uenv_lock::is_held(self.layout, digest)
    }

    /// Returns the readable refs of a label, the valid one last.
    pub(crate) fn refs_of(&self, label: &Label) -> Result<Vec<Record>, Error> {
        listing::refs(self.layout, &|name| name.is_of(label))
    }

    /// Returns the readable refs of an image.
    pub(crate) fn refs_with(&self, digest: &Digest) -> Result<Vec<Record>, Error> {
        listing::refs(self.layout, &|name| name.names(digest))
    }

    /// Returns whether an image has a label: whether a valid ref names it.
    pub(crate) fn has_label(&self, digest: &Digest) -> Result<bool, Error> {
        for one in self.refs_with(digest)? {
            if self.refs_of(&one.label)?.last() == Some(&one) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Brings a complete image from the staging area to its place.
    pub(crate) fn publish(
        &self,
        new: &Path,
        digest: &Digest,
        size: u64,
    ) -> Result<Published, Error> {
        self.staging.note_orphan(digest)?;
        let place = self.layout.image_directory(digest);
        let mut attempts = 3;
        loop {
            match fs::rename(new, &place) {
                Ok(()) => break,
                Err(error) if !disk::is_taken(&error) || attempts == 0 => {
                    return Err(Error::io("create", &place)(error));
                }
                // A file makes the parts superfluous, which may be damaged.
                Err(_) if self.layout.is_deduplicated(digest) => {
                    let name = self.layout.image_name();
                    fs::rename(new.join(name), place.join(name))
                        .map_err(Error::io("create", &place))?;
                    self.forget_parts(digest)?;
                    sync(&place)?;
                    break;
                }
                Err(_) if self.layout.has_whole_image(digest, size) => {
                    // uenv may have put it there, and is about to give it a label.
                    if self.layout.is_uenv() {
                        self.staging.forget_orphan(digest);
                    }
                    return Ok(Published::WasThere);
                }
                // A damaged image is of no use in its repository.
                Err(_) => self.discard(&place)?,
            }
            attempts -= 1;
        }
        sync(&self.layout.images())?;
        Ok(Published::Installed)
    }

    /// Removes the list of parts of an image that has a file.
    pub(crate) fn forget_parts(&self, digest: &Digest) -> Result<(), Error> {
        let parts = self.layout.parts(digest);
        if self.layout.is_deduplicated(digest) {
            return Ok(());
        }
        disk::if_there(fs::remove_file(&parts)).map(drop).map_err(Error::io("remove", &parts))
    }

    /// Gives an image a label that this image has had; none if no image has had it. Returns `false`
    /// if another image has the label by now, in a database, and nothing was changed. A ref takes the
    /// label from whichever image has it, and is overtaken by newer ones.
    pub(crate) fn give_label(
        &self,
        record: &Record,
        before: Option<&Digest>,
    ) -> Result<bool, Error> {
        if self.layout.is_uenv() {
            return uenv::write(self.layout, record, before);
        }
        self.write_ref(record).map(|()| true)
    }

    /// Writes the file of a ref, which a database does not have.
    pub(crate) fn write_ref(&self, record: &Record) -> Result<(), Error> {
        let name = record.ref_name();
        let (new, refs) = (self.staging.free_name("ref"), self.layout.refs());
        disk::write_new(&new, &record.to_ref()).map_err(Error::io("write", &new))?;
        let place = refs.join(name.as_str());
        fs::rename(&new, &place).map_err(Error::io("write", &place))?;
        sync(&refs)
    }

    /// Sees to it that the image of a ref that was just written is there (rule 1).
    pub(crate) fn confirm(&self, record: &Record, spare: Option<&Path>) -> Result<(), Error> {
        let digest = &record.digest;
        for _ in 0..3 {
            if self.layout.has_image(digest) || self.put_back(digest) {
                return Ok(());
            }
            if let Some(spare) = spare.filter(|spare| spare.exists()) {
                self.publish(spare, digest, record.size)?;
            }
        }
        self.remove_ref(&record.ref_name())?;
        Err(Error::RemovedMeanwhile { digest: digest.clone() })
    }

    /// Takes an image back that someone is throwing away; returns whether there was one.
    pub(crate) fn put_back(&self, digest: &Digest) -> bool {
        let (tmp, place) = (self.layout.tmp(), self.layout.image_directory(digest));
        if !self.layout.has_image(digest) {
            // What is left of a damaged image would be in the way.
            let _ = self.discard(&place);
        }
        let names = disk::names(&tmp).unwrap_or_default();
        names.iter().any(|name| match Temporary::from_name(name) {
            Temporary::Trash(found, _) if found == *digest => {
                fs::rename(tmp.join(name), &place).is_ok()
            }
            _ => false,
        })
    }

    /// Removes the file of a ref; it is no error when it is gone already.
    pub(crate) fn remove_ref(&self, name: &RefName) -> Result<(), Error> {
        if self.layout.is_uenv() {
            return uenv::remove(self.layout, name);
        }
        let path = self.layout.refs().join(name.as_str());
        disk::if_there(fs::remove_file(&path)).map(drop).map_err(Error::io("remove", &path))
    }

    /// Removes these refs, and their images unless other refs name them.
    ///
    /// Returns the images that were removed.
    pub(crate) fn retire(&self, refs: &[Record]) -> Result<Vec<Digest>, Error> {
        for one in refs {
            self.staging.note_orphan(&one.digest)?;
            self.remove_ref(&one.ref_name())?;
        }
        if !refs.is_empty() {
            sync(&self.layout.refs())?;
        }
        let mut removed = Vec::new();
        for one in refs {
            if self.collect(&one.digest)? {
                removed.push(one.digest.clone());
            }
        }
        Ok(removed)
    }

    /// Returns, of the refs of one label in order, those that can be retired: they were overtaken
    /// longer ago than the grace, and no other image is built on theirs.
    pub(crate) fn superfluous(&self, refs: &[Record], grace: Duration) -> Vec<Record> {
        let mut overtaken: Vec<Record> = overtaken(refs, grace).cloned().collect();
        if !overtaken.is_empty() {
            let needed = self.needed.get_or_init(|| bases::of_all(self.layout));
            overtaken.retain(|one| !needed.contains(&one.digest));
        }
        overtaken
    }

    /// Returns, of the refs of one label in order, those that go with the label. An image that had it
    /// before, and on which others are built, has it again.
    pub(crate) fn without_bases(&self, mut refs: Vec<Record>) -> Vec<Record> {
        if refs.len() > 1 {
            let needed = self.needed.get_or_init(|| bases::of_all(self.layout));
            let valid = refs.last().map(|one| one.digest.clone());
            refs.retain(|one| Some(&one.digest) == valid.as_ref() || !needed.contains(&one.digest));
        }
        refs
    }

    /// Retires the refs that were overtaken by others of their label longer ago than the grace.
    pub(crate) fn retire_overtaken(&self) -> Result<Vec<Digest>, Error> {
        if self.layout.is_uenv() {
            return Ok(Vec::new());
        }
        let mut labels: HashMap<String, Vec<RefName>> = HashMap::new();
        for name in listing::ref_names(self.layout)? {
            labels.entry(name.label_part().to_owned()).or_default().push(name);
        }
        let mut removed = Vec::new();
        for names in labels.into_values().filter(|names| names.len() > 1) {
            let refs = listing::read_refs(self.layout, names.into_iter());
            removed.extend(self.retire(&self.superfluous(&refs, self.layout.grace))?);
        }
        Ok(removed)
    }

    /// Throws an image away unless a ref names it (rule 2); returns whether it was thrown away.
    ///
    /// uenv looks for an image, and gives it a label later, under its lock. So the lock counts as a label.
    pub(crate) fn collect(&self, digest: &Digest) -> Result<bool, Error> {
        if self.is_named(digest)? || self.is_with_uenv(digest) {
            return Ok(false);
        }
        if self.layout.is_uenv() {
            uenv::check_can_change(self.layout)?;
        }
        let place = self.layout.image_directory(digest);
        let trash = self.staging.trash(self.layout, digest);
        let taken = disk::if_there(fs::rename(&place, &trash));
        if taken.map_err(Error::io("remove", &place))?.is_none() {
            return Ok(false);
        }
        // The lock first: uenv lets it go when the label is there.
        let is_needed = self.is_with_uenv(digest) || self.is_named(digest)?;
        if is_needed && fs::rename(&trash, &place).is_ok() {
            return Ok(false);
        }
        self.discard(&trash)?;
        if self.layout.is_uenv() {
            uenv::forget(self.layout, digest)?;
        }
        Ok(true)
    }

    pub(crate) fn is_named(&self, digest: &Digest) -> Result<bool, Error> {
        if self.layout.is_uenv() {
            return uenv::is_named(self.layout, digest);
        }
        let names = listing::ref_names(self.layout)?;
        Ok(names.iter().any(|name| name.names(digest)))
    }

    /// Removes something. From the first moment it is in the staging area, where no one looks for
    /// it: what has another name is complete.
    pub(crate) fn discard(&self, path: &Path) -> Result<(), Error> {
        let gone = self.staging.free_name("gone");
        disk::if_there(fs::rename(path, &gone)).map_err(Error::io("remove", path))?;
        // What cannot be removed now is removed with the staging area, or by the next writer.
        let _ = disk::remove_all(&gone);
        Ok(())
    }

    /// Writes the index anew. A reader can do without, so failure is no error.
    pub(crate) fn write_index(&self) -> bool {
        if self.layout.is_uenv() {
            return uenv::keep(self.layout).is_some();
        }
        Listing::read(self.layout).is_ok_and(|listing| self.write_index_of(&listing))
    }

    pub(crate) fn write_index_of(&self, listing: &Listing) -> bool {
        if self.layout.is_uenv() {
            return uenv::keep(self.layout).is_some();
        }
        let new = self.staging.free_name("index");
        let text = index::render(&listing.refs);
        fs::write(&new, text).and_then(|()| fs::rename(&new, self.layout.index())).is_ok()
    }
}

impl Drop for Writer<'_> {
    /// Clears up, after success as after failure; the lock is let go afterwards.
    fn drop(&mut self) {
        let orphans = noted_orphans(self.staging.path());
        let done = orphans.iter().all(|digest| self.collect(digest).is_ok());
        // A staging area that still notes an orphan is left to the next writer.
        if done {
            let _ = disk::remove_all(self.staging.path());
        }
    }
}

fn sync(directory: &Path) -> Result<(), Error> {
    disk::sync_directory(directory).map_err(Error::io("write", directory))
}
