// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why a description could not be resolved.

use std::fmt;
use std::io;
use std::path::PathBuf;

use cabane_label::{ImageDescription, Label, LabelPattern, MountPoint, System, escape, shown};
use cabane_report::{Kind, Report};
use cabane_repository::{ImageError, Record};
use cabane_view::{ViewDescription, ViewOwner};

use crate::names::{any_of, quoted};
use crate::near::NearMiss;

/// Why no single image could be found.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// Nothing is what was requested.
    #[error("no image matches `{image}`")]
    NotFound {
        /// What was requested.
        image: Box<ImageDescription>,
        /// Where it was looked for.
        source: Searched,
        /// What might have been meant.
        near: Option<NearMiss>,
    },
    /// Several different images are what was requested.
    #[error(
        "`{image}` matches {} images in the repository `{}`:{}",
        .candidates.len(), escape(.repository), listed(.candidates)
    )]
    Ambiguous {
        /// What was requested.
        image: Box<ImageDescription>,
        /// The repository in which the images are.
        repository: String,
        /// The images.
        candidates: Vec<Candidate>,
    },
    /// The pattern names a part of a registry, and what is mounted is in a repository.
    #[error("`{pattern}` names a namespace of a registry, and repositories have none")]
    Namespace {
        /// The pattern.
        pattern: Box<LabelPattern>,
    },
    /// A repository cannot be read.
    #[error("the repository `{}` cannot be read", escape(.name))]
    Repository {
        /// The name of the repository.
        name: String,
        /// What it says.
        source: cabane_repository::Error,
    },
    /// A file that was named cannot be read.
    #[error("the image {} cannot be read", shown(.path))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The image of a repository is for one Unix group, to which this user does not belong.
    #[error("only the group {group} may read the image `{label}`")]
    Closed {
        /// The label under which the image was found.
        label: Box<Label>,
        /// The number of the group.
        group: u32,
    },
    /// A directory was named where an image is needed.
    #[error("{} is a directory, and an image is a file", shown(.path))]
    Directory {
        /// The directory.
        path: PathBuf,
        /// An image in this directory.
        inside: Option<PathBuf>,
    },
    /// A file that was named is not an image that can be mounted.
    #[error("{} is not a usable image", shown(.path))]
    NotAnImage {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: ImageError,
        /// The repository to which the file belongs.
        repository: Option<PathBuf>,
    },
}

/// Where an image was looked for in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    /// The names of the repositories.
    pub repositories: Vec<String>,
    /// The system to which the search was limited although no one typed it.
    pub system: Option<System>,
}

/// One of several images that fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate(pub Record);

/// Why images and views do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// The mount point of an image is unknown.
    #[error("the image `{}` does not say where it is to be mounted", escape(.image))]
    NoMountPoint {
        /// The image, as it was described.
        image: String,
    },
    /// An image without a root file system is to be mounted at `/`.
    #[error("the image `{}` cannot be mounted at `/`: it is no root file system", escape(.image))]
    NoRoot {
        /// The image, as it was described.
        image: String,
    },
    /// Two images are to be mounted at one place.
    #[error(
        "`{}` and `{}` would both be mounted at {mount_point}",
        escape(.first), escape(.second)
    )]
    SameMountPoint {
        /// The place.
        mount_point: MountPoint,
        /// One image, as it was described.
        first: String,
        /// The other, as it was described.
        second: String,
    },
    /// An image was named twice.
    #[error("the image `{}` was named twice", escape(.image))]
    SameImage {
        /// The image, as it was described.
        image: String,
    },
    /// No image has the view.
    #[error("there is no view `{view}`{}", offered(.views))]
    UnknownView {
        /// The view, as it was described.
        view: ViewDescription,
        /// The views of each image that was considered.
        views: Vec<(String, Vec<String>)>,
        /// The view that may have been meant.
        similar: Option<String>,
    },
    /// No image is what was put before a view.
    #[error("{}", no_such(.owner))]
    UnknownImage {
        /// What was put before the view.
        owner: ViewOwner,
        /// The names, labels or mount points of the images.
        images: Vec<String>,
    },
    /// Several images have the view.
    #[error("several images have a view `{view}`")]
    AmbiguousView {
        /// The view, as it was described.
        view: ViewDescription,
        /// How to say which is meant.
        qualified: Vec<String>,
    },
}

impl LocateError {
    /// Returns what the user may type to get further, when there is such a thing.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { near: Some(near), .. } => Some(near.to_string()),
            Self::NotFound { image, source, .. } => {
                image.hint().or_else(|| Some(source.hint().to_owned()))
            }
            Self::Ambiguous { candidates, .. } => {
                let Candidate(record) = candidates.last()?;
                Some(format!("write a label in full: `{}`", record.label))
            }
            Self::Namespace { pattern } => {
                let local = LabelPattern { namespace: None, ..LabelPattern::clone(pattern) };
                Some(format!("write `{local}` for the image in a repository"))
            }
            Self::Repository { source, .. } => source.hint(),
            Self::Directory { inside: Some(inside), .. } => {
                Some(format!("write `{}` for the image inside", shown(inside)))
            }
            Self::Directory { .. } => {
                Some("`cabane build` makes an image from a recipe".to_owned())
            }
            Self::NotAnImage { repository: Some(repository), .. } => {
                let repository = shown(repository);
                Some(format!("`cabane repo status --verify {repository}` finds what is damaged"))
            }
            Self::Closed { group, .. } => Some(format!(
                "`getent group {group}` shows which group that is, and `id` shows yours"
            )),
            Self::Unreadable { .. } | Self::NotAnImage { .. } => None,
        }
    }
}

