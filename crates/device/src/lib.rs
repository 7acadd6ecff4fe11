// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Devices of a machine, and what a container gets with them.
//!
//! [`Devices`] is what the specifications of a machine say together, with the drivers that none of them
//! describes; [`Devices::choose`] takes
//! some of them, and [`Chosen::give`] says what a container gets: places of the host, variables
//! and directories of libraries. Programs that a specification wants to have run are not run;
//! what the known ones do is done in another way. The design and its reasons are in
//! `docs/design/0014-root-images.md`.

#![forbid(unsafe_code)]

mod choose;
mod driver;
mod error;
mod find;
mod give;
mod hooks;
mod libraries;
mod nodes;
mod read;

pub use choose::Chosen;
pub use error::{DeviceError, DeviceWarning};
pub use find::{Device, Devices, Problem};
pub use give::{Compatibility, Given, Place, Wanted};

/// Where specifications lie. What is in a later directory holds.
pub const DIRECTORIES: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// Where the libraries of devices are seen in a container, each at its own path below that.
pub const PRIVATE: &str = "/run/cabane/devices";
