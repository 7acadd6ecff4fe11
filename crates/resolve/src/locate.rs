// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Finding the file that a description means.

use std::cmp::Reverse;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cabane_label::{
    Digest, ImageDescription, Label, LabelPattern, NameMatch, System, SystemPattern,
    UenvDescription, escape, import_command, shown, shown_word,
};
use cabane_report::{Kind, Report, Result};
use cabane_repository::{ImageError, ImageFormat, Record, Repository, groups};
use cabane_view::Meta;

use crate::names::quoted;
use crate::near::near_miss;

/// Refuses a container image where nothing is imported.
fn not_imported(text: &str) -> Report {
    let message = format!("`{}` is a container image that has not been imported", escape(text));
    let hint = format!("import it and use its label: `{}`", import_command(text));
    Report::new(Kind::NotFound, message).hinted(hint)
}

/// What an image is called inside of a directory of a repository, ours or uenv's.
const NAMES: [&str; 2] = ["image", "store.squashfs"];

/// A repository, and what the configuration says about it.
#[derive(Clone, Debug)]
pub struct NamedRepository {
    /// The name by which users know it.
    pub name: String,
    /// The repository.
    pub repository: Repository,
    /// The higher this is, the earlier the repository is searched.
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

impl LocatedImage {
    /// Returns where a repository keeps a copy of the metadata.
    pub fn metadata_directory(&self) -> Option<PathBuf> {
        let directory = self.digest.as_ref().and(self.path.parent());
        directory.map(|directory| directory.join("meta"))
    }
}

/// Finds images in repositories.
#[derive(Clone, Debug)]
pub struct Resolver {
    repositories: Vec<NamedRepository>,
    system: Option<System>,
    /// Whether the file of an image is needed, so that a deduplicated one is assembled.
    needs_files: bool,
}

impl Resolver {
    /// Makes a resolver that asks these repositories, those of high priority first, and that
    /// prefers images for this system.
    pub fn new(mut repositories: Vec<NamedRepository>, system: Option<System>) -> Self {
        // The sort is stable: of equal priorities the first comes first.
        repositories.sort_by_key(|one| Reverse(one.priority));
        Self { repositories, system, needs_files: true }
    }

    /// Does not assemble deduplicated images: what is located may have no file.
    #[must_use]
    pub fn without_files(mut self) -> Self {
        self.needs_files = false;
        self
    }

    /// Finds the one image that a description means.
    ///
    /// Names are compared whole. The first repository with a match decides; there the matching
    /// labels must all belong to one image. A pattern without a system is limited to the current
    /// one when that is known; `@*` lifts the limit.
    pub fn locate(&self, description: &UenvDescription) -> Result<LocatedImage> {
        match self.find(&description.image)? {
            Found::File(located) => Ok(*located),
            Found::Records(named, records) => match distinct(&records).as_slice() {
                [one] => self.located(named, one),
                _ => Err(ambiguous(named, &description.image, &records)),
            },
        }
    }

    /// Finds the image that a description means, as one or several builds: as [`Self::locate`],
    /// but the matching labels may differ in their microarchitectures. One of these builds is
    /// to be chosen by what a machine can run; two of them may be one image.
    pub fn locate_builds(&self, description: &UenvDescription) -> Result<Vec<LocatedImage>> {
        match self.find(&description.image)? {
            Found::File(located) => Ok(vec![*located]),
            Found::Records(named, records) => match distinct(&records).as_slice() {
                [one] => self.located(named, one).map(|one| vec![one]),
                _ if are_builds(&records) => {
                    records.iter().map(|one| self.located(named, one)).collect()
                }
                _ => Err(ambiguous(named, &description.image, &records)),
            },
        }
    }

