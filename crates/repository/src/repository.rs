// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Opening, creating and reading a repository.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cabane_label::{
    Digest, ImageId, Label, LabelPattern, Name, NameMatch, escape, shown, shown_word,
};
use cabane_view::Meta;

use crate::layout::{FORMAT, Kind, Layout, RefName};
use crate::lock::WriterLock;
use crate::search::{self, Wanted};
use crate::staging::Staging;
use crate::{Error, Record, disk, listing, uenv};

/// A local directory that holds images under labels.
///
/// ```text
/// <repository>/
/// ├── cabane-repository                    one line, `cabane-repository 1`: the format
/// ├── images/<sha256>/image                one image; the directory appears by one rename
/// │                  /meta/                its metadata: env.json, configure.json, recipe/ …
/// │                  /parts                where its bytes are, if it was deduplicated
/// │                  /image.verity         the hash tree with which the kernel checks the image
/// │                  /image.verity.p7s     the signature of its root hash, if it was signed
/// │                  /signatures           what registries had as its signatures, if it was there
/// │                  /evidence.jsonl       signed statements about it, if there are any
/// │                  /references.json      from where its labels were imported, if they were
/// ├── packs/<sha256>/pack                 bytes that deduplicated images share
/// │                 /chunks               the chunks in it, by which other images find them
/// ├── refs/<name>,<version>,<tag>,<system>,<uarch>,<id>,<date>.json
/// │                                        one file for each label and its image
/// ├── pins/<name>,<version>,<tag>,<system>,<uarch>
/// │                                        labels that are never removed by themselves
/// ├── channels/<channel>,<system>.json     which images the names are that follow a channel
/// ├── index                                a cache of the refs; see the module `index`
/// └── tmp/                                 temporary names only; see the module `staging`
/// ```
///
/// A label points to a complete image or does not exist. Of several refs of one label the newest
/// is valid; the others keep images that the label has had, for the time of
/// [`Repository::with_grace`], or were left by a killed writer.
///
/// A repository of uenv is used as well, where it is; see the module `uenv`.
#[derive(Clone, Debug)]
pub struct Repository {
    layout: Layout,
}

const MARK: &str = "cabane-repository";
const MAX_MARKER_SIZE: u64 = 4096;

