// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where the holder is, and the way there and back.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use cabane_sys::namespace;
use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, chownat, flock, mkdirat, openat, unlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
    mount_change, move_mount, open_tree, unmount,
};
use rustix::process::{Gid, chroot, fchdir};
use rustix::thread::{CpuSet, Timespec, nanosleep, sched_getaffinity, sched_setaffinity};

use crate::shadow::change_root;
use crate::{Error, trusted};

const RUN: &str = "run";
const STATE: &str = "cabane";
const STATE_PATH: &str = "/run/cabane";
const PIN: &str = "images";
const FIRST_ROOT: &str = "/proc/1/root";
const FIRST_NAMESPACE: &str = "/proc/1/ns/mnt";

/// For how long somebody else who mounts an image is waited for, in steps of a
/// millisecond. A mount on a busy node was seen to take 0.3 s.
pub(super) const PATIENCE: u32 = 3000;
/// The same for what takes microseconds.
const SHORT_PATIENCE: u32 = 300;

/// Where the process was before it went to the holder.
pub(super) struct Home {
    namespace: File,
    root: OwnedFd,
}

impl Home {
    pub(super) fn remember() -> Result<Self, Error> {
        let failed = |source| Error::Holder {
            what: "remember the mount namespace of the caller",
            source,
        };
        Ok(Self {
            namespace: namespace::own_mounts().map_err(failed)?,
            root: openat(CWD, "/", directory(OFlags::PATH), Mode::empty())
                .map_err(Error::holder("remember the root of the caller"))?,
        })
    }

    /// Goes back. The root is restored, too: that of the namespace may be outside of
    /// the one the caller was confined to.
    fn come_back(&self) -> Result<(), Error> {
        namespace::enter_mounts(self.namespace.as_fd()).map_err(|source| Error::Holder {
            what: "return to the mount namespace of the caller",
            source,
        })?;
        let failed = || Error::holder("return to the root of the caller");
        fchdir(&self.root).map_err(failed())?;
        chroot(".").map_err(failed())
    }
}

/// The mount namespace that holds the images.
pub(super) struct Holder {
    namespace: File,
}

impl Holder {
    /// Returns the holder if there is one.
    pub(super) fn find() -> Result<Option<Self>, Error> {
        match state_directory() {
            Ok(state) => Ok(pinned(&state)),
            Err(Error::Holder { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the holder, which is made if there is none.
    pub(super) fn find_or_make(home: &Home) -> Result<Self, Error> {
        if let Some(holder) = Self::find()? {
            return Ok(holder);
        }
        make_state_directory()?;
        let state = state_directory()?;
        lock(&state);
        if let Some(holder) = pinned(&state) {
            return Ok(holder);
        }
        let made = make(&state);
        home.come_back()?;
        made
    }

    /// Does something in the holder, and comes back whatever became of it.
    pub(super) fn visit<T>(
        &self,
        home: &Home,
        act: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        namespace::enter_mounts(self.namespace.as_fd()).map_err(|source| Error::Holder {
            what: "enter the namespace that holds the images",
            source,
        })?;
        let result = act();
        home.come_back()?;
        result
    }

    /// Lets the holder go if `is_empty` still says so.
    pub(super) fn dismiss(
        &self,
        home: &Home,
        is_empty: impl FnOnce() -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let state = state_directory()?;
        // Somebody is making a holder or using this one: not the time.
        if flock(&state, FlockOperation::NonBlockingLockExclusive).is_err()
            || !self.visit(home, is_empty)?
        {
            return Ok(());
        }
        enter_first_namespace()?;
        let gone = fchdir(&state)
            .and_then(|()| unmount(PIN, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW))
            .and_then(|()| unlinkat(&state, PIN, AtFlags::empty()));
        home.come_back()?;
        gone.map_err(Error::holder(
            "let go of the namespace that held the images",
        ))
    }
}

/// Opens `/run/cabane` as the first process sees it, so that whoever is in a mount
/// namespace of his own finds the same.
fn state_directory() -> Result<OwnedFd, Error> {
    let run = open_run()?;
    let failed = || Error::holder("open /run/cabane");
    let state = openat(&run, STATE, directory(OFlags::RDONLY), Mode::empty()).map_err(failed())?;
    let found = trusted::check_owner(state.as_fd(), Path::new(STATE_PATH))?;
    if found.st_mode & 0o077 != 0 {
        return Err(Error::Untrusted {
            path: STATE_PATH.into(),
            reason: "is open to others than root",
        });
    }
    Ok(state)
}

fn make_state_directory() -> Result<(), Error> {
    let run = open_run()?;
    let made = match mkdirat(&run, STATE, Mode::RWXU) {
        // The group is that of the caller.
        Ok(()) => chownat(
            &run,
            STATE,
            None,
            Some(Gid::ROOT),
            AtFlags::SYMLINK_NOFOLLOW,
        ),
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    };
    made.map_err(Error::holder("make /run/cabane"))
}

fn open_run() -> Result<OwnedFd, Error> {
    let failed = || Error::holder("open /run");
    // Through the link of the kernel, not by its text.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = match openat(CWD, FIRST_ROOT, flags, Mode::empty()) {
        Err(errno) if is_closed(errno) => openat(CWD, "/", flags, Mode::empty()),
        root => root,
    }
    .map_err(failed())?;
    let run = openat(&root, RUN, directory(OFlags::PATH), Mode::empty()).map_err(failed())?;
    trusted::check_owner(run.as_fd(), Path::new("/run"))?;
    Ok(run)
}

/// Some containers keep their root from looking into the first process, which belongs
/// to the host. There everybody is taken to be in one mount namespace.
fn is_closed(errno: Errno) -> bool {
    matches!(errno, Errno::ACCESS | Errno::PERM)
}

fn pinned(state: &OwnedFd) -> Option<Holder> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(state, PIN, flags, Mode::empty()).ok()?);
    namespace::is_mount_namespace(file.as_fd()).then_some(Holder { namespace: file })
}

/// Makes the holder and mounts its namespace file. Ends up somewhere else; the caller
/// goes home.
///
/// The kernel mounts the file of a namespace only in one with a lower number, lest a
/// namespace holds itself. Since Linux 6.18 numbers grow on each processor by itself, so
/// in a young namespace (that of a container) a younger one may have a lower number;
/// made on the same processor as the first, it has a higher one.
fn make(state: &OwnedFd) -> Result<Holder, Error> {
    let failed = |errno: Errno| Error::holder("make the namespace that holds the images")(errno);
    enter_first_namespace()?;
    let first = namespace::own_mounts().map_err(holder_failed)?;
    match make_pinned(state, &first)? {
        Err(Errno::LOOP) => {}
        made => return made.map_err(failed),
    }
    let allowed = sched_getaffinity(None).map_err(failed)?;
    let mut made = Err(Errno::LOOP);
    for processor in (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number)) {
        let mut only = CpuSet::new();
        only.set(processor);
        sched_setaffinity(None, &only).map_err(failed)?;
        made = make_pinned(state, &first)?;
        if !matches!(made, Err(Errno::LOOP)) {
            break;
        }
    }
    sched_setaffinity(None, &allowed).map_err(failed)?;
    made.map_err(failed)
}

