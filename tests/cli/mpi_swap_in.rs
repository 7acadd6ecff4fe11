// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane mpi swap --in`: the proof that ranks in a container get another MPI.

use std::fs;
use std::path::{Path, PathBuf};

use cabane_testkit::mpi::{both, installed, libraries_of_debian, ranks};
use cabane_testkit::{Finished, not_run, run_as_root};
use serde_json::Value;

use crate::arena::with_helper;
use crate::cabane::{Cabane, Who, everybody};
use crate::debian_roots::{Image, Programs, image_of};
use crate::import_containers::layout;
use crate::mpi_swap::{lonely_launcher, rows_of_figures};

/// A program of Debian 12 for MPICH, and another MPICH.
struct Bed {
    programs: Programs,
    debian: PathBuf,
    mpich: PathBuf,
}

impl Bed {
    fn new() -> Option<Self> {
        let [debian, mpich] = installed(["debian", "mpich"])?;
        let programs = Programs::new(&debian);
        let library = libraries_of_debian(&debian).join("libmpich.so.12");
        programs.compile("hello.c", &mpich, &[], &library);
        Some(Self { programs, debian, mpich })
    }

    fn with(&self) -> String {
        self.mpich.display().to_string()
    }

    /// Types `cabane mpi swap --in IMAGE` with options and a command.
    fn swap(&self, who: &Cabane, image: &Image, options: &[&str], command: &[&str]) -> Finished {
        let with = self.with();
        let mut arguments = vec!["mpi", "swap", "--in", &image.path];
        if !options.contains(&"--with") {
            arguments.extend(["--with", &with]);
        }
        arguments.extend(options);
        arguments.push("--");
        arguments.extend(command);
        let mut swap = who.command(&arguments);
        swap.env("XDG_RUNTIME_DIR", who.world.path("home"));
        who.finish(&mut swap)
    }

    /// A world of someone else with the same program.
    fn world_of(&self, who: Who) -> Cabane {
        let cabane = Cabane::new(who);
        let place = cabane.world.path("work/program");
        fs::copy(self.programs.program(), place).unwrap();
        cabane
    }

    fn proven(&self, image: &Image, ranks: &str) -> String {
        let (path, with) = (&image.path, self.with());
        format!(
            "proven: {ranks} in {path} got {with}/lib/libmpi.so.12, MPICH Version: 5.0.2; sums and \
             large messages were right\n"
        )
    }

