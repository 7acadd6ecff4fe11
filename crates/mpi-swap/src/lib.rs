// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Another MPI for a program.
//!
//! [`substitute_image`] and the judgments find the MPI that a name means. [`judge_here`] judges for a
//! command of this machine, [`ContainerSwap`] for one in a container, [`step_mpi`] for a step of a
//! job. [`RingTest`] runs real ranks in the place of the program. [`find_installed`] finds the MPIs of
//! a machine, and [`inspect_paths`] says which MPI a file has or needs.

#![forbid(unsafe_code)]

mod command_line;
mod container;
mod environment_files;
mod error;
mod inspect;
mod installed;
mod job;
mod judgment;
mod ring_test;
mod step;
mod substitute;

pub use command_line::{CommandLine, Search};
pub use container::{ContainerQuestion, ContainerSwap, substitute_in_container};
pub use environment_files::EnvironmentFiles;
pub use error::SwapError;
pub use inspect::{inspect_in_images, inspect_paths};
pub use installed::{HostMpi, configuration, find_installed};
pub use job::{JobMpiRequest, job_mpi};
pub use judgment::{
    Judgment, accepted, check_launcher, judge_here, make_links, path_in_container, variable, warn,
};
pub use ring_test::{Loading, RingResult, RingTest, With, own_launcher};
pub use step::{StepRequest, step_mpi, warn_of_lone_ranks};
pub use substitute::{
    HOST, Launchers, Substitute, SubstituteImage, SubstituteRequest, search, substitute_image,
};
