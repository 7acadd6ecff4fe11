// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Keeping once what images share.
//!
//! An image that has little in common with the packs becomes a base: its file gets a second name, as a
//! pack, and stays. Of an image that shares much, what no pack has becomes a pack of its own, and a
//! list of parts takes the place of its file:
//!
//! ```text
//! file ──cut──▶ chunks in packs ──▶ parts
//!               other chunks ──▶ a new pack ──▶ parts
//! read the parts back, and sum them ──▶ pack in its place ──▶ parts beside the file ──▶ packs still
//! there? ──▶ remove the file
//! ```
//!
//! So the file is there until its parts are on disk and have given its digest.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, FileTimes};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use cabane_label::Digest;
use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::chunks::{self, ChunkList, Id};
use crate::in_use::{Observer, last_read};
use crate::parts::{Part, PartList};
use crate::writer::Writer;
use crate::{Error, ImageFormat, Record, Repository, disk, packs};

/// How many bytes of chunk lists are looked at for one name. That is a memory of some 350 MB.
const MOST_LISTS: u64 = 128 * 1024 * 1024;
/// An image becomes a base if less than one in so many of its bytes is known.
const LEAST_SHARED: u64 = 4;

/// What became of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Deduplicated {
    /// The record of the image.
    #[serde(skip)]
    pub record: Record,
    /// The outcome.
    #[serde(flatten)]
    pub stored: Stored,
}

/// How an image is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "stored")]
pub enum Stored {
    /// It has a file, whose bytes other images share.
    Base,
    /// It has parts, and is assembled when it is used.
    Parts {
        /// The bytes that no pack had.
        new: u64,
    },
    /// It had parts before.
    Already,
    /// It is a file: it is open or mounted on this host.
    InUse,
    /// It is a file: it was used or added too recently.
    Recent,
    /// It is a file: not everyone may read it, and packs are for everyone.
    Restricted,
    /// It is a file of another user, who could change it.
    Foreign,
    /// It is a file that is damaged or cannot be read.
    Damaged,
}

impl Repository {
    /// Deduplicates the images that were not used for some time, and calls `done` for each image.
    ///
    /// # Errors
    ///
    /// The repository is one of uenv, or nothing can be written. What was done before stays.
    pub fn deduplicate(
        &self,
        unused: Duration,
        done: &mut dyn FnMut(&Deduplicated),
    ) -> Result<(), Error> {
        let layout = self.layout();
        if layout.is_uenv() {
            return Err(Error::Refused {
                message: "a repository of uenv keeps each image as a file".to_owned(),
                hint: Some(
                    "`cabane repo migrate` copies its images to a repository of Cabane".to_owned(),
                ),
            });
        }
        let mut writer = Writer::begin(layout)?;
        writer.unlock();
        let mut records = self.records()?;
        // The oldest of a name is the first that can be the base.
        records.sort_by(|one, other| {
            (&one.label.name, one.date, &one.digest).cmp(&(
                &other.label.name,
                other.date,
                &other.digest,
            ))
        });
        let mut seen = BTreeSet::new();
        records.retain(|record| seen.insert(record.digest.clone()));
        for family in records.chunk_by(|one, next| one.label.name == next.label.name) {
            let mut known = Known::of(self, family);
            for record in family {
                let stored = self.deduplicate_one(&mut writer, record, unused, &mut known)?;
                done(&Deduplicated { record: record.clone(), stored });
            }
        }
        writer.lock();
        writer.collect_packs();
        Ok(())
    }

