// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Real libraries of MPI that the set-up brings, and programs for them.
//!
//! ```text
//! .cabane/mpi/mpich-4.0.3      a prefix, from packages of Python
//! .cabane/mpi/debian           packages of Debian 12, unpacked; there is no `mpi.h`
//! .cabane/roots/sid            a root file system of another Debian with its MPIs
//! tests/mpi/hello.c            a program
//! ```

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::compiler::compiler;
use crate::world::Finished;

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Finds libraries by their names in `.cabane/mpi`, if the set-up has put all of them there.
pub fn installed<const COUNT: usize>(names: [&str; COUNT]) -> Option<[PathBuf; COUNT]> {
    let place = fs::canonicalize(Path::new(TOP).join(".cabane/mpi")).ok()?;
    let found = names.map(|name| place.join(name));
    let is_there = found.iter().all(|one| {
        let signs = ["installed.txt", "usr/lib"];
        signs.iter().any(|sign| one.join(sign).exists())
    });
    is_there.then_some(found)
}

/// What there is of a root file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// It is here.
    Here(PathBuf),
    /// The set-up has looked for it in vain.
    NotToBeHad,
    /// The set-up has not run.
    Missing,
}

impl Root {
    /// Looks for the root file system of another Debian: `bullseye`, `trixie`, or `sid`.
    pub fn find(suite: &str) -> Self {
        let Ok(place) = fs::canonicalize(Path::new(TOP).join(".cabane/roots")) else {
            return Self::Missing;
        };
        let root = place.join(suite);
        if root.join("etc/os-release").exists() {
            Self::Here(root)
        } else if place.join(format!("{suite}.none")).exists() {
            Self::NotToBeHad
        } else {
            Self::Missing
        }
    }

    /// The directory, if it is here.
    pub fn path(self) -> Option<PathBuf> {
        match self {
            Self::Here(path) => Some(path),
            Self::NotToBeHad | Self::Missing => None,
        }
    }
}

/// The directory of shared libraries in a tree of Debian.
pub fn libraries_of_debian(root: &Path) -> PathBuf {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    root.join("usr/lib").join(triplet)
}

/// Compiles a source of `tests/mpi`, with the headers below a prefix, for the libraries among
/// the options.
///
/// # Panics
///
/// If the compiler fails.
pub fn compile<Argument: AsRef<OsStr>>(
    source: &str,
    program: &Path,
    headers: &Path,
    options: impl IntoIterator<Item = Argument>,
) {
    let mut command = compiler(&Path::new(TOP).join("tests/mpi").join(source), program);
    command.args(["-O2", "-I"]).arg(headers.join("include"));
    command.args(options);
    // What a library of another distribution needs is not looked for here.
    command.arg("-Wl,--allow-shlib-undefined");
    Finished::of(&mut command).success();
}

/// How a program in Fortran uses MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    /// `use mpi`.
    Mpi,
    /// `use mpi_f08`.
    MpiF08,
    /// The same, with a comparison of handles: its name is from the compiler.
    MpiF08Compares,
}

/// Compiles `tests/mpi/ring.F90` with modules in a directory, for libraries among the options.
///
/// # Panics
///
/// If the compiler fails.
pub fn compile_fortran<Argument: AsRef<OsStr>>(
    module: Module,
    program: &Path,
    modules: &Path,
    options: impl IntoIterator<Item = Argument>,
) {
    let definitions: &[&str] = match module {
        Module::Mpi => &[],
        Module::MpiF08 => &["-DF08"],
        Module::MpiF08Compares => &["-DF08", "-DCOMPARES"],
    };
    let mut command = std::process::Command::new("gfortran");
    command.args(["-O2", "-w", "-fallow-argument-mismatch"]).args(definitions);
    command.arg("-I").arg(modules).arg(Path::new(TOP).join("tests/mpi/ring.F90"));
    command.arg("-o").arg(program).args(options).arg("-Wl,--allow-shlib-undefined");
    Finished::of(&mut command).success();
}

/// The directories of modules for Fortran in the development packages of Debian: those of MPICH,
/// and those of Open MPI.
pub fn modules_of_debian(development: &Path) -> [PathBuf; 2] {
    let modules = libraries_of_debian(development).join("fortran/gfortran-mod-15");
    ["mpich", "openmpi"].map(|name| modules.join(name))
}

/// Compiles a source for a library of an MPI in a root file system that may be older than this
/// machine: the program asks for no newer functions than the C library there has.
///
/// # Panics
///
/// If the compiler fails.
pub fn compile_for_root(source: &str, program: &Path, headers: &Path, root: &Path, library: &str) {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let libraries =
        [libraries_of_debian(root).join(library), root.join("lib").join(triplet).join("libc.so.6")];
    let options = [OsStr::new("-nodefaultlibs"), OsStr::new("-w")];
    compile(
        source,
        program,
        headers,
        options.into_iter().chain(libraries.iter().map(|one| one.as_os_str())),
    );
}

/// Compiles `tests/mpi/NAME.c` to `bin/NAME` below a prefix, for the library there: both may be
/// moved together.
///
/// # Panics
///
/// If the compiler fails.
pub fn compile_below(prefix: &Path, name: &str) {
    let mut search = std::ffi::OsString::from("-L");
    search.push(prefix.join("lib"));
    let options = [search, "-Wl,-rpath,$ORIGIN/../lib".into(), "-lmpi".into()];
    let program = prefix.join("bin").join(name);
    compile(&format!("{name}.c"), &program, prefix, options);
}

/// Returns the output of ranks of `hello.c`, in the order of their numbers:
/// `rank 0 of 2, right, MPICH Version: 4.0.2`.
pub fn ranks(finished: &Finished) -> Vec<String> {
    let lines = finished.stdout.lines();
    let lines = lines.filter(|line| line.starts_with("rank "));
    let single_spaced = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut ranks: Vec<String> = lines.map(single_spaced).collect();
    ranks.sort();
    ranks
}

/// Returns what two ranks of a version say if all is well.
pub fn both(version: &str) -> Vec<String> {
    let rank = |rank: u8| format!("rank {rank} of 2, right, {version}");
    vec![rank(0), rank(1)]
}
