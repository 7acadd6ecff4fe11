// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Finding the file that a description means.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use cabane_label::{
    Digest, ImageDescription, Label, LabelPattern, NameMatch, System, SystemPattern,
    UenvDescription,
};
use cabane_repository::{ImageFormat, Record, Repository};
use cabane_view::Meta;

use crate::near::near_miss;
use crate::path::{check_image, locate_path};
use crate::{Candidate, LocateError, Searched};

/// A repository, and what the configuration says about it.
#[derive(Clone, Debug)]
pub struct NamedRepository {
    /// The name by which users know it.
    pub name: String,
    /// The repository.
    pub repository: Repository,
    /// The higher this is, the earlier the repository is asked.
    pub priority: i32,
}

/// An image that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedImage {
    /// The file, as an absolute path.
    pub path: PathBuf,
    /// The digest, for an image of a repository.
    pub digest: Option<Digest>,
    /// The label under which the image was found.
    pub label: Option<Label>,
    /// The name of the repository in which the image was found.
    pub repository: Option<String>,
    /// The file system in the image.
    pub format: ImageFormat,
    /// The metadata; those of an image that was named by its path are inside of it, and it is
    /// for the caller to read them there.
    pub meta: Option<Meta>,
}

/// Finds images in repositories.
///
/// A resolver remembers what it has read, so that the images of one command line are looked for
/// in the same list. It is meant to be used for one environment.
#[derive(Debug)]
pub struct Resolver {
    repositories: Vec<Source>,
    system: Option<System>,
}

/// A repository and, once it was asked, its records.
#[derive(Debug)]
struct Source {
    name: String,
    repository: Repository,
    records: OnceCell<Vec<Record>>,
}

impl Resolver {
    /// Makes a resolver that asks these repositories, those of high priority first, and that
    /// prefers images for this system.
    pub fn new(mut repositories: Vec<NamedRepository>, system: Option<System>) -> Self {
        // The sort is stable: of equal priorities the first comes first.
        repositories.sort_by_key(|one| Reverse(one.priority));
        let source = |one: NamedRepository| {
            let NamedRepository {
                name, repository, ..
            } = one;
            Source {
                name,
                repository,
                records: OnceCell::new(),
            }
        };
        Self {
            repositories: repositories.into_iter().map(source).collect(),
            system,
        }
    }

    /// Finds the one image that a description means.
    ///
    /// Names are compared whole. The first repository with a match decides; there the matching
    /// labels must all belong to one image. A pattern without a system is limited to the current
    /// one when that is known; `@*` lifts the limit.
    pub fn locate(&self, description: &UenvDescription) -> Result<LocatedImage, LocateError> {
        let image = &description.image;
        match image {
            ImageDescription::Path(path) => from_path(path),
            ImageDescription::Pattern(pattern) if pattern.namespace.is_some() => {
                Err(LocateError::Namespace {
                    pattern: Box::new(pattern.clone()),
                })
            }
            ImageDescription::Pattern(pattern) => {
                let limited = self.limited(pattern);
                self.search(image, |one| limited.matches(&one.label, NameMatch::Exact))
            }
            ImageDescription::Id(id) => {
                self.search(image, |one| one.digest.as_str().starts_with(id.as_str()))
            }
            ImageDescription::Digest(digest) => self.search(image, |one| one.digest == *digest),
        }
    }

    /// Adds the current system to a pattern that names none.
    fn limited(&self, pattern: &LabelPattern) -> LabelPattern {
        let current = || self.system.clone().map(SystemPattern::Is);
        LabelPattern {
            system: pattern.system.clone().or_else(current),
            ..pattern.clone()
        }
    }

    fn search(
        &self,
        image: &ImageDescription,
        wanted: impl Fn(&Record) -> bool,
    ) -> Result<LocatedImage, LocateError> {
        for source in &self.repositories {
            let mut matches: Vec<&Record> =
                source.records()?.iter().filter(|one| wanted(one)).collect();
            // Records are sorted by label; the first label of each image stands for it.
            matches.sort_by_key(|one| &one.digest);
            matches.dedup_by_key(|one| &one.digest);
            match matches.as_slice() {
                [] => {}
                [one] => return source.located(one),
                several => return Err(source.ambiguous(image, several)),
            }
        }
        Err(self.not_found(image))
    }

    fn not_found(&self, image: &ImageDescription) -> LocateError {
        let known = self
            .repositories
            .iter()
            .filter_map(|source| source.records.get())
            .flatten();
        let (near, system) = match image {
            ImageDescription::Pattern(pattern) => {
                let near = near_miss(pattern, known.map(|one| &one.label));
                (
                    near,
                    self.system.clone().filter(|_| pattern.system.is_none()),
                )
            }
            _ => (None, None),
        };
        let repositories = self
            .repositories
            .iter()
            .map(|source| source.name.clone())
            .collect();
        let source = Searched {
            repositories,
            system,
        };
        LocateError::NotFound {
            image: Box::new(image.clone()),
            source,
            near,
        }
    }
}

impl Source {
    fn records(&self) -> Result<&[Record], LocateError> {
        if let Some(records) = self.records.get() {
            return Ok(records);
        }
        let records = self
            .repository
            .records()
            .map_err(|source| self.unreadable(source))?;
        Ok(self.records.get_or_init(|| records))
    }

    fn unreadable(&self, source: cabane_repository::Error) -> LocateError {
        LocateError::Repository {
            name: self.name.clone(),
            source,
        }
    }

    fn located(&self, record: &Record) -> Result<LocatedImage, LocateError> {
        let digest = &record.digest;
        let path = self.repository.image_path(digest);
        let meta = self.repository.meta_if_present(digest);
        Ok(LocatedImage {
            format: check_image(&path, Some(self.repository.path()))?,
            path,
            digest: Some(digest.clone()),
            label: Some(record.label.clone()),
            repository: Some(self.name.clone()),
            meta: meta.map_err(|source| self.unreadable(source))?,
        })
    }

    fn ambiguous(&self, image: &ImageDescription, matches: &[&Record]) -> LocateError {
        let mut records: Vec<Record> = matches.iter().copied().cloned().collect();
        records.sort_by(|one, other| one.label.cmp(&other.label));
        let candidates = records.into_iter().map(Candidate).collect();
        LocateError::Ambiguous {
            image: Box::new(image.clone()),
            repository: self.name.clone(),
            candidates,
        }
    }
}

fn from_path(path: &Path) -> Result<LocatedImage, LocateError> {
    let (path, format) = locate_path(path)?;
    Ok(LocatedImage {
        path,
        digest: None,
        label: None,
        repository: None,
        format,
        meta: None,
    })
}
