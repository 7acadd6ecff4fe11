// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Turning an image file into a mount that is attached nowhere yet.
//!
//! Such a detached mount is a descriptor: files in it can be opened, and it can be
//! moved to a mount point. The bytes of the image are read by the kernel or by a
//! FUSE program of the user, never by this crate.

use std::os::fd::OwnedFd;

use cabane_privileged::{ImageFile, attach_for_root};

use crate::{Backend, Error, FusePrograms, fuse};

/// Makes a detached mount of an image: read-only, no set-uid programs, no devices.
///
/// The process must already be in a namespace of its own. Through FUSE a server
/// process is started in that namespace; it ends by itself when the mount is gone.
///
/// # Errors
///
/// What the kernel answered, with its log where it wrote one.
pub fn attach(backend: Backend, image: &ImageFile, fuse: &FusePrograms) -> Result<OwnedFd, Error> {
    match backend {
        Backend::Root => Ok(attach_for_root(image)?),
        // What the helper does it does in a process of its own.
        Backend::Helper | Backend::UserNamespace => fuse::attach(image, fuse),
    }
}
