// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Ranks of real MPI libraries, each started in an image, as an ordinary user.

use std::path::{Path, PathBuf};

use cabane_testkit::mpi::{compile_below, installed};
use cabane_testkit::{Finished, Tree, not_run, squashfs};

use crate::cabane::{Cabane, Who};

/// An MPI library in an image, and its launcher outside.
struct Mpi {
    cabane: Cabane,
    image: String,
    tree: PathBuf,
    options: &'static [&'static str],
}

impl Mpi {
    fn new(name: &str, installed: &Path) -> Self {
        let cabane = Cabane::new(Who::OrdinaryUser);
        let mount_point = cabane.mount_point(name);
        let tree = cabane.world.path(name);
        let _ = Tree::new(&tree).copy_of(installed, "").meta(name, &mount_point);
        compile_below(&tree, "ping_pong");
        let image = cabane.world.path(&format!("{name}.squashfs"));
        squashfs(&tree, &image);
        Self {
            image: image.to_string_lossy().into_owned(),
            cabane,
            tree,
            options: match name {
                // It counts cores, and refuses to start more ranks than there are.
                "openmpi" => &["--map-by", ":OVERSUBSCRIBE"],
                _ => &[],
            },
        }
    }

    /// Starts four ranks, each with these arguments, and returns what they say.
    fn launch(&self, arguments: &[&str]) -> Finished {
        let mut command = self.cabane.other("timeout");
        command
            .arg("120")
            .arg(self.tree.join("bin/mpiexec"))
            .args(self.options)
            .args(["-n", "4"])
            .args(arguments);
        // Other tests may look for company in the common places.
        command.env("XDG_RUNTIME_DIR", self.cabane.world.path("home"));
        self.cabane.finish(&mut command)
    }
}

/// Where the ranks ran: each place once, and how many there were.
fn places(output: &str) -> (Vec<&str>, usize) {
    let spoken: Vec<&str> = output
        .lines()
        .filter_map(|line| line.strip_prefix("hello from rank "))
        .filter_map(|line| Some(line.split_once(" in ")?.1))
        .collect();
    let mut different = spoken.clone();
    different.sort_unstable();
    different.dedup();
    (different, spoken.len())
}

fn ranks_exchange_large_messages(name: &str, installed: &Path) {
    let mpi = Mpi::new(name, installed);
    let program = mpi.cabane.program();
    let seen = mpi.launch(&[program, "run", &mpi.image, "--", "ping_pong"]).success();
    let (different, spoken) = places(&seen.stdout);
    let arrived = seen.stdout.contains("all messages arrived");
    assert_eq!((different.len(), spoken, arrived), (1, 4, true), "{name}: {}", seen.stdout);
}

#[test]
fn ranks_of_mpich_started_in_an_image_exchange_large_messages() {
    let Some([installed]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    ranks_exchange_large_messages("mpich", &installed);
}

#[test]
fn ranks_of_open_mpi_started_in_an_image_exchange_large_messages() {
    let Some([installed]) = installed(["openmpi"]) else {
        not_run!("needs Open MPI: scripts/setup test");
    };
    ranks_exchange_large_messages("openmpi", &installed);
}

#[test]
fn a_launcher_in_one_image_may_start_ranks_in_another() {
    let Some([installed]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let mpi = Mpi::new("mpich", &installed);
    let app = mpi.cabane.image("app", &mpi.cabane.mount_point("app"));
    let program = mpi.cabane.program();
    let mut command =
        mpi.cabane.command(&["run", &mpi.image, "--", "timeout", "120", "mpiexec", "-n"]);
    command.args(["4", program, "run", &app, "--", "ping_pong"]);
    command.env("XDG_RUNTIME_DIR", mpi.cabane.world.path("home"));
    let seen = mpi.cabane.finish(&mut command).success();
    let (different, spoken) = places(&seen.stdout);
    let arrived = seen.stdout.contains("all messages arrived");
    assert_eq!((different.len(), spoken, arrived), (1, 4, true), "{}", seen.stdout);
}

#[test]
fn without_joining_the_messages_of_mpich_do_not_arrive_and_that_is_foretold() {
    // This is what the others are for: it shows that they can fail.
    let Some([installed]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let mpi = Mpi::new("mpich", &installed);
    let program = mpi.cabane.program();
    let arguments = [program, "run", "--no-join", &mpi.image, "--", "ping_pong"];
    let seen = mpi.launch(&arguments);
    let arrived = seen.stdout.contains("all messages arrived");
    let reported = "warning: each rank of this node gets a user namespace of its own, ";
    assert!(seen.code != 0 && !arrived, "{seen:?}");
    // One rank of the four tells it.
    assert_eq!(seen.stderr.matches(reported).count(), 1, "{seen:?}");
}

#[test]
fn a_rank_that_is_alone_on_its_node_misses_no_rank() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    for (variable, value, reported) in
        [("PMI_RANK", "1", 0), ("SLURM_LOCALID", "0", 0), ("SLURM_LOCALID", "1", 1)]
    {
        let mut command = cabane.command(&["run", "--no-join", "app", "--", "hello"]);
        let seen = cabane.finish(command.env(variable, value)).success();
        let count = seen.stderr.matches("a user namespace of its own").count();
        assert_eq!((count, seen.stdout.as_str()), (reported, "hello from app\n"), "{variable}");
    }
}
