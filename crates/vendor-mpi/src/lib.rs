// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A vendor's MPI becomes tarballs and a package for Spack.
//!
//! [`pack()`] takes a manifest and a directory with packages of a distribution. From these
//! it takes the files that are named, makes the compiler wrappers find their place by
//! themselves, and writes one tarball for each compiler, always the same bytes, into a
//! source mirror, and the package that installs them into a package repository.
//!
//! Nothing that a package holds is run, and no path of it is ever one on this machine.
//! `docs/guides/vendor-mpi.md` tells the way from a vendor's packages to an image.

#![forbid(unsafe_code)]

mod archive;
mod contents;
mod glob;
mod pack;
mod program;
mod record;
mod select;
mod spack;
mod tarball;
mod tree;
mod wrapper;

pub use pack::{Packed, Request, pack};
pub use record::Tarball;

use std::io;
use std::path::Path;

use cabane_label::shown;
use cabane_recipe::Diagnostic;
use cabane_report::{Kind, Report};

/// Reports what cannot be done with a file.
fn failed(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Report {
    let text = format!("cannot {action} `{}`", shown(path));
    move |source| Report::caused(Kind::Failure, text, source)
}

/// Reports what the manifest names and the packages do not have, in the order of the file.
fn misfit(problems: &[Diagnostic]) -> Report {
    let text = "the manifest does not fit the packages";
    let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
    Report::new(Kind::BadInput, text).detailed(problems.join("\n"))
}
