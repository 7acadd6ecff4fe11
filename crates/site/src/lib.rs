// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a site and a user have configured.
//!
//! [`Site`] is one value for commands and engines: the [settings] in effect and where each comes
//! from, the repositories, the ways to mount. Together with a receiver of notices it is a
//! [`Context`]. [`env_vars`] has the name of every variable.

#![forbid(unsafe_code)]

mod context;
pub mod env_vars;
mod installation;
pub mod settings;
mod site;
mod systems;

pub use context::Context;
pub use installation::{Installation, Remedy, UpdatedBy};
pub use site::{
    ASSEMBLY_DIRECTORY, GRACE_DAYS, Site, fuse_programs, helper_places, open_repository,
};
pub use systems::{SystemDirectory, find_system};