    /// Finds an image on which another one is built: also if its last label has become that of
    /// another image since.
    ///
    /// # Errors
    ///
    /// The image is in no repository, or a repository cannot be read.
    pub fn locate_base(&self, digest: &Digest) -> Result<LocatedImage> {
        for named in &self.repositories {
            let failed = |source| unreadable(named, source);
            let labelled = named.repository.by_digest(digest).map_err(failed)?.into_iter().next();
            let record = match labelled {
                Some(record) => Some(record),
                None if named.repository.has_image(digest) => {
                    named.repository.last_record(digest).map_err(failed)?
                }
                None => None,
            };
            if let Some(record) = record {
                return self.located(named, &record);
            }
        }
        Err(self.not_found(&ImageDescription::Digest(digest.clone())))
    }

    /// Finds what matches, in the first repository that has something.
    fn find(&self, image: &ImageDescription) -> Result<Found<'_>> {
        match image {
            ImageDescription::Path(path) => from_path(path).map(Box::new).map(Found::File),
            ImageDescription::Container(text) => Err(not_imported(text)),
            ImageDescription::Pattern(pattern) if pattern.namespace.is_some() => {
                let local = LabelPattern { namespace: None, ..pattern.clone() };
                let message = format!(
                    "`{pattern}` names a namespace of a registry, and repositories have none"
                );
                let hint = format!("write `{local}` for the image in a repository");
                Err(Report::new(Kind::BadInput, message).hinted(hint))
            }
            ImageDescription::Pattern(pattern) => {
                let limited = self.limited(pattern);
                self.by_pattern(image, &limited)
            }
            ImageDescription::Id(id) => self.search(image, |one| one.by_id(id)),
            ImageDescription::Digest(digest) => self.search(image, |one| one.by_digest(digest)),
        }
    }

    /// Finds the labels that fit, or the images of a name that follows a channel.
    fn by_pattern(&self, image: &ImageDescription, limited: &LabelPattern) -> Result<Found<'_>> {
        for named in &self.repositories {
            let failed = |source| unreadable(named, source);
            let followed = followed(&named.repository, limited).map_err(failed)?;
            let matches = match followed {
                // Another image, which happens to have the tag, is not what is meant.
                Some(records) if records.is_empty() => return Err(self.not_found(image)),
                Some(records) => records,
                None => named.repository.find(limited, NameMatch::Exact).map_err(failed)?,
            };
            if !matches.is_empty() {
                return Ok(Found::Records(named, matches));
            }
        }
        Err(self.not_found(image))
    }

    /// Adds the current system to a pattern that names none.
    fn limited(&self, pattern: &LabelPattern) -> LabelPattern {
        let current = || self.system.clone().map(SystemPattern::Is);
        LabelPattern { system: pattern.system.clone().or_else(current), ..pattern.clone() }
    }

    fn search(
        &self,
        image: &ImageDescription,
        find: impl Fn(&Repository) -> Result<Vec<Record>, cabane_repository::Error>,
    ) -> Result<Found<'_>> {
        for named in &self.repositories {
            let matches = find(&named.repository).map_err(|source| unreadable(named, source))?;
            if !matches.is_empty() {
                return Ok(Found::Records(named, matches));
            }
        }
        Err(self.not_found(image))
    }

    fn not_found(&self, image: &ImageDescription) -> Report {
        let pattern = match image {
            ImageDescription::Pattern(pattern) => Some(pattern),
            _ => None,
        };
        let gone = pattern.filter(|pattern| self.follows(pattern));
        let gone = gone.map(|name| format!("`cabane image pull {name}` gets it from its channel"));
        let near = || pattern.and_then(|pattern| near_miss(pattern, self.labels().iter()));
        let is_empty = are_empty(&self.repositories);
        let otherwise =
            if is_empty { HOW_TO_ADD_IMAGES } else { "`cabane image ls` shows all images" };
        let hint =
            gone.or_else(near).or_else(|| image.hint()).unwrap_or_else(|| otherwise.to_owned());
        let is_limited = pattern.is_some_and(|pattern| pattern.system.is_none());
        let why = if is_empty { ": there are no images yet" } else { "" };
        let message = format!("no image matches `{image}`{why}");
        Report::caused(Kind::NotFound, message, self.searched(is_limited)).hinted(hint)
    }

    /// Whether a name follows a channel in one of the repositories: then its image was here.
    fn follows(&self, pattern: &LabelPattern) -> bool {
        let limited = self.limited(pattern);
        let Some(SystemPattern::Is(system)) = &limited.system else {
            return false;
        };
        self.repositories.iter().any(|named| {
            named.repository.followed_by(&limited, system).is_ok_and(|names| !names.is_empty())
        })
    }

    /// Says where an image was looked for in vain.
    fn searched(&self, is_limited: bool) -> String {
        let names: Vec<String> = self.repositories.iter().map(|one| one.name.clone()).collect();
        let place = match names.as_slice() {
            [] => "there is no repository to look in".to_owned(),
            [one] => format!("searched the repository `{}`", escape(one)),
            many => format!("searched the repositories {}", quoted(many)),
        };
        match &self.system {
            Some(system) if is_limited => format!("{place} for images built for `@{system}`"),
            _ => place,
        }
    }

    /// Returns all labels, for finding out what may have been meant.
    fn labels(&self) -> Vec<Label> {
        let records = |named: &NamedRepository| named.repository.records().unwrap_or_default();
        self.repositories.iter().flat_map(records).map(|one| one.label).collect()
    }

    fn located(&self, named: &NamedRepository, record: &Record) -> Result<LocatedImage> {
        let (repository, digest) = (&named.repository, &record.digest);
        let (path, format) = if !self.needs_files && repository.is_deduplicated(digest) {
            (repository.image_path(digest), record.format)
        } else {
            let path = repository.plain_image(digest)?;
            let format = check_image(&path, Some(repository.path()))
                .map_err(|error| closed(&path, record).unwrap_or(error))?;
            (path, format)
        };
        let meta =
            repository.meta_if_present(digest).map_err(|source| unreadable(named, source))?;
        Ok(LocatedImage {
            path,
            digest: Some(digest.clone()),
            label: Some(record.label.clone()),
            repository: Some(named.name.clone()),
            format,
            meta,
        })
    }
}

