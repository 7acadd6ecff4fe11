// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Programs of Debian 12 in containers of newer ones, with their libraries and others.
//!
//! Each test asks for the verdict first, and then runs two ranks: what is called possible must
//! work with the library that was promised, and what is refused must fail if it is done all the
//! same.

use std::path::Path;

use cabane_mpi::{Family, Library, Verdict, Way};
use cabane_testkit::mpi::{both, installed, libraries_of_debian, ranks};
use cabane_testkit::{Tree, not_run};

use crate::debian_roots::{Image, Programs, image_of, pack};

/// The library of a verdict that works, as its ranks name it.
fn promised(verdict: &Verdict, way: Way) -> String {
    let plan = verdict.plan().unwrap_or_else(|| panic!("{verdict:?}"));
    assert_eq!(plan.way, way, "{verdict:?}");
    spoken(verdict.to.as_ref().unwrap())
}

fn spoken(library: &Library) -> String {
    let version = library.version.as_deref().unwrap_or_default();
    match library.product.as_str() {
        "Open MPI" => format!("Open MPI v{version}"),
        product => format!("{product} Version: {version}"),
    }
}

/// The library of an image, as it is seen there.
fn of_image(name: &str) -> std::path::PathBuf {
    libraries_of_debian(Path::new("/")).join(name)
}

fn program_runs_with_the_mpich_of(image: &Image) {
    let Some([debian, headers]) = installed(["debian", "mpich"]) else {
        not_run!("needs MPICH of Debian 12: scripts/setup test");
    };
    let programs = Programs::new(&debian);
    let library = libraries_of_debian(&debian).join("libmpich.so.12");
    programs.compile("hello.c", &headers, &[], &library);
    let verdict = programs.judge(image, &of_image("libmpich.so.12"), true);
    let expected = both(&promised(&verdict, Way::Nothing));
    let outside = programs.launch(&programs.hydra(), &[], image);
    let inside = programs.launch_inside(&[], image, &["mpiexec.hydra"]);
    assert_eq!(ranks(&outside), expected, "{outside:?}");
    assert_eq!(ranks(&inside), expected, "{inside:?}");
}

#[test]
fn a_program_of_debian_12_runs_with_mpich_of_debian_13_under_either_launcher() {
    let image = image_of!("trixie");
    program_runs_with_the_mpich_of(&image);
}

#[test]
fn a_program_of_debian_12_runs_with_mpich_of_the_next_debian_under_either_launcher() {
    let image = image_of!("sid");
    program_runs_with_the_mpich_of(&image);
}

fn program_runs_with_the_open_mpi_of(image: &Image) {
    let Some([debian, headers]) = installed(["debian", "openmpi-4.1.8"]) else {
        not_run!("needs Open MPI of Debian 12: scripts/setup test");
    };
    let programs = Programs::new(&debian);
    let library = libraries_of_debian(&debian).join("libmpi.so.40");
    programs.compile("hello.c", &headers, &[], &library);
    let verdict = programs.judge(image, &of_image("libmpi.so.40"), true);
    let expected = both(&promised(&verdict, Way::Nothing));
    let outside = programs.launch(&programs.mpirun(), &[], image);
    let inside = programs.launch_inside(&[], image, &["mpiexec.openmpi", "--oversubscribe"]);
    assert_eq!(ranks(&outside), expected, "{outside:?}");
    assert_eq!(ranks(&inside), expected, "{inside:?}");
}

#[test]
fn a_program_of_debian_12_runs_with_open_mpi_of_debian_13_under_either_launcher() {
    let image = image_of!("trixie");
    program_runs_with_the_open_mpi_of(&image);
}

#[test]
fn a_program_of_debian_12_runs_with_open_mpi_6_of_the_next_debian_under_either_launcher() {
    let image = image_of!("sid");
    program_runs_with_the_open_mpi_of(&image);
}

