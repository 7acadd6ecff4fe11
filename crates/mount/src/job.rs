// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Mounting images for a step of a job, on a node.
//!
//! Which ones these are says the list in [`JobImages`](crate::JobImages), after a build was
//! chosen of each.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cabane_privileged::operations::{attach, clone_at, enter_own_namespace};
use cabane_privileged::shadow::open_source;
use cabane_privileged::{
    Caller, Copies, Error, Policy, PrivilegedPlan, Scope, Verity, Way, perform_privileged,
    put_in_own_namespace, release,
};
use cabane_process::alone::move_into_groups_of;
use cabane_process::as_user::User;
use cabane_process::open_as::{Opened, open_as, open_cached};
use cabane_sys::{namespace, privilege};
use rustix::fs::{CWD, fstat};
use rustix::io::Errno;

use crate::job_fuse::{Chosen, Mounting, look_at_served};
use crate::{JobImage, JobRoot, Stage};

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
    /// For each image, who reads it.
    ways: Vec<Way>,
    /// The FUSE programs.
    servers: Vec<u32>,
    /// The locks of unpacked images. No process may have the namespace, so that no one else sees that they
    /// are in use.
    _held: Vec<OwnedFd>,
    times: MountTimes,
}

/// How long it took to make the images of a step available on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountTimes {
    /// Until their files were open: what the file system took that has them.
    pub open: Duration,
    /// From then until they were mounted, copies included.
    pub mount: Duration,
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
    pub fn make(
        images: &[JobImage],
        root: &JobRoot,
        owner: &JobOwner,
        stage: Option<Stage>,
    ) -> Result<Self, Error> {
        let policy = Policy::read()?;
        let copies = stage.map(|stage| stage.copies(&policy)).transpose()?;
        let here = std::env::current_dir();
        namespace::unshare_directories().map_err(about_process("part with the directories of"))?;
        let home = namespace::own_mounts().map_err(LOOK)?;
        let begin = Instant::now();
        let made = mount(images, root, owner, copies, &policy)
            .and_then(|mounted| Ok((namespace::own_mounts().map_err(LOOK)?, mounted)));
        let whole = begin.elapsed();
        namespace::enter_mounts(home.as_fd()).map_err(ENTER)?;
        if let Ok(here) = here {
            // Who needs a working directory names it.
            let _ = std::env::set_current_dir(here);
        }
        let (namespace, Mounted { ways, servers, held, open }) = made?;
        Ok(Self {
            namespace,
            home,
            ways,
            servers,
            _held: held,
            times: MountTimes { open, mount: whole.saturating_sub(open) },
            places: images.iter().map(|image| image.mount_point.clone()).collect(),
        })
    }

    /// Returns the mount namespace, for a process that looks at what is in the images.
    #[must_use]
    pub fn namespace(&self) -> &File {
        &self.namespace
    }

    /// Returns for each image who reads it.
    pub fn ways(&self) -> impl Iterator<Item = Way> {
        self.ways.iter().copied()
    }

    /// Returns how long it took.
    #[must_use]
    pub const fn times(&self) -> MountTimes {
        self.times
    }

    /// Makes Slurm end the FUSE programs with a task, once it counts that among those of the step.
    pub fn end_servers_with(&self, task: u32) {
        for server in &self.servers {
            move_into_groups_of(*server, task, JOB_GROUP);
        }
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
        if is_same(&current, &self.home)? {
            namespace::enter_mounts(self.namespace.as_fd()).map_err(ENTER)?;
        } else if self.has_root() {
            self.enter_root()?;
        } else {
            self.take_along(&current, owner)?;
        }
        if let Ok(here) = here {
            let _rights = owner.rights()?;
            // What is mounted may lie over it; then it is the root.
            let _ = std::env::set_current_dir(here);
        }
        Ok(())
    }

    fn has_root(&self) -> bool {
        self.places.iter().any(|place| place == Path::new("/"))
    }

    /// Enters a copy of the namespace, in which the places that a job has for itself are those
    /// of the namespace in which the task is. What one of the two has not, no one sees.
    fn enter_root(&self) -> Result<(), Error> {
        let own = OF_JOB.map(Path::new).into_iter().filter(|place| place.is_dir());
        let own = own.map(|place| open_source(place).map(|mount| (place, mount)));
        let own = own.collect::<Result<Vec<_>, _>>()?;
        namespace::enter_mounts(self.namespace.as_fd()).map_err(ENTER)?;
        enter_own_namespace()?;
        for (place, mount) in own.iter().filter(|(place, _)| place.is_dir()) {
            attach(mount, place)?;
        }
        Ok(())
    }

    /// Enters a copy of the namespace in which the task is, with the images.
    fn take_along(&self, current: &File, owner: &JobOwner) -> Result<(), Error> {
        namespace::enter_mounts(self.namespace.as_fd()).map_err(ENTER)?;
        let mounts = self.places.iter().map(|place| clone_of(place));
        let mounts = mounts.collect::<Result<Vec<_>, _>>()?;
        namespace::enter_mounts(current.as_fd()).map_err(ENTER)?;
        put_in_own_namespace(mounts, self.places.clone(), &Caller::of_thread(owner.user))
    }

    /// Lets go of the images of a step, whose tasks have ended, and gives up those that no one
    /// has used for the idle time of the policy.
    ///
    /// # Errors
    ///
    /// Those of [`release`].
    pub fn leave(self) -> Result<(), Error> {
        drop(self);
        // Threads that were made since share those of this one.
        namespace::unshare_directories().map_err(about_process("part with the directories of"))?;
        release(Scope::Idle(&Policy::read()?), 0).map(drop)
    }
}

