// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that a process of the user serves through FUSE, for mounts outside of a user namespace.
//!
//! The kernel parses nothing of such an image, so its owner need not be trusted. Nothing here asks
//! the server for anything: see [`operations::mount_fuse`].

use std::fmt;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::{Caller, Error, ImageFormat, operations};

pub(crate) const DEVICE: &str = "/dev/fuse";

/// Says why a served image cannot be looked at.
pub const SERVER_ENDED: &str = "the FUSE program failed: the file is damaged or of another kind";

/// Starts the process that serves an image.
pub trait Server: fmt::Debug {
    /// Hands over the device on which the process answers the kernel. The image is mounted by now.
    ///
    /// # Errors
    ///
    /// What the system answered.
    fn serve(&self, device: BorrowedFd<'_>, caller: &Caller) -> Result<(), Error>;
}

/// An image that is served.
#[derive(Debug)]
pub(crate) struct ServedImage {
    pub(crate) server: Box<dyn Server>,
    pub(crate) format: ImageFormat,
    pub(crate) group: u32,
    pub(crate) path: PathBuf,
}

impl ServedImage {
    /// Makes a detached mount, and lets its server begin.
    pub(crate) fn mount(&self, caller: &Caller) -> Result<OwnedFd, Error> {
        let device = caller.act(|| {
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            openat(CWD, DEVICE, flags, Mode::empty()).map_err(Error::step("open", DEVICE))
        })?;
        let program = self.format.fuse_name();
        let mount = operations::mount_fuse(device.as_fd(), caller.user(), self.group, program)
            .map_err(|errno| Error::Image {
                path: self.path.clone(),
                format: "fuse",
                log: None,
                source: errno.into(),
            })?;
        self.server.serve(device.as_fd(), caller)?;
        Ok(mount)
    }
}

/// A socket on which a process of the user waits for the device.
#[derive(Debug)]
pub struct WaitingServer {
    /// The socket, which the caller passed.
    pub socket: OwnedFd,
    /// The image, for messages.
    pub path: PathBuf,
}

impl Server for WaitingServer {
    /// Sends a byte, and with it the device, with the rights of the caller: the socket may belong to
    /// a service that asks who sends.
    fn serve(&self, device: BorrowedFd<'_>, caller: &Caller) -> Result<(), Error> {
        let descriptors = [device];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        caller.act(|| {
            sendmsg(self.socket.as_fd(), &[IoSlice::new(&[0])], &mut ancillary, flags)
                .map(drop)
                .map_err(Error::step("reach the process that serves", &self.path))
        })
    }
}
