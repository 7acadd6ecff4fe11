// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From resolved images to a mount plan and a running command.
//!
//! [`prepare()`] turns a [`RunRequest`] into data, a mount plan and variables, which
//! can be printed; [`Prepared::exec`] acts on it and becomes the command, so that
//! signals, exit codes and the terminal need no help from us. [`metadata`] looks
//! into an image that is outside a repository. [`loaded`] is what a process inside
//! knows about the images around it, and [`inside`] where everything there comes from;
//! [`difference`] compares images and environments. A virtual environment of the user's
//! wins over the images: the module `venv`.

#![forbid(unsafe_code)]

mod attach;
mod attach_job;
mod attach_target;
mod become_command;
mod binds;
pub mod difference;
mod host_binds;
pub mod inside;
mod join;
mod join_key;
mod launcher;
pub mod loaded;
pub mod metadata;
mod mountinfo;
mod needs;
mod prepare;
mod process;
mod rendezvous;
mod served;
mod shell;
mod through_helper;
mod unload;
mod venv;
mod warning;

pub use attach::Attachment;
pub use attach_job::{JobDescription, JobDescriptionError, JobError};
pub use attach_target::Target;
pub use become_command::{become_command, become_command_with};
pub use binds::check_bind;
pub use host_binds::{DevicePlace, RootRequest, seen_in_root};
pub use join::{Company, Joining, sweep};
pub use mountinfo::unescaped;
pub use needs::check_architectures;
pub use prepare::{
    Prepared, RunRequest, no_directory, not_mounted, open_image, prepare, variables_in,
    whole_command,
};
pub use shell::login_shell;
pub use through_helper::{clean_through, try_helper};
pub use unload::unload;
pub use warning::RunWarning;
