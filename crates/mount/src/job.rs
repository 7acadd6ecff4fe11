// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images for the steps of a job: what is written down where it is submitted, and
//! mounting it on a node.
//!
//! Where a job is submitted its owner finds out which images it is about, and writes that
//! into a variable. On each node root reads the variable, which the owner may have changed
//! meanwhile: nothing about it is taken on trust. The value is
//!
//! ```text
//! 1,FORMAT:PATH:MOUNT_POINT,…
//! ```
//!
//! and bytes other than letters, digits and `/ . _ - + @ ~` stand as `%` and two digits.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use cabane_sys::{namespace, privilege};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::mount::{OpenTreeFlags, open_tree};

use crate::privileged::put_in_own_namespace;
use crate::{
    Error, ImageFile, ImageFormat, Policy, PrivilegedImage, PrivilegedPlan, Request, Scope,
    perform_privileged, sweep,
};

/// Names the variable with the images of a job. Slurm hands on what begins like this also
/// where the user wants no variables to be handed on (`--export=NONE`).
pub const JOB_IMAGES: &str = "SLURM_CABANE_IMAGES";

const VERSION: &str = "1";

/// The images of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobImages(pub Vec<JobImage>);

/// One image of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobImage {
    /// What it holds.
    pub format: ImageFormat,
    /// Where it is, the same on all nodes.
    pub path: PathBuf,
    /// Where it is mounted.
    pub mount_point: PathBuf,
}

/// Images of a job that are not written as they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobImagesError {
    /// Which of the texts between the commas it was, from 1.
    pub text: usize,
    /// What was expected there.
    pub expected: &'static str,
}

impl fmt::Display for JobImagesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "text {} should be {}", self.text, self.expected)
    }
}

impl std::error::Error for JobImagesError {}

impl fmt::Display for JobImages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VERSION)?;
        self.0.iter().try_for_each(|image| {
            let format = image.format.name();
            let (path, place) = (escaped(&image.path), escaped(&image.mount_point));
            write!(f, ",{format}:{path}:{place}")
        })
    }
}

impl JobImages {
    /// Reads what was written.
    ///
    /// # Errors
    ///
    /// The first text that is not what it should be.
    pub fn parse(text: &str) -> Result<Self, JobImagesError> {
        let mut texts = text.split(',');
        if texts.next() != Some(VERSION) {
            return Err(JobImagesError {
                text: 1,
                expected: "the version, 1",
            });
        }
        let images = texts.enumerate().map(|(position, text)| {
            let wrong = |expected| JobImagesError {
                text: position.saturating_add(2),
                expected,
            };
            if position >= Request::MAX_IMAGES {
                return Err(wrong("the end: these are too many images"));
            }
            let mut fields = text.split(':');
            let format = match fields.next() {
                Some("squashfs") => ImageFormat::Squashfs,
                Some("erofs") => ImageFormat::Erofs,
                _ => return Err(wrong("an image that is `squashfs` or `erofs`")),
            };
            let mut path = || {
                let path = fields.next().and_then(plain);
                path.filter(|path| path.is_absolute())
                    .ok_or_else(|| wrong("an image with two absolute paths"))
            };
            let image = JobImage {
                format,
                path: path()?,
                mount_point: path()?,
            };
            match fields.next() {
                None => Ok(image),
                Some(_) => Err(wrong("an image with two absolute paths")),
            }
        });
        images.collect::<Result<_, _>>().map(Self)
    }
}

fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'/'
            | b'.'
            | b'_'
            | b'-'
            | b'+'
            | b'@'
            | b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("%{byte:02x}")),
        }
    }
    text
}

fn plain(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let byte = match byte {
            b'%' => u8::try_from(digit()? * 16 + digit()?).ok()?,
            byte => byte,
        };
        if byte == 0 {
            return None;
        }
        bytes.push(byte);
    }
    Some(OsString::from_vec(bytes).into())
}

/// The owner of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobOwner {
    /// The user.
    pub user: u32,
    /// The primary group.
    pub group: u32,
    /// The supplementary groups.
    pub groups: Vec<u32>,
}

/// A mount namespace with the images of a step, which its tasks enter.
#[derive(Debug)]
pub struct JobMounts {
    /// The one with the images.
    namespace: File,
    /// The one from which it was made.
    home: File,
    places: Vec<PathBuf>,
}

impl JobMounts {
    /// Mounts the images of a step. The process must have the rights of root; it may have
    /// several threads.
    ///
    /// The images are opened with the rights of the owner, and mounted as the policy of the
    /// node allows. The calling thread stays in the mount namespace in which it is: Slurm may
    /// have put others there, as files, and a copy of it would not have those.
    ///
    /// # Errors
    ///
    /// What is missing or not allowed, and the first step that failed.
    pub fn make(images: &JobImages, owner: &JobOwner) -> Result<Self, Error> {
        let policy = Policy::read()?;
        let here = std::env::current_dir();
        namespace::unshare_directories().map_err(about_process("part with the directories of"))?;
        let home = namespace::own_mounts().map_err(LOOK)?;
        let made =
            mount(images, owner, &policy).and_then(|()| namespace::own_mounts().map_err(LOOK));
        namespace::enter_mounts(home.as_fd()).map_err(ENTER)?;
        if let Ok(here) = here {
            // Who needs a working directory names it.
            let _ = std::env::set_current_dir(here);
        }
        Ok(Self {
            namespace: made?,
            home,
            places: images
                .0
                .iter()
                .map(|image| image.mount_point.clone())
                .collect(),
        })
    }

