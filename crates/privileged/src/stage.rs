// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Copies of images on the node, in memory or on a disk of its own.
//!
//! A copy is a file without a name that root has made: nobody finds it, nobody can write to
//! it, and when its mount is gone, or whoever makes it is killed, the kernel has removed it.
//! It is read through the descriptor that the user could open. Who may have it, and how long
//! it is kept, is the matter of the cache.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    CWD, MemfdFlags, Mode, OFlags, SealFlags, Stat, fchmod, fcntl_add_seals, fstat, memfd_create,
    openat,
};
use rustix::io::Errno;

use crate::{Error, ImageFile, Policy, trusted};

/// How much is read before others are told that the copy gets on.
const PART: usize = 4 << 20;

/// Where the copies are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In the memory of the node.
    Memory,
    /// In a directory of the node that the site names.
    Local,
}

impl Stage {
    /// Understands a name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "memory" => Some(Self::Memory),
            "local" => Some(Self::Local),
            _ => None,
        }
    }

    /// Returns the name, as it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Local => "local",
        }
    }

    /// Returns how many bytes all copies may have, together.
    ///
    /// # Errors
    ///
    /// [`Error::StageNotAllowed`] where the policy allows none.
    pub(crate) fn limit(self, policy: &Policy) -> Result<u64, Error> {
        let limit = match self {
            Self::Memory => policy.stage_memory,
            Self::Local => policy.stage_local.as_ref().map(|local| local.limit),
        };
        limit.ok_or(Error::StageNotAllowed { stage: self })
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The directory of the node for copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalStage {
    /// Where it is. Only root may be able to write to it, and to what is above it.
    pub directory: PathBuf,
    /// How many bytes all copies may have, together.
    pub limit: u64,
}

/// Copies an image that looked like this when it was checked and room was found for it.
/// `gets_on` is called again and again meanwhile.
pub(crate) fn copy(
    image: &ImageFile,
    checked: &Stat,
    stage: Stage,
    policy: &Policy,
    gets_on: impl Fn(),
) -> Result<ImageFile, Error> {
    let target = match stage {
        Stage::Memory => in_memory()?,
        Stage::Local => in_directory(policy)?,
    };
    let mut target = File::from(target);
    let size = u64::try_from(checked.st_size).unwrap_or_default();
    let is_whole = fill(&mut target, image, size, gets_on)?;
    let after = fstat(&image.file).map_err(Error::step("look at", &image.path))?;
    if !is_whole || !is_same_content(checked, &after) {
        return Err(Error::Refused {
            image: image.path.clone(),
            reason: "it was changed while it was copied".into(),
        });
    }
    if stage == Stage::Memory {
        let all = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(&target, all).map_err(failed(&image.path))?;
    }
    Ok(ImageFile {
        file: for_reading(&target, &image.path)?,
        path: image.path.clone(),
        format: image.format,
    })
}

/// Copies so many bytes and none more; tells whether that is all there is.
fn fill(
    target: &mut File,
    image: &ImageFile,
    size: u64,
    gets_on: impl Fn(),
) -> Result<bool, Error> {
    let failed = |source| Error::Step {
        what: COPY,
        path: image.path.clone(),
        source,
    };
    let mut buffer = vec![0_u8; PART];
    let mut position = 0_u64;
    loop {
        let rest = usize::try_from(size.saturating_sub(position)).unwrap_or(PART);
        // At the end one byte more is asked for, to see that there is none.
        let part = buffer.get_mut(..rest.clamp(1, PART)).unwrap_or_default();
        // Not where others have left the descriptor.
        let count = match image.file.read_at(part, position) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            count => count.map_err(failed)?,
        };
        if count == 0 || rest == 0 {
            return Ok(count == 0 && rest == 0);
        }
        target
            .write_all(part.get(..count).unwrap_or_default())
            .map_err(failed)?;
        position = position.saturating_add(u64::try_from(count).unwrap_or_default());
        gets_on();
    }
}

const COPY: &str = "make a copy on this node of";

fn failed(path: &Path) -> impl FnOnce(Errno) -> Error {
    Error::step(COPY, path)
}

fn in_memory() -> Result<OwnedFd, Error> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Nobody shall run it; before Linux 6.3 the kernel does not know the word.
    let made = match memfd_create(c"cabane", flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create(c"cabane", flags),
        made => made,
    };
    let file = made.map_err(Error::step("make a file in", "the memory of the node"))?;
    fchmod(&file, Mode::RUSR | Mode::WUSR).map_err(Error::step("close to others", "the copy"))?;
    Ok(file)
}

fn in_directory(policy: &Policy) -> Result<OwnedFd, Error> {
    let local = policy.stage_local.as_ref();
    let local = local.ok_or(Error::StageNotAllowed {
        stage: Stage::Local,
    })?;
    let directory = trusted::open_directory(&local.directory)?;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    openat(&directory, ".", flags, Mode::RUSR | Mode::WUSR).map_err(Error::step(
        "make a file without a name in",
        &local.directory,
    ))
}

/// Opens the copy once more, so that not even the kernel holds it for writing.
fn for_reading(copy: &File, path: &Path) -> Result<File, Error> {
    let place = format!("/proc/self/fd/{}", copy.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = openat(CWD, place, flags, Mode::empty()).map_err(failed(path))?;
    Ok(file.into())
}

fn is_same_content(one: &Stat, other: &Stat) -> bool {
    let times = |found: &Stat| {
        (
            found.st_size,
            (found.st_mtime, found.st_mtime_nsec),
            (found.st_ctime, found.st_ctime_nsec),
        )
    };
    times(one) == times(other)
}
