// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Mounting images with the rights of root, for users who are not trusted.
//!
//! All that may run with rights is here, in `cabane-sys` and in the set-uid helper itself, and
//! nothing else is: no jobs, no user namespaces, no FUSE server, no processes. [`operations`] is the
//! closed list of what needs the rights, [`perform_privileged`] the way through it:
//!
//! 1. a [`Request`] is decoded, and the [`Policy`] read;
//! 2. what the caller passed is judged (`judge.rs`, `verity.rs`), with the rights of the [`Caller`];
//! 3. the images come out of the mount cache (`cache/`), or go into it; those that root has unpacked
//!    are bound (`unpacked.rs`);
//! 4. they are attached in a mount namespace of the process.
//!
//! `docs/design/0005-the-helper.md` has the reasons, `tests/privileged` the attacks.

// What runs as root does not panic. Its tests may.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented,
        clippy::indexing_slicing,
        clippy::string_slice
    )
)]
#![forbid(unsafe_code)]

mod cache;
mod caller;
mod copies;
mod error;
mod fuse;
mod image;
mod judge;
pub mod operations;
mod perform;
mod policy;
mod request;
mod request_text;
mod root;
pub mod shadow;
pub mod trusted;
mod unpacked;
mod verity;

pub use cache::{CACHE_NAMESPACE, Scope, obtain_for_root, release};
pub use caller::{Caller, empty_bounding_set, raise};
pub use copies::Copies;
pub use error::Error;
pub use fuse::{SERVER_ENDED, Server, WaitingServer};
pub use image::{ImageFile, ImageFormat, Way, attach_for_root, open_at_place};
pub use judge::{Trust, check_image, check_verified, check_vouched, overlay_layers};
pub use perform::{
    PrivilegedImage, PrivilegedPlan, check_served, perform_privileged, put_in_own_namespace,
};
pub use policy::{ImageOwners, LocalStage, Policy, PolicyError};
pub use request::{
    Place, Request, RequestError, RequestedBind, RequestedImage, RequestedUnpacked,
    RequestedVerity, StartRequest, variable,
};
pub use root::{KERNEL, PrivilegedBind, PrivilegedRoot, check_places, open_place, replace_root};
pub use unpacked::{ImageDigest, UnpackedTree};
pub use verity::{RootHash, Verity};
