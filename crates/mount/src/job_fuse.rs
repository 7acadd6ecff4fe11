// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images of a step that a FUSE program serves: those that the kernel may not read.
//!
//! There is one program for an image, step and node. It is a process of the owner of the job, a
//! child of `slurmstepd`, and in the control groups of the first task: so Slurm ends it with the
//! tasks. A task cannot be killed while it waits for a program that was stopped, unless that is killed, too.
//! Otherwise the program ends when no process of the step has the image any more.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cabane_privileged::{
    Caller, Error, Policy, PrivilegedImage, SERVER_ENDED, Server, check_served, open_at_place,
};
use cabane_process::as_user::User;
use cabane_process::child::start_child_as;
use cabane_process::open_as::open_as;

use crate::fuse::command;
use crate::{FusePrograms, JobImage};

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
    /// Chooses who reads an image, which was found at a place. If that is a FUSE program, its number
    /// will be known.
    ///
    /// # Errors
    ///
    /// Why the kernel may not read it, where no FUSE program can serve it.
    pub(crate) fn choose(
        &self,
        image: &JobImage,
        place: OwnedFd,
    ) -> Result<(PrivilegedImage, Option<Started>), Error> {
        let opened =
            open_at_place(self.policy, place.as_fd(), &image.path, image.format, self.caller);
        let mount_point = image.mount_point.clone();
        match opened {
            Ok(file) => Ok((PrivilegedImage::opened_for_caller(file, mount_point), None)),
            Err(reason @ Error::Refused { .. }) => {
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
                let step_server = StepServer {
                    program: program.to_owned(),
                    place,
                    user: self.user.clone(),
                    started: Arc::clone(&started),
                };
                let image = PrivilegedImage::served(
                    Box::new(step_server),
                    image.path.clone(),
                    image.format,
                    self.user.group,
                    mount_point,
                );
                Ok((image, Some(started)))
            }
            Err(error) => Err(error),
        }
    }
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
