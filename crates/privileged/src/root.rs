// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A root image, put in place with the rights of root for a user who is not trusted.
//!
//! Inside, nearly everything is the user's choice, as it is in a user namespace of their own:
//! their processes can gain no rights, and no one else is there. What must not happen is that
//! root looks up, makes or opens something in a directory in which the user can change things
//! meanwhile. So places are looked up and made while nothing is there but the image, which
//! cannot change, and file systems in memory of our own; all of them are opened, and only
//! then is anything put there.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;

use crate::shadow::{Kind, Shadows, open_source, scratch};
use crate::{Error, Request, operations};

/// What is the kernel's, of which there is one for all: devices with the shared memory, the
/// processes, and the hardware. Ranks of a parallel program that saw others could not reach
/// each other.
pub const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// What of the host is seen in a root image, as its user wants it.
#[derive(Debug, Default)]
pub struct PrivilegedRoot {
    /// Files and directories.
    pub binds: Vec<PrivilegedBind>,
    /// Text files, and lines at their beginning.
    pub lines: Vec<(PathBuf, String)>,
}

/// A file or directory of the host, and where it is seen.
#[derive(Debug)]
pub struct PrivilegedBind {
    /// The place, opened with the rights of the user for nothing but being a place.
    pub source: OwnedFd,
    /// Whether it is a directory, as the user sees it.
    pub is_directory: bool,
    /// Where it is seen.
    pub target: PathBuf,
    /// Whether writing is refused there.
    pub read_only: bool,
}

impl PrivilegedRoot {
    /// Tells whether root can put all this in place, with images at these mount points.
    ///
    /// # Errors
    ///
    /// [`Error::RootRefused`] that names the place and the reason.
    pub fn check(&self, mount_points: &[PathBuf]) -> Result<(), Error> {
        let binds = self.binds.iter().map(|bind| bind.target.as_path());
        let files = self.lines.iter().map(|(file, _)| file.as_path());
        check_places(binds, files, mount_points)
    }

    /// Adds what the site shows, as far as the caller can see it and it is not in the way of what
    /// the user wants. To be called with the rights of the caller.
    pub(crate) fn add(&mut self, places: &[PathBuf], mount_points: &[PathBuf]) {
        for place in places {
            let Ok(bind) = open_place(place, place, false) else {
                continue;
            };
            self.binds.push(bind);
            if self.check(mount_points).is_err() {
                self.binds.pop();
            }
        }
    }
}

/// Tells whether root can put something at these places of a root image.
///
/// # Errors
///
/// [`Error::RootRefused`] that names the place and the reason.
pub fn check_places<'a>(
    binds: impl IntoIterator<Item = &'a Path>,
    files: impl IntoIterator<Item = &'a Path>,
    mount_points: &'a [PathBuf],
) -> Result<(), Error> {
    let root = Path::new("/");
    let roots = mount_points.iter().filter(|path| *path == root);
    if roots.count() > 1 {
        return Err(Error::RootRefused {
            path: root.to_owned(),
            reason: "two images are to be there",
        });
    }
    let images = mount_points.iter().map(PathBuf::as_path);
    let images = images.filter(|path| *path != root);
    let refused = |path: &Path, reason| Err(Error::RootRefused { path: path.to_owned(), reason });
    let binds: Vec<&Path> = binds.into_iter().collect();
    if let Some(path) = binds.get(Request::MAX_BINDS) {
        return refused(path, "it is one place too many, after 320 others");
    }
    let mut places: Vec<&Path> = binds.into_iter().chain(files).chain(images).collect();
    places.extend(KERNEL.map(Path::new));
    for place in &places {
        if !is_plain(place) {
            return refused(place, "it is not written out in full");
        }
    }
    // One beside its parent: nothing sorts between a path and what is below it.
    places.sort();
    for pair in places.windows(2) {
        if let [outer, inner] = pair
            && inner.starts_with(outer)
        {
            return refused(inner, "something else is to be seen there, or around it");
        }
    }
    Ok(())
}

