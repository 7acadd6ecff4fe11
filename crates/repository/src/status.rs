// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is in a repository, and what is wrong with it. Nothing is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cabane_label::{Digest, Label};
use serde::Serialize;

use crate::index::Index;
use crate::layout::RefName;
use crate::listing::{Listing, read_index};
use crate::repository::read_meta_directory;
use crate::staging::Temporary;
use crate::transfer::{Progress, digest_of};
use crate::{Corruption, Error, Kind, Record, Repository, bases, disk, packs};

/// The state of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Where it is.
    pub path: PathBuf,
    /// Which tool has made it.
    pub kind: Kind,
    /// The type of the file system on which it lies, such as `lustre`.
    pub file_system: String,
    /// Whether this process may change it.
    pub writable: bool,
    /// How many labels point to an image.
    pub labels: usize,
    /// How many images there are.
    pub images: usize,
    /// How many bytes these images have.
    pub bytes: u64,
    /// How many of the images have no file and are assembled when they are used.
    pub deduplicated: usize,
    /// How many bytes the files of the images and the packs have that deduplicated images share.
    pub stored: u64,
    /// How many images are for a group to which this user does not belong. Their sizes are
    /// believed.
    pub restricted: usize,
    /// How many downloads are unfinished, be they under way.
    pub downloads: usize,
    /// How many bytes have arrived of these.
    pub download_bytes: u64,
    /// How many bytes are free on the file system.
    pub free: u64,
    /// What is not as it should be.
    pub damaged: Vec<Corruption>,
}

impl Repository {
    /// Returns what is in the repository and what is wrong with it.
    ///
    /// Sizes are compared; with `verify` all images are read and their digests compared too.
    pub fn status(&self, verify: bool) -> Result<Status, Error> {
        self.look_at(verify, &mut |_, _| ())
    }

    /// As [`Repository::status`] with all images read. Reports how many bytes are read, and of how
    /// many.
    pub fn verify(&self, progress: &mut Progress<'_>) -> Result<Status, Error> {
        self.look_at(true, progress)
    }

    fn look_at(&self, verify: bool, progress: &mut Progress<'_>) -> Result<Status, Error> {
        let layout = self.layout();
        let root = &layout.root;
        let inspect = || Error::io("inspect", root);
        let labels = self.records()?.len();
        let status = Status::default();
        let mut survey =
            Survey { repository: self, verify, status, progress, total: 0, files: BTreeSet::new() };
        survey.survey()?;
        survey.status.damaged.sort();
        survey.status.damaged.dedup();
        Ok(Status {
            path: root.clone(),
            file_system: disk::file_system(root).map_err(inspect())?,
            kind: layout.kind,
            writable: [layout.images(), layout.refs(), layout.tmp()]
                .iter()
                // uenv makes some of them only when they are needed.
                .filter(|directory| !layout.is_uenv() || directory.exists())
                .all(|directory| disk::is_writable(directory)),
            labels,
            free: disk::free_space(root).map_err(inspect())?,
            ..survey.status
        })
    }
}

/// What has been found so far.
struct Survey<'a, 'p> {
    repository: &'a Repository,
    verify: bool,
    status: Status,
    progress: &'a mut Progress<'p>,
    /// The size of all images in bytes, as the refs have it.
    total: u64,
    /// The files that were counted, by device and number.
    files: BTreeSet<(u64, u64)>,
}

impl Survey<'_, '_> {
    fn survey(&mut self) -> Result<(), Error> {
        let layout = self.repository.layout();
        // Not from the index: it is the files that may be damaged.
        let listing = Listing::read_files(layout)?;
        let images = listing.images();
        self.refs(&listing);
        let unnamed = listing.images_without_ref();
        self.status
            .damaged
            .extend(unnamed.into_iter().map(|digest| Corruption::NoLabel { digest }));
        let mut refs: BTreeMap<&Digest, Vec<&Record>> = BTreeMap::new();
        for one in &listing.refs {
            refs.entry(&one.digest).or_default().push(one);
        }
        let sizes = refs.values().filter_map(|records| records.last());
        self.total = sizes.map(|record| record.size).sum();
        for digest in &images {
            let records = refs.get(digest).map_or(&[][..], Vec::as_slice);
            self.image(digest, records)?;
        }
        self.packs();
        self.index();
        self.pins();
        self.channels();
        self.places();
        self.status.images = images.len();
        self.leftovers()
    }