#[test]
fn mpich_of_this_machine_takes_the_place_of_that_of_newer_containers() {
    let Some([debian, mpich]) = installed(["debian", "mpich"]) else {
        not_run!("needs MPICH of Debian 12: scripts/setup test");
    };
    let programs = Programs::new(&debian);
    let of_debian = libraries_of_debian(&debian).join("libmpich.so.12");
    programs.compile("hello.c", &mpich, &[], &of_debian);
    for image in [image_of!("trixie"), image_of!("sid")] {
        let verdict = programs.judge(&image, &mpich, false);
        let expected = both(&promised(&verdict, Way::Preload));
        let with = mpich.display().to_string();
        let options = ["--mpi", with.as_str()];
        let outside = programs.launch(&programs.hydra(), &options, &image);
        let inside = programs.launch_inside(&options, &image, &["mpiexec.hydra"]);
        assert_eq!(expected, both("MPICH Version: 5.0.2"));
        assert_eq!(ranks(&outside), expected, "{outside:?}");
        assert_eq!(ranks(&inside), expected, "{inside:?}");
    }
}

#[test]
fn the_old_library_of_debian_12_runs_in_newer_containers() {
    let Some([debian, mpich]) = installed(["debian", "mpich"]) else {
        not_run!("needs MPICH of Debian 12: scripts/setup test");
    };
    let programs = Programs::new(&debian);
    let library = libraries_of_debian(&debian).join("libmpich.so.12");
    programs.compile("hello.c", &mpich, &[], &library);
    for image in [image_of!("trixie"), image_of!("sid")] {
        let verdict = programs.judge(&image, &library, false);
        let plan = verdict.plan().unwrap_or_else(|| panic!("{verdict:?}"));
        assert_eq!(
            verdict.to.as_ref().map(spoken).as_deref(),
            Some("MPICH Version: 4.0.2"),
            "{plan:?}"
        );
        let with = library.display().to_string();
        let seen = programs.launch(&programs.hydra(), &["--mpi", &with], &image);
        assert_eq!(ranks(&seen), both("MPICH Version: 4.0.2"), "{seen:?}");
    }
}

#[test]
fn the_old_open_mpi_of_debian_12_runs_in_newer_containers_with_what_its_parts_need() {
    let Some([debian, headers]) = installed(["debian", "openmpi-4.1.8"]) else {
        not_run!("needs Open MPI of Debian 12: scripts/setup test");
    };
    let programs = Programs::new(&debian);
    let (home, search) = (debian.display(), libraries_of_debian(&debian).display().to_string());
    programs.compile("hello.c", &headers, &[], &libraries_of_debian(&debian).join("libmpi.so.40"));
    // It is not where it was built for, and must know where its libraries are.
    let site =
        format!("[[mpi]]\nname = \"old\"\nprefix = \"{home}/usr\"\nlibraries = [\"{search}\"]\n");
    programs.cabane.world.file("site.toml", &site);
    for image in [image_of!("trixie"), image_of!("sid")] {
        let verdict = programs.judge(&image, &debian.join("usr"), false);
        assert_eq!(verdict.to.as_ref().map(spoken).as_deref(), Some("Open MPI v4.1.4"));
        let seen = programs.launch(&programs.mpirun(), &["--mpi", "old"], &image);
        assert_eq!(ranks(&seen), both("Open MPI v4.1.4"), "{seen:?}");
    }
}

#[test]
fn open_mpi_of_this_machine_takes_the_place_of_that_of_newer_containers() {
    let Some([debian, old, new]) = installed(["debian", "openmpi-4.1.8", "openmpi"]) else {
        not_run!("needs Open MPI of Debian 12: scripts/setup test");
    };
    let programs = Programs::new(&debian);
    programs.compile("hello.c", &old, &[], &libraries_of_debian(&debian).join("libmpi.so.40"));
    for image in [image_of!("trixie"), image_of!("sid")] {
        for (other, version) in [(&old, "4.1.8"), (&new, "5.0.11")] {
            let verdict = programs.judge(&image, other, false);
            let expected = both(&promised(&verdict, Way::LibraryPath));
            let with = other.display().to_string();
            let seen = programs.launch(&programs.mpirun(), &["--mpi", &with], &image);
            assert_eq!(expected, both(&format!("Open MPI v{version}")));
            assert_eq!(ranks(&seen), expected, "{seen:?}");
        }
    }
}

