// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which MPI a file is or needs, and which other one may take its place.
//!
//! A [`Tree`] is where files are looked for, a [`Loader`] finds libraries in it as the
//! loader of programs would, and [`inspect()`] tells what a program, a library or a
//! directory has to do with MPI. [`judge()`] says whether and how a program can have another
//! one, as a [`Plan`], which the caller executes. The design and its reasons are in
//! `docs/design/0012-mpi.md`.

#![forbid(unsafe_code)]

mod c_library;
mod candidate;
mod choose;
mod closure;
mod family;
mod inspect;
mod installation;
mod library;
mod loader;
mod parts;
mod places;
mod plan;
mod plugins;
mod probe;
mod tree;
mod verdict;

pub use candidate::Side;
pub use closure::{Closure, Loaded, Missing, Through, Unmet};
pub use family::{Family, Language, Name};
pub use inspect::{FileKind, Inspected, Inspection, LoadedFile, PmiOf, inspect};
pub use installation::{Installation, Launcher, LauncherKind, find_installation};
pub use library::{Library, Protocol};
pub use loader::Loader;
pub use places::usual_prefixes;
pub use plan::{Carried, Places, Plan, Way};
pub use probe::{
    Figure, PROBE, PROBE_OPTIONS, ProbeFailure, ProbeSeen, RankSeen, c_library, family_option, stub,
};
pub use tree::{Place, Tree};
pub use verdict::{Outcome, Refusal, Verdict, Warning, judge, judge_with_plugins};
