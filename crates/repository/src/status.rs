// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is in a repository, and what is wrong with it. Nothing is changed.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cabane_label::{Digest, Label, escape};
use serde::Serialize;

use crate::layout::RefName;
use crate::listing::Listing;
use crate::transfer::digest_of;
use crate::workshop::Temporary;
use crate::{Error, Repository, disk};

/// The state of a repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// Where it is.
    pub path: PathBuf,
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
    pub damaged: Vec<Damage>,
}

/// Something in a repository that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
#[non_exhaustive]
pub enum Damage {
    /// A label points to an image that is not there. It is not shown to users.
    MissingImage {
        /// The label.
        label: Label,
        /// The image.
        digest: Digest,
    },
    /// An image has not the size it had.
    WrongSize {
        /// The image.
        digest: Digest,
        /// The size it had.
        expected: u64,
        /// The size it has.
        found: u64,
    },
    /// An image has not the content it had.
    WrongDigest {
        /// The image.
        digest: Digest,
        /// The digest of what is there.
        found: Digest,
    },
    /// An image cannot be read.
    UnreadableImage {
        /// The image.
        digest: Digest,
        /// Why not.
        reason: String,
    },
    /// An image has no label.
    NoLabel {
        /// The image.
        digest: Digest,
    },
    /// A ref cannot be understood.
    UnreadableRef {
        /// Its file.
        file: String,
        /// Why not.
        reason: String,
    },
    /// A ref whose label belongs to another image now.
    Overtaken {
        /// The label.
        label: Label,
        /// The image to which the ref points.
        digest: Digest,
    },
    /// Something a killed writer has left, which the next writer removes.
    Leftover {
        /// Its name in the directory `tmp`.
        name: String,
    },
    /// A file that does not belong there.
    Stranger {
        /// Its path in the repository.
        path: PathBuf,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingImage { label, digest } => {
                write!(
                    f,
                    "the image {} of the label `{label}` is missing",
                    digest.id()
                )
            }
            Self::WrongSize {
                digest,
                expected,
                found,
            } => {
                write!(
                    f,
                    "the image {} has {found} bytes and should have {expected}",
                    digest.id()
                )
            }
            Self::WrongDigest { digest, .. } => {
                write!(f, "the content of the image {} has changed", digest.id())
            }
            Self::UnreadableImage { digest, reason } => {
                write!(
                    f,
                    "the image {} cannot be read: {}",
                    digest.id(),
                    escape(reason)
                )
            }
            Self::NoLabel { digest } => write!(f, "the image {digest} has no label"),
            Self::UnreadableRef { file, reason } => {
                write!(
                    f,
                    "the ref `{}` is damaged: {}",
                    escape(file),
                    escape(reason)
                )
            }
            Self::Overtaken { label, digest } => {
                write!(
                    f,
                    "an earlier ref of the label `{label}` to the image {} is left",
                    digest.id()
                )
            }
            Self::Leftover { name } => {
                write!(
                    f,
                    "`tmp/{}` was left by a writer that is gone",
                    escape(name)
                )
            }
            Self::Stranger { path } => {
                write!(
                    f,
                    "`{}` does not belong there",
                    escape(&path.to_string_lossy())
                )
            }
        }
    }
}

impl Repository {
    /// Returns what is in the repository and what is wrong with it.
    ///
    /// Sizes are compared; with `verify` all images are read and their digests compared too.
    pub fn status(&self, verify: bool) -> Result<Status, Error> {
        let layout = self.layout();
        let root = layout.root();
        let records = self.records()?;
        let mut survey = Survey {
            repository: self,
            verify,
            bytes: 0,
            restricted: 0,
            downloads: 0,
            download_bytes: 0,
            damaged: Vec::new(),
        };
        let images = survey.survey()?;
        survey.damaged.sort();
        let inspect = || Error::io("inspect", root);
        Ok(Status {
            path: root.to_owned(),
            file_system: disk::file_system(root).map_err(inspect())?,
            writable: [layout.images(), layout.refs(), layout.tmp()]
                .iter()
                .all(|directory| disk::is_writable(directory)),
            labels: records.len(),
            images,
            bytes: survey.bytes,
            restricted: survey.restricted,
            downloads: survey.downloads,
            download_bytes: survey.download_bytes,
            free: disk::free_space(root).map_err(inspect())?,
            damaged: survey.damaged,
        })
    }
}

