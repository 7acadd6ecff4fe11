// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Libraries of different families, launchers of the other one, and what no library helps.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Command;

use cabane_mpi::{Family, Inspected, LauncherKind, Loader, Refusal, Tree, Way, inspect};
use cabane_testkit::mpi::{both, installed, libraries_of_debian, ranks};
use cabane_testkit::{Finished, compile, not_run};

use crate::support::{Launcher, Program};

#[test]
fn open_mpi_in_the_place_of_mpich_is_refused_and_would_crash() {
    let Some([debian, mpich, openmpi]) = installed(["debian", "mpich", "openmpi"]) else {
        not_run!("needs MPICH of Debian 12 and Open MPI: scripts/setup test");
    };
    let program = Program::of_debian_mpich(&debian, &mpich);
    let verdict = program.judge(&openmpi);
    let library = openmpi.join("lib/libmpi.so.40");
    let variables = [
        ("LD_LIBRARY_PATH".to_owned(), program.library_path.clone()),
        ("LD_PRELOAD".to_owned(), library.to_string_lossy().into_owned()),
    ];
    let naive = program.run_with(&Launcher::of(&openmpi), &variables);
    let Some(Refusal::OtherFamily { program: family, found, .. }) = verdict.refusal() else {
        panic!("{verdict:?}");
    };
    assert_eq!((*family, found.as_slice()), (Family::Mpich, [Family::OpenMpi].as_slice()));
    // It has all the functions: nothing but the family tells.
    assert!(!naive.stderr.contains("undefined symbol"), "{naive:?}");
    assert!(naive.code != 0 && ranks(&naive).is_empty(), "{naive:?}");
}

#[test]
fn mpich_in_the_place_of_open_mpi_is_refused() {
    let Some([openmpi, mpich]) = installed(["openmpi", "mpich"]) else {
        not_run!("needs MPICH and Open MPI: scripts/setup test");
    };
    let program = Program::of(&openmpi, "libmpi.so.40");
    let verdict = program.judge(&mpich);
    let refusal = verdict.refusal().map(ToString::to_string).unwrap_or_default();
    let expected = "the program is for Open MPI, and ";
    assert!(refusal.starts_with(expected), "{refusal}");
}

#[test]
fn ranks_under_the_launcher_of_the_other_family_are_alone_and_that_is_foretold() {
    let Some([debian, mpich, openmpi]) = installed(["debian", "mpich", "openmpi"]) else {
        not_run!("needs MPICH of Debian 12 and Open MPI: scripts/setup test");
    };
    let of_mpich = Program::of_debian_mpich(&debian, &mpich);
    let of_openmpi = Program::of_debian_openmpi(&debian, &openmpi);
    let hydra = Launcher::hydra_of_debian(&debian);
    let mpirun = Launcher::openmpi_of_debian(&debian);
    for (program, right, wrong) in [(&of_mpich, &hydra, &mpirun), (&of_openmpi, &mpirun, &hydra)] {
        let search = [("LD_LIBRARY_PATH".to_owned(), program.library_path.clone())];
        let alone = program.run_with(wrong, &search);
        let tree = Tree::here();
        let loader = Loader::new(&tree).library_path(&program.library_path);
        let Some(Inspected::File(file)) = inspect(&tree, &loader, &program.path) else {
            panic!("nothing is reported of {}", program.path.display());
        };
        let fits = |launcher: &Launcher| {
            let kind = LauncherKind::of(&tree, &launcher.path).expect("a launcher");
            file.library.as_ref()?.fits(kind)
        };
        let lonely = alone.stdout.matches("rank 0 of 1, right").count();
        // All is well, says the exit code.
        assert_eq!((alone.code, lonely), (0, 2), "{alone:?}");
        assert_eq!((fits(right), fits(wrong)), (Some(true), Some(false)));
    }
}

