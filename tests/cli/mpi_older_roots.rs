// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Programs in a container of Debian 11 that get an MPI which needs the C library of Debian 12.
//!
//! The root file system is a real one, and so are its programs: they ask for no function that its
//! own C library does not have.

use std::path::{Path, PathBuf};

use cabane_testkit::mpi::{both, compile_for_root, installed, libraries_of_debian, ranks};
use cabane_testkit::{not_run, run_as_root};

use crate::arena::with_helper;
use crate::cabane::{Cabane, Who, everybody};
use crate::debian_roots::{Image, Programs, image_of};

const OF_MPICH: &str = "MPICH Version: 4.0.2";
const NEWER: &str = "the C library 2.36 of this machine replaces the 2.31 of the container, for each \
                     program in it";

/// The MPIs of Debian 12, and others with headers and a launcher.
struct Bed {
    debian: PathBuf,
    mpich: PathBuf,
}

impl Bed {
    fn new() -> Option<Self> {
        let [debian, mpich] = installed(["debian", "mpich"])?;
        Some(Self { debian, mpich })
    }

    /// Names the MPIs in the configuration, and compiles a program of the container.
    fn prepare(&self, cabane: &Cabane, image: &Image) {
        name_mpis(cabane, &self.debian);
        let program = cabane.world.path("work/program");
        compile_for_root("hello.c", &program, &self.mpich, &image.root, "libmpich.so.12");
    }

    fn hydra(&self) -> String {
        self.mpich.join("bin/mpiexec").display().to_string()
    }

    /// Two ranks are proven, and run.
    fn is_proven(&self, cabane: &Cabane, image: &Image) {
        self.prepare(cabane, image);
        let hydra = self.hydra();
        let arguments = ["mpi", "swap", "--in", &image.path, "--with", "machine", "--probe", "--"];
        let command = [&hydra, "-n", "2", "./program"];
        let mut swap = cabane.command(&[&arguments[..], &command].concat());
        swap.env("XDG_RUNTIME_DIR", cabane.world.path("home"));
        let seen = cabane.finish(&mut swap);
        let library = libraries_of_debian(&self.debian).join("libmpich.so.12.2.2");
        let expected = format!(
            "warning: {NEWER}\nproven: 2 ranks in {} got {}, {OF_MPICH}; sums and large messages \
             were right\n",
            image.path,
            library.display()
        );
        assert_eq!((ranks(&seen), seen.stderr), (both(OF_MPICH), expected));
    }
}

/// They are unpacked and not installed, and do not find what they need by themselves.
pub(crate) fn name_mpis(cabane: &Cabane, debian: &Path) {
    let search = libraries_of_debian(debian);
    let (prefix, search) = (debian.join("usr"), search.display());
    let text = format!(
        "[[mpi]]\nname = \"machine\"\nprefix = \"{}\"\nlibraries = [\"{search}\"]\n",
        prefix.display()
    );
    cabane.world.file("site.toml", &text);
}

macro_rules! bed {
    () => {
        match Bed::new() {
            Some(bed) => bed,
            None => not_run!("needs MPICH of Debian 12: scripts/setup test"),
        }
    };
}

#[test]
fn an_mpi_that_needs_a_newer_c_library_is_proven_in_an_older_container() {
    let bed = bed!();
    let image = image_of!("bullseye");
    for who in everybody() {
        bed.is_proven(&Cabane::new(who), &image);
    }
}

#[test]
fn an_mpi_that_needs_a_newer_c_library_is_proven_if_the_helper_mounts() {
    with_helper(|cabane| {
        run_as_root("echo root-images yes >>/etc/cabane/mount.policy");
        let bed = bed!();
        let image = image_of!("bullseye");
        bed.is_proven(cabane, &image);
        let arguments = ["-v", "run", "--mpi", "machine", &image.path, "--", "./program"];
        let seen = cabane.run(&arguments).success();
        assert!(!seen.stderr.contains("user namespace"), "{seen:?}");
    });
}

#[test]
fn programs_of_an_older_container_run_with_the_newer_c_library() {
    let bed = bed!();
    let image = image_of!("bullseye");
    let cabane = Cabane::new(Who::OrdinaryUser);
    bed.prepare(&cabane, &image);
    // A shell, the launcher of the container, and ranks, which all of them start.
    let script = "unset LD_LIBRARY_PATH; exec /bin/sh -c 'echo \"$0\"' shell";
    let start = ["run", "--mpi", "machine", "--mpi-program", "./program", &image.path, "--"];
    let seen = cabane.run(&[&start[..], &["sh", "-c", script]].concat()).success();
    assert_eq!(seen.stdout, "shell\n");
    let launch = ["mpiexec.hydra", "-n", "2", "./program"];
    let mut command = cabane.command(&[&start[..], &launch].concat());
    command.env("XDG_RUNTIME_DIR", cabane.world.path("home"));
    let seen = cabane.finish(&mut command);
    assert_eq!(ranks(&seen), both(OF_MPICH), "{seen:?}");
}

#[test]
fn without_the_newer_c_library_the_same_mpi_is_not_loaded() {
    // This is what the others are for: it shows that they can fail.
    let bed = bed!();
    let image = image_of!("bullseye");
    let cabane = Cabane::new(Who::OrdinaryUser);
    bed.prepare(&cabane, &image);
    let bind = format!("{}:/opt/mpi", libraries_of_debian(&bed.debian).display());
    let script = "LD_LIBRARY_PATH=/opt/mpi exec ./program";
    let seen = cabane.run(&["run", "--bind", &bind, &image.path, "--", "sh", "-c", script]);
    let reason = "version `GLIBC_2.34' not found";
    assert!(seen.code != 0 && seen.stderr.contains(reason), "{seen:?}");
}

#[test]
fn a_container_that_is_new_enough_keeps_its_c_library() {
    let bed = bed!();
    let image = image_of!("trixie");
    let cabane = Cabane::new(Who::OrdinaryUser);
    bed.prepare(&cabane, &image);
    let arguments = ["-v", "run", "--mpi", "machine", &image.path, "--", "./program"];
    let seen = cabane.run(&arguments).success();
    assert_eq!(ranks(&seen), ["rank 0 of 1, right, MPICH Version: 4.0.2"]);
    assert!(!seen.stderr.contains("C library"), "{seen:?}");
}

#[test]
fn open_mpi_gets_what_its_parts_need_of_this_machine_in_an_older_container() {
    let Some([debian, headers]) = installed(["debian", "openmpi-4.1.8"]) else {
        not_run!("needs Open MPI of Debian 12: scripts/setup test");
    };
    let image = image_of!("bullseye");
    let programs = Programs::new(&debian);
    name_mpis(&programs.cabane, &debian);
    compile_for_root("hello.c", &programs.program(), &headers, &image.root, "libmpi.so.40");
    let seen = programs.launch(&programs.mpirun(), &["--mpi", "machine"], &image);
    assert_eq!(ranks(&seen), both("Open MPI v4.1.4"), "{seen:?}");
    // The library of PMIx in the container is too old for the part of Open MPI, and parts of one
    // are none of another.
    assert!(!seen.stderr.contains("bad prefix"), "{seen:?}");
}
