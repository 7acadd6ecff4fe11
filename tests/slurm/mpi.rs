// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Parallel programs whose MPI is in the image, over several nodes.

use std::path::Path;

use cabane_testkit::mpi::{compile_below, installed};
use cabane_testkit::{Tree, not_run};
use serde_json::Value;

use crate::arena::{Cluster, in_cluster, release};
use crate::fuse::trust_root_only;

/// Whether this Slurm starts ranks by means of `pmix`. Debian builds newer releases without it.
pub(crate) fn has_pmix(cluster: &Cluster) -> bool {
    cluster.root("srun --mpi=list 2>&1").contains("pmix")
}

/// Leaves a test out in a cluster without `pmix`.
macro_rules! needs_pmix {
    ($cluster:expr) => {
        if !crate::mpi::has_pmix($cluster) {
            cabane_testkit::not_run!("this Slurm is built without PMIx");
        }
    };
}
pub(crate) use needs_pmix;

/// Packs a library and a program into an image that alice can read.
fn make_image(cluster: &Cluster, name: &str, installed: &Path) {
    let place = cluster.machine_directory(name);
    let tree = place.join("tree");
    let _ = Tree::new(&tree).copy_of(installed, "").meta(name, "/user-environment");
    compile_below(&tree, "ping_pong");
    cluster.pack(name, &tree);
}

/// Makes the files of a container with a library in `opt/mpi` and programs for it.
pub(crate) fn container_with(library: &Path, name: &str, place: &Path) -> Tree {
    let tree = Tree::new(place).root_file_system(name, "").copy_of(library, "opt/mpi");
    let mpi = tree.root().join("opt/mpi");
    compile_below(&mpi, "ping_pong");
    compile_below(&mpi, "hello");
    tree.host_libraries_of("opt/mpi")
}

fn ranks_are_one_program(cluster: &Cluster, name: &str, kind: &str, installed: &Path) {
    make_image(cluster, name, installed);
    are_one_program(cluster, name, kind, "ping_pong");
}

/// Runs eight ranks of a program in an image on four nodes, and looks whether they are one
/// program.
pub(crate) fn are_one_program(cluster: &Cluster, name: &str, kind: &str, program: &str) {
    // The PMI-2 of Slurm 24.11 cuts long values off. MPICH's are long with all transports and devices.
    let is_cut = kind == "pmi2" && release().as_deref() == Some("24.11");
    let transports = if is_cut { "UCX_TLS=tcp,self UCX_NET_DEVICES=eth0" } else { "" };
    let step = format!(
        "{transports} srun -N4 --ntasks-per-node=2 --mpi={kind} --uenv=/shared/{name}.squashfs {program}"
    );
    let finished = cluster.user("alice").sh(&step).success();
    let spoken = finished.stdout.matches("hello from rank ").count();
    let arrived = finished.stdout.contains("all messages arrived");
    assert_eq!((spoken, arrived), (8, true), "{finished:?}");
}

