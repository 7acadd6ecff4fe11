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
mod error;
mod glob;
mod pack;
mod record;
mod select;
mod spack;
mod tarball;
mod tree;
mod wrapper;

pub use archive::ArchiveError;
pub use error::VendorError;
pub use pack::{Packed, Request, pack};
pub use record::Tarball;
