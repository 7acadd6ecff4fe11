// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Libraries of one family in each other's place.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use cabane_mpi::{Refusal, Way};
use cabane_testkit::mpi::{both, installed, libraries_of_debian, ranks};
use cabane_testkit::{Finished, not_run};

use crate::support::{Launcher, Program};

/// Judges, does what the verdict says, and compares the ranks with what they should say.
fn works(program: &Program, launcher: &Launcher, substitute: &Path, way: Way, version: &str) {
    works_with(program, launcher, substitute, "", way, version);
}

fn works_with(
    program: &Program,
    launcher: &Launcher,
    substitute: &Path,
    library_path: &str,
    way: Way,
    version: &str,
) {
    let verdict = program.judge_with(substitute, library_path);
    let plan = verdict.plan().unwrap_or_else(|| panic!("{version}: {verdict:?}"));
    assert_eq!(plan.way, way, "{version}");
    let finished = program.run(launcher, plan);
    assert_eq!(ranks(&finished), both(version), "{finished:?}");
}

#[test]
fn mpich_of_debian_gives_way_to_every_mpich_that_is_preloaded() {
    let names = ["debian", "mpich-3.4.3", "mpich-4.0.3", "mpich-4.3.2", "mpich"];
    let Some([debian, others @ ..]) = installed(names) else {
        not_run!("needs MPICH of Debian 12: scripts/setup test");
    };
    let launcher = Launcher::hydra_of_debian(&debian);
    for (other, version) in others.iter().zip(["3.4.3", "4.0.3", "4.3.2", "5.0.2"]) {
        let program = Program::of_debian_mpich(&debian, &others[1]);
        let version = format!("MPICH Version: {version}");
        works(&program, &launcher, other, Way::Preload, &version);
    }
}

#[test]
fn the_search_path_alone_does_not_swap_silently_and_is_not_chosen() {
    let Some([debian, mpich]) = installed(["debian", "mpich"]) else {
        not_run!("needs MPICH of Debian 12: scripts/setup test");
    };
    let program = Program::of_debian_mpich(&debian, &mpich);
    let verdict = program.judge(&mpich);
    let search = format!("{}:{}", mpich.join("lib").display(), program.library_path);
    let launcher = Launcher::hydra_of_debian(&debian);
    let naive = program.run_with(&launcher, &[("LD_LIBRARY_PATH".to_owned(), search)]);
    // The name that the program asks for is another one.
    assert_eq!(ranks(&naive), both("MPICH Version: 4.0.2"));
    assert_eq!(verdict.plan().map(|plan| plan.way), Some(Way::Preload));
}

#[test]
fn a_link_to_a_library_elsewhere_gets_the_wrong_libfabric_and_is_refused() {
    let names = ["debian", "mpich-3.4.3", "mpich-4.0.3", "mpich-4.3.2", "mpich"];
    let Some([debian, others @ ..]) = installed(names) else {
        not_run!("needs MPICH of Debian 12: scripts/setup test");
    };
    for other in &others {
        let program = Program::of_debian_mpich(&debian, &others[0]);
        let links = program.home.path().join("naive");
        fs::create_dir(&links).unwrap();
        let link = links.join("libmpich.so.12");
        symlink(other.join("lib/libmpi.so.12"), &link).unwrap();
        let verdict = program.judge_with(&link, &program.library_path);
        let search = format!("{}:{}", links.display(), program.library_path);
        let naive = program.run_alone(&[("LD_LIBRARY_PATH".to_owned(), search)]);
        let refusal = verdict.refusal().map(ToString::to_string).unwrap_or_default();
        assert!(refusal.contains("has no version FABRIC_1."), "{refusal}");
        assert!(naive.stderr.contains("version `FABRIC_1."), "{naive:?}");
        assert!(ranks(&naive).is_empty() && naive.code != 0, "{naive:?}");
    }
}