    fn deduplicate_one(
        &self,
        writer: &mut Writer<'_>,
        record: &Record,
        unused: Duration,
        known: &mut Known,
    ) -> Result<Stored, Error> {
        let (layout, digest) = (self.layout(), &record.digest);
        if layout.is_deduplicated(digest) {
            return Ok(Stored::Already);
        }
        if layout.is_closed(digest) {
            return Ok(Stored::Restricted);
        }
        if known.packs.contains(digest) {
            return Ok(Stored::Base);
        }
        let own = rustix::process::geteuid();
        let found = fs::symlink_metadata(layout.image(digest));
        if !own.is_root() && found.is_ok_and(|found| found.uid() != own.as_raw()) {
            return Ok(Stored::Foreign);
        }
        // Before this process has the file open itself.
        let why_not = match self.what_keeps(record, unused)? {
            Some(reason) if !known.is_empty() => return Ok(reason),
            why_not => why_not,
        };
        let path = layout.image(digest);
        let Ok(file) = disk::open(&path) else { return Ok(Stored::Damaged) };
        let Ok(format) = ImageFormat::of_file(&file) else { return Ok(Stored::Damaged) };
        let directory = writer.staging.free_name("pack");
        fs::create_dir(&directory).map_err(Error::io("create", &directory))?;
        let Some(split) = Split::of(&file, format, known, &directory, digest)? else {
            return Ok(Stored::Damaged);
        };
        if split.shared * LEAST_SHARED < record.size {
            return self.make_base(writer, digest, (&file, format), &directory, known);
        }
        if let Some(reason) = why_not {
            return Ok(reason);
        }
        drop(file);
        self.replace(writer, record, unused, split, &directory, known)
    }

    /// Says why the file of an image stays.
    fn what_keeps(&self, record: &Record, unused: Duration) -> Result<Option<Stored>, Error> {
        let (layout, digest) = (self.layout(), &record.digest);
        if Observer::new(layout).is_in_use(digest).unwrap_or(true) {
            return Ok(Some(Stored::InUse));
        }
        let path = layout.image(digest);
        let read = last_read(layout, digest).map_err(Error::io("inspect", &path))?;
        let used = read.max(record.date).as_second();
        let age = Timestamp::now().as_second().saturating_sub(used);
        let is_recent = u64::try_from(age).unwrap_or(0) < unused.as_secs();
        Ok(is_recent.then_some(Stored::Recent))
    }

    /// Gives the file of an image a second name, as a pack.
    fn make_base(
        &self,
        writer: &mut Writer<'_>,
        digest: &Digest,
        (file, format): (&File, ImageFormat),
        directory: &Path,
        known: &mut Known,
    ) -> Result<Stored, Error> {
        let (image, pack) = (self.layout().image(digest), directory.join("pack"));
        disk::if_there(fs::remove_file(&pack)).map_err(Error::io("remove", &pack))?;
        match fs::hard_link(&image, &pack) {
            Err(error) if disk::is_unsupported(&error) => {
                fs::copy(&image, &pack).map_err(Error::io("write", &pack))?;
            }
            linked => linked.map_err(Error::io("create", &pack))?,
        }
        let mut list = ChunkList::default();
        let mut rewound = file;
        io::Seek::seek(&mut rewound, io::SeekFrom::Start(0)).map_err(Error::io("read", &image))?;
        let mut each = |bytes: &[u8]| {
            list.push(u32::try_from(bytes.len()).unwrap_or(u32::MAX), chunks::id_of(bytes));
            Ok(())
        };
        chunks::cut(file, format, &mut each).map_err(Error::io("read", &image))?;
        publish_pack(writer, digest, &list, directory)?;
        known.add(digest, &list);
        Ok(Stored::Base)
    }

    /// Puts parts into the place of a file.
    fn replace(
        &self,
        writer: &mut Writer<'_>,
        record: &Record,
        unused: Duration,
        split: Split,
        directory: &Path,
        known: &mut Known,
    ) -> Result<Stored, Error> {
        let (layout, digest) = (self.layout(), &record.digest);
        let (image, parts) = (layout.image(digest), layout.parts(digest));
        let Split { list, own, .. } = split;
        let open = |pack: &Digest| match &own {
            Some((name, _)) if name == pack => disk::open(&directory.join("pack")),
            _ => packs::open(layout, pack),
        };
        // A damaged pack shows here.
        if !list.digest(&open, &mut |_| ()).is_ok_and(|sum| sum == *digest) {
            return Err(Error::DamagedParts {
                digest: digest.clone(),
                label: None,
                repository: layout.root.clone(),
                reason: "its parts do not give its digest, and its file stays".to_owned(),
            });
        }
        let new = writer.staging.free_name("parts");
        disk::write_new(&new, list.to_text().as_bytes()).map_err(Error::io("write", &new))?;
        let used = last_read(layout, digest).map_err(Error::io("inspect", &image))?;
        let used = SystemTime::from(used.max(record.date));
        let times = FileTimes::new().set_accessed(used).set_modified(used);
        let written = File::options().write(true).open(&new).and_then(|file| file.set_times(times));
        written.map_err(Error::io("write", &new))?;
        if let Some((pack, chunks)) = &own {
            publish_pack(writer, pack, chunks, directory)?;
        }
        writer.lock();
        let outcome = self.put_parts(record, unused, &list, (&new, &parts));
        writer.unlock();
        if let Some(reason) = outcome? {
            return Ok(reason);
        }
        let new = own.as_ref().map_or(0, |(_, chunks)| chunks.size());
        if let Some((pack, chunks)) = own {
            known.add(&pack, &chunks);
        }
        Ok(Stored::Parts { new })
    }

