// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Kernels of Jupyter that run in images.
//!
//! A kernel is a directory with a file `kernel.json`, which says how to start it: here by `cabane run`.
//! [`install()`] writes one, [`list()`] shows those that are there, and [`remove`] removes one.

#![forbid(unsafe_code)]

mod directory;
mod install;
mod language;
mod list;
mod place;
mod spec;
mod words;

pub use install::{InstallRequest, Installed, install};
pub use list::{InstalledKernel, State, list, remove};
pub use place::Place;
pub use spec::{KernelSpec, RecordedImage};
