// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where the things in an environment come from, seen by a process inside it.
//!
//! [`ProcessEnvironment`] is what such a process finds: the images that are mounted around
//! it, their views in the order in which they were applied, and its variables. From
//! that, [`ProcessEnvironment::command`], [`ProcessEnvironment::library`],
//! [`ProcessEnvironment::variable`], [`ProcessEnvironment::file`] and [`ProcessEnvironment::libraries_of`] tell where something comes
//! from, and [`ProcessEnvironment::conflicts`] what one view took from another. All of them
//! look at the real files, and only on request.

mod conflicts;
mod libraries;
mod lookup;
mod mounts;
mod origins;
mod package;
mod place;
mod process_environment;

pub use conflicts::{Conflicts, FileConflicts, Loser, VariableConflict};
pub use lookup::{Explanation, Found, NeededLibrary, Through};
pub use origins::{Element, Origin, Replaced, VariableOrigin};
pub use package::Package;
pub use place::Place;
pub use process_environment::{InsideImage, InsideView, ProcessEnvironment};
