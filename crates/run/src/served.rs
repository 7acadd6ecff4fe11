// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! FUSE programs for images that the set-uid helper mounts.
//!
//! This process becomes the helper and then the command. So a copy of it stays behind, which
//! waits on a socket for each image until the helper has mounted the image and sends the device.
//! Then it starts the program that serves the image, and ends. All of them are processes of the
//! user, with the user's limits and in the user's control group.

use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cabane_mount::{MountPlan, serve};
use cabane_process::child::stay_behind;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};

/// Starts the copy that waits, and returns a socket for each served image, in order. Once the
/// command has begun, or cannot begin, the copy does what is left to do.
///
/// # Errors
///
/// Those of `socketpair(2)` and `fork(2)`.
pub(crate) fn wait_behind(plan: &MountPlan, when_begun: impl FnOnce()) -> io::Result<Vec<OwnedFd>> {
    let pair =
        |_| socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let pairs = plan.served().map(pair).collect::<Result<Vec<_>, _>>()?;
    let (own, of_helper): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let of_helper = Cell::new(of_helper);
    stay_behind(|| {
        // In the copy only: the other side must be seen to close.
        drop(of_helper.take());
        for (image, socket) in plan.served().zip(&own) {
            if let Some(device) = receive(socket.as_fd()) {
                // Where that fails, the helper finds no one to answer.
                let _ = serve(image, device.as_fd(), &plan.fuse);
            }
        }
        if let Some(socket) = own.first() {
            // It closes when the helper becomes the command, or ends.
            let _ = receive(socket.as_fd());
            when_begun();
        }
    })?;
    Ok(of_helper.take())
}

/// Waits for a descriptor; `None` if the other side closes.
fn receive(socket: BorrowedFd<'_>) -> Option<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags).ok()?;
    ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })
}