struct Survey<'a> {
    repository: &'a Repository,
    verify: bool,
    bytes: u64,
    restricted: usize,
    downloads: usize,
    download_bytes: u64,
    damaged: Vec<Damage>,
}

impl Survey<'_> {
    fn survey(&mut self) -> Result<usize, Error> {
        let layout = self.repository.layout();
        // Not from the index: it is the files that may be damaged.
        let listing = Listing::read_files(layout)?;
        let images = listing.images();
        self.refs(&listing);
        let unnamed = listing.images_without_ref();
        self.damaged
            .extend(unnamed.into_iter().map(|digest| Damage::NoLabel { digest }));
        let sizes = listing.refs.iter().map(|one| (&one.digest, one.size));
        let sizes: BTreeMap<&Digest, u64> = sizes.collect();
        for digest in &images {
            self.image(digest, sizes.get(digest).copied())?;
        }
        self.leftovers()?;
        Ok(images.len())
    }

    fn refs(&mut self, listing: &Listing) {
        for one in listing.without_image() {
            let (label, digest) = (one.label.clone(), one.digest.clone());
            self.damaged.push(Damage::MissingImage { label, digest });
        }
        for one in listing.overtaken() {
            let (label, digest) = (one.label.clone(), one.digest.clone());
            self.damaged.push(Damage::Overtaken { label, digest });
        }
        for (name, error) in &listing.unreadable {
            let (file, reason) = (RefName::as_str(name).to_owned(), error.to_string());
            self.damaged.push(Damage::UnreadableRef { file, reason });
        }
        for name in &listing.strangers {
            let path = PathBuf::from("refs").join(name);
            self.damaged.push(Damage::Stranger { path });
        }
    }

    fn image(&mut self, digest: &Digest, expected: Option<u64>) -> Result<(), Error> {
        let path = self.repository.image_path(digest);
        let unreadable = |error: &dyn fmt::Display| Damage::UnreadableImage {
            digest: digest.clone(),
            reason: error.to_string(),
        };
        let found = match fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.restricted += 1;
                self.bytes += expected.unwrap_or(0);
                return Ok(());
            }
            Err(error) => {
                self.damaged.push(unreadable(&error));
                return Ok(());
            }
        };
        self.bytes += found;
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            self.damaged.push(Damage::WrongSize {
                digest: digest.clone(),
                expected,
                found,
            });
        } else if self.verify {
            match digest_of(&path) {
                Ok((found, _)) if found != *digest => {
                    self.damaged.push(Damage::WrongDigest {
                        digest: digest.clone(),
                        found,
                    });
                }
                Err(Error::Io { source, .. })
                    if source.kind() == io::ErrorKind::PermissionDenied =>
                {
                    self.restricted += 1;
                }
                Err(Error::Io { source, .. }) => self.damaged.push(unreadable(&source)),
                outcome => drop(outcome?),
            }
        }
        Ok(())
    }

    fn leftovers(&mut self) -> Result<(), Error> {
        let tmp = self.repository.layout().tmp();
        let names = match disk::names(&tmp) {
            // Somebody copied the repository without its empty directories.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            outcome => outcome.map_err(Error::io("read", &tmp))?,
        };
        for name in names.iter().filter(|name| *name != ".lock") {
            match Temporary::from_name(name) {
                Temporary::Workshop(owner) | Temporary::Trash(_, owner) if !owner.is_gone() => {}
                Temporary::Incoming(..) => self.download(&tmp.join(name)),
                Temporary::Unknown => {
                    let path = PathBuf::from("tmp").join(name);
                    self.damaged.push(Damage::Stranger { path });
                }
                _ => self.damaged.push(Damage::Leftover {
                    name: name.to_owned(),
                }),
            }
        }
        Ok(())
    }

    /// Counts what has arrived; the file may have holes where something is still to come.
    fn download(&mut self, place: &Path) {
        const BLOCK: u64 = 512;
        self.downloads += 1;
        for name in disk::names(place).unwrap_or_default().iter() {
            let found = fs::symlink_metadata(place.join(name));
            self.download_bytes += found.map_or(0, |found| found.blocks() * BLOCK);
        }
    }
}