/// Makes a namespace, goes back to the first, and mounts the file of the new one. The
/// inner error is that of the last step.
fn make_pinned(state: &OwnedFd, first: &File) -> Result<Result<Holder, Errno>, Error> {
    namespace::unshare_mounts().map_err(holder_failed)?;
    let holder = namespace::own_mounts().map_err(holder_failed)?;
    empty_the_namespace().map_err(|errno| holder_failed(errno.into()))?;
    change_root(Path::new(STATE_PATH))?;
    namespace::enter_mounts(first.as_fd()).map_err(holder_failed)?;
    Ok(pin(state, &holder).map(|()| Holder { namespace: holder }))
}

fn holder_failed(source: std::io::Error) -> Error {
    Error::Holder {
        what: "make the namespace that holds the images",
        source,
    }
}

/// Whoever is in a namespace of his own, for example that of a job, makes a holder
/// for the whole node.
fn enter_first_namespace() -> Result<(), Error> {
    let failed = || Error::holder("enter the mount namespace of the first process");
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let first = match openat(CWD, FIRST_NAMESPACE, flags, Mode::empty()) {
        Err(errno) if is_closed(errno) => return Ok(()),
        first => first.map_err(failed())?,
    };
    namespace::enter_mounts(first.as_fd()).map_err(|source| Error::Holder {
        what: "enter the mount namespace of the first process",
        source,
    })
}

/// Puts an empty file system where the new root will be. With the old root goes
/// everything else: the holder must not keep the mounts of the node busy.
fn empty_the_namespace() -> Result<(), Errno> {
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "source", "cabane")?;
    fsconfig_set_string(context.as_fd(), "mode", "0700")?;
    fsconfig_set_string(context.as_fd(), "size", "1m")?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let memory = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let whole = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&memory, "", CWD, STATE_PATH, whole)
}

/// Mounts the file of the holder. Where mounts of the host appear in other namespaces, too, as
/// in those of the services of systemd, the kernel would have to mount it there, and does not do
/// that with the file of a namespace: `EINVAL`. Then the directory is given a mount of its own
/// first, which nobody follows.
fn pin(state: &OwnedFd, holder: &File) -> Result<(), Errno> {
    match attach_pin(state, holder) {
        Err(Errno::INVAL) => attach_pin(&seclude(state)?, holder),
        done => done,
    }
}

/// Puts a mount of a directory over it that no other namespace follows. It stays.
fn seclude(directory: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let mount = open_tree(directory, "", flags)?;
    let onto = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&mount, "", directory, "", onto)?;
    // Until this is said it is shared, as what is around it.
    fchdir(&mount)?;
    mount_change(".", MountPropagationFlags::PRIVATE)?;
    Ok(mount)
}

fn attach_pin(state: &OwnedFd, holder: &File) -> Result<(), Errno> {
    // Whatever lies there: nothing may be waited for.
    let wait = OFlags::NONBLOCK;
    let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | wait;
    openat(state, PIN, flags, Mode::RUSR)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let file = open_tree(holder, "", flags)?;
    let whole = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&file, "", state, PIN, whole)
}

/// Takes the lock of a directory, if it comes free before long; goes on without it
/// otherwise.
pub(super) fn lock(directory: &OwnedFd) {
    for _ in 0..SHORT_PATIENCE {
        match flock(directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK | Errno::INTR) => pause(),
            _ => return,
        }
    }
}

/// Waits for a millisecond.
pub(super) fn pause() {
    let millisecond = Timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    // Woken early it looks again a little sooner.
    let _ = nanosleep(&millisecond);
}

fn directory(access: OFlags) -> OFlags {
    access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}