impl Repository {
    /// Opens a repository that exists.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let path = std::path::absolute(path).map_err(Error::io("find", path))?;
        let mut layout = Layout::new(path.clone());
        let marker = layout.marker();
        match disk::read(&marker, MAX_MARKER_SIZE) {
            Ok(bytes) => check_format(&layout, &bytes)?,
            Err(error) if is_absence(&error) && uenv::is_there(&path) => layout.kind = Kind::Uenv,
            Err(error) if is_absence(&error) => return Err(Error::NotARepository { path }),
            Err(error) => return Err(Error::io("open the repository", &path)(error)),
        }
        Ok(Self { layout })
    }

    /// Creates an empty repository, and the directories above it.
    ///
    /// The directory may exist if it is empty.
    pub fn create(path: &Path) -> Result<Self, Error> {
        refuse_repository(path)?;
        let path = std::path::absolute(path).map_err(Error::io("find", path))?;
        fs::create_dir_all(&path).map_err(Error::io("create", &path))?;
        let layout = Layout::new(path);
        refuse_full_directory(&layout)?;
        for directory in [layout.images(), layout.refs(), layout.tmp()] {
            fs::create_dir_all(&directory).map_err(Error::io("create", &directory))?;
        }
        drop(WriterLock::acquire(&layout.lock()));
        write_marker(&layout)?;
        disk::sync_directory(&layout.root).map_err(Error::io("write", &layout.root))?;
        Ok(Self { layout })
    }

    /// Creates an empty repository as uenv has them, and the directories above it.
    ///
    /// # Errors
    ///
    /// There is a repository already, or nothing can be written there.
    pub fn create_uenv(path: &Path) -> Result<Self, Error> {
        let path = std::path::absolute(path).map_err(Error::io("find", path))?;
        refuse_repository(&path)?;
        fs::create_dir_all(&path).map_err(Error::io("create", &path))?;
        let layout = Layout { kind: Kind::Uenv, ..Layout::new(path) };
        uenv::create(&layout)?;
        Ok(Self { layout })
    }

    /// Makes writers keep an image, from which its last label is taken for another image, for
    /// some more time: a process that knows its digest may still read it, as jobs do that have
    /// waited. Without this call it goes at once.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.layout.grace = grace;
        self
    }

    /// Names a directory for images that are assembled for a process which may not write in the
    /// repository. It is a cache.
    #[must_use]
    pub fn with_assembly_directory(mut self, directory: Option<PathBuf>) -> Self {
        self.layout.assembly = directory;
        self
    }

    /// Returns which tool has made the repository.
    pub fn kind(&self) -> Kind {
        self.layout.kind
    }

    /// Returns the directory of the repository, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.layout.root
    }

    /// Returns the records of all images that are there, sorted by label.
    pub fn records(&self) -> Result<Vec<Record>, Error> {
        let wanted =
            Wanted { file: &|_| true, digest: &|_| true, label: &|_| true, is_everything: true };
        search::records(&self.layout, &wanted)
    }

    /// Returns the records whose label fits a pattern, sorted by label.
    pub fn find(&self, pattern: &LabelPattern, how: NameMatch) -> Result<Vec<Record>, Error> {
        let name = pattern.name.as_ref().map_or("", Name::as_str);
        self.with_label(name, &|label| pattern.matches(label, how))
    }

    /// Returns the record of a label.
    pub fn by_label(&self, label: &Label) -> Result<Option<Record>, Error> {
        Ok(self.with_label(label.name.as_str(), &|one| one == label)?.pop())
    }

    /// Returns the records of an image, one for each of its labels.
    pub fn by_digest(&self, digest: &Digest) -> Result<Vec<Record>, Error> {
        self.with_digest(&digest.id(), &|one| one == digest.as_str())
    }

    /// Returns the newest record of an image, also of one whose labels other images have by now.
    pub fn last_record(&self, digest: &Digest) -> Result<Option<Record>, Error> {
        let records = listing::refs(&self.layout, &|name| name.names(digest))?;
        Ok(records.into_iter().max_by(Record::in_order))
    }

    /// Returns the records of the images with this short form of the digest.
    pub fn by_id(&self, id: &ImageId) -> Result<Vec<Record>, Error> {
        self.with_digest(id, &|one| one.starts_with(id.as_str()))
    }

    /// Returns records by their labels, which begin with `name`.
    fn with_label(&self, name: &str, label: &dyn Fn(&Label) -> bool) -> Result<Vec<Record>, Error> {
        let file = |file: &str| RefName::may_begin(file, name);
        let wanted = Wanted { file: &file, digest: &|_| true, label, is_everything: false };
        search::records(&self.layout, &wanted)
    }

    /// Returns records by their digests, which begin with `id`.
    fn with_digest(
        &self,
        id: &ImageId,
        digest: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Record>, Error> {
        let file = |file: &str| RefName::has_id(file, id);
        let wanted = Wanted { file: &file, digest, label: &|_| true, is_everything: false };
        search::records(&self.layout, &wanted)
    }

    /// Returns the path of an image; nothing is checked. There is no file if the image is deduplicated:
    /// [`Repository::plain_image`] assembles it.
    pub fn image_path(&self, digest: &Digest) -> PathBuf {
        self.layout.image(digest)
    }

    /// Returns the path of the metadata directory of an image; nothing is checked.
    pub fn meta_path(&self, digest: &Digest) -> PathBuf {
        self.layout.meta(digest)
    }

    /// Returns whether there is an image with this digest, be it closed to this process.
    pub fn has_image(&self, digest: &Digest) -> bool {
        self.layout.has_image(digest)
    }

    /// Returns whether there is an image with this digest that has so many bytes, as far as is
    /// known without reading it. One that has not is damaged, and adding the image repairs it.
    pub fn has_whole_image(&self, digest: &Digest, size: u64) -> bool {
        self.layout.has_whole_image(digest, size)
    }

    /// Reads the metadata of an image.
    pub fn meta(&self, digest: &Digest) -> Result<Meta, Error> {
        let missing = || {
            let path = self.meta_path(digest).join(ENV_JSON);
            Error::io("read", &path)(io::ErrorKind::NotFound.into())
        };
        self.meta_if_present(digest)?.ok_or_else(missing)
    }

    /// Reads the metadata of an image; `None` when there are none beside it.
    pub fn meta_if_present(&self, digest: &Digest) -> Result<Option<Meta>, Error> {
        read_meta_directory(&self.layout.meta(digest))
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }
}

