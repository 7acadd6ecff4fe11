// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Mount plans: a closed list of operations, and performing them.
//!
//! A [`MountPlan`] is data: it can be printed and compared, and [`perform()`] is the
//! only function that acts on one. How the kernel is asked is a [`Backend`]. The
//! order of things and the reasons stand in `docs/design/0002-mounting.md`.
//!
//! For the set-uid helper a plan is smaller and its author is not trusted: a
//! [`Request`] is decoded, checked against the [`Policy`] and carried out by
//! [`perform_privileged`]. See `docs/design/0005-the-helper.md`. [`JobMounts`] are the
//! same on the nodes of a job.

#![forbid(unsafe_code)]

mod backend;
mod error;
mod fuse;
pub mod helper;
mod holder;
mod image;
mod job;
mod job_images;
mod job_mpi;
mod job_root;
mod kernel;
mod order;
mod perform;
mod plan;
mod policy;
mod privileged;
mod privileged_root;
mod request;
mod root;
mod shadow;
mod stage;
mod trusted;

pub use backend::{Backend, enter_private_namespace};
pub use error::Error;
pub use fuse::FusePrograms;
pub use holder::{Scope, sweep};
pub use image::{ImageFile, ImageFormat, attach, open_in_image};
pub use job::{JobMounts, JobOwner, place_to_look};
pub use job_images::{JOB_IMAGES, JobImage, JobImages, JobImagesError, JobVariable, Unfit};
pub use job_mpi::{JOB_MPI, JobMpi};
pub use job_root::{JobBind, JobDevice, JobRoot};
pub use order::{UARCH_ORDER, uarch_order};
pub use perform::{perform, perform_in_current_user_namespace};
pub use plan::{MountPlan, Operation};
pub use policy::{ImageOwners, Policy, PolicyError};
pub use privileged::{PrivilegedImage, PrivilegedPlan, check_image, perform_privileged};
pub use privileged_root::{PrivilegedBind, PrivilegedRoot};
pub use request::{Request, RequestError, RequestedBind, RequestedImage, StartRequest, variable};
pub use root::Layer;
pub use stage::{JOB_STAGE, LocalStage, Stage};