#[test]
fn a_program_for_the_standard_abi_runs_with_the_library_on_its_search_path() {
    let Some([mpich]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let mut program = Program::of_abi(&mpich);
    program.library_path = String::new();
    let verdict = program.judge(&mpich);
    let plan = verdict.plan().unwrap_or_else(|| panic!("{verdict:?}"));
    let finished = program.run(&Launcher::of(&mpich), plan);
    let family = verdict.to.as_ref().map(|library| library.family);
    assert_eq!((plan.way, family), (Way::LibraryPath, Some(Family::Mpi5Abi)));
    assert_eq!(ranks(&finished), both("MPICH Version: 5.0.2"), "{finished:?}");
}

#[test]
fn a_library_without_the_standard_abi_is_none_for_a_program_that_needs_it() {
    let Some([mpich, openmpi]) = installed(["mpich", "openmpi"]) else {
        not_run!("needs MPICH and Open MPI: scripts/setup test");
    };
    let program = Program::of_abi(&mpich);
    let verdict = program.judge(&openmpi);
    let refusal = verdict.refusal().map(ToString::to_string).unwrap_or_default();
    assert!(refusal.starts_with("the program is for the MPI 5 ABI, and "), "{refusal}");
    assert!(refusal.ends_with(" has only Open MPI"), "{refusal}");
}

#[test]
fn a_runpath_that_wins_over_a_link_without_a_number_is_not_taken_for_a_swap() {
    let Some([mpich]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let program = Program::of_abi(&mpich);
    // A directory for linking: it has the name without the number only.
    let directory = program.home.path().join("link-time");
    fs::create_dir(&directory).unwrap();
    fs::copy(mpich.join("lib/libmpi_abi.so.1"), directory.join("libmpi_abi.so")).unwrap();
    let verdict = program.judge(&directory);
    assert!(matches!(verdict.refusal(), Some(Refusal::NoSubstitute { .. })), "{verdict:?}");
}

#[test]
fn the_old_open_mpi_with_the_name_of_the_mpich_abi_is_recognized_by_its_objects() {
    let Some([mpich]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let home = tempfile::tempdir().unwrap();
    let library = home.path().join("libmpi.so.12");
    let program = home.path().join("program");
    let source = "int ompi_mpi_comm_world; int MPI_Init() {return 0;} int PMPI_Init() {return 0;}";
    let options = ["-shared", "-fPIC", "-Wl,-soname,libmpi.so.12"];
    compile(source, &library, options);
    let source = "extern int ompi_mpi_comm_world; int main() {MPI_Init(&ompi_mpi_comm_world);}";
    let options = ["-fPIE", "-pie", &library.to_string_lossy()];
    compile(source, &program, options);
    let program =
        Program { library_path: home.path().to_string_lossy().into_owned(), path: program, home };
    let verdict = program.judge(&mpich);
    let from = verdict.from.as_ref().map(|library| library.family);
    assert_eq!(from, Some(Family::OpenMpi));
    assert!(matches!(verdict.refusal(), Some(Refusal::OtherFamily { .. })), "{verdict:?}");
}

#[test]
fn open_mpi_with_another_number_is_another_abi() {
    let Some([openmpi]) = installed(["openmpi"]) else {
        not_run!("needs Open MPI: scripts/setup test");
    };
    let program = Program::of(&openmpi, "libmpi.so.40");
    let mut patch = Command::new("patchelf");
    patch.args(["--replace-needed", "libmpi.so.40", "libmpi.so.20"]).arg(&program.path);
    Finished::of(&mut patch).success();
    let verdict = program.judge(&openmpi);
    let refusal = verdict.refusal().map(ToString::to_string);
    let expected = "the program needs libmpi.so.20, and the substitute is libmpi.so.40: another \
                    ABI of Open MPI";
    assert_eq!(refusal.as_deref(), Some(expected));
}

#[test]
fn a_static_program_keeps_its_mpi() {
    let Some([mpich]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("program");
    let source = "int PMPI_Init() {return 0;} int main() {return PMPI_Init();}";
    compile(source, &path, ["-static"]);
    let library_path = String::new();
    let program = Program { home, path, library_path };
    let verdict = program.judge(&mpich);
    let refusal = verdict.refusal().map(ToString::to_string);
    let expected = ": its MPI is part of it, and cannot be replaced";
    assert!(refusal.is_some_and(|text| text.ends_with(expected)), "{verdict:?}");
}

#[test]
fn a_program_with_the_rights_of_its_owner_is_refused() {
    let Some([mpich]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let program = Program::of(&mpich, "libmpi.so.12");
    fs::set_permissions(&program.path, fs::Permissions::from_mode(0o4755)).unwrap();
    let verdict = program.judge(&mpich);
    assert!(matches!(verdict.refusal(), Some(Refusal::SetId { .. })), "{verdict:?}");
}

#[test]
fn a_program_for_other_processors_is_refused() {
    let Some([mpich]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let program = Program::of(&mpich, "libmpi.so.12");
    // The number of a processor in the head of a program: that of IBM's Z.
    let file = fs::OpenOptions::new().write(true).open(&program.path).unwrap();
    file.write_all_at(&22_u16.to_ne_bytes(), 18).unwrap();
    let verdict = program.judge(&mpich);
    assert!(matches!(verdict.refusal(), Some(Refusal::OtherArchitecture { .. })), "{verdict:?}");
}

#[test]
fn a_program_without_mpi_is_refused() {
    let Some([mpich]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let program = Program {
        home: tempfile::tempdir().unwrap(),
        path: "/bin/sh".into(),
        library_path: String::new(),
    };
    let refusal = program.judge(&mpich);
    assert!(matches!(refusal.refusal(), Some(Refusal::NoMpi { .. })), "{refusal:?}");
}

#[test]
fn a_directory_without_mpi_is_no_substitute() {
    let Some([debian, mpich]) = installed(["debian", "mpich"]) else {
        not_run!("needs MPICH of Debian 12: scripts/setup test");
    };
    let program = Program::of_debian_mpich(&debian, &mpich);
    let verdict = program.judge(&libraries_of_debian(&debian).join("ucx"));
    assert!(matches!(verdict.refusal(), Some(Refusal::NoSubstitute { .. })), "{verdict:?}");
}
