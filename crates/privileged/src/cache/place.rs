// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where the cache is, and the way there and back.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use cabane_sys::namespace;
use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, RenameFlags, chownat, flock, fstat, mkdirat,
    openat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::process::{Gid, fchdir};
use rustix::thread::{CpuSet, Timespec, nanosleep, sched_getaffinity, sched_setaffinity};

use super::entry::Noted;
use crate::image::BlockDevice;
use crate::operations;
use crate::{Error, trusted};

const RUN: &str = "run";
const STATE: &str = "cabane";
const STATE_PATH: &str = "/run/cabane";
/// What is kept in there (`mod.rs`).
const CACHE: &str = "cache";
const MOUNT: &str = "mount";
const NAMESPACE: &str = "namespace";
/// The file of the namespace that holds the images, in the mount namespace of the first process.
pub const CACHE_NAMESPACE: &str = "/run/cabane/cache/mount/namespace";
const FIRST_ROOT: &str = "/proc/1/root";
/// How many directories can be there in which a cache is made or taken apart: more than one user
/// can have processes, who may stop each of them.
const DRAFTS: u32 = 1 << 20;
/// How often a cache is made that others were faster with, or took away.
const ATTEMPTS: u32 = 8;

/// For how long another start of the same user that mounts an image is waited for. A mount on
/// a busy node was seen to take 0.3 s.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(3);
/// The same for what takes microseconds.
const SHORT_PATIENCE: Duration = Duration::from_millis(300);
/// The same where it may be another user's start: enough for one that gets on.
pub(super) const SHORTEST_PATIENCE: Duration = Duration::from_millis(10);

/// Where the process was before it went to the cache.
pub(super) struct Home {
    namespace: File,
    root: OwnedFd,
}

impl Home {
    pub(super) fn remember() -> Result<Self, Error> {
        let failed =
            |source| Error::Cache { what: "remember the mount namespace of the caller", source };
        Ok(Self {
            namespace: namespace::own_mounts().map_err(failed)?,
            root: openat(CWD, "/", directory(OFlags::PATH), Mode::empty())
                .map_err(Error::cache("remember the root of the caller"))?,
        })
    }

    /// Opens a loop device of the caller, if it is still bound as it was. It works in the cache,
    /// too, which has no `/dev`.
    ///
    /// # Errors
    ///
    /// Those of [`operations::find_loop_device`]: it may be in use or not.
    pub(super) fn find_device(&self, noted: &Noted) -> std::io::Result<Option<BlockDevice>> {
        let root = self.root.as_fd();
        if noted.tree.is_some() {
            let device = operations::find_verity_device(root, &noted.binding)?;
            return Ok(device.map(BlockDevice::Verity));
        }
        let device = operations::find_loop_device(root, noted.number, &noted.binding)?;
        Ok(device.map(BlockDevice::Loop))
    }

    /// Goes back. The root is restored, too: that of the namespace may be outside of
    /// the one the caller was confined to.
    fn come_back(&self) -> Result<(), Error> {
        operations::enter(self.namespace.as_fd()).map_err(|source| Error::Cache {
            what: "return to the mount namespace of the caller",
            source,
        })?;
        operations::restore_root(self.root.as_fd())
            .map_err(Error::cache("return to the root of the caller"))
    }
}

/// The mount namespace that holds the images.
pub(super) struct Cache {
    namespace: File,
}

