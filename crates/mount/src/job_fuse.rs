// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images of a step that a FUSE program serves: those that the kernel may not read.
//!
//! There is one program for an image, step and node. It is a process of the owner of the job, a
//! child of `slurmstepd`, and in the control groups of the first task: so Slurm ends it with the
//! tasks. A task cannot be killed while it waits for a program that was stopped, unless that is killed, too.
//! Otherwise the program ends when no process of the step has the image any more.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cabane_privileged::{
    Caller, Error, Policy, PrivilegedImage, SERVER_ENDED, Server, Trust, UnpackedTree,
    check_served, check_vouched, open_at_place,
};
use cabane_process::as_user::User;
use cabane_process::child::start_child_as;
use cabane_process::open_as::open_as;
use cabane_sys::mount_attributes;

use crate::fuse::command;
use crate::{FusePrograms, ImageFile, JobImage, Verity, Way, verity};

/// For how long a FUSE program may take to answer for the first time. It reads the beginning of the
/// image, from a file server that may be away.
const FIRST_ANSWER: Duration = Duration::from_secs(120);

/// A FUSE program that is started for a step.
#[derive(Debug)]
struct StepServer {
    program: PathBuf,
    /// The image: a place, which is opened with the rights of the user.
    place: OwnedFd,
    user: User,
    started: Started,
}

/// The number of a FUSE program, once it is started.
pub(crate) type Started = Arc<OnceLock<u32>>;

impl Server for StepServer {
    fn serve(&self, device: BorrowedFd<'_>, _: &Caller) -> Result<(), Error> {
        let place = self.place.as_fd();
        let mut command = command(&self.program, place, device);
        let number = start_child_as(&mut command, &[place, device], &self.user)
            .map_err(|source| Error::Step { what: "start", path: self.program.clone(), source })?;
        let _ = self.started.set(number);
        Ok(())
    }
}

/// What an image of a step is mounted from.
pub(crate) struct Mounting<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) user: &'a User,
    pub(crate) caller: &'a Caller,
    /// All images of the step.
    pub(crate) images: &'a [JobImage],
    /// Whether copies of the images are to be mounted, which the kernel reads.
    pub(crate) has_copies: bool,
}

