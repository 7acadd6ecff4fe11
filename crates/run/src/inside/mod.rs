// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where the things in an environment come from, seen by a process inside it.
//!
//! [`Surroundings`] is what such a process finds: the images that are mounted around
//! it, their views in the order in which they were applied, and its variables. From
//! that, [`Surroundings::command`], [`Surroundings::library`],
//! [`Surroundings::variable`], [`Surroundings::file`] and [`Surroundings::libraries_of`] tell where something comes
//! from, and [`Surroundings::conflicts`] what one view took from another. All of them
//! look at the real files, and only when asked.

mod conflicts;
mod libraries;
mod lookup;
mod mounts;
mod origins;
mod package;
mod place;
mod surroundings;

pub use conflicts::{Conflicts, FileConflicts, Loser, VariableConflict};
pub use libraries::{LibrariesError, NeededLibrary};
pub use lookup::{ExplainError, Explanation, Found, Through};
pub use origins::{Element, Origin, Replaced, VariableOrigin};
pub use package::Package;
pub use place::Place;
pub use surroundings::{InsideImage, InsideView, Surroundings};
