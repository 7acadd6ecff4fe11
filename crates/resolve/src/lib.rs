// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From what was typed to images, views and patches.
//!
//! There are two stages, since an image given by its path has its metadata inside, where only
//! someone who mounts it can read them:
//!
//! 1. [`Resolver::locate`] finds the file that a description means.
//! 2. [`assemble()`] takes the located images, with the metadata that the caller has read in the
//!    meantime, and says where each is mounted, which views are used and which variables change.
//!
//! [`EnvironmentFinder`] finds and loads the files that name what is entered together.

#![forbid(unsafe_code)]

mod assemble;
mod concrete;
mod environment;
mod locate;
mod names;
mod near;
mod scalars;
mod views;

pub use assemble::{DefaultView, LocatedBase, RequestedImage, assemble};
pub use concrete::{ConcreteEnvironment, ConcreteImage, ConcreteView};
pub use environment::EnvironmentFinder;
pub use locate::{HOW_TO_ADD_IMAGES, LocatedImage, NamedRepository, Resolver, are_empty};
pub use near::similar;
pub use scalars::{Effect, ScalarConflict, effect, scalar_conflicts};
pub use views::is_meant;