    fn hydra(&self) -> String {
        self.mpich.join("bin/mpiexec").display().to_string()
    }
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
fn ranks_in_a_container_are_proven_before_the_command_runs() {
    let bed = bed!();
    let image = image_of!("trixie");
    for who in everybody() {
        let cabane = bed.world_of(who);
        let command = [&bed.hydra(), "-n", "2", "./program"];
        let seen = bed.swap(&cabane, &image, &["--probe"], &command);
        let expected = (both("MPICH Version: 5.0.2"), bed.proven(&image, "2 ranks"));
        assert_eq!((ranks(&seen), seen.stderr), expected, "{who:?}");
    }
}

#[test]
fn a_launcher_that_only_the_container_has_starts_ranks_inside() {
    let bed = bed!();
    let image = image_of!("sid");
    let cabane = bed.world_of(Who::OrdinaryUser);
    // Debian 12 has no such link to Hydra.
    let launcher = "/usr/bin/mpirun.mpi_abi_mpich";
    assert!(!Path::new(launcher).exists());
    let seen = bed.swap(&cabane, &image, &["--probe"], &[launcher, "-n", "2", "./program"]);
    let expected = (both("MPICH Version: 5.0.2"), bed.proven(&image, "2 ranks"));
    assert_eq!((ranks(&seen), seen.stderr), expected);
}

#[test]
fn without_a_launcher_two_ranks_of_the_substitute_prove_it() {
    let bed = bed!();
    let image = image_of!("trixie");
    let cabane = bed.world_of(Who::OrdinaryUser);
    let seen = bed.swap(&cabane, &image, &["--probe"], &["./program"]);
    let alone = vec!["rank 0 of 1, right, MPICH Version: 5.0.2".to_owned()];
    let expected = (alone, bed.proven(&image, "2 ranks"));
    assert_eq!((ranks(&seen), seen.stderr), expected);
}

#[test]
fn ranks_that_the_helper_starts_are_proven_as_well() {
    with_helper(|cabane| {
        run_as_root("echo root-images yes >>/etc/cabane/mount.policy");
        let bed = bed!();
        let image = image_of!("trixie");
        let place = cabane.world.path("work/program");
        fs::copy(bed.programs.program(), place).unwrap();
        let command = [&bed.hydra(), "-n", "2", "./program"];
        let seen = bed.swap(cabane, &image, &["--probe"], &command);
        let expected = (both("MPICH Version: 5.0.2"), bed.proven(&image, "2 ranks"));
        assert_eq!((ranks(&seen), seen.stderr), expected);
        // No rank has fallen back to a user namespace.
        let arguments = ["-v", "run", "--mpi", &bed.with(), &image.path, "--", "./program"];
        let seen = cabane.run(&arguments).success();
        assert!(!seen.stderr.contains("user namespace"), "{seen:?}");
    });
}

#[test]
fn figures_in_a_container_stand_beside_those_of_its_own_library() {
    let bed = bed!();
    let image = image_of!("trixie");
    let cabane = bed.world_of(Who::OrdinaryUser);
    let command = [&bed.hydra(), "-n", "2", "./program"];
    let seen = bed.swap(&cabane, &image, &["--measure"], &command).success();
    assert_eq!(rows_of_figures(&seen.stderr), 7, "{}", seen.stderr);
}

#[test]
fn what_cannot_work_in_a_container_is_refused_before_anything_is_launched() {
    let bed = bed!();
    let Some([openmpi]) = installed(["openmpi"]) else {
        not_run!("needs Open MPI: scripts/setup test");
    };
    let image = image_of!("trixie");
    let cabane = bed.world_of(Who::OrdinaryUser);
    let other = openmpi.display().to_string();
    let mpirun = openmpi.join("bin/mpirun").display().to_string();
    let hydra = bed.hydra();
    let of_family =
        format!("error: the program is for the MPICH ABI, and {other} has only Open MPI\n");
    let of_launcher = "error: ranks with MPICH 5.0.2 do not find each other under the launcher of \
                       Open MPI: each would be alone\n";
    for (options, launcher, expected) in [
        (["--with", other.as_str(), "--probe"].as_slice(), &hydra, of_family.as_str()),
        (&["--probe"], &mpirun, of_launcher),
    ] {
        let command = [launcher, "-n", "2", "./program"];
        let seen = bed.swap(&cabane, &image, options, &command);
        assert!(seen.stderr.starts_with(expected), "{}", seen.stderr);
        assert_eq!((seen.code, seen.stdout.as_str()), (14, ""), "{seen:?}");
    }
}

#[test]
fn a_program_or_mpi_that_is_not_there_ends_as_it_does_without_another_mpi() {
    let bed = bed!();
    let image = image_of!("trixie");
    let cabane = bed.world_of(Who::OrdinaryUser);
    let with = bed.with();
    for (with, program, code) in
        [(with.as_str(), "absent", 127), (&with, "./absent", 127), ("/absent", "./program", 125)]
    {
        let arguments = ["run", "--mpi", with, &image.path, "--", program];
        let seen = cabane.run(&arguments);
        let is_told = seen.stderr.contains("absent` ") || seen.stderr.contains("absent`,");
        assert_eq!((seen.code, is_told), (code, true), "{seen:?}");
    }
    let arguments = ["import", &layout(&cabane, "os").typed(), "os/1"];
    cabane.run(&arguments).success();
    let arguments = ["run", "--mpi", "os/1", &image.path, "--", "./program"];
    let expected = "error: `os/1` is a container image: what is in it is for its own root file \
                    system\nhint: name a stack, a prefix, or a library\n";
    let seen = cabane.run(&arguments);
    assert_eq!((seen.code, seen.stderr.as_str()), (125, expected));
}

#[test]
fn what_a_program_gets_in_a_container_may_be_of_this_machine() {
    let bed = bed!();
    let image = image_of!("trixie");
    let cabane = bed.world_of(Who::OrdinaryUser);
    let gets = |program: &str| {
        let arguments = ["mpi", "inspect", "--json", "--in", &image.path, program];
        let seen = cabane.run(&arguments).success();
        let all: Value = serde_json::from_str(&seen.stdout).unwrap();
        let library = &all[0]["file"]["library"];
        library["path"].as_str().map(str::to_owned)
    };
    let of_container = "/lib/x86_64-linux-gnu/libmpich.so.12";
    assert_eq!(gets("./program").as_deref(), Some(of_container));
    // Libraries in the home directory are found by the whole path, there as here.
    let home = cabane.world.path("home/mpi");
    fs::create_dir_all(&home).unwrap();
    let library = home.join("libmpich.so.12");
    fs::copy(bed.mpich.join("lib/libmpi.so.12"), &library).unwrap();
    let rpath = format!("-Wl,-rpath,{}", home.display());
    bed.programs.compile(
        "hello.c",
        &bed.mpich,
        &[&rpath],
        &libraries_of_debian(&bed.debian).join("libmpich.so.12"),
    );
    fs::copy(bed.programs.program(), cabane.world.path("work/program")).unwrap();
    assert_eq!(gets("./program").as_deref(), Some("[WORLD]/home/mpi/libmpich.so.12"));
}

#[test]
fn ranks_in_a_container_that_are_alone_are_not_proven() {
    let bed = bed!();
    let image = image_of!("trixie");
    let cabane = bed.world_of(Who::OrdinaryUser);
    lonely_launcher(&cabane);
    let command = ["./mpiexec", "-n", "2", "./program"];
    let seen = bed.swap(&cabane, &image, &["--probe"], &command);
    let expected = "error: with MPICH 5.0.2, 2 ranks were started, and each believes to be the \
                    only one\n";
    assert_eq!((seen.code, seen.stdout.as_str(), seen.stderr.as_str()), (15, "", expected));
}

#[test]
fn ranks_that_share_no_memory_are_not_proven() {
    let bed = bed!();
    let image = image_of!("trixie");
    let cabane = bed.world_of(Who::OrdinaryUser);
    let with = bed.with();
    let hydra = bed.hydra();
    let arguments = [
        "mpi",
        "swap",
        "--in",
        &image.path,
        "--with",
        &with,
        "--probe",
        "--",
        &hydra,
        "-n",
        "2",
        "./program",
    ];
    let mut command = cabane.command(&arguments);
    let seen = cabane.finish(command.env("CABANE_JOIN", "no"));
    assert_eq!((seen.code, seen.stdout.as_str()), (15, ""), "{seen:?}");
    assert!(seen.stderr.starts_with("error: with MPICH 5.0.2, "), "{}", seen.stderr);
}

#[test]
fn what_would_be_done_in_a_container_is_shown_and_not_done() {
    let bed = bed!();
    let image = image_of!("trixie");
    let cabane = bed.world_of(Who::OrdinaryUser);
    let command = [&bed.hydra(), "-n", "2", "./program"];
    let seen = bed.swap(&cabane, &image, &["--dry-run"], &command).success();
    let shown = "  gets         MPICH 4.2.1, /lib/x86_64-linux-gnu/libmpich.so.12\n";
    let set = "  sets         LD_PRELOAD=/run/cabane/mpi/";
    assert!(seen.stdout.contains(shown) && seen.stdout.contains(set), "{}", seen.stdout);
    assert!(!seen.stdout.contains("rank "), "{}", seen.stdout);
}

#[test]
fn an_image_without_a_root_is_no_place_for_this() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let seen = cabane.run(&["mpi", "swap", "--in", "app", "--", "./program"]);
    let expected = "error: `app` is no container image: it has no root file system\n\
                    hint: write `cabane run app -- cabane mpi swap …`\n";
    assert_eq!((seen.code, seen.stderr.as_str()), (2, expected));
}
