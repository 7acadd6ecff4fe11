// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is in a repository of uenv, and what of it is damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cabane_label::{Digest, Label, escape, shown};
use cabane_report::{Kind, Report, Result};
use jiff::Timestamp;
use serde::Serialize;

use cabane_uenv_database::{read, refused};

const DATABASE: &str = "index.db";
const IMAGE: &str = "store.squashfs";
const META: &str = "meta";

/// A repository of uenv.
#[derive(Clone, Debug)]
pub struct UenvRepository {
    path: PathBuf,
}

/// What is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The images that have a label and a file, sorted by digest.
    pub images: Vec<UenvImage>,
    /// What is not as it should be, as far as can be seen without reading images.
    pub damaged: Vec<Corruption>,
}

/// An image with at least one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UenvImage {
    /// Its sha256 according to the database.
    pub digest: Digest,
    /// When it was made; when its file was written if the database does not say.
    pub date: Timestamp,
    /// How many bytes it has.
    pub size: u64,
    /// Its labels, sorted.
    pub labels: Vec<Label>,
    /// The file.
    pub path: PathBuf,
    /// The metadata beside it, if there are any.
    pub meta: Option<PathBuf>,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Corruption {
    /// A label whose image has no file.
    MissingImage {
        /// The label.
        label: Label,
        /// The image.
        digest: Digest,
    },
    /// A file without a label.
    NoLabel {
        /// The image.
        digest: Digest,
    },
    /// An image in the database that has neither a label nor a file.
    EmptyRow {
        /// What is there for its digest.
        sha256: String,
    },
    /// A row of which no label or no digest can be made.
    BadRow {
        /// The row, as a label.
        row: String,
        /// Why not.
        reason: String,
    },
    /// An image has another sum than the one under which it is kept.
    WrongDigest {
        /// The labels of the image.
        labels: Vec<Label>,
        /// What it should be.
        digest: Digest,
        /// What it is.
        found: Digest,
    },
    /// An image, or its metadata, cannot be brought.
    Unusable {
        /// The labels of the image.
        labels: Vec<Label>,
        /// The image.
        digest: Digest,
        /// Why not.
        reason: String,
    },
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingImage { label, digest } => {
                write!(f, "the image {} of the label `{label}` has no file", digest.id())
            }
            Self::NoLabel { digest } => write!(f, "the image {digest} has no label"),
            Self::EmptyRow { sha256 } => {
                write!(f, "the database has an image `{}` without label and file", escape(sha256))
            }
            Self::BadRow { row, reason } => write!(
                f,
                "the database has a label `{}` that cannot be kept: {}",
                escape(row),
                escape(reason)
            ),
            Self::WrongDigest { labels, digest, found } => write!(
                f,
                "the content of the image {}{} has changed: its digest is that of {}",
                digest.id(),
                of(labels),
                found.id()
            ),
            Self::Unusable { labels, digest, reason } => {
                write!(f, "the image {}{}: {}", digest.id(), of(labels), escape(reason))
            }
        }
    }
}

fn of(labels: &[Label]) -> String {
    let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
    match labels.as_slice() {
        [] => String::new(),
        labels => format!(" ({})", labels.join(", ")),
    }
}

impl UenvRepository {
    /// Opens a repository; only whether there is a database is looked at.
    pub fn open(path: &Path) -> Result<Self> {
        let path = std::path::absolute(path).map_err(refused("find", path))?;
        match fs::metadata(path.join(DATABASE)) {
            Ok(found) if found.is_file() => Ok(Self { path }),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(refused("read", &path)(error))
            }
            _ => {
                let path = shown(&path);
                let message = format!("{path} is no repository of uenv: it has no `index.db`");
                let hint = format!("`ls {path}` shows what is there");
                Err(Report::new(Kind::Repository, message).hinted(hint))
            }
        }
    }

    /// Returns the directory, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what is there. No image is read.
    pub fn contents(&self) -> Result<Contents> {
        let rows = read(&self.path.join(DATABASE))?;
        let mut damaged = Vec::new();
        let mut labels: BTreeMap<Digest, (Option<Timestamp>, BTreeSet<Label>)> = BTreeMap::new();
        for row in &rows.labels {
            match row.checked() {
                Ok((digest, label)) => {
                    let image = labels.entry(digest).or_default();
                    image.0 = image.0.or_else(|| row.date());
                    image.1.insert(label);
                }
                Err(reason) => damaged.push({
                    let row = row.label.clone();
                    Corruption::BadRow { row, reason }
                }),
            }
        }
        let mut files = self.files()?;
        let mut images = Vec::new();
        for (digest, (date, labels)) in labels {
            files.remove(&digest);
            match self.image(&digest, date, labels.clone()) {
                Ok(Some(image)) => images.push(image),
                Ok(None) => damaged.extend(labels.into_iter().map(|label| {
                    let digest = digest.clone();
                    Corruption::MissingImage { label, digest }
                })),
                Err(error) => damaged.push(Corruption::Unusable {
                    labels: labels.into_iter().collect(),
                    digest,
                    reason: format!("its file cannot be read: {error}"),
                }),
            }
        }
        let is_bad = |digest: &Digest| rows.labels.iter().any(|row| row.sha256 == digest.as_str());
        let unnamed = files.iter().filter(|digest| !is_bad(digest)).cloned();
        damaged.extend(unnamed.map(|digest| Corruption::NoLabel { digest }));
        let has_file = |sha256: &String| files.iter().any(|file| file.as_str() == sha256);
        let empty = rows.unnamed.into_iter().filter(|one| !has_file(one));
        damaged.extend(empty.map(|sha256| Corruption::EmptyRow { sha256 }));
        damaged.sort();
        Ok(Contents { images, damaged })
    }

    /// Returns the digests of the directories that hold an image.
    fn files(&self) -> Result<BTreeSet<Digest>> {
        let images = self.path.join("images");
        let entries = match fs::read_dir(&images) {
            // A repository into which nothing was put.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            outcome => outcome.map_err(refused("read", &images))?,
        };
        let mut digests = BTreeSet::new();
        for entry in entries {
            let entry = entry.map_err(refused("read", &images))?;
            let name = entry.file_name();
            let digest = name.to_str().and_then(|name| name.parse::<Digest>().ok());
            digests.extend(digest.filter(|_| entry.path().join(IMAGE).exists()));
        }
        Ok(digests)
    }

    fn image(
        &self,
        digest: &Digest,
        date: Option<Timestamp>,
        labels: BTreeSet<Label>,
    ) -> io::Result<Option<UenvImage>> {
        let directory = self.path.join("images").join(digest.as_str());
        let (path, meta) = (directory.join(IMAGE), directory.join(META));
        let found = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            outcome => outcome?,
        };
        let written = || Timestamp::try_from(found.modified().ok()?).ok();
        Ok(Some(UenvImage {
            digest: digest.clone(),
            date: date.or_else(written).unwrap_or(Timestamp::UNIX_EPOCH),
            size: found.len(),
            labels: labels.into_iter().collect(),
            meta: meta.is_dir().then_some(meta),
            path,
        }))
    }
}