/// A hint for users who have no image.
pub const HOW_TO_ADD_IMAGES: &str =
    "`cabane build`, `cabane image pull`, and `cabane import` add images";

/// Tells whether repositories can be read and none of them has an image.
#[must_use]
pub fn are_empty(repositories: &[NamedRepository]) -> bool {
    let is_empty = |one: &NamedRepository| one.repository.records().is_ok_and(|all| all.is_empty());
    repositories.iter().all(is_empty)
}

/// What a description means.
enum Found<'a> {
    File(Box<LocatedImage>),
    /// Labels of a repository; at least one.
    Records(&'a NamedRepository, Vec<Record>),
}

/// Returns the images that are here for a name whose tag is a channel; `None` if it follows none.
fn followed(
    repository: &Repository,
    pattern: &LabelPattern,
) -> Result<Option<Vec<Record>>, cabane_repository::Error> {
    let Some(SystemPattern::Is(system)) = &pattern.system else {
        return Ok(None);
    };
    let names = repository.followed_by(pattern, system)?;
    if names.is_empty() {
        return Ok(None);
    }
    let mut records = Vec::new();
    for (_, followed) in names {
        let release = followed.release;
        let of_image = repository.by_digest(&release.digest)?;
        let same = of_image.into_iter().find(|record| record.label == release.label);
        // Another image may have the label by now.
        let record = match same {
            Some(same) => Some(same),
            None => repository.last_record(&release.digest)?,
        };
        records.extend(record.filter(|record| repository.has_image(&record.digest)));
    }
    Ok(Some(records))
}

/// Returns one record for each image. Records are sorted by label; the first label stands for
/// the image.
fn distinct(records: &[Record]) -> Vec<Record> {
    let mut records = records.to_vec();
    records.sort_by(|one, other| one.digest.cmp(&other.digest));
    records.dedup_by(|one, other| one.digest == other.digest);
    records
}