impl Cache {
    /// Returns the cache if there is one.
    pub(super) fn find() -> Result<Option<Self>, Error> {
        match state_directory() {
            Ok(state) => pinned(&state),
            Err(Error::Cache { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the cache, which is made if there is none.
    pub(super) fn find_or_make(home: &Home) -> Result<Self, Error> {
        if let Some(cache) = Self::find()? {
            return Ok(cache);
        }
        make_state_directory()?;
        let state = state_directory()?;
        // Once since the start of the node someone may have to wait for another user here. It
        // spares work, no more: there is one cache also without the lock.
        lock(&state);
        for _ in 0..ATTEMPTS {
            if let Some(cache) = pinned(&state)? {
                return Ok(cache);
            }
            let made = make(&state);
            home.come_back()?;
            if let Some(cache) = made? {
                return Ok(cache);
            }
            pause();
        }
        Err(Error::cache("make the namespace that holds the images")(Errno::BUSY))
    }

    /// Does something in the cache, and comes back whatever became of it.
    pub(super) fn visit<T>(
        &self,
        home: &Home,
        act: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        operations::enter(self.namespace.as_fd()).map_err(|source| Error::Cache {
            what: "enter the namespace that holds the images",
            source,
        })?;
        let result = act();
        home.come_back()?;
        result
    }

    /// Lets the cache go if `is_empty` still says so. Only root asks for that.
    pub(super) fn dismiss(
        &self,
        home: &Home,
        is_empty: impl FnOnce() -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let state = state_directory()?;
        // Someone is making a cache or using this one: not the time.
        if flock(&state, FlockOperation::NonBlockingLockExclusive).is_err()
            || !self.visit(home, is_empty)?
        {
            return Ok(());
        }
        enter_first_namespace()?;
        let gone = remove(&state);
        home.come_back()?;
        gone.map_err(Error::cache("let go of the namespace that held the images"))
    }
}

/// Opens `/run/cabane` as the first process sees it, so that anyone who is in a mount
/// namespace of their own finds the same.
fn state_directory() -> Result<OwnedFd, Error> {
    let run = open_run()?;
    let failed = || Error::cache("open /run/cabane");
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
        Ok(()) => chownat(&run, STATE, None, Some(Gid::ROOT), AtFlags::SYMLINK_NOFOLLOW),
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    };
    made.map_err(Error::cache("make /run/cabane"))
}

fn open_run() -> Result<OwnedFd, Error> {
    let failed = || Error::cache("open /run");
    // Through the link of the kernel, not by its text.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, FIRST_ROOT, flags, Mode::empty());
    // Checked afterwards: no one comes back from a user namespace of their own.
    let root = match namespace::of_first_process().map_err(cache_failed)? {
        Some(_) => root,
        // There everyone is taken to be in one mount namespace.
        None => openat(CWD, "/", flags, Mode::empty()),
    }
    .map_err(failed())?;
    let run = openat(&root, RUN, directory(OFlags::PATH), Mode::empty()).map_err(failed())?;
    trusted::check_owner(run.as_fd(), Path::new("/run"))?;
    Ok(run)
}

/// Returns the cache; `None` if something else or nothing is in its place.
fn pinned(state: &OwnedFd) -> Result<Option<Cache>, Error> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let path = Path::new(CACHE).join(MOUNT).join(NAMESPACE);
    match openat(state, path, flags, Mode::empty()) {
        Ok(file) => {
            let namespace = File::from(file);
            let is_cache = namespace::is_mount_namespace(namespace.as_fd());
            Ok(is_cache.then_some(Cache { namespace }))
        }
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => Ok(None),
        // For example without a free descriptor: the cache may be there.
        Err(errno) => Err(Error::cache("open the namespace that holds the images")(errno)),
    }
}

/// Makes the cache, unless another process is faster. Ends up somewhere else; the caller goes home.
fn make(state: &OwnedFd) -> Result<Option<Cache>, Error> {
    let failed = |errno: Errno| Error::cache("make the namespace that holds the images")(errno);
    enter_first_namespace()?;
    clear(state);
    let draft = match Draft::make(state) {
        // Not locked yet, it was taken for one that someone left.
        Err(Errno::NOENT | Errno::WOULDBLOCK) => return Ok(None),
        draft => draft.map_err(failed)?,
    };
    let published = draft.fill().and_then(|cache| {
        let is_published = draft.publish()?;
        Ok(is_published.then_some(cache))
    });
    if !matches!(published, Ok(Some(_))) {
        draft.give_up();
    }
    published
}

/// Makes a namespace, goes back to the first, and mounts the file of the new one. The
/// inner error is that of the last step.
fn make_pinned(draft: &Draft<'_>, first: &File) -> Result<Result<Cache, Errno>, Error> {
    operations::make_namespace().map_err(cache_failed)?;
    let cache = namespace::own_mounts().map_err(cache_failed)?;
    empty_the_namespace().map_err(|errno| cache_failed(errno.into()))?;
    operations::change_root(Path::new(STATE_PATH))?;
    operations::enter(first.as_fd()).map_err(cache_failed)?;
    Ok(draft.pin(&cache).map(|()| Cache { namespace: cache }))
}

fn cache_failed(source: std::io::Error) -> Error {
    Error::Cache { what: "make the namespace that holds the images", source }
}

/// A start in a namespace of its own, for example that of a job, makes a cache
/// for the whole node.
fn enter_first_namespace() -> Result<(), Error> {
    let failed =
        |source| Error::Cache { what: "enter the mount namespace of the first process", source };
    match namespace::of_first_process().map_err(failed)? {
        Some(first) => operations::enter(first.as_fd()).map_err(failed),
        None => Ok(()),
    }
}

/// Puts an empty file system where the new root will be. With the old root goes
/// everything else: the cache must not keep the mounts of the node busy.
fn empty_the_namespace() -> Result<(), Errno> {
    operations::make_tree_private("/")?;
    let memory = operations::memory("0700", Some("1m"))?;
    operations::attach_in(memory.as_fd(), CWD, STATE_PATH)
}

/// A directory in which a cache is made. Its maker has it locked: one that no one has is what
/// someone left who was killed.
struct Draft<'a> {
    state: &'a OwnedFd,
    name: String,
    /// No one else follows this mount. Where mounts of the host appear in other namespaces, too,
    /// as in those of the services of systemd, the kernel would have to mount the file of the
    /// cache there as well, and does not do that with the file of a namespace (`EINVAL`).
    mount: OwnedFd,
    _locked: OwnedFd,
}

impl<'a> Draft<'a> {
    fn make(state: &'a OwnedFd) -> Result<Self, Errno> {
        for number in 0..DRAFTS {
            let name = number.to_string();
            match mkdirat(state, &name, Mode::RWXU) {
                Err(Errno::EXIST) => continue,
                made => made?,
            }
            let locked = openat(state, &name, directory(OFlags::RDONLY), Mode::empty())?;
            flock(&locked, FlockOperation::NonBlockingLockExclusive)?;
            mkdirat(&locked, MOUNT, Mode::RWXU)?;
            let place = openat(&locked, MOUNT, directory(OFlags::RDONLY), Mode::empty())?;
            let mount = operations::clone_mount(place.as_fd(), false)?;
            operations::attach_at(mount.as_fd(), place.as_fd())?;
            // Until then it is shared, as what is around it.
            fchdir(&mount)?;
            operations::make_unbindable(".")?;
            return Ok(Self { state, name, mount, _locked: locked });
        }
        Err(Errno::BUSY)
    }

