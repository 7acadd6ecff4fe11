// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Programs in Fortran: they need libraries of their own beside the one for C.

use std::path::{Path, PathBuf};

use cabane_mpi::{Language, Refusal, Way};
use cabane_testkit::mpi::{
    Module, compile_fortran, installed, libraries_of_debian, modules_of_debian, ranks,
};
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

/// A real program for MPICH of Debian 12.
fn ring(debian: &Path, development: &Path, module: Module) -> Program {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("program");
    let libraries = libraries_of_debian(debian);
    let names = ["libmpichfort.so.12", "libmpich.so.12"].map(|name| libraries.join(name));
    let [modules, _] = modules_of_debian(development);
    compile_fortran(module, &path, &modules, names);
    Program { home, path, library_path: libraries.to_string_lossy().into_owned() }
}

#[test]
fn programs_of_both_modules_run_with_intel() {
    let Some([debian, development, intel]) = installed(["debian", "debian-dev", "intel-2021.13.1"])
    else {
        not_run!("needs MPICH of Debian 12 with its modules, and Intel MPI: scripts/setup test");
    };
    for module in [Module::Mpi, Module::MpiF08] {
        let program = ring(&debian, &development, module);
        let verdict = program.judge(&intel);
        let plan = verdict.plan().unwrap_or_else(|| panic!("{verdict:?}"));
        // Its library for Fortran has no search path, and finds the one for C in the program.
        assert!(verdict.warnings.is_empty(), "{:?}", verdict.warnings);
        let finished = program.run(&Launcher::of(&intel), plan);
        let expected = ["rank 0 of 2, right, Intel", "rank 1 of 2, right, Intel"];
        assert_eq!(ranks(&finished), expected, "{module:?}: {finished:?}");
    }
}

#[test]
fn what_has_its_name_from_another_compiler_is_refused_and_would_not_start() {
    let Some([debian, development, intel]) = installed(["debian", "debian-dev", "intel-2021.13.1"])
    else {
        not_run!("needs MPICH of Debian 12 with its modules, and Intel MPI: scripts/setup test");
    };
    let allowed = ring(&debian, &development, Module::MpiF08);
    let program = ring(&debian, &development, Module::MpiF08Compares);
    let verdict = program.judge(&intel);
    let refusal = verdict.refusal().unwrap_or_else(|| panic!("{verdict:?}"));
    let expected = "the substitute lacks __mpi_f08_types_MOD_mpi_comm_neq";
    assert_eq!(refusal.to_string(), expected);
    assert!(refusal.hint().is_some_and(|hint| hint.contains("the compiler of the program")));
    // The plan for the other one has the same libraries, so that it could be done all the same.
    let plan = allowed.judge(&intel).plan().unwrap().clone();
    let forced = program.run(&Launcher::of(&intel), &plan);
    assert!(ranks(&forced).is_empty() && forced.stderr.contains("mpi_comm_neq"), "{forced:?}");
}

#[test]
fn a_program_with_its_mpi_inside_is_refused() {
    let Some([debian, development]) = installed(["debian", "debian-dev"]) else {
        not_run!("needs MPICH of Debian 12 as an archive: scripts/setup test");
    };
    let libraries = libraries_of_debian(&debian);
    let archive = libraries_of_debian(&development).join("libmpich.a");
    let needs = ["libucp.so.0", "libucs.so.0", "libhwloc.so.15"].map(|name| libraries.join(name));
    let options = [archive].into_iter().chain(needs).chain(["-lm".into()]);
    let headers = development.join("usr").join("include/x86_64-linux-gnu/mpich");
    let include = format!("-I{}", headers.display());
    let options: Vec<PathBuf> = options.chain([include.into()]).collect();
    let program = Program::compile("hello.c", &development, &options);
    let verdict = program.judge(&debian.join("usr"));
    let refusal = verdict.refusal().unwrap_or_else(|| panic!("{verdict:?}"));
    assert!(matches!(refusal, Refusal::Inside { .. }), "{refusal:?}");
    assert_eq!(
        refusal.hint().as_deref(),
        Some("link the program again with a shared library of MPI")
    );
}
