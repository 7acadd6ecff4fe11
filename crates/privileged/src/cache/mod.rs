// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The mount cache: one superblock per image per node.
//!
//! Images that are in use are mounted once, in a mount namespace that only root can
//! enter: the *cache*. Anyone who starts an environment gets a clone of that mount, so
//! that all processes of the node share what was read and unpacked. No process stays
//! behind: the namespace is kept alive by a mount of its file.
//!
//! ```text
//! /run/cabane/                 0700, of the first process's mount namespace
//! ├── cache/                   made under a number, and renamed to this in one step
//! │   └── mount/               a mount of this directory that no other namespace follows
//! │       └── namespace        the namespace file of the cache, mounted here
//! └── 0/, 1/, ...              the same while it is made, locked, or taken apart
//!
//! in the cache, on a file system in memory:
//! /<device>-<inode>-<size>-<modified>-<changed>/   an entry: who made it owns it, its time
//! ├── device                   of modification is the last start. The loop device, as it
//! ├── image/                   was bound, the mount, and the user whose start has it out to see
//! └── out                      whether it is in use.
//! /.users/<user>/              the lock of a user
//! /.copies/                    the lock of those who copy images
//! /.released/                  the time at which unused images were last looked for
//! ```
//!
//! The name of an entry says which file it was when it was opened *by the caller*. An
//! image that is mounted keeps its inode, so the same device and inode are the same file.
//! A file that was written to since has other times, and gets an entry of its own. `+memory`
//! or `+local` behind it says that what is mounted is a copy of that file (`copies.rs`):
//! anyone who can open the original may have it.
//!
//! **Who uses an image is not searched for.** Each image is on a loop device that the kernel
//! frees with the last mount of it, wherever that is. So what was taken out of the cache is in
//! use for as long as its device is bound as it was, and can be mounted from there again:
//! the same superblock.
//!
//! **No one waits for someone else.** Users can stop their own processes at any instant (a
//! control group that they may freeze is enough). Locks are those of `flock` on directories, end
//! with their process, and only spare work: those of a user are waited for by that user alone,
//! and not for long.

mod entry;
mod place;
mod release;

use std::os::fd::{AsFd, OwnedFd};

use entry::{Device, Entry, Key, Noted, Taken};
use place::{Cache, Home};
use rustix::fs::{Stat, fstat};
use rustix::io::Errno;

use crate::image::BlockDevice;
use crate::operations::Binding;
use crate::verity::Voucher;
use crate::{Caller, Copies, Error, ImageFile, Policy, Verity, image};

pub use place::CACHE_NAMESPACE;
pub use release::{Scope, release};

/// An image that is to be mounted, and how the file looked when it was checked.
pub(crate) struct Wanted<'a> {
    pub(crate) image: &'a ImageFile,
    pub(crate) found: Stat,
    /// Who vouches for its content, if the kernel checks that.
    pub(crate) voucher: Option<Voucher>,
}

impl Wanted<'_> {
    fn key(&self, copies: Option<&dyn Copies>) -> Key {
        Key::of(&self.found, copies, self.voucher.and(self.image.verity.as_ref()))
    }
}

/// How often space is made for an image of a user who has many.
const ATTEMPTS: u32 = 8;

/// Returns a detached mount of each image for root, whose own images are not checked.
///
/// # Errors
///
/// Those of [`obtain`].
pub fn obtain_for_root(images: &[&ImageFile], policy: &Policy) -> Result<Vec<OwnedFd>, Error> {
    let look = |image: &&ImageFile| fstat(&image.file).map_err(Error::step("look at", &image.path));
    let found = images.iter().map(look).collect::<Result<Vec<_>, _>>()?;
    let wanted = images.iter().zip(found);
    let wanted: Vec<_> =
        wanted.map(|(image, found)| Wanted { image, found, voucher: None }).collect();
    obtain(&wanted, None, policy, &Caller::of_thread(0))
}