impl AssembleError {
    /// Returns what the user may type to get further, when there is such a thing.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoRoot { image } | Self::NoMountPoint { image } => {
                let image = escape(image);
                Some(format!("write the place after the image: `{image}:/user-environment`"))
            }
            Self::SameMountPoint { second, .. } => {
                let second = escape(second);
                Some(format!("write another place after one of them: `{second}:/mount/point`"))
            }
            Self::SameImage { .. } => None,
            Self::UnknownView { similar, .. } => {
                similar.as_ref().map(|similar| format!("did you mean `{}`?", escape(similar)))
            }
            Self::UnknownImage { images, .. } => Some(format!("the images are {}", quoted(images))),
            Self::AmbiguousView { qualified, .. } => Some(format!("write {}", any_of(qualified))),
        }
    }
}

impl Searched {
    fn hint(&self) -> &'static str {
        if self.repositories.is_empty() {
            "`cabane repo create` makes a repository"
        } else {
            "`cabane image ls` shows all images"
        }
    }
}

impl fmt::Display for Searched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.repositories.as_slice() {
            [] => write!(f, "there is no repository to look in")?,
            [one] => write!(f, "searched the repository `{}`", escape(one))?,
            many => write!(f, "searched the repositories {}", quoted(many))?,
        }
        match &self.system {
            Some(system) => write!(f, " for images built for `@{system}`"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Searched {}

impl fmt::Display for Candidate {
    /// Writes label, id, size and date.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(record) = self;
        let (label, id, day) = (&record.label, record.digest.id(), record.date.strftime("%F"));
        write!(f, "{label}  {id}  {}  {day}", human_size(record.size))
    }
}

/// Returns a size in the unit that needs one to three digits.
fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    // Tenths of a unit, cut and not rounded, so that nothing becomes 1000.
    let (mut tenths, mut unit) = (bytes / 100, 0);
    while tenths >= 10_000 && unit + 1 < UNITS.len() {
        (tenths, unit) = (tenths / 1000, unit + 1);
    }
    let (whole, tenth) = (tenths / 10, tenths % 10);
    let unit = UNITS[unit];
    if whole < 10 { format!("{whole}.{tenth} {unit}") } else { format!("{whole} {unit}") }
}

fn listed(candidates: &[Candidate]) -> String {
    let lines: Vec<String> = candidates
        .iter()
        .map(|one| {
            format!(
                "
  {one}"
            )
        })
        .collect();
    lines.concat()
}

fn no_such(owner: &ViewOwner) -> String {
    match owner {
        ViewOwner::MountPoint(place) => format!("no image is mounted at `{place}`"),
        ViewOwner::Label(pattern) if owner.name().is_some() => {
            format!("no image is called `{pattern}`")
        }
        ViewOwner::Label(pattern) => format!("no image that is mounted matches `{pattern}`"),
    }
}

fn offered(views: &[(String, Vec<String>)]) -> String {
    let one = |(image, views): &(String, Vec<String>)| match views.as_slice() {
        [] => format!("`{}` has no views", escape(image)),
        views => format!("`{}` has {}", escape(image), quoted(views)),
    };
    let all: Vec<String> = views.iter().map(one).collect();
    if all.is_empty() { ": there is no image".to_owned() } else { format!(": {}", all.join(", ")) }
}

impl From<LocateError> for Report {
    fn from(error: LocateError) -> Self {
        let kind = match &error {
            LocateError::NotFound { .. } => Kind::NotFound,
            LocateError::Ambiguous { .. } => Kind::Ambiguous,
            LocateError::Repository { .. } => Kind::Repository,
            LocateError::Unreadable { .. } | LocateError::Closed { .. } => Kind::Failure,
            _ => Kind::BadInput,
        };
        let hint = error.hint();
        Self::new(kind, error).hinted(hint)
    }
}

impl From<AssembleError> for Report {
    fn from(error: AssembleError) -> Self {
        let kind = match &error {
            AssembleError::UnknownView { .. } | AssembleError::UnknownImage { .. } => {
                Kind::NotFound
            }
            AssembleError::AmbiguousView { .. } => Kind::Ambiguous,
            _ => Kind::BadInput,
        };
        let hint = error.hint();
        Self::new(kind, error).hinted(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_suits_them() {
        let sizes = [999, 1000, 9_990_000, 4_712_345_678, 999_999_999_999, u64::MAX];
        assert_eq!(
            sizes.map(human_size),
            ["999 B", "1.0 kB", "9.9 MB", "4.7 GB", "999 GB", "18446 PB"]
        );
    }
}