/// Finds where a root image can be mounted to be looked into: a mount point of the policy that
/// the other images of a step leave free, or else any.
///
/// # Errors
///
/// Those of reading the policy, and that it has no mount point.
pub fn place_to_look(images: &[JobImage]) -> Result<PathBuf, Error> {
    let places = Policy::read()?.mount_points;
    let is_free = |place: &&PathBuf| images.iter().all(|image| image.mount_point != **place);
    let free = places.iter().find(is_free).or(places.first());
    free.cloned().ok_or_else(|| Error::MountPointNotAllowed { path: "/".into() })
}

/// For how long the file systems of a job may take to open its images: as long as a file server
/// may be away.
const OPENING: Duration = Duration::from_secs(120);

/// What all control groups of jobs have in their path.
const JOB_GROUP: &str = "/job_";

/// What plugins of Slurm give a job for itself.
const OF_JOB: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

const LOOK: fn(std::io::Error) -> Error =
    |source| about_process("look at the mount namespace of")(source);
const ENTER: fn(std::io::Error) -> Error =
    |source| about_process("change the mount namespace of")(source);

fn about_process(what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Step { what, path: "the process".into(), source }
}

fn is_same(one: &File, other: &File) -> Result<bool, Error> {
    let number = |file: &File| fstat(file).map(|found| (found.st_dev, found.st_ino));
    let failed = || Error::step("look at", "/proc/self/ns/mnt");
    Ok(number(one).map_err(failed())? == number(other).map_err(failed())?)
}

/// Makes a detached mount like the one at a place.
fn clone_of(place: &Path) -> Result<OwnedFd, Error> {
    clone_at(CWD.as_fd(), place, false).map_err(Error::step("take the mount at", place))
}

impl JobOwner {
    fn user(&self) -> User {
        User { user: self.user, group: self.group, groups: self.groups.clone() }
    }

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

/// Images that are mounted.
struct Mounted {
    /// For each, who reads it.
    ways: Vec<Way>,
    /// The FUSE programs.
    servers: Vec<u32>,
    /// The locks of unpacked images.
    held: Vec<OwnedFd>,
    /// How long it took to open the files.
    open: Duration,
}

/// Mounts the images.
fn mount(
    images: &[JobImage],
    root: &JobRoot,
    owner: &JobOwner,
    copies: Option<Box<dyn Copies>>,
    policy: &Policy,
) -> Result<Mounted, Error> {
    let failed = || about_process("take the rights of the owner of the job in");
    let user = owner.user();
    let begin = Instant::now();
    let (files, places) = open(images, root, owner)?;
    let mut files = files.into_iter();
    let opening = begin.elapsed();
    // Also while the images are mounted: a file server may not trust root.
    let groups = privilege::FileSystemGroups::become_group(owner.group, &owner.groups);
    let groups = groups.map_err(failed())?;
    let caller = Caller::of_thread(owner.user);
    let mounting =
        Mounting { policy, user: &user, caller: &caller, images, has_copies: copies.is_some() };
    let chosen = images.iter().map(|image| {
        let place = files.next().unwrap_or(Err(Errno::NOENT));
        let place = place.map_err(Error::step("open", &image.path))?;
        let mut beside = || files.next()?.ok();
        let beside = image.root_hash.as_ref().map(|_| [beside(), beside()]);
        mounting.choose(image, place, beside.unwrap_or_default())
    });
    let chosen = chosen.collect::<Result<Vec<_>, _>>()?;
    let (mut mounted, mut ways) = (Vec::new(), Vec::new());
    let (mut servers, mut held) = (Vec::new(), Vec::new());
    for Chosen { image, way, server, held: lock } in chosen {
        mounted.push(image);
        ways.push(way);
        servers.extend(server);
        held.extend(lock);
    }
    let plan =
        PrivilegedPlan { namespace: None, images: mounted, root: root.with(places)?, copies };
    perform_privileged(plan, policy, &caller)?;
    drop(groups);
    let mut served = images.iter().zip(&ways).filter(|(_, way)| **way == Way::Fuse);
    served.try_for_each(|(image, _)| look_at_served(image, &user))?;
    let servers = servers.iter().filter_map(|server| server.get().copied()).collect();
    Ok(Mounted { ways, servers, held, open: opening })
}

/// The files of images, each with what its content can be checked with behind it.
type ImageFiles = Vec<Result<OwnedFd, Errno>>;
/// The places that are seen in a root image, if there is one.
type Places = Vec<Result<Opened, Errno>>;

/// Opens the images and the places of a root image, as the owner.
fn open(
    images: &[JobImage],
    root: &JobRoot,
    owner: &JobOwner,
) -> Result<(ImageFiles, Places), Error> {
    let files = images.iter().flat_map(|image| {
        let beside = image.root_hash.as_ref().map(|_| Verity::beside(&image.path));
        std::iter::once(image.path.clone()).chain(beside.into_iter().flatten())
    });
    let mut named: Vec<PathBuf> = files.collect();
    let count = named.len();
    if images.iter().any(|image| image.mount_point == Path::new("/")) {
        named.extend(root.named());
    }
    // Most steps find the paths of the step before, and need no other process to be safe from a
    // file system that does not answer.
    if named.len() == count {
        let rights = owner.rights()?;
        let files = open_cached(&named);
        drop(rights);
        if let Some(files) = files {
            return Ok((files, Vec::new()));
        }
    }
    let mut opened = open_as(&owner.user(), &named, OPENING).map_err(|source| Error::Step {
        what: "open as the owner of the job",
        path: named.first().cloned().unwrap_or_default(),
        source,
    })?;
    let places = opened.split_off(count.min(opened.len()));
    Ok((opened.into_iter().map(|one| one.map(|opened| opened.file)).collect(), places))
}