fn is_plain(path: &Path) -> bool {
    let mut components = path.components();
    components.next() == Some(Component::RootDir)
        && components.clone().next().is_some()
        && components.all(|component| matches!(component, Component::Normal(_)))
}

/// A root image, and everything that is to be seen in it.
pub(crate) struct Assembly<'a> {
    image: OwnedFd,
    directories: Vec<(PathBuf, OwnedFd)>,
    root: &'a PrivilegedRoot,
}

/// A mount, and what is to be where it is attached.
struct Part<'a> {
    place: &'a Path,
    mount: BorrowedFd<'a>,
    kind: Kind,
}

impl<'a> Assembly<'a> {
    /// Gathers the parts, in the mount namespace in which they were opened. Afterwards the sources
    /// of the binds are clones of what is there.
    pub(crate) fn gather(
        image: OwnedFd,
        root: &'a mut PrivilegedRoot,
        images: Vec<(PathBuf, OwnedFd)>,
    ) -> Result<Self, Error> {
        let mut directories = images;
        for place in KERNEL.map(Path::new) {
            directories.push((place.to_owned(), open_source(place)?));
        }
        for bind in &mut root.binds {
            // Closing the place as root waits for nothing, because the clone keeps its file system.
            bind.source = clone(bind)?;
        }
        Ok(Self { image, directories, root })
    }

    fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let directories = self.directories.iter().map(|(place, mount)| Part {
            place,
            mount: mount.as_fd(),
            kind: Kind::Directory,
        });
        directories.chain(self.root.binds.iter().map(|bind| Part {
            place: &bind.target,
            mount: bind.source.as_fd(),
            kind: if bind.is_directory { Kind::Directory } else { Kind::File },
        }))
    }

    /// Puts the image in the place of the root, and the rest in it. The process must be in a
    /// mount namespace of its own.
    pub(crate) fn put_in_place(&self) -> Result<(), Error> {
        replace_root(&self.image)?;
        let mut shadows = Shadows::default();
        for part in self.parts() {
            shadows.ensure(part.place, part.kind)?;
        }
        for (file, lines) in &self.root.lines {
            shadows.extend(file, lines)?;
        }
        let places = self.parts().map(|part| open_in_root(part.place));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        for (part, place) in self.parts().zip(&places) {
            operations::attach_at(part.mount, place.as_fd()).map_err(|errno| {
                Error::MountPoint { path: part.place.to_owned(), source: errno.into() }
            })?;
        }
        shadows.seal()?;
        operations::make_slave()
    }
}

/// Makes the root of an image the root of this process, which must be in a mount namespace of
/// its own.
///
/// # Errors
///
/// The first step that failed.
pub fn replace_root(image: &OwnedFd) -> Result<(), Error> {
    let place = scratch()?;
    operations::attach(image, &place)?;
    operations::change_root(&place)
}

/// Clones what is at a place, with all that is mounted below it.
fn clone(bind: &PrivilegedBind) -> Result<OwnedFd, Error> {
    let tree = operations::clone_mount(bind.source.as_fd(), true)
        .map_err(Error::step("bind", &bind.target))?;
    if bind.read_only {
        operations::make_tree_read_only(tree.as_fd()).map_err(|source| Error::Step {
            what: "make read-only",
            path: bind.target.clone(),
            source,
        })?;
    }
    Ok(tree)
}

fn open_in_root(place: &Path) -> Result<OwnedFd, Error> {
    openat2(CWD, place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
        .map_err(|errno| Error::MountPoint { path: place.to_owned(), source: errno.into() })
}

/// Opens a place of the host, with the rights that the thread has to files. Nothing is waited
/// for but the file systems on the way, and no descriptor of this process is found by way of
/// `/proc`.
///
/// # Errors
///
/// Those of `openat2(2)`.
pub fn open_place(source: &Path, target: &Path, read_only: bool) -> Result<PrivilegedBind, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let place = openat2(CWD, source, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?;
    let kind = FileType::from_raw_mode(fstat(&place)?.st_mode);
    Ok(PrivilegedBind {
        source: place,
        is_directory: kind == FileType::Directory,
        target: target.to_owned(),
        read_only,
    })
}
