// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Programs in Fortran: they need libraries of their own beside the one for C.

use std::path::{Path, PathBuf};

use cabane_mpi::{Language, Refusal, Way};
use cabane_testkit::mpi::{installed, libraries_of_debian, ranks};
use cabane_testkit::not_run;

use crate::support::{Launcher, Program};

/// A program that calls what a compiler for Fortran would call.
fn fortran(debian: &Path) -> Program {
    let names = ["libmpichfort.so.12", "libmpich.so.12"];
    let libraries = names.map(|name| libraries_of_debian(debian).join(name));
    Program::compile("fortran.c", debian, &libraries)
}

#[test]
fn fortran_is_refused_where_the_substitute_has_nothing_for_it() {
    let Some([debian, mpich]) = installed(["debian", "mpich"]) else {
        not_run!("needs MPICH of Debian 12: scripts/setup test");
    };
    let verdict = fortran(&debian).judge(&mpich);
    let Some(Refusal::NoLanguage { language, names, .. }) = verdict.refusal() else {
        panic!("{verdict:?}");
    };
    assert_eq!(*language, Language::Fortran);
    assert_eq!(names, &["libmpichfort.so.12"]);
}

#[test]
fn fortran_under_the_standard_abi_is_refused() {
    let Some([mpich]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    // There is no library with these functions: a program is not linked, an extension is.
    let options = ["-shared", "-fPIC", "-Wl,--no-as-needed"];
    let library = mpich.join("lib/libmpi_abi.so.1");
    let options = options.iter().map(PathBuf::from);
    let arguments: Vec<PathBuf> = options.chain([library]).collect();
    let program = Program::compile("fortran.c", &mpich, &arguments);
    let refusal = program.judge(&mpich).refusal().map(ToString::to_string);
    let expected = "the program uses MPI from Fortran, and the MPI 5 ABI has nothing for Fortran";
    assert_eq!(refusal.as_deref(), Some(expected));
}

#[test]
fn fortran_runs_with_intel_which_brings_a_library_for_it() {
    let Some([debian, intel]) = installed(["debian", "intel-2021.13.1"]) else {
        not_run!("needs MPICH of Debian 12 and Intel MPI: scripts/setup test");
    };
    let program = fortran(&debian);
    let verdict = program.judge(&intel);
    let plan = verdict.plan().unwrap_or_else(|| panic!("{verdict:?}"));
    let finished = program.run(&Launcher::of(&intel), plan);
    let expected = ["rank 0 of 2, right, Intel", "rank 1 of 2, right, Intel"];
    assert_eq!(plan.way, Way::Preload);
    assert_eq!(ranks(&finished), expected, "{finished:?}");
}