    fn put_parts(
        &self,
        record: &Record,
        unused: Duration,
        list: &PartList,
        (new, parts): (&Path, &Path),
    ) -> Result<Option<Stored>, Error> {
        let (layout, digest) = (self.layout(), &record.digest);
        let image = layout.image(digest);
        if !image.is_file() || layout.is_closed(digest) {
            return Ok(Some(Stored::Recent));
        }
        fs::rename(new, parts).map_err(Error::io("write", parts))?;
        let directory = layout.image_directory(digest);
        let sync = || disk::sync_directory(&directory).map_err(Error::io("write", &directory));
        sync()?;
        let is_there = |pack: &Digest| layout.pack(pack).is_file();
        // Somebody may have started it, or removed a pack, in the meantime.
        let kept = match self.what_keeps(record, unused)? {
            None if list.packs.iter().all(is_there) => None,
            kept => Some(kept.unwrap_or(Stored::Recent)),
        };
        if kept.is_some() {
            fs::remove_file(parts).map_err(Error::io("remove", parts))?;
            return Ok(kept);
        }
        fs::remove_file(&image).map_err(Error::io("remove", &image))?;
        sync()?;
        Ok(None)
    }
}

/// Brings a pack from the staging area to its place.
fn publish_pack(
    writer: &Writer<'_>,
    pack: &Digest,
    chunks: &ChunkList,
    directory: &Path,
) -> Result<(), Error> {
    let layout = writer.layout;
    let (list, packs) = (directory.join("chunks"), layout.packs());
    disk::write_new(&list, &chunks.to_bytes()).map_err(Error::io("write", &list))?;
    disk::sync_directory(directory).map_err(Error::io("write", directory))?;
    layout.make(&packs).map_err(Error::io("create", &packs))?;
    let place = layout.pack_directory(pack);
    match fs::rename(directory, &place) {
        // The same bytes.
        Err(error) if disk::is_taken(&error) && !packs::is_damaged(layout, pack) => return Ok(()),
        Err(error) if disk::is_taken(&error) => {
            writer.discard(&place)?;
            fs::rename(directory, &place).map_err(Error::io("create", &place))?;
        }
        renamed => renamed.map_err(Error::io("create", &place))?,
    }
    disk::sync_directory(&packs).map_err(Error::io("write", &packs))
}

/// The chunks that are in packs.
#[derive(Default)]
struct Known {
    packs: Vec<Digest>,
    places: HashMap<Id, (u32, u32, u64)>,
}