impl Mounting<'_> {
    /// Chooses who reads an image, which was found at a place, as was what it can be checked with. If
    /// that is a FUSE program, its number will be known.
    ///
    /// # Errors
    ///
    /// Why the kernel may not read it, where no FUSE program can serve it.
    pub(crate) fn choose(
        &self,
        image: &JobImage,
        place: OwnedFd,
        beside: [Option<OwnedFd>; 2],
    ) -> Result<Chosen, Error> {
        let by_kernel = |way, file, verity| {
            let (path, format) = (image.path.clone(), image.format);
            let file = ImageFile { file, path, format, verity };
            let image = PrivilegedImage::opened_for_caller(file, image.mount_point.clone());
            Chosen { image, way, server: None, held: None }
        };
        match self.open(place.as_fd(), image, Trust::Owner) {
            Ok(file) => match self.unpacked(image)? {
                Some(chosen) => Ok(chosen),
                None => Ok(by_kernel(Way::Kernel, file, None)),
            },
            Err(reason @ Error::Refused { .. }) => match self.verified(image, &place, beside) {
                Ok(Some((file, verity))) => Ok(by_kernel(Way::Verified, file, Some(verity))),
                Ok(None) => self.bind_or_serve(image, place, reason),
                Err(Error::Refused { reason: other, .. }) => {
                    self.bind_or_serve(image, place, reason.and(&other))
                }
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Binds an image if it is unpacked on this node. Its content was checked then. A copy that was
    /// requested is made all the same, and a root image is mounted from its file.
    fn unpacked(&self, image: &JobImage) -> Result<Option<Chosen>, Error> {
        let Some(digest) = image.digest.filter(|_| {
            let is_root = image.mount_point == Path::new("/");
            !is_root && !self.has_copies && mount_attributes::are_in_kernel()
        }) else {
            return Ok(None);
        };
        // One that others could have put there is none.
        let tree = UnpackedTree::open_locked(&self.policy.unpacked_images, digest).ok().flatten();
        let Some(tree) = tree else {
            return Ok(None);
        };
        let about = |source| Error::Step { what: "hold", path: image.path.clone(), source };
        let held = tree.hold().map_err(about)?;
        let image = PrivilegedImage::unpacked(tree, image.mount_point.clone());
        Ok(Some(Chosen { image, way: Way::Unpacked(digest), server: None, held }))
    }

    fn bind_or_serve(
        &self,
        image: &JobImage,
        place: OwnedFd,
        reason: Error,
    ) -> Result<Chosen, Error> {
        match self.unpacked(image)? {
            Some(chosen) => Ok(chosen),
            None => self.serve(image, place, reason),
        }
    }

    fn open(&self, place: BorrowedFd<'_>, image: &JobImage, trust: Trust) -> Result<File, Error> {
        open_at_place(self.policy, place, &image.path, trust, self.caller)
    }

    /// Opens an image whose content the kernel can check, and what it is checked with.
    fn verified(
        &self,
        image: &JobImage,
        place: &OwnedFd,
        [tree, signature]: [Option<OwnedFd>; 2],
    ) -> Result<Option<(File, Verity)>, Error> {
        let (Some(root_hash), Some(tree)) = (&image.root_hash, tree) else {
            return Ok(None);
        };
        if !verity::is_in_kernel() {
            return Ok(None);
        }
        let open = |place: &OwnedFd| self.open(place.as_fd(), image, Trust::Content);
        let (file, tree) = (open(place)?, open(&tree)?);
        let failed = |source| Error::Step { what: "read", path: image.path.clone(), source };
        let read = |file| verity::read_signature(file).map_err(failed);
        let signature = signature.map(|place| open(&place).and_then(read)).transpose()?;
        let signature = signature.unwrap_or_default();
        let verity = Verity { tree, root_hash: root_hash.clone(), signature };
        check_vouched(self.policy, &verity, &image.path)?;
        Ok(Some((file, verity)))
    }

    /// Lets a FUSE program serve an image that the kernel may not read for a reason.
    fn serve(&self, image: &JobImage, place: OwnedFd, reason: Error) -> Result<Chosen, Error> {
        let programs = FusePrograms::default();
        let others = self.images.iter().map(|image| image.mount_point.as_path());
        let (Ok(program), Ok(()), false) = (
            programs.find(image.format),
            check_served(self.policy, &image.path, &image.mount_point, others),
            self.has_copies,
        ) else {
            return Err(reason);
        };
        let started = Started::default();
        let step_server =
            StepServer { program, place, user: self.user.clone(), started: Arc::clone(&started) };
        let image = PrivilegedImage::served(
            Box::new(step_server),
            image.path.clone(),
            image.format,
            self.user.group,
            image.mount_point.clone(),
        );
        Ok(Chosen { image, way: Way::Fuse, server: Some(started), held: None })
    }
}

/// An image of a step, and who reads it.
pub(crate) struct Chosen {
    pub(crate) image: PrivilegedImage,
    pub(crate) way: Way,
    /// The FUSE program, where one does.
    pub(crate) server: Option<Started>,
    /// The lock of an unpacked image, which is not removed while it is held.
    pub(crate) held: Option<OwnedFd>,
}

/// Looks at an image that was mounted, as the user: a program that could not read it has ended.
pub(crate) fn look_at_served(image: &JobImage, user: &User) -> Result<(), Error> {
    let failed = |source| Error::Image {
        path: image.path.clone(),
        format: image.format.name(),
        log: Some(SERVER_ENDED.into()),
        source,
    };
    let found =
        open_as(user, std::slice::from_ref(&image.mount_point), FIRST_ANSWER).map_err(failed)?;
    let found = found.into_iter().next().transpose();
    found.map(drop).map_err(|errno| failed(errno.into()))
}