const ENV_JSON: &str = "env.json";

/// Reads the `env.json` of a metadata directory; `None` when there is none.
pub(crate) fn read_meta_directory(directory: &Path) -> Result<Option<Meta>, Error> {
    let path = directory.join(ENV_JSON);
    let text = disk::if_there(disk::read(&path, Meta::MAX_SIZE));
    let meta = text.map_err(Error::io("read", &path))?.map(|text| Meta::from_json(&text));
    meta.transpose().map_err(|source| Error::Meta { path, source })
}

/// Marks the directory as a repository; this is the last step of creating one.
fn write_marker(layout: &Layout) -> Result<(), Error> {
    let (staging, marker) = (Staging::open(layout)?, layout.marker());
    let new = staging.free_name("marker");
    let line = format!("{MARK} {FORMAT}\n");
    disk::write_new(&new, line.as_bytes()).map_err(Error::io("write", &new))?;
    fs::rename(&new, &marker).map_err(Error::io("write", &marker))?;
    disk::remove_all(staging.path()).map_err(Error::io("remove", staging.path()))
}

/// Refuses a path where there is a repository.
fn refuse_repository(path: &Path) -> Result<(), Error> {
    match Repository::open(path) {
        Ok(repository) => {
            let path = repository.path();
            Err(Error::Refused {
                message: format!("there is a repository at {} already", shown(path)),
                hint: Some(format!(
                    "`cabane repo status {}` shows what is in it",
                    shown_word(path)
                )),
            })
        }
        Err(Error::NotARepository { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn check_format(layout: &Layout, marker: &[u8]) -> Result<(), Error> {
    let bad = || {
        let marker = layout.marker();
        let marker = shown(&marker);
        let message = format!("{marker} does not say which format the repository has");
        Error::Refused { message, hint: None }
    };
    let text = std::str::from_utf8(marker).map_err(|_| bad())?;
    let line = text.lines().next().ok_or_else(bad)?;
    let number = line.strip_prefix(MARK).and_then(|rest| rest.strip_prefix(' '));
    let found: u32 = number.and_then(|number| number.parse().ok()).ok_or_else(bad)?;
    match found {
        FORMAT => Ok(()),
        0 => Err(bad()),
        _ => Err(Error::Refused {
            message: format!(
                "the repository {} has format {found}, and this program knows formats up to {FORMAT}",
                shown(&layout.root)
            ),
            hint: Some("install a later version of cabane".to_owned()),
        }),
    }
}

/// Refuses a directory that holds anything but what a killed creation leaves behind.
fn refuse_full_directory(layout: &Layout) -> Result<(), Error> {
    let foreign = |directory: &Path, ours: &[&str]| -> Result<Option<String>, Error> {
        let names = disk::if_there(disk::names(directory));
        let names = names.map_err(Error::io("read", directory))?.unwrap_or_default();
        Ok(names.iter().find(|name| !ours.contains(name)).map(str::to_owned))
    };
    for (directory, ours) in [
        (layout.root.clone(), ["images", "refs", "tmp"].as_slice()),
        (layout.images(), &[]),
        (layout.refs(), &[]),
    ] {
        if let Some(entry) = foreign(&directory, ours)? {
            let (inside, entry) = (directory.join("repository"), escape(&entry));
            return Err(Error::Refused {
                message: format!(
                    "the directory {} is not empty: it holds `{entry}`",
                    shown(&directory)
                ),
                hint: Some(format!(
                    "`cabane repo create {}` makes one inside that directory",
                    shown_word(&inside)
                )),
            });
        }
    }
    Ok(())
}