/// Returns a detached mount of each image, from the cache, and takes images out of it that were
/// not used for the idle time.
///
/// Root and working directory of the process are what they were afterwards, except
/// that the working directory is `/`.
///
/// # Errors
///
/// [`Error::Cache`] where the cache cannot be made or entered, [`Error::TooManyImages`],
/// [`Error::OtherStart`], and those of mounting.
pub(crate) fn obtain(
    images: &[Wanted<'_>],
    copies: Option<&dyn Copies>,
    policy: &Policy,
    caller: &Caller,
) -> Result<Vec<OwnedFd>, Error> {
    if images.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<Key> = images.iter().map(|wanted| wanted.key(copies)).collect();
    let home = Home::remember()?;
    let (mut taken, is_due) = match Cache::find()? {
        Some(cache) => {
            cache.visit(&home, || Ok((take_all(images, &keys)?, release::is_due(policy.idle))))?
        }
        None => (images.iter().map(|_| None).collect(), false),
    };
    for ((wanted, key), taken) in images.iter().zip(&keys).zip(&mut taken) {
        if taken.is_none() {
            let start = Start { home: &home, key, copies, policy, caller };
            *taken = Some(start.mount(wanted)?);
        }
    }
    if is_due {
        // Now that the images of this start count as used. Whatever becomes of it is no
        // concern of this start.
        let _ = release(Scope::Idle(policy), caller.user());
    }
    Ok(taken.into_iter().flatten().collect())
}

fn take_all(images: &[Wanted<'_>], keys: &[Key]) -> Result<Vec<Option<OwnedFd>>, Error> {
    let pairs = images.iter().zip(keys);
    pairs.map(|(wanted, key)| entry::take(key, wanted.image)).collect()
}

/// What it takes to mount an image that is not in the cache.
struct Start<'a> {
    home: &'a Home,
    key: &'a Key,
    copies: Option<&'a dyn Copies>,
    policy: &'a Policy,
    caller: &'a Caller,
}

impl Start<'_> {
    /// Mounts the image, or takes it if another process was faster.
    fn mount(&self, wanted: &Wanted<'_>) -> Result<OwnedFd, Error> {
        let cache = Cache::find_or_make(self.home)?;
        match self.reserve(&cache, wanted.image)? {
            Taken::Mounted(mount) => Ok(mount),
            // Someone is just looking whether it is in use: it is, by this one.
            Taken::InUse(device) => image::mount_device(wanted.image, &device),
            Taken::Reserved(entry) => self.fill(&cache, &entry, wanted),
        }
    }

    fn reserve(&self, cache: &Cache, image: &ImageFile) -> Result<Taken, Error> {
        let user = self.caller.user();
        let limit = self.policy.images_per_user;
        let mut attempts = 0_u32;
        loop {
            let reserved = cache.visit(self.home, || match self.copies {
                None => entry::reserve(self.key, user, limit, image, self.home),
                Some(copies) => {
                    entry::reserve_copy(self.key, user, limit, copies, image, self.home)
                }
            });
            match reserved {
                // Other starts can take the space that was made before this one gets to it;
                // where there was none to be made, that is seen twice.
                Err(ref error @ (Error::TooManyImages { .. } | Error::NoSpaceForCopy { .. }))
                    if attempts < ATTEMPTS =>
                {
                    let scope = match error {
                        Error::NoSpaceForCopy { .. } => Scope::UnusedCopies,
                        _ => Scope::SpaceForOne(limit),
                    };
                    let made_space = release(scope, user)? > 0;
                    attempts = attempts.saturating_add(if made_space { 1 } else { ATTEMPTS / 2 });
                }
                reserved => return reserved,
            }
        }
    }

    /// Mounts the image and puts it into the entry. This happens at home, because the cache has
    /// neither `/dev` nor `/proc`.
    fn fill(&self, cache: &Cache, entry: &Entry, wanted: &Wanted<'_>) -> Result<OwnedFd, Error> {
        let mount = match entry.device(self.home) {
            // Whatever fails, the image is in use: its entry stays and counts.
            Device::Bound(device) => image::mount_device(wanted.image, &device)?,
            Device::Unknown(source) => {
                let what = "see whether an image is in use";
                return Err(Error::Cache { what, source });
            }
            Device::Missing | Device::Unbound => match self.attach(entry, wanted) {
                Ok(mount) => mount,
                Err(error) => {
                    cache.visit(self.home, || {
                        entry.give_up();
                        Ok(())
                    })?;
                    return Err(error);
                }
            },
        };
        cache.visit(self.home, || {
            entry.fill(mount.as_fd())?;
            let taken = entry.take(wanted.image)?;
            taken.ok_or_else(|| Error::cache("keep an image")(Errno::NOENT))
        })
    }

    fn attach(&self, entry: &Entry, wanted: &Wanted<'_>) -> Result<OwnedFd, Error> {
        // Root opened it with rights of its own, and may be in a namespace of its own.
        let opened = match self.caller.user() {
            0 => None,
            _ => Some(image::open_for(wanted.image, self.caller)?),
        };
        let source = opened.as_ref().unwrap_or(wanted.image);
        // Who waits for the copy sees by the time of the entry that it gets on.
        let copy = |copies: &dyn Copies| copies.copy(source, &wanted.found, &|| entry.note_use());
        let copy = self.copies.map(copy).transpose()?;
        let data = copy.as_ref().unwrap_or(source);
        if let (Some(verity), Some(voucher)) = (&source.verity, wanted.voucher) {
            return attach_verified(entry, data, wanted.found.st_size, verity, voucher);
        }
        let source = data;
        let binding = Binding::new();
        match image::bind(&source.file, &binding) {
            Ok(device) => {
                let noted = Noted { number: device.number(), binding, tree: None };
                let mount = image::mount_device(source, &BlockDevice::Loop(device))?;
                // Others may mount the device from now on, and wait for no first mount.
                entry.note_device(&noted)?;
                Ok(mount)
            }
            // Without a device no one knows who uses it, and after the idle time it is mounted
            // anew.
            Err(error) => image::mount_file(source).unwrap_or(Err(error)),
        }
    }
}

/// Mounts an image of a size, in bytes, from a device on which the kernel checks its content.
fn attach_verified(
    entry: &Entry,
    data: &ImageFile,
    size: i64,
    verity: &Verity,
    voucher: Voucher,
) -> Result<OwnedFd, Error> {
    let binding = Binding::new();
    let device = image::bind(&data.file, &binding)?;
    let tree = image::bind(&verity.tree, &binding)?;
    // Before it is made: unlike a loop device it would outlive its maker.
    let number = device.number();
    entry.note_device(&Noted { number, binding, tree: Some(tree.number()) })?;
    let devices = [&device, &tree];
    let device = image::verify(data, size, devices, &binding, verity, voucher)?;
    image::mount_device(data, &device)
}