    /// Makes the cache, and mounts its file.
    ///
    /// The kernel mounts the file of a namespace only in one with a lower number, lest a
    /// namespace holds itself. Since Linux 6.18 numbers grow on each processor by itself, so
    /// in a young namespace (that of a container) a younger one may have a lower number;
    /// made on the same processor as the first, it has a higher one.
    fn fill(&self) -> Result<Cache, Error> {
        let failed = |errno: Errno| Error::cache("make the namespace that holds the images")(errno);
        let first = namespace::own_mounts().map_err(cache_failed)?;
        let mut made = make_pinned(self, &first)?;
        if matches!(made, Err(Errno::LOOP)) {
            let allowed = sched_getaffinity(None).map_err(failed)?;
            for processor in (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number)) {
                let mut only = CpuSet::new();
                only.set(processor);
                sched_setaffinity(None, &only).map_err(failed)?;
                made = make_pinned(self, &first)?;
                if !matches!(made, Err(Errno::LOOP)) {
                    break;
                }
            }
            sched_setaffinity(None, &allowed).map_err(failed)?;
        }
        made.map_err(failed)
    }

    /// Mounts the file of the cache.
    fn pin(&self, cache: &File) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.mount, NAMESPACE, flags, Mode::RUSR)?;
        let file = operations::clone_mount(cache.as_fd(), false)?;
        operations::attach_in(file.as_fd(), self.mount.as_fd(), NAMESPACE)
    }

    /// Makes this the cache of the node, in one step; tells whether it is.
    fn publish(&self) -> Result<bool, Error> {
        let failed = |errno: Errno| Error::cache("make the namespace that holds the images")(errno);
        let flags = RenameFlags::NOREPLACE;
        match renameat_with(self.state, &self.name, self.state, CACHE, flags) {
            Ok(()) => Ok(true),
            // What is there is no cache, as when someone has unmounted it by hand.
            Err(Errno::EXIST) => {
                if pinned(self.state)?.is_none() {
                    remove(self.state).map_err(failed)?;
                }
                Ok(false)
            }
            Err(errno) => Err(failed(errno)),
        }
    }

    fn give_up(self) {
        take_apart(self.state, &self.name);
    }
}