#[test]
fn libraries_of_newer_debians_are_refused_in_a_container_of_this_one_and_would_not_load() {
    let Some([debian, mpich]) = installed(["debian", "mpich"]) else {
        not_run!("needs MPICH of Debian 12: scripts/setup test");
    };
    let programs = Programs::new(&debian);
    let library = libraries_of_debian(&debian).join("libmpich.so.12");
    programs.compile("hello.c", &mpich, &[], &library);
    let tree = Tree::new(programs.cabane.world.path("trees/os"))
        .root_file_system("os", "")
        .copy_of(&libraries_of_debian(&debian), "opt/mpi")
        .host_program("/usr/bin/env")
        .host_libraries_of("opt/mpi");
    let path = programs.cabane.world.path("os.squashfs");
    pack(tree.root(), &path);
    let path = path.display().to_string();
    // Of the next Debian's library another one is missing as well, and the loader says that.
    for (image, reason, loader) in [
        (
            image_of!("trixie"),
            "the substitute needs the C library 2.38",
            "version `GLIBC_2.38' not found",
        ),
        (image_of!("sid"), "the substitute needs the C library 2.", "libucc.so.1: cannot open"),
    ] {
        let with = libraries_of_debian(&image.root).join("libmpich.so.12").display().to_string();
        let arguments = ["run", "--mpi", &with, &path, "--", "./program"];
        let refused = programs.cabane.run(&arguments);
        assert_eq!((refused.code, refused.stdout.as_str()), (14, ""), "{refused:?}");
        assert!(refused.stderr.contains(reason), "{refused:?}");
        let bind = format!("{with}:/opt/naive/libmpich.so.12");
        let search = "LD_LIBRARY_PATH=/opt/naive:/opt/mpi";
        let arguments = ["run", "--bind", &bind, &path, "--", "env", search, "./program"];
        let naive = programs.cabane.run(&arguments);
        assert!(naive.stderr.contains(loader), "{naive:?}");
    }
}

/// Runs a program for the standard ABI, linked with a library, with that of each family.
fn runs_with_both_families(debian: &Path, mpich: &Path, image: &Image, library: &Path) {
    let programs = Programs::new(debian);
    programs.compile("hello.c", mpich, &["-DMPI_ABI"], library);
    for (name, launcher, option, product) in [
        ("libmpi_abi_mpich.so.1.0.0", ["mpiexec.hydra"].as_slice(), "-env", "MPICH"),
        ("libmpi_abi_openmpi.so.1.0.0", &["mpiexec.openmpi", "--oversubscribe"], "-x", "Open MPI"),
    ] {
        let verdict = programs.judge(image, &of_image(name), true);
        let expected = both(&promised(&verdict, Way::Preload));
        let to = verdict.to.as_ref().unwrap();
        assert_eq!((to.family, to.product.as_str()), (Family::Mpi5Abi, product));
        let variables = verdict.plan().unwrap().environment(|_| None);
        let variables = variables.into_iter().flat_map(|(name, value)| match option {
            "-env" => vec!["-env".to_owned(), name, value],
            _ => vec!["-x".to_owned(), format!("{name}={value}")],
        });
        let variables: Vec<String> = variables.collect();
        let mut arguments: Vec<&str> = launcher.to_vec();
        arguments.extend(variables.iter().map(String::as_str));
        let seen = programs.launch_inside(&[], image, &arguments);
        assert_eq!(ranks(&seen), expected, "{seen:?}");
    }
    let verdict = programs.judge(image, mpich, false);
    let with = mpich.display().to_string();
    let seen = programs.launch(&programs.hydra(), &["--mpi", &with], image);
    assert_eq!(ranks(&seen), both(&promised(&verdict, Way::LibraryPath)), "{seen:?}");
}

#[test]
fn one_program_for_the_standard_abi_runs_with_both_families() {
    let Some([debian, mpich]) = installed(["debian", "mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let image = image_of!("sid");
    runs_with_both_families(&debian, &mpich, &image, &mpich.join("lib/libmpi_abi.so.1"));
}

#[test]
fn a_program_linked_with_the_standard_abi_of_open_mpi_runs_with_both_families() {
    let Some([debian, mpich]) = installed(["debian", "mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let image = image_of!("sid");
    let library = libraries_of_debian(&image.root).join("libmpi_abi_openmpi.so.1.0.0");
    runs_with_both_families(&debian, &mpich, &image, &library);
}
