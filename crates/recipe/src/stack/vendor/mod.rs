// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The manifest of a vendor's MPI: which packages, what is taken from them, and what
//! the compiler wrappers must say where they do not know their place.
//!
//! What a manifest names is looked for elsewhere. The values that name something keep
//! their place, so that what is not found is reported with its line.

pub(crate) mod keys;
mod paths;
mod read;

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::diagnostic::Diagnostic;
pub(super) use read::read;

/// A value, and where it is in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed<T> {
    /// The value.
    pub value: T,
    /// Its bytes in the file.
    pub place: Range<usize>,
}

/// The manifest of a vendor's MPI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VendorManifest {
    /// The name of the package in Spack.
    pub name: String,
    /// The version of the MPI.
    pub version: String,
    /// The family of processors: `x86_64` or `aarch64`.
    pub arch: String,
    /// A sentence for those who look at the package.
    pub description: Option<String>,
    /// Where the vendor tells about it.
    pub homepage: Option<String>,
    /// Where the tarballs will be, if not in a source mirror only.
    pub url: Option<String>,
    /// The packages.
    pub packages: Vec<VendorPackage>,
    /// What each compiler gets, with what all of them get.
    pub compilers: Vec<VendorCompiler>,
    /// Variables that programs of the MPI need, and their values. `$mpi_prefix` in a value is
    /// where the MPI is.
    pub environment: Vec<(String, String)>,
    /// Specs of packages whose libraries the MPI needs.
    pub depends: Vec<String>,
    /// Specs with which it does not work, and why.
    pub conflicts: Vec<(String, String)>,
    /// Variants for GPUs.
    pub gpu: Vec<VendorGpu>,
    path: PathBuf,
    text: String,
}

/// An RPM or Debian package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VendorPackage {
    /// Its name in the directory of packages.
    pub file: Placed<String>,
    /// Its checksum: 64 lower-case digits.
    pub sha256: String,
    /// Where it comes from.
    pub url: Option<String>,
}

/// What there is for a compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VendorCompiler {
    /// The compiler, as Spack names it.
    pub name: Placed<String>,
    /// The versions that fit.
    pub versions: Option<String>,
    /// The C compiler.
    pub c: String,
    /// The C++ compiler.
    pub cxx: String,
    /// The Fortran compiler.
    pub fortran: String,
    /// What is taken from the packages.
    pub files: Vec<VendorFiles>,
    /// The compiler wrappers.
    pub wrappers: Vec<VendorWrapper>,
    /// What is replaced in files.
    pub edits: Vec<VendorEdit>,
    /// Further names: the path in the tarball and what it leads to.
    pub links: Vec<(Placed<String>, String)>,
}

/// Files that are taken from packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VendorFiles {
    /// Paths with wildcards, without a leading `/`.
    pub from: Vec<Placed<String>>,
    /// The path in the tarball; a directory if it is empty or ends with `/`.
    pub to: String,
    /// Paths with wildcards that are not taken.
    pub except: Vec<Placed<String>>,
}

/// The language of a compiler wrapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VendorLanguage {
    /// C.
    C,
    /// C++.
    Cxx,
    /// Fortran.
    Fortran,
}

impl VendorLanguage {
    /// Returns the name that the manifest and Spack have for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Cxx => "cxx",
            Self::Fortran => "fortran",
        }
    }
}

/// A script or a program that calls a compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VendorWrapper {
    /// Its name in `bin`.
    pub name: Placed<String>,
    /// Its path in the packages.
    pub from: Placed<String>,
    /// The language of its compiler.
    pub language: VendorLanguage,
    /// What is replaced in it, if it is a script.
    pub replace: Vec<Replacement>,
    /// The file in the tarball that it reads, if it is a program.
    pub data: Option<Placed<String>>,
}

/// What is replaced in a file of the tarball.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VendorEdit {
    /// Its path in the tarball.
    pub file: Placed<String>,
    /// What is replaced in it.
    pub replace: Vec<Replacement>,
}

/// A text to replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The text.
    pub find: Placed<String>,
    /// What is there afterwards.
    pub with: String,
}

/// A variant for GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VendorGpu {
    /// The variant: `cuda`.
    pub name: String,
    /// Specs of packages that are needed with it.
    pub depends: Vec<String>,
    /// What of the tarball is installed with it only: paths with wildcards.
    pub files: Vec<Placed<String>>,
    /// The libraries that programs are linked with.
    pub link: Vec<String>,
}

impl VendorManifest {
    /// Returns the file, as diagnostics name it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says what is wrong with a value that could be read.
    #[must_use]
    pub fn diagnostic<T>(&self, value: &Placed<T>, message: &str) -> Diagnostic {
        Diagnostic::new(&self.path, &self.text, value.place.clone(), message)
    }
}