impl Known {
    /// Looks at the packs of the images of one name, and then at the others, the newest first.
    fn of(repository: &Repository, family: &[Record]) -> Self {
        let layout = repository.layout();
        let mut near = BTreeSet::new();
        for record in family {
            near.insert(record.digest.clone());
            if let Ok(list) = PartList::read(&layout.parts(&record.digest)) {
                near.extend(list.packs);
            }
        }
        let mut all: Vec<(bool, Reverse<i64>, Digest)> = Vec::new();
        for pack in packs::names(layout).into_iter().filter(|one| !packs::is_damaged(layout, one)) {
            let made =
                fs::metadata(packs::chunk_list(layout, &pack)).map_or(0, |found| found.mtime());
            all.push((!near.contains(&pack), Reverse(made), pack));
        }
        all.sort();
        let (mut known, mut left) = (Self::default(), MOST_LISTS);
        for (_, _, pack) in all {
            let size = fs::metadata(layout.pack(&pack)).map_or(0, |found| found.len());
            let bytes = disk::read(&packs::chunk_list(layout, &pack), left.min(chunks::MAX_LIST));
            // One that is damaged, or too large, is of no use.
            let Ok(bytes) = bytes else { continue };
            if let Some(list) = ChunkList::from_bytes(&bytes, size) {
                left = left.saturating_sub(bytes.len() as u64);
                known.add(&pack, &list);
            }
        }
        known
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    fn add(&mut self, pack: &Digest, list: &ChunkList) {
        let Ok(number) = u32::try_from(self.packs.len()) else { return };
        self.packs.push(pack.clone());
        for (offset, length, id) in list.places() {
            self.places.entry(id).or_insert((number, length, offset));
        }
    }
}

/// An image, cut into what packs have and what is new.
struct Split {
    list: PartList,
    /// The pack with what is new, if anything is.
    own: Option<(Digest, ChunkList)>,
    /// The bytes that packs have.
    shared: u64,
}

impl Split {
    /// Writes what is new into `directory/pack`. Returns `None` if the file is not the image.
    fn of(
        file: &File,
        format: ImageFormat,
        known: &Known,
        directory: &Path,
        digest: &Digest,
    ) -> Result<Option<Self>, Error> {
        let path = directory.join("pack");
        let found = file.metadata().map_err(Error::io("inspect", &path))?;
        let modified = (found.mtime(), u32::try_from(found.mtime_nsec()).unwrap_or(0));
        let mut list = PartList::new(found.len(), format, modified);
        let mut pack = BufWriter::new(disk::create_new(&path).map_err(Error::io("create", &path))?);
        let (mut image_sum, mut pack_sum) = (Sha256::new(), Sha256::new());
        let (mut own, mut own_places, mut end) = (ChunkList::default(), HashMap::new(), 0_u64);
        let mut numbers: HashMap<u32, usize> = HashMap::new();
        let (mut shared, mut parts) = (0, Vec::new());
        let mut each = |bytes: &[u8]| {
            image_sum.update(bytes);
            let (id, length) = (chunks::id_of(bytes), bytes.len() as u64);
            let short = u32::try_from(length).unwrap_or(u32::MAX);
            let place = known.places.get(&id).filter(|(_, found, _)| *found == short);
            if let Some((number, _, offset)) = place {
                let next = numbers.len();
                let pack = *numbers.entry(*number).or_insert(next);
                shared += length;
                parts.push((Some(pack), *offset, length));
                return Ok(());
            }
            let offset = match own_places.get(&id) {
                Some((offset, found)) if *found == length => *offset,
                _ => {
                    pack.write_all(bytes)?;
                    pack_sum.update(bytes);
                    own.push(short, id);
                    own_places.insert(id, (end, length));
                    end += length;
                    end - length
                }
            };
            parts.push((None, offset, length));
            Ok(())
        };
        chunks::cut(file, format, &mut each).map_err(Error::io("write", &path))?;
        let pack =
            pack.into_inner().map_err(|error| Error::io("write", &path)(error.into_error()))?;
        pack.sync_all().map_err(Error::io("write", &path))?;
        if Digest::from_bytes(image_sum.finalize().into()) != *digest {
            return Ok(None);
        }
        let mut used: Vec<(usize, u32)> =
            numbers.into_iter().map(|(pack, at)| (at, pack)).collect();
        used.sort_unstable();
        let names = used.into_iter().filter_map(|(_, pack)| known.packs.get(pack as usize));
        list.packs = names.cloned().collect();
        let own_number = list.packs.len();
        let own = (end > 0).then(|| (Digest::from_bytes(pack_sum.finalize().into()), own));
        list.packs.extend(own.iter().map(|(name, _)| name.clone()));
        for (pack, offset, length) in parts {
            list.push(Part { pack: pack.unwrap_or(own_number), offset, length });
        }
        Ok(Some(Self { list, own, shared }))
    }
}
