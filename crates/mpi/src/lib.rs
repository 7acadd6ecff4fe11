// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which MPI a file is or needs, and which other one may take its place.
//!
//! A [`Tree`] is where files are looked for, a [`Loader`] finds libraries in it as the
//! loader of programs would, and [`inspect()`] tells what a program, a library or a
//! directory has to do with MPI. The design and its reasons are in
//! `docs/design/0012-mpi.md`.

#![forbid(unsafe_code)]

mod bytes;
mod family;
mod inspect;
mod installation;
mod library;
mod loader;
mod tree;

pub use family::{Family, Language, Name};
pub use inspect::{FileKind, Inspected, Inspection, LoadedFile, inspect};
pub use installation::{Installation, Launcher, LauncherKind, find_installation};
pub use library::{Library, Protocol};
pub use loader::{Closure, Loaded, Loader, Missing, Through, Unmet, is_of_glibc};
pub use tree::{Place, Tree};
