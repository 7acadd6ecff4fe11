// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Mount plans: a closed list of operations, and performing them.
//!
//! A [`MountPlan`] is data: it can be printed and compared, and [`perform()`] is the
//! only function that acts on one. How the kernel is asked is a [`Backend`]. The
//! order of things and the reasons stand in `docs/design/0002-mounting.md`.

#![forbid(unsafe_code)]

mod backend;
mod error;
mod image;
mod perform;
mod plan;
mod shadow;

pub use backend::{Backend, enter_private_namespace};
pub use error::Error;
pub use image::{FusePrograms, ImageFile, ImageFormat, attach, open_in_image};
pub use perform::perform;
pub use plan::{MountPlan, Operation};