    fn index(&mut self) {
        let bytes = read_index(self.repository.layout());
        if !bytes.is_empty() && Index::open(&bytes).is_none() {
            self.status.damaged.push(Corruption::BadIndex);
        }
    }

    fn pins(&mut self) {
        match self.repository.pins() {
            Err(Error::Pin { path }) => {
                let path = self.inside(&path);
                self.status.damaged.push(Corruption::UnreadablePin { path });
            }
            Err(Error::Io { path, source, .. }) => self.unreadable(&path, &source),
            _ => {}
        }
    }

    fn channels(&mut self) {
        let channels = match self.repository.channels() {
            Err(Error::Io { path, source, .. }) => return self.unreadable(&path, &source),
            channels => channels.unwrap_or_default(),
        };
        for (channel, system) in channels {
            match self.repository.followed(&channel, &system) {
                Err(Error::Channel { path }) => {
                    let path = self.inside(&path);
                    self.status.damaged.push(Corruption::UnreadableChannel { path });
                }
                Err(Error::Io { path, source, .. }) => self.unreadable(&path, &source),
                _ => {}
            }
        }
    }

    /// Looks who may change the directories.
    fn places(&mut self) {
        let layout = self.repository.layout();
        for place in [layout.root.clone(), layout.images(), layout.refs()] {
            if let Ok(found) = fs::metadata(&place) {
                self.open_to_all(&place, &found);
            }
        }
    }

