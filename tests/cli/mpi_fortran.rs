// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Programs in Fortran in a container of Debian 11, with the MPIs of Debian 12: those that use the
//! module `mpi`, and those that use `mpi_f08`.

use std::path::Path;

use cabane_testkit::mpi::{
    Module, both, compile_fortran, installed, libraries_of_debian, modules_of_debian, ranks,
};
use cabane_testkit::not_run;

use crate::debian_roots::{Image, Programs, image_of};
use crate::mpi_older_roots::name_mpis;

const MODULES: [Module; 3] = [Module::Mpi, Module::MpiF08, Module::MpiF08Compares];
const OF_MPICH: [&str; 2] = ["libmpichfort.so.12", "libmpich.so.12"];
const OF_OPEN_MPI: [&str; 4] = [
    "libmpi_usempif08.so.40",
    "libmpi_usempi_ignore_tkr.so.40",
    "libmpi_mpifh.so.40",
    "libmpi.so.40",
];

/// Compiles a program of the container: it asks for no newer functions of the C library.
fn compile(programs: &Programs, module: Module, modules: &Path, image: &Image, names: &[&str]) {
    let of_mpi = names.iter().map(|name| libraries_of_debian(&image.root).join(name));
    let of_fortran = libraries_of_debian(&image.root).join("libgfortran.so.5");
    let system = image.root.join("lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let of_system = ["libm.so.6", "libc.so.6"].map(|name| system.join(name));
    let libraries = of_mpi.chain([of_fortran]).chain(of_system);
    let options = libraries.chain(["-nodefaultlibs".into(), "-lgcc".into()]);
    compile_fortran(module, &programs.program(), modules, options);
}

#[test]
fn programs_in_fortran_get_mpich_of_this_machine_in_an_older_container() {
    let Some([debian, development]) = installed(["debian", "debian-dev"]) else {
        not_run!("needs MPICH of Debian 12 with its modules: scripts/setup test");
    };
    let image = image_of!("bullseye");
    let [modules, _] = modules_of_debian(&development);
    for module in MODULES {
        let programs = Programs::new(&debian);
        name_mpis(&programs.cabane, &debian);
        compile(&programs, module, &modules, &image, &OF_MPICH);
        let seen = programs.launch(&programs.hydra(), &["--mpi", "machine"], &image);
        assert_eq!(ranks(&seen), both("MPICH Version: 4.0.2"), "{module:?}: {seen:?}");
    }
}

#[test]
fn programs_in_fortran_get_open_mpi_of_this_machine_in_an_older_container() {
    let Some([debian, development]) = installed(["debian", "debian-dev"]) else {
        not_run!("needs Open MPI of Debian 12 with its modules: scripts/setup test");
    };
    let image = image_of!("bullseye");
    let [_, modules] = modules_of_debian(&development);
    for module in MODULES {
        let programs = Programs::new(&debian);
        name_mpis(&programs.cabane, &debian);
        compile(&programs, module, &modules, &image, &OF_OPEN_MPI);
        let own = programs.launch(&programs.mpirun(), &[], &image);
        assert_eq!(ranks(&own), both("Open MPI v4.1.0"), "{module:?}: {own:?}");
        let seen = programs.launch(&programs.mpirun(), &["--mpi", "machine"], &image);
        assert_eq!(ranks(&seen), both("Open MPI v4.1.4"), "{module:?}: {seen:?}");
    }
}

#[test]
fn programs_in_fortran_are_refused_an_mpi_without_a_library_for_it() {
    let Some([debian, development, mpich]) = installed(["debian", "debian-dev", "mpich"]) else {
        not_run!("needs MPICH of Debian 12 with its modules: scripts/setup test");
    };
    let image = image_of!("bullseye");
    let [modules, _] = modules_of_debian(&development);
    let programs = Programs::new(&debian);
    compile(&programs, Module::MpiF08, &modules, &image, &OF_MPICH);
    let with = mpich.display().to_string();
    let arguments = ["run", "--mpi", &with, &image.path, "--", "./program"];
    let seen = programs.cabane.run(&arguments);
    let expected = "error: the program uses MPI from Fortran, and the substitute has nothing for \
                    Fortran\nhint: take one with its library for Fortran beside it: \
                    `libmpifort.so.12` or `libmpichfort.so.12`\n";
    assert_eq!((seen.code, seen.stderr.as_str()), (14, expected));
}