/// Tells whether labels differ in their microarchitectures only.
fn are_builds(records: &[Record]) -> bool {
    let without_uarch =
        |record: &Record| LabelPattern { uarch: None, ..LabelPattern::from(&record.label) };
    let mut rest = records.iter().map(without_uarch);
    let first = rest.next();
    rest.all(|other| Some(&other) == first.as_ref())
}

fn unreadable(named: &NamedRepository, source: cabane_repository::Error) -> Report {
    let hint = source.hint();
    let message = format!("the repository `{}` cannot be read", escape(&named.name));
    Report::caused(Kind::Repository, message, source).hinted(hint)
}

/// Finds out whether an image is not readable because it is for a group.
fn closed(path: &Path, record: &Record) -> Option<Report> {
    const OTHERS: u32 = 0o007;
    let denied = fs::File::open(path).err()?.kind() == io::ErrorKind::PermissionDenied;
    let directory = fs::metadata(path.parent()?).ok()?;
    let (label, group) = (&record.label, groups::name_of(directory.gid()));
    (denied && directory.mode() & OTHERS == 0).then(|| {
        let message = format!("only the group {group} may read the image `{label}`");
        Report::new(Kind::Failure, message)
            .hinted(format!("`getent group {group}` shows its members, and `id` shows your groups"))
    })
}

fn ambiguous(named: &NamedRepository, image: &ImageDescription, records: &[Record]) -> Report {
    let mut records = distinct(records);
    records.sort_by(|one, other| one.label.cmp(&other.label));
    let message = format!(
        "`{image}` matches {} images in the repository `{}`:{}",
        records.len(),
        escape(&named.name),
        records.iter().map(line_of).collect::<String>()
    );
    let hint = records.last().map(|one| format!("write a label in full: `{}`", one.label));
    Report::new(Kind::Ambiguous, message).hinted(hint)
}

/// Returns label, id, size and date on a line of a list.
fn line_of(record: &Record) -> String {
    let (label, id, day) = (&record.label, record.digest.id(), record.date.strftime("%F"));
    format!("\n  {label}  {id}  {}  {day}", cabane_report::size(record.size))
}

/// Finds the image that was named by its path.
fn from_path(path: &Path) -> Result<LocatedImage> {
    if path.is_dir() {
        let inside = NAMES.iter().map(|name| path.join(name)).find(|inside| inside.is_file());
        let hint = match inside {
            Some(inside) => format!("write `{}` for the image inside", shown(&inside)),
            None if path.join("usr").is_dir() => {
                let source = shown_word(format!("dir:{}", path.display()));
                format!("`cabane import {source} NAME/VERSION` imports it")
            }
            None => "`cabane build` makes an image from a recipe".to_owned(),
        };
        let message = format!("{} is a directory, and an image is a file", shown(path));
        return Err(Report::new(Kind::BadInput, message).hinted(hint));
    }
    let format = check_image(path, None)?;
    let path = std::path::absolute(path).map_err(|source| not_read(path, source))?;
    Ok(LocatedImage { path, digest: None, label: None, repository: None, format, meta: None })
}

/// Looks whether a file is an image that can be used.
fn check_image(path: &Path, repository: Option<&Path>) -> Result<ImageFormat> {
    let hint = |repository| {
        let repository = shown(repository);
        format!("`cabane repo status --verify {repository}` finds what is damaged")
    };
    ImageFormat::of_path(path).map_err(|error| match error {
        ImageError::Io(source) => not_read(path, source),
        source @ ImageError::Unusable(_) => {
            let message = format!("{} is not a usable image", shown(path));
            Report::caused(Kind::BadInput, message, source).hinted(repository.map(hint))
        }
    })
}

fn not_read(path: &Path, source: io::Error) -> Report {
    let message = format!("the image {} cannot be read", shown(path));
    Report::caused(Kind::Failure, message, source)
}