#[test]
fn ranks_of_mpich_on_four_nodes_are_one_program() {
    let Some([installed]) = installed(["mpich"]) else {
        not_run!("needs mpich: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| ranks_are_one_program(cluster, "mpich", "pmi2", &installed));
}

#[test]
fn ranks_of_an_own_image_are_one_program_under_the_policy_that_is_shipped() {
    let Some([installed]) = installed(["mpich"]) else {
        not_run!("needs mpich: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        trust_root_only(cluster);
        ranks_are_one_program(cluster, "mpich", "pmi2", &installed);
    });
}

#[test]
fn ranks_of_open_mpi_on_four_nodes_are_one_program() {
    let Some([installed]) = installed(["openmpi"]) else {
        not_run!("needs openmpi: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        needs_pmix!(cluster);
        ranks_are_one_program(cluster, "openmpi", "pmix", &installed);
    });
}

#[test]
fn ranks_in_containers_of_their_job_are_one_program() {
    let Some([installed]) = installed(["mpich"]) else {
        not_run!("needs mpich: scripts/setup test");
    };
    in_cluster!(JobContainers, |cluster: &Cluster| {
        ranks_are_one_program(cluster, "mpich", "pmi2", &installed);
    });
}

const HELLO: &str = "/user-environment/bin/hello";

/// What a build writes about an MPICH that it finds in a tree.
const WITH_MPICH: &str = r#"{"name": "lone", "mount": "/user-environment", "views": {},
    "cabane": {"version": 1, "needs": {"mpi": {"srun": ["pmi2"]}}}}"#;

#[test]
fn ranks_that_would_not_find_each_other_are_warned_of_once_before_they_start() {
    let Some([installed]) = installed(["mpich"]) else {
        not_run!("needs mpich: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        let place = cluster.machine_directory("lone").join("tree");
        let _ = Tree::new(&place).copy_of(&installed, "").file("meta/env.json", WITH_MPICH);
        compile_below(&place, "hello");
        cluster.pack("lone", &place);
        let run = |options: &str, program: &str| {
            let step = format!("srun {options} --uenv=/shared/lone.squashfs {program}");
            cluster.user("alice").sh(&step).success()
        };
        let alone = run("-N2 --ntasks-per-node=2", HELLO);
        let warnings: Vec<_> =
            alone.stderr.lines().filter(|line| line.contains("do not find each other")).collect();
        let [warning] = warnings[..] else { panic!("{alone:?}") };
        let expected = "under `srun --mpi=none`: each of 4 would be alone; `srun --mpi=pmi2` is \
                        what it knows";
        assert!(warning.contains("MPICH") && warning.ends_with(expected), "{alone:?}");
        assert_eq!(alone.stdout.matches(" of 1, right").count(), 4, "{alone:?}");
        let quiet = [("-n4 --mpi=pmi2", HELLO), ("-n4", "true"), ("-n1", HELLO)];
        for (options, program) in quiet {
            let seen = run(options, program);
            assert!(!seen.stderr.contains("warning"), "{options} {program}: {seen:?}");
        }
    });
}

#[test]
fn libraries_are_audited_over_two_nodes_each_started_in_its_own_way() {
    let Some([mpich, openmpi]) = installed(["mpich-4.0.3", "openmpi"]) else {
        not_run!("needs mpich and openmpi: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        needs_pmix!(cluster);
        cluster.share("audited-mpich", &mpich);
        cluster.share("audited-openmpi", &openmpi);
        let finished = cluster
            .user("alice")
            .sh("mkdir -p /shared/audit-work && cabane mpi audit --slurm --nodes 2 --json \
                 --measure 0.2 --time-limit 20 --work-directory /shared/audit-work \
                 /shared/audited-mpich /shared/audited-openmpi || test $? = 19")
            .success();
        let all: Value = serde_json::from_str(&finished.stdout).unwrap();
        // The ranks say it: the command may run on a node of another type.
        assert!(all["node_type"]["processors"].as_u64() > Some(0), "{all:#}");
        let seen = all["installations"].as_array().unwrap().iter().map(|one| {
            let node = |rank: usize| one["places"][rank]["node"].as_str();
            let is_apart = node(0).is_some() && node(0) != node(1);
            (one["class"].as_str(), one["pmi"].as_str(), is_apart)
        });
        let seen: Vec<_> = seen.collect();
        // Two are too few to compare with each other, and no node is measured from another one.
        let works = |pmi| (Some("inconclusive"), Some(pmi), true);
        assert_eq!(seen, [works("pmi2"), works("pmix")], "{all:#}");
        // Beside other tests, their ranks also wait for processors.
        let rows = all["installations"].as_array().unwrap().iter();
        let kinds = rows.map(|one| one["reason"]["kind"].as_str());
        let is_right = |kind| matches!(kind, Some("nothing-to-compare" | "load"));
        assert!(kinds.into_iter().all(is_right), "{all:#}");
    });
}
