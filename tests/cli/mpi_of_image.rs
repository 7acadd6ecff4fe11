// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Containers whose programs get the MPI of another image.

use std::path::Path;

use cabane_testkit::mpi::{both, compile_below, installed, ranks};
use cabane_testkit::{Finished, Tree, not_run, run_as_root};

use crate::arena::with_helper;
use crate::cabane::{Cabane, everybody};
use crate::debian_roots::pack;

const OWN: &str = "MPICH Version: 4.3.2";
const OTHER: &str = "MPICH Version: 5.0.2";

/// A container with an MPI and programs for it, and an image with another MPI.
struct Bed<'a> {
    cabane: &'a Cabane,
    /// A launcher of this machine.
    launcher: String,
}

impl<'a> Bed<'a> {
    /// The image is for a mount point.
    fn new(cabane: &'a Cabane, mount_point: &str) -> Option<Self> {
        let [own, other] = installed(["mpich-4.3.2", "mpich"])?;
        let tree = Tree::new(cabane.world.path("trees/os"))
            .root_file_system("os", "")
            .copy_of(&own, "opt/mpi");
        for name in ["hello", "single_copy"] {
            compile_below(&tree.root().join("opt/mpi"), name);
        }
        add(cabane, "os", tree.host_libraries_of("opt/mpi").root());
        let tree = Tree::new(cabane.world.path("trees/own-mpi"))
            .copy_of(&other, "")
            .meta("own-mpi", mount_point);
        add(cabane, "own-mpi", tree.root());
        let launcher = own.join("bin/mpiexec").display().to_string();
        Some(Self { cabane, launcher })
    }

    /// Starts two ranks of a program in the container, each by itself or all by a launcher in it.
    fn ranks(&self, is_inside: bool, options: &[&str], program: &str) -> Finished {
        let program = format!("/opt/mpi/bin/{program}");
        let run = [&["run"], options, &["os", "--"]].concat();
        let mut command = if is_inside {
            let launch = ["/opt/mpi/bin/mpiexec", "-n", "2", &program];
            self.cabane.command(&[&run[..], &launch].concat())
        } else {
            let mut command = self.cabane.other(&self.launcher);
            command.args(["-n", "2", self.cabane.program()]);
            command.args(&run).arg(program);
            command
        };
        command.env("XDG_RUNTIME_DIR", self.cabane.world.path("home"));
        self.cabane.finish(&mut command)
    }
}

fn add(cabane: &Cabane, name: &str, tree: &Path) {
    let image = cabane.world.path(&format!("{name}.squashfs"));
    pack(tree, &image);
    let label = format!("{name}/1:v1@here%x86_64");
    let arguments = ["image", "add", &label, image.to_str().unwrap()];
    cabane.run(&arguments).success();
}

/// Makes the container and the image, or says why the test does not run and returns from it.
macro_rules! bed {
    ($cabane:expr, $mount_point:expr) => {
        match Bed::new($cabane, $mount_point) {
            Some(bed) => bed,
            None => not_run!("needs MPICH in two versions: scripts/setup test"),
        }
    };
}

fn ranks_get_it(bed: &Bed<'_>) {
    for is_inside in [false, true] {
        let with = |with| ["--mpi", with];
        let seen = bed.ranks(is_inside, &with("own-mpi"), "hello");
        assert_eq!(ranks(&seen), both(OTHER), "{is_inside}: {seen:?}");
        let seen = bed.ranks(is_inside, &with("own-mpi"), "single_copy");
        assert!(seen.stdout.contains("single copy: right"), "{seen:?}");
        let seen = bed.ranks(is_inside, &[], "hello");
        assert_eq!(ranks(&seen), both(OWN), "{is_inside}: {seen:?}");
    }
}

#[test]
fn ranks_in_a_container_get_the_mpi_of_an_image() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        // Where containers are usually looked into.
        let bed = bed!(&cabane, "/user-environment");
        ranks_get_it(&bed);
        let swap = ["mpi", "swap", "--with", "own-mpi", "--in", "os", "--probe"];
        let program = ["--", &bed.launcher, "-n", "2", "/opt/mpi/bin/hello"];
        let mut swap = cabane.command(&[&swap[..], &program].concat());
        swap.env("XDG_RUNTIME_DIR", cabane.world.path("home"));
        let seen = cabane.finish(&mut swap);
        assert_eq!(ranks(&seen), both(OTHER), "{who:?}: {seen:?}");
        let proven =
            "proven: 2 ranks in os got /user-environment/lib/libmpi.so.12, MPICH Version: 5.0.2";
        assert!(seen.stderr.starts_with(proven), "{seen:?}");
    }
}

#[test]
fn ranks_for_which_the_helper_mounts_get_it_too() {
    with_helper(|cabane| {
        run_as_root("echo root-images yes >>/etc/cabane/mount.policy");
        let bed = bed!(cabane, "/mnt/a");
        ranks_get_it(&bed);
    });
}

#[test]
fn a_prefix_in_an_image_that_is_entered_is_not_covered() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        bed!(&cabane, "/user-environment");
        let inner = [cabane.program(), "run", "--mpi", "/user-environment", "os"];
        let launch = ["--", "/opt/mpi/bin/mpiexec", "-n", "2", "/opt/mpi/bin/hello"];
        let line = [&["run", "own-mpi", "--"], &inner[..], &launch].concat();
        let mut nested = cabane.command(&line);
        nested.env("XDG_RUNTIME_DIR", cabane.world.path("home"));
        let seen = cabane.finish(&mut nested);
        assert_eq!(ranks(&seen), both(OTHER), "{who:?}: {seen:?}");
    }
}