#[test]
fn a_substitute_of_which_a_library_is_missing_is_refused_with_its_name() {
    let Some([mpich]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let program = Program::of(&mpich, "libmpi.so.12");
    let lib = program.home.path().join("lib");
    fs::create_dir(&lib).unwrap();
    fs::copy(mpich.join("lib/libmpi.so.12"), lib.join("libmpi.so.12")).unwrap();
    symlink(mpich.join("lib/mpich"), lib.join("mpich")).unwrap();
    let mut patch = Command::new("patchelf");
    patch.args(["--add-needed", "libnowhere.so.7"]).arg(lib.join("libmpi.so.12"));
    Finished::of(&mut patch).success();
    let verdict = program.judge(program.home.path());
    let search = lib.to_string_lossy().into_owned();
    let variables = [("LD_LIBRARY_PATH".to_owned(), search)];
    let naive = program.run_alone(&variables);
    let refusal = verdict.refusal().map(ToString::to_string).unwrap_or_default();
    assert!(refusal.starts_with("libnowhere.so.7 is missing for "), "{refusal}");
    assert!(naive.stderr.contains("libnowhere.so.7: cannot open"), "{naive:?}");
}

#[test]
fn intel_takes_the_place_of_mpich_with_either_launcher() {
    let Some([debian, intel, mpich]) = installed(["debian", "intel-2021.13.1", "mpich"]) else {
        not_run!("needs MPICH of Debian 12 and Intel MPI: scripts/setup test");
    };
    let version = "Intel MPI 2021.13";
    // By default Hydra tells of one rank on each node, which Intel's library takes literally.
    let of_debian = Launcher::hydra_of_debian(&debian).with(["-ppn", "2"]);
    for launcher in [of_debian, Launcher::of(&intel)] {
        let program = Program::of_debian_mpich(&debian, &mpich);
        let verdict = program.judge(&intel);
        let plan = verdict.plan().unwrap_or_else(|| panic!("{verdict:?}"));
        let finished = program.run(&launcher, plan);
        assert_eq!(verdict.to.map(|library| library.title()).as_deref(), Some(version));
        assert_eq!(ranks(&finished), both("Intel"), "{finished:?}");
    }
}

#[test]
fn a_program_for_a_new_mpich_runs_with_an_old_one_if_it_has_the_functions() {
    let names = ["mpich", "mpich-3.4.3", "debian", "intel-2021.13.1"];
    let Some([mpich, old, debian, intel]) = installed(names) else {
        not_run!("needs MPICH of Debian 12 and Intel MPI: scripts/setup test");
    };
    let launcher = Launcher::of(&mpich);
    let program = || {
        let mut program = Program::of(&mpich, "libmpi.so.12");
        // The path of its own library is not known where it is to run.
        program.library_path = String::new();
        program
    };
    works(&program(), &launcher, &old, Way::LibraryPath, "MPICH Version: 3.4.3");
    works(&program(), &launcher, &intel, Way::LibraryPath, "Intel");
    let of_debian = libraries_of_debian(&debian);
    let library = of_debian.join("libmpich.so.12");
    let search = of_debian.to_string_lossy();
    let version = "MPICH Version: 4.0.2";
    works_with(&program(), &launcher, &library, &search, Way::Preload, version);
}

#[test]
fn a_program_for_an_old_mpich_runs_with_a_new_one() {
    let Some([old, mpich]) = installed(["mpich-3.4.3", "mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let program = Program::of(&old, "libmpi.so.12");
    let launcher = Launcher::of(&old);
    works(&program, &launcher, &mpich, Way::LibraryPath, "MPICH Version: 5.0.2");
}

#[test]
fn an_rpath_that_wins_over_the_search_path_is_overcome() {
    let Some([old, mpich]) = installed(["mpich-3.4.3", "mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let directory = old.join("lib");
    let rpath = format!("-Wl,--disable-new-dtags,-rpath,{}", directory.display());
    let library = directory.join("libmpi.so.12");
    let mut program = Program::compile("hello.c", &old, &[rpath.into(), library]);
    program.library_path = String::new();
    let launcher = Launcher::of(&mpich);
    let search = mpich.join("lib").display().to_string();
    let naive = program.run_with(&launcher, &[("LD_LIBRARY_PATH".to_owned(), search)]);
    assert_eq!(ranks(&naive), both("MPICH Version: 3.4.3"));
    works(&program, &launcher, &mpich, Way::Preload, "MPICH Version: 5.0.2");
}

#[test]
fn what_a_program_gets_already_needs_nothing() {
    let Some([mpich]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let program = Program::of(&mpich, "libmpi.so.12");
    let launcher = Launcher::of(&mpich);
    works(&program, &launcher, &mpich, Way::Nothing, "MPICH Version: 5.0.2");
}

#[test]
fn functions_that_the_substitute_lacks_are_named() {
    let Some([mpich, old]) = installed(["mpich", "mpich-3.4.3"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let library = mpich.join("lib/libmpi.so.12");
    let program = Program::compile("large_count.c", &mpich, &[library]);
    let verdict = program.judge(&old);
    let search = old.join("lib").to_string_lossy().into_owned();
    let variables =
        [("LD_LIBRARY_PATH".to_owned(), search), ("LD_BIND_NOW".to_owned(), "1".to_owned())];
    let naive = program.run_alone(&variables);
    let reported = verdict.refusal().map(ToString::to_string);
    assert_eq!(reported.as_deref(), Some("the substitute lacks MPI_Allreduce_c"));
    assert!(naive.stderr.contains("undefined symbol: MPI_Allreduce_c"), "{naive:?}");
}

#[test]
fn a_library_of_a_newer_system_is_refused_with_both_versions() {
    let Some([debian, newer, mpich]) = installed(["debian", "newer-debian", "mpich"]) else {
        not_run!("needs MPICH of Debian 12 and 13: scripts/setup test");
    };
    let program = Program::of_debian_mpich(&debian, &mpich);
    let library = libraries_of_debian(&newer).join("libmpich.so.12");
    let verdict = program.judge_with(&library, &program.library_path);
    let preload = ("LD_PRELOAD".to_owned(), library.to_string_lossy().into_owned());
    let search = ("LD_LIBRARY_PATH".to_owned(), program.library_path.clone());
    let naive = program.run_alone(&[search, preload]);
    let Some(Refusal::OldGlibc { needed, found, .. }) = verdict.refusal() else {
        panic!("{verdict:?}");
    };
    assert_eq!((needed.as_str(), found.as_deref()), ("2.38", Some("2.36")));
    assert!(naive.stderr.contains("version `GLIBC_2.38' not found"), "{naive:?}");
}

#[test]
fn open_mpi_of_debian_gives_way_to_newer_ones() {
    let names = ["debian", "openmpi-4.1.8", "openmpi"];
    let Some([debian, others @ ..]) = installed(names) else {
        not_run!("needs Open MPI of Debian 12: scripts/setup test");
    };
    let launcher = Launcher::openmpi_of_debian(&debian);
    for (other, version) in others.iter().zip(["4.1.8", "5.0.11"]) {
        let program = Program::of_debian_openmpi(&debian, &others[0]);
        let version = format!("Open MPI v{version}");
        works(&program, &launcher, other, Way::LibraryPath, &version);
    }
}

#[test]
fn a_program_for_a_new_open_mpi_runs_with_that_of_debian() {
    let Some([debian, openmpi]) = installed(["debian", "openmpi"]) else {
        not_run!("needs Open MPI of Debian 12: scripts/setup test");
    };
    let mut program = Program::of(&openmpi, "libmpi.so.40");
    program.library_path = String::new();
    let library = libraries_of_debian(&debian).join("libmpi.so.40");
    let search = libraries_of_debian(&debian).to_string_lossy().into_owned();
    let launcher = Launcher::openmpi_of_debian(&debian);
    works_with(&program, &launcher, &library, &search, Way::LibraryPath, "Open MPI v4.1.4");
}