    /// Takes the images into a task: a process with one thread, with the rights of root. Its
    /// working directory stays, if the owner can enter it.
    ///
    /// All tasks of a step on a node have one namespace, unless something has put the task
    /// into another one, as plugins of Slurm do that give a job its own `/tmp`: then it gets a
    /// copy of that with the images.
    ///
    /// # Errors
    ///
    /// The first step that failed.
    pub fn enter(&self, owner: &JobOwner) -> Result<(), Error> {
        let here = std::env::current_dir();
        let current = namespace::own_mounts().map_err(LOOK)?;
        namespace::enter_mounts(self.namespace.as_fd()).map_err(ENTER)?;
        if !is_same(&current, &self.home)? {
            let mounts = self.places.iter().map(|place| clone_of(place));
            let mounts = mounts.collect::<Result<Vec<_>, _>>()?;
            namespace::enter_mounts(current.as_fd()).map_err(ENTER)?;
            put_in_own_namespace(mounts, self.places.clone())?;
        }
        if let Ok(here) = here {
            let _rights = owner.rights()?;
            // What is mounted may lie over it; then it is the root.
            let _ = std::env::set_current_dir(here);
        }
        Ok(())
    }

    /// Lets go of the images of a step, whose tasks have ended, and gives up those that nobody
    /// has used for the idle time of the policy.
    ///
    /// # Errors
    ///
    /// Those of [`sweep`].
    pub fn leave(self) -> Result<(), Error> {
        drop(self);
        // Threads that were made since share those of this one.
        namespace::unshare_directories().map_err(about_process("part with the directories of"))?;
        sweep(Scope::Idle(Policy::read()?.idle)).map(drop)
    }
}

const LOOK: fn(std::io::Error) -> Error =
    |source| about_process("look at the mount namespace of")(source);
const ENTER: fn(std::io::Error) -> Error =
    |source| about_process("change the mount namespace of")(source);

fn about_process(what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Step {
        what,
        path: "the process".into(),
        source,
    }
}

fn is_same(one: &File, other: &File) -> Result<bool, Error> {
    let number = |file: &File| fstat(file).map(|found| (found.st_dev, found.st_ino));
    let failed = || Error::step("look at", "/proc/self/ns/mnt");
    Ok(number(one).map_err(failed())? == number(other).map_err(failed())?)
}

/// Makes a detached mount like the one at a place.
fn clone_of(place: &Path) -> Result<OwnedFd, Error> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(CWD, place, flags).map_err(Error::step("take the mount at", place))
}

impl JobOwner {
    /// Takes the rights to files, for the calling thread.
    fn rights(&self) -> Result<(privilege::FileSystemUser, privilege::FileSystemGroups), Error> {
        let failed = || about_process("take the rights of the owner of the job in");
        let groups = privilege::FileSystemGroups::become_group(self.group, &self.groups);
        let groups = groups.map_err(failed())?;
        let user = privilege::FileSystemUser::become_user(self.user).map_err(failed())?;
        // The user is given back first, who could not change groups.
        Ok((user, groups))
    }
}

fn mount(images: &JobImages, owner: &JobOwner, policy: &Policy) -> Result<(), Error> {
    let failed = || about_process("take the rights of the owner of the job in");
    // Also while the images are mounted: a file server may not trust root.
    let _groups =
        privilege::FileSystemGroups::become_group(owner.group, &owner.groups).map_err(failed())?;
    let mut opened = Vec::with_capacity(images.0.len());
    for image in &images.0 {
        let _user = privilege::FileSystemUser::become_user(owner.user).map_err(failed())?;
        opened.push(PrivilegedImage {
            image: open(image)?,
            mount_point: image.mount_point.clone(),
        });
    }
    let plan = PrivilegedPlan {
        namespace: None,
        images: opened,
    };
    perform_privileged(plan, policy, owner.user)
}

fn open(image: &JobImage) -> Result<ImageFile, Error> {
    // Nothing is waited for, and no descriptor of this process is found by way of `/proc`.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat2(
        CWD,
        &image.path,
        flags,
        Mode::empty(),
        ResolveFlags::NO_MAGICLINKS,
    );
    Ok(ImageFile {
        file: file.map_err(Error::step("open", &image.path))?.into(),
        path: image.path.clone(),
        format: image.format,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images() -> JobImages {
        JobImages(vec![
            JobImage {
                format: ImageFormat::Squashfs,
                path: "/repository/images/ab/image".into(),
                mount_point: "/user-environment".into(),
            },
            JobImage {
                format: ImageFormat::Erofs,
                path: "/my dir/50%,ü:".into(),
                mount_point: "/user-tools".into(),
            },
        ])
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        assert_eq!(JobImages::parse(&images().to_string()), Ok(images()));
    }

    #[test]
    fn the_text_is_one_word() {
        let text = images().to_string();
        assert_eq!(
            text,
            "1,squashfs:/repository/images/ab/image:/user-environment,\
             erofs:/my%20dir/50%25%2c%c3%bc%3a:/user-tools"
        );
    }

    #[test]
    fn what_is_malformed_is_named_by_its_place() {
        let problems = [
            "",
            "2",
            "1,ext4:/a:/b",
            "1,erofs:a:/b",
            "1,erofs:/a",
            "1,erofs:/a:/b:/c",
            "1,erofs:/a%0:/b",
            "1,erofs:/a%00:/b",
        ]
        .map(|text| JobImages::parse(text).map_err(|error| error.text));
        let expected = [1, 1, 2, 2, 2, 2, 2, 2].map(Err);
        assert_eq!(problems, expected);
    }
}
