// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is reported of libraries and prefixes: family, version, launchers, what is missing.

use std::fs;
use std::path::Path;
use std::process::Command;

use cabane_mpi::{
    Family, FileKind, Inspected, Inspection, Language, LauncherKind, Loader, Protocol, Through,
    Tree, find_installation, inspect,
};
use cabane_testkit::mpi::{Root, installed, libraries_of_debian};
use cabane_testkit::{Finished, not_run};

use crate::support::Program;

fn inspection(tree: &Tree, path: &Path) -> Inspection {
    let loader = Loader::new(tree);
    match inspect(tree, &loader, path) {
        Some(Inspected::File(file)) => *file,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_library_shows_its_family_and_its_version() {
    let names = [
        "mpich-3.4.3",
        "mpich-4.0.3",
        "mpich-4.3.2",
        "mpich",
        "openmpi-4.1.8",
        "openmpi",
        "intel-2021.13.1",
        "debian",
        "newer-debian",
    ];
    let Some(prefixes) = installed(names) else {
        not_run!("needs MPIs of Debian 12 and 13, and others: scripts/setup test");
    };
    let tree = Tree::here();
    let reported = prefixes.map(|prefix| {
        let libraries = find_installation(&tree, &prefix).libraries.into_iter();
        let for_c = libraries.filter(|one| one.language == Language::C);
        let all: Vec<(String, Family)> = for_c.map(|one| (one.title(), one.family)).collect();
        all
    });
    let one = |title: &str, family| vec![(title.to_owned(), family)];
    let both = |first: &str, second: &str, of_second| {
        vec![(first.to_owned(), Family::Mpich), (second.to_owned(), of_second)]
    };
    let expected = [
        one("MPICH 3.4.3", Family::Mpich),
        one("MPICH 4.0.3", Family::Mpich),
        one("MPICH 4.3.2", Family::Mpich),
        both("MPICH 5.0.2", "MPICH 5.0.2", Family::Mpi5Abi),
        one("Open MPI 4.1.8", Family::OpenMpi),
        one("Open MPI 5.0.11", Family::OpenMpi),
        one("Intel MPI 2021.13", Family::Mpich),
        both("MPICH 4.0.2", "Open MPI 4.1.4", Family::OpenMpi),
        one("MPICH 4.2.1", Family::Mpich),
    ];
    assert_eq!(reported, expected);
}

#[test]
fn libraries_whose_parts_lie_in_others_are_known_as_well() {
    // Of Open MPI 6 the objects are in a library behind the one that programs need; both ABIs
    // of MPICH 5 share nothing.
    let Some(root) = Root::find("sid").path() else {
        not_run!("needs the root file system of a newer Debian: scripts/setup test");
    };
    let tree = Tree::below(root);
    let libraries = libraries_of_debian(Path::new("/"));
    let reported = [
        "libmpich.so.12",
        "libmpi.so.40",
        "libmpi_abi_mpich.so.1.0.0",
        "libmpi_abi_openmpi.so.1.0.0",
    ]
    .map(|name| {
        let file = inspection(&tree, &libraries.join(name));
        let library = file.library.unwrap_or_else(|| panic!("{name} is none"));
        let has_version = library.version.is_some();
        (library.product, library.family, has_version)
    });
    let expected = [
        ("MPICH".to_owned(), Family::Mpich, true),
        ("Open MPI".to_owned(), Family::OpenMpi, true),
        ("MPICH".to_owned(), Family::Mpi5Abi, true),
        ("Open MPI".to_owned(), Family::Mpi5Abi, true),
    ];
    assert_eq!(reported, expected);
}

#[test]
fn launchers_show_whose_they_are() {
    let Some([debian, mpich, openmpi]) = installed(["debian", "mpich", "openmpi"]) else {
        not_run!("needs MPIs of Debian 12 and others: scripts/setup test");
    };
    let tree = Tree::here();
    let kinds = |prefix: &Path| {
        let launchers = find_installation(&tree, prefix).launchers;
        let mut kinds: Vec<LauncherKind> = launchers.iter().map(|one| one.kind).collect();
        kinds.dedup();
        kinds
    };
    let reported = [&mpich, &openmpi, &debian].map(|prefix| kinds(prefix));
    let (hydra, openmpi) = (LauncherKind::Hydra, LauncherKind::OpenMpi);
    assert_eq!(reported, [vec![hydra], vec![openmpi], vec![hydra, openmpi]]);
}

#[test]
fn protocols_show_what_ranks_and_launchers_speak() {
    let names = ["mpich-3.4.3", "mpich", "openmpi", "intel-2021.13.1"];
    let Some(prefixes) = installed(names) else {
        not_run!("needs MPICH, Open MPI and Intel MPI: scripts/setup test");
    };
    let tree = Tree::here();
    let reported = prefixes.map(|prefix| {
        let all = find_installation(&tree, &prefix).libraries;
        let first = all.into_iter().find(|one| one.language == Language::C);
        first.map(|one| Vec::from_iter(one.protocols)).unwrap_or_default()
    });
    let expected = [
        vec![Protocol::Pmi1],
        vec![Protocol::Pmi1, Protocol::Pmi2],
        vec![Protocol::Pmix],
        vec![Protocol::Pmi1, Protocol::Pmix],
    ];
    assert_eq!(reported, expected);
}

#[test]
fn launchers_are_those_of_every_protocol() {
    let names = ["mpich-4.0.3", "mpich", "openmpi-4.1.8", "openmpi", "intel-2021.13.1"];
    let Some(prefixes) = installed(names) else {
        not_run!("needs MPICH, Open MPI and Intel MPI: scripts/setup test");
    };
    let tree = Tree::here();
    let launchers = prefixes.map(|prefix| {
        let all = find_installation(&tree, &prefix).libraries;
        let first = all.iter().find(|one| one.language == Language::C).unwrap();
        inspection(&tree, &first.path).launchers().join(", ")
    });
    let (mpich, openmpi) = ("Hydra, srun --mpi=pmi2", "mpirun of Open MPI, srun --mpi=pmix");
    let intel = "Hydra, srun --mpi=pmi2, srun --mpi=pmix";
    assert_eq!(launchers, [mpich, mpich, openmpi, openmpi, intel]);
}

/// Compiles a library of MPICH that asks a library of PMI, whose texts are given.
fn with_pmi_library(home: &Path, pmi: &str, texts: &str) -> Inspection {
    let compile = |name: &str, source: &str, options: &[&str]| {
        let (input, output) = (home.join("source.c"), home.join(name));
        fs::write(&input, source).unwrap();
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-nostdlib", "-Wl,--no-as-needed", "-o"]);
        command.arg(&output).arg(&input).arg(format!("-Wl,-soname,{name}")).args(options);
        Finished::of(&mut command).success();
    };
    compile(pmi, &format!("const char texts[] = \"{texts}\";"), &[]);
    let library = home.join(pmi).display().to_string();
    let search = format!("-Wl,-rpath,{}", home.display());
    compile("libmpi.so.12", "int PMPI_Init(void) { return 0; }", &[&library, &search]);
    inspection(&Tree::here(), &home.join("libmpi.so.12"))
}

#[test]
fn of_a_library_of_pmi_it_counts_how_it_reaches_the_launcher() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let other = format!("the launcher of {}", home.join("libpmi.so.0").display());
    for (name, texts, expected) in [
        ("libpmi.so.0", "SLURM_STEPID", "srun"),
        ("libpmi2.so.0", "PMI_FD cmd=fullinit", "Hydra, srun --mpi=pmi2"),
        ("libpmi.so.0", "PALS_", other.as_str()),
    ] {
        let seen = with_pmi_library(home, name, texts);
        assert_eq!(seen.launchers(), [expected.split(", ").collect::<Vec<_>>()].concat());
        // Whether Hydra starts its ranks depends on the library that is loaded.
        let library = seen.library.unwrap();
        assert_eq!(library.fits(LauncherKind::Hydra), None);
    }
}

#[test]
fn a_library_below_another_root_is_found_with_what_it_needs_there() {
    let Some([debian]) = installed(["debian"]) else {
        not_run!("needs MPICH of Debian 12: scripts/setup test");
    };
    let tree = Tree::below(&debian);
    let library = libraries_of_debian(Path::new("/")).join("libmpich.so.12");
    let reported = inspection(&tree, &library);
    let ucx = reported.files.iter().find(|file| file.name == "libucp.so.0");
    // The C library is not part of the tree, and that of this machine is not taken.
    let has_no_libc = reported.missing.iter().any(|one| one.name == "libc.so.6");
    assert_eq!(ucx.map(|file| file.by), Some(Through::System));
    assert!(reported.is_mpi && has_no_libc, "{reported:?}");
}

#[test]
fn a_program_shows_what_it_needs_and_gets() {
    let Some([mpich]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let program = Program::of(&mpich, "libmpi.so.12");
    let tree = Tree::here();
    let loader = Loader::new(&tree).library_path(&program.library_path);
    let Some(Inspected::File(reported)) = inspect(&tree, &loader, &program.path) else {
        panic!("nothing is reported");
    };
    let functions: Vec<&str> = reported.functions.iter().map(String::as_str).collect();
    let expected = [
        "MPI_Allreduce",
        "MPI_Comm_rank",
        "MPI_Comm_size",
        "MPI_Finalize",
        "MPI_Get_library_version",
        "MPI_Init",
        "MPI_Irecv",
        "MPI_Isend",
        "MPI_Waitall",
    ];
    assert_eq!(functions, expected);
    assert_eq!(
        (reported.kind, reported.names.as_slice()),
        (FileKind::Program, ["libmpi.so.12".to_owned()].as_slice())
    );
    assert_eq!(reported.library.map(|library| library.title()).as_deref(), Some("MPICH 5.0.2"));
    assert!(reported.missing.is_empty() && reported.unmet.is_empty(), "{:?}", reported.missing);
}

#[test]
fn everything_that_is_reported_can_be_read_again() {
    let Some([mpich]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let tree = Tree::here();
    let mut reported = inspection(&tree, &mpich.join("lib/libmpi.so.12"));
    let text = serde_json::to_string(&reported).unwrap();
    // The functions of a library are not written: there are more than a thousand.
    if let Some(library) = &mut reported.library {
        library.symbols.clear();
    }
    assert_eq!(serde_json::from_str::<Inspection>(&text).unwrap(), reported);
}

#[test]
fn a_library_that_is_damaged_anywhere_is_read_without_harm() {
    let Some([mpich]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    // A small one, with all that there is in a large one.
    let whole = fs::read(mpich.join("lib/mpich/libucm.so.0")).unwrap();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("libmpi.so.12");
    let tree = Tree::here();
    let heads = (whole.len() - 4096..whole.len() - 4).step_by(31);
    let places: Vec<usize> = (0..1024).step_by(9).chain(heads).collect();
    let mut reported = 0;
    for place in &places {
        let mut damaged = whole.clone();
        damaged[*place..][..4].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f]);
        fs::write(&path, &damaged).unwrap();
        reported += usize::from(inspect(&tree, &Loader::new(&tree), &path).is_some());
        fs::write(&path, &whole[..*place]).unwrap();
        reported += usize::from(inspect(&tree, &Loader::new(&tree), &path).is_some());
    }
    // Most corruption is in what is not read; what is read is noticed.
    assert!(reported > 0 && reported < 2 * places.len(), "{reported}");
}
