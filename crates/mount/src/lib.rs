// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Mount plans: a closed list of operations, and performing them.
//!
//! A [`MountPlan`] is data: it can be printed and compared, and [`perform()`] is the
//! only function that acts on one. How the kernel mounts is a [`Backend`]. The
//! order of things and the reasons are in `docs/design/0002-mounting.md`.
//!
//! What runs with the rights of root for users who are not trusted is in
//! `cabane-privileged`; its types that matter here are part of this crate. [`JobMounts`] are
//! the same on the nodes of a job. See `docs/design/0005-the-helper.md`.

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

mod backend;
mod build_root;
mod error;
mod fuse;
pub mod helper;
mod image;
mod inside;
mod job;
mod job_fuse;
mod job_images;
mod job_mpi;
mod job_root;
mod job_text;
mod order;
mod perform;
mod plan;
mod root;
mod stage;
pub mod unpacked;
pub mod verity;

pub use backend::{Backend, enter_private_namespace};
pub use build_root::BuildRoot;
pub use cabane_privileged::{
    CACHE_NAMESPACE, Error as PrivilegedError, ImageDigest, ImageFile, ImageFormat, ImageOwners,
    LocalStage, Place, Policy, PolicyError, PrivilegedBind, Request, RequestError, RequestedBind,
    RequestedImage, RequestedUnpacked, RequestedVerity, RootHash, Scope, StartRequest,
    UnpackedTree, Verity, Way, attach_for_root, check_image, empty_bounding_set, release, trusted,
    variable,
};
pub use error::Error;
pub use fuse::{FusePrograms, serve};
pub use image::attach;
pub use inside::open_in_image;
pub use job::{JobMounts, JobOwner, MountTimes, place_to_look};
pub use job_images::{JOB_IMAGES, JobImage, JobImages, JobImagesError, JobVariable, Unfit};
pub use job_mpi::{JOB_MPI, JobMpi};
pub use job_root::{JobBind, JobDevice, JobRoot};
pub use order::{UARCH_ORDER, uarch_order};
pub use perform::{perform, perform_in_current_user_namespace};
pub use plan::{MountPlan, Operation};
pub use root::Layer;
pub use stage::Stage;

/// Names the variable that says where images are copied on each node. Who submits a job
/// sets it, and it means nothing without [`JOB_IMAGES`].
pub const JOB_STAGE: &str = "SLURM_CABANE_STAGE";

/// Names the variable that says how a task enters a root image itself, with the rights of its user: a
/// plan for `cabane run-plan`. Who submits a job sets it.
pub const JOB_PLAN: &str = "SLURM_CABANE_PLAN";

/// Names the variable of a task that enters a root image itself: the program that it runs there.
pub const JOB_TASK: &str = "SLURM_CABANE_TASK";

/// Names the variable that says where a process listens beside `srun` for nodes that fail: a
/// port, and a secret.
pub const JOB_FAILURES: &str = "SLURM_CABANE_FAILURES";

/// Names the variable that says how many microseconds it took to look the images up. Whoever
/// submits a job sets it, for the record of the step.
pub const JOB_LOOKUP: &str = "SLURM_CABANE_LOOKUP";