/// Takes the cache away: in one step, and then apart. With its file the namespace goes, as soon
/// as no one is in it.
fn remove(state: &OwnedFd) -> Result<(), Errno> {
    for number in 0..DRAFTS {
        let name = number.to_string();
        match renameat_with(state, CACHE, state, &name, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno),
            Ok(()) => {
                take_apart(state, &name);
                return Ok(());
            }
        }
    }
    Err(Errno::BUSY)
}

/// Takes apart what others left who were killed while they made or removed a cache.
fn clear(state: &OwnedFd) {
    let Ok(names) = Dir::read_from(state) else {
        return;
    };
    for entry in names.filter_map(Result::ok) {
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        let is_draft = name.parse().is_ok_and(|number: u32| number < DRAFTS);
        let Ok(left) = openat(state, name, directory(OFlags::RDONLY), Mode::empty()) else {
            continue;
        };
        // Locked until it is gone: the next maker of that number must not find a part of it.
        if is_draft
            && flock(&left, FlockOperation::NonBlockingLockExclusive).is_ok()
            && is_named(&left, state, name)
        {
            take_apart(state, name);
        }
    }
}

/// Returns whether a directory still has its name.
pub(super) fn is_named(directory: impl AsFd, parent: impl AsFd, name: impl Arg) -> bool {
    let (Ok(opened), Ok(named)) =
        (fstat(directory), statat(parent, name, AtFlags::SYMLINK_NOFOLLOW))
    else {
        return false;
    };
    (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)
}

/// Removes as much of a draft as is there: who made or removed it may have been killed at any
/// instant, and something else may have been in place of the cache.
fn take_apart(state: &OwnedFd, name: &str) {
    let mount = Path::new(name).join(MOUNT);
    let _ = operations::detach(state.as_fd(), &mount);
    let _ = unlinkat(state, mount.join(NAMESPACE), AtFlags::empty());
    let _ = unlinkat(state, &mount, AtFlags::REMOVEDIR);
    if unlinkat(state, name, AtFlags::REMOVEDIR) == Err(Errno::NOTDIR) {
        let _ = unlinkat(state, name, AtFlags::empty());
    }
}

/// Takes the lock of `/run/cabane`, if it comes free before long; goes on without it otherwise.
pub(super) fn lock(directory: &OwnedFd) {
    lock_within(directory, SHORT_PATIENCE);
}

/// Takes the lock of a directory within a time; tells whether it was had.
pub(super) fn lock_within(directory: &OwnedFd, time_limit: Duration) -> bool {
    let begin = Instant::now();
    loop {
        // Looked at before the last attempt: time goes on while a process is stopped.
        let is_over = begin.elapsed() >= time_limit;
        match flock(directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK | Errno::INTR) if !is_over => pause(),
            result => return result.is_ok(),
        }
    }
}

/// Waits for a millisecond.
pub(super) fn pause() {
    let millisecond = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    // Woken early it looks again a little sooner.
    let _ = nanosleep(&millisecond);
}

fn directory(access: OFlags) -> OFlags {
    access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}