    fn open_to_all(&mut self, path: &Path, found: &Metadata) {
        const WRITE_OTHERS: u32 = 0o002;
        // Then everyone may add something, and remove only what is his own.
        const STICKY: u32 = 0o1000;
        let is_sticky = found.is_dir() && found.mode() & STICKY != 0;
        if found.mode() & WRITE_OTHERS != 0 && !is_sticky {
            let path = self.inside(path);
            self.status.damaged.push(Corruption::OpenToAll { path });
        }
    }

    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        let (path, reason) = (self.inside(path), error.to_string());
        self.status.damaged.push(Corruption::UnreadableDirectory { path, reason });
    }

    /// Returns a path as it is in the repository.
    fn inside(&self, path: &Path) -> PathBuf {
        let inside = path.strip_prefix(self.repository.path()).unwrap_or(path);
        if inside.as_os_str().is_empty() { PathBuf::from(".") } else { inside.to_owned() }
    }

    fn refs(&mut self, listing: &Listing) {
        for one in listing.without_image() {
            let (label, digest) = (one.label.clone(), one.digest.clone());
            self.status.damaged.push(Corruption::MissingImage { label, digest });
        }
        let layout = self.repository.layout();
        let mut overtaken = listing.overtaken(layout.grace).peekable();
        let needed = overtaken.peek().map(|_| bases::of_all(layout)).unwrap_or_default();
        for one in overtaken.filter(|one| !needed.contains(&one.digest)) {
            let (label, digest) = (one.label.clone(), one.digest.clone());
            self.status.damaged.push(Corruption::Overtaken { label, digest });
        }
        for (label, reason) in &listing.bad {
            let (label, reason) = (label.clone(), reason.clone());
            self.status.damaged.push(Corruption::BadLabel { label, reason });
        }
        for (name, error) in &listing.unreadable {
            let (file, reason) = (RefName::as_str(name).to_owned(), error.to_string());
            self.status.damaged.push(Corruption::UnreadableRef { file, reason });
        }
        for name in &listing.strangers {
            let path = PathBuf::from("refs").join(name);
            self.status.damaged.push(Corruption::Stranger { path });
        }
    }

    fn image(&mut self, digest: &Digest, records: &[&Record]) -> Result<(), Error> {
        let path = self.repository.image_path(digest);
        let expected = records.last().map(|record| record.size);
        let labels: Vec<Label> = records.iter().map(|one| one.label.clone()).collect();
        let unreadable = |reason: String| Corruption::UnreadableImage {
            digest: digest.clone(),
            labels: labels.clone(),
            reason,
        };
        let layout = self.repository.layout();
        if layout.is_deduplicated(digest) {
            return self.parts(digest, &labels, expected);
        }
        let found = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.status.restricted += 1;
                self.status.bytes += expected.unwrap_or(0);
                return Ok(());
            }
            // That it has no label is reported already, and no one misses it.
            Err(error) if error.kind() == io::ErrorKind::NotFound && records.is_empty() => {
                return Ok(());
            }
            Err(error) => {
                let reason = match error.kind() {
                    io::ErrorKind::NotFound => "its file is missing".to_owned(),
                    _ => error.to_string(),
                };
                self.status.damaged.push(unreadable(reason));
                return Ok(());
            }
        };
        let before = self.status.bytes;
        self.status.bytes += found.len();
        if self.files.insert((found.dev(), found.ino())) {
            self.status.stored += found.len();
        }
        self.rights(&path, &found);
        self.meta(digest, &labels);
        if let Some(expected) = expected.filter(|expected| *expected != found.len()) {
            self.status.damaged.push(Corruption::WrongSize {
                digest: digest.clone(),
                labels,
                expected,
                found: found.len(),
            });
        } else if self.verify {
            let total = self.total;
            match digest_of(&path, &mut |bytes| (self.progress)(before + bytes, total)) {
                Ok((found, _)) if found != *digest => {
                    self.status.damaged.push(Corruption::WrongDigest {
                        digest: digest.clone(),
                        labels,
                        found,
                    });
                }
                Err(Error::Io { source, .. })
                    if source.kind() == io::ErrorKind::PermissionDenied =>
                {
                    self.status.restricted += 1;
                }
                Err(Error::Io { source, .. }) => {
                    self.status.damaged.push(unreadable(source.to_string()));
                }
                outcome => drop(outcome?),
            }
        }
        Ok(())
    }

    /// Looks at an image that was deduplicated.
    fn parts(
        &mut self,
        digest: &Digest,
        labels: &[Label],
        expected: Option<u64>,
    ) -> Result<(), Error> {
        let (layout, before, total) = (self.repository.layout(), self.status.bytes, self.total);
        self.status.deduplicated += 1;
        self.status.bytes += expected.unwrap_or(0);
        self.meta(digest, labels);
        let mut report = |bytes| (self.progress)(before + bytes, total);
        let problem = packs::problem_of(layout, digest, self.verify, &mut report);
        if let Some(reason) = problem {
            self.status.damaged.push(Corruption::UnreadableImage {
                digest: digest.clone(),
                labels: labels.to_vec(),
                reason,
            });
        }
        Ok(())
    }

    /// Counts the packs, of which those of a base are the file of its image.
    fn packs(&mut self) {
        let layout = self.repository.layout();
        for pack in packs::names(layout) {
            if let Ok(found) = fs::metadata(layout.pack(&pack))
                && self.files.insert((found.dev(), found.ino()))
            {
                self.status.stored += found.len();
            }
        }
    }

    /// Looks who may read and change an image.
    fn rights(&mut self, path: &Path, image: &Metadata) {
        const READ: u32 = 0o004;
        const READ_GROUP: u32 = 0o040;
        const ENTER: u32 = 0o001;
        let directory = path.parent().unwrap_or(path);
        let Ok(place) = fs::metadata(directory) else {
            return;
        };
        self.open_to_all(path, image);
        self.open_to_all(directory, &place);
        if image.uid() != place.uid() {
            let path = self.inside(path);
            self.status.damaged.push(Corruption::OtherOwner {
                path,
                owner: image.uid(),
                expected: place.uid(),
            });
        }
        if image.mode() & READ == 0 && place.mode() & ENTER != 0 {
            let path = self.inside(directory);
            self.status.damaged.push(Corruption::HalfClosed {
                path,
                group: image.gid(),
                is_for_group: image.mode() & READ_GROUP != 0,
            });
        }
    }

    fn meta(&mut self, digest: &Digest, labels: &[Label]) {
        let place = self.repository.layout().meta(digest);
        let reason = match fs::metadata(&place) {
            Ok(found) if !found.is_dir() => "it is no directory".to_owned(),
            // uenv makes no directory for an image without metadata.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && !self.repository.layout().is_uenv() =>
            {
                "their directory is missing".to_owned()
            }
            Err(_) => return,
            // Images without metadata have an empty directory.
            Ok(_) => match read_meta_directory(&place) {
                Err(Error::Meta { source, .. }) => source.to_string(),
                _ => return,
            },
        };
        self.status.damaged.push(Corruption::UnreadableMeta {
            digest: digest.clone(),
            labels: labels.to_vec(),
            reason,
        });
    }

    fn leftovers(&mut self) -> Result<(), Error> {
        let tmp = self.repository.layout().tmp();
        let names = match disk::names(&tmp) {
            // Someone copied the repository without its empty directories.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // What writers are about is nothing for who may not write.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let owner = fs::metadata(&tmp).map(|found| found.uid());
                if owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw()) {
                    self.unreadable(&tmp, &error);
                }
                return Ok(());
            }
            outcome => outcome.map_err(Error::io("read", &tmp))?,
        };
        for name in names.iter().filter(|name| *name != ".lock") {
            match Temporary::from_name(name) {
                Temporary::Staging(owner) | Temporary::Trash(_, owner) if !owner.is_gone() => {}
                Temporary::Incoming(..) => self.download(&tmp.join(name)),
                Temporary::Unknown => {
                    let path = self.inside(&tmp.join(name));
                    self.status.damaged.push(Corruption::Stranger { path });
                }
                _ => self.status.damaged.push(Corruption::Leftover { name: name.to_owned() }),
            }
        }
        Ok(())
    }

    /// Counts what has arrived; files may have holes where something is still to come.
    fn download(&mut self, place: &Path) {
        const BLOCK: u64 = 512;
        self.status.downloads += 1;
        let marked = disk::read(&place.join(MARKS), MAX_MARKS).ok();
        let marked = marked.and_then(|bytes| bytes_marked(&bytes));
        self.status.download_bytes += marked.unwrap_or_else(|| {
            let sizes = disk::names(place).unwrap_or_default();
            let size = |name: &str| fs::symlink_metadata(place.join(name)).ok();
            sizes.iter().filter_map(size).map(|found| found.blocks() * BLOCK).sum()
        });
    }
}

/// Where a download from a registry notes which parts are there. Space is taken for the whole image from
/// the start, so that its size tells nothing.
const MARKS: &str = "image.parts";
const MAX_MARKS: u64 = 4 * 1024 * 1024;

/// Returns how many bytes are there by the marks: a line with the size as its fourth word, and behind it a
/// letter for each part, which is `+` if the part is there.
fn bytes_marked(bytes: &[u8]) -> Option<u64> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (head, marks) = bytes.split_at(end + 1);
    let size: u64 = str::from_utf8(head).ok()?.split(' ').nth(3)?.parse().ok()?;
    let there: u64 = marks.iter().map(|mark| u64::from(*mark == b'+')).sum();
    let there = u128::from(size) * u128::from(there) / (marks.len() as u128).max(1);
    u64::try_from(there).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_has_as_many_bytes_as_are_marked() {
        assert_eq!(bytes_marked(b"cabane-parts 2 sha256:ab 1000 cd\n+..+"), Some(500));
        assert_eq!(bytes_marked(b"cabane-parts 2 sha256:ab 1000 cd\n"), Some(0));
        assert_eq!(bytes_marked(b"nonsense"), None);
    }
}
