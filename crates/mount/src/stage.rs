// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Copies of images on the node, in memory or on a disk of its own.
//!
//! A copy is a file without a name that root has made: no one finds it, no one can write to
//! it, and when its mount is gone, or its maker is killed, the kernel has removed it.
//! It is read through the descriptor that the user could open. Who may have it, and how long
//! it is kept, is the matter of the cache.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use cabane_privileged::{Copies, Error, ImageFile, LocalStage, Policy, trusted};
use rustix::fs::{
    CWD, MemfdFlags, Mode, OFlags, SealFlags, Stat, fchmod, fcntl_add_seals, fstat, memfd_create,
    openat,
};
use rustix::io::Errno;

/// How much is read before others can see that the copy gets on.
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

    /// Returns what makes copies there.
    ///
    /// # Errors
    ///
    /// [`Error::StageNotAllowed`] where the policy allows none.
    pub(crate) fn copies(self, policy: &Policy) -> Result<Box<dyn Copies>, Error> {
        let copies: Option<Box<dyn Copies>> = match self {
            Self::Memory => {
                policy.stage_memory.map(|limit| -> Box<dyn Copies> { Box::new(InMemory { limit }) })
            }
            Self::Local => policy
                .stage_local
                .clone()
                .map(|local| -> Box<dyn Copies> { Box::new(InDirectory(local)) }),
        };
        copies.ok_or(Error::StageNotAllowed { place: self.place() })
    }

    fn place(self) -> &'static str {
        match self {
            Self::Memory => "the memory of this node",
            Self::Local => "the directory of this node",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Copies in the memory of the node.
#[derive(Debug)]
struct InMemory {
    /// How many bytes all copies may have, together.
    limit: u64,
}

impl Copies for InMemory {
    fn name(&self) -> &'static str {
        Stage::Memory.name()
    }

    fn place(&self) -> &'static str {
        Stage::Memory.place()
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn copy(
        &self,
        image: &ImageFile,
        checked: &Stat,
        gets_on: &dyn Fn(),
    ) -> Result<ImageFile, Error> {
        let target = copy(in_memory()?, image, checked, gets_on)?;
        let all = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(&target, all).map_err(failed(&image.path))?;
        for_reading(&target, image)
    }
}

/// Copies in a directory that the site names.
#[derive(Debug)]
struct InDirectory(LocalStage);

impl Copies for InDirectory {
    fn name(&self) -> &'static str {
        Stage::Local.name()
    }

    fn place(&self) -> &'static str {
        Stage::Local.place()
    }

    fn limit(&self) -> u64 {
        self.0.limit
    }

    fn copy(
        &self,
        image: &ImageFile,
        checked: &Stat,
        gets_on: &dyn Fn(),
    ) -> Result<ImageFile, Error> {
        let target = copy(in_directory(&self.0.directory)?, image, checked, gets_on)?;
        for_reading(&target, image)
    }
}

/// Copies an image into an empty file.
fn copy(
    target: OwnedFd,
    image: &ImageFile,
    checked: &Stat,
    gets_on: &dyn Fn(),
) -> Result<File, Error> {
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
    Ok(target)
}

/// Copies so many bytes and none more; tells whether that is all there is.
fn fill(
    target: &mut File,
    image: &ImageFile,
    size: u64,
    gets_on: &dyn Fn(),
) -> Result<bool, Error> {
    let failed = |source| Error::Step { what: COPY, path: image.path.clone(), source };
    let mut buffer = vec![0_u8; PART];
    let mut position = 0_u64;
    loop {
        let rest = usize::try_from(size.saturating_sub(position)).unwrap_or(PART);
        // At the end one byte more is requested, to see that there is none.
        let part = buffer.get_mut(..rest.clamp(1, PART)).unwrap_or_default();
        // Not where others have left the descriptor.
        let count = match image.file.read_at(part, position) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            count => count.map_err(failed)?,
        };
        if count == 0 || rest == 0 {
            return Ok(count == 0 && rest == 0);
        }
        target.write_all(part.get(..count).unwrap_or_default()).map_err(failed)?;
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
    // No one shall run it; before Linux 6.3 the kernel does not know this option.
    let made = match memfd_create(c"cabane", flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create(c"cabane", flags),
        made => made,
    };
    let file = made.map_err(Error::step("make a file in", "the memory of the node"))?;
    fchmod(&file, Mode::RUSR | Mode::WUSR).map_err(Error::step("close to others", "the copy"))?;
    Ok(file)
}

fn in_directory(directory: &Path) -> Result<OwnedFd, Error> {
    let opened = trusted::open_directory(directory)?;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    openat(&opened, ".", flags, Mode::RUSR | Mode::WUSR)
        .map_err(Error::step("make a file without a name in", directory))
}

/// Opens the copy once more, so that not even the kernel holds it for writing.
fn for_reading(copy: &File, image: &ImageFile) -> Result<ImageFile, Error> {
    let place = format!("/proc/self/fd/{}", copy.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = openat(CWD, place, flags, Mode::empty()).map_err(failed(&image.path))?;
    Ok(ImageFile {
        file: file.into(),
        path: image.path.clone(),
        format: image.format,
        verity: None,
    })
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
