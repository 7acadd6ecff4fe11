// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A container made elsewhere, imported and run over several nodes with another MPI than its
//! own.

use std::fs;
use std::path::Path;
use std::process::Command;

use cabane_testkit::mpi::{compile_below, installed};
use cabane_testkit::{Finished, Tree, not_run};

use crate::arena::{Cluster, in_cluster};
use crate::mpi::{container_with, needs_pmix};

/// Makes an OCI layout with one layer of a tree, by the tools that every system has.
const MAKE_LAYOUT: &str = r#"
set -eu
tree=$0 layout=$1
mkdir -p "$layout/blobs/sha256"
blob() {
    sum=$(sha256sum <"$1" | cut -d' ' -f1)
    size=$(stat -c %s "$1")
    mv "$1" "$layout/blobs/sha256/$sum"
}
tar -C "$tree" -cf "$layout/layer" .
blob "$layout/layer"
layer=$sum layer_size=$size
machine=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
printf '{"architecture":"%s","os":"linux","config":{"Env":["PATH=/usr/bin:/bin"]},
"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' "$machine" "$layer" >"$layout/config"
blob "$layout/config"
config=$sum config_size=$size
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%s},
"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:%s","size":%s}]}' \
    "$config" "$config_size" "$layer" "$layer_size" >"$layout/manifest"
blob "$layout/manifest"
printf '{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json",
"digest":"sha256:%s","size":%s}]}' "$sum" "$size" >"$layout/index.json"
echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
"#;

/// Makes a container with a library of MPI and programs for it, and lets alice import it.
fn import(cluster: &Cluster, name: &str, library: &Path) {
    let place = cluster.machine_directory(name);
    let tree = container_with(library, name, &place.join("tree"));
    // It is made elsewhere, where there is no Cabane.
    fs::remove_dir_all(tree.root().join("meta")).unwrap();
    let layout = place.join("layout");
    let mut making = Command::new("sh");
    making.args(["-c", MAKE_LAYOUT]).arg(tree.root()).arg(&layout);
    Finished::of(&mut making).success();
    cluster.share(name, &layout);
    cluster
        .user("alice")
        .sh(&format!("cabane import oci:/shared/{name} {name}/1:v1 --force"))
        .success();
}

#[test]
fn a_container_runs_over_four_nodes_with_another_mpi() {
    let Some([own, other]) = installed(["mpich", "mpich-3.4.3"]) else {
        not_run!("needs mpich in two versions: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        import(cluster, "elsewhere", &own);
        cluster.share("other", &other);
        let run = |options: &str| {
            cluster
                .user("alice")
                .sh(&format!(
                    "srun -N4 --ntasks-per-node=2 --mpi=pmi2 \
                     cabane -v run {options} elsewhere -- /opt/mpi/bin/ping_pong"
                ))
                .success()
        };
        for (options, loaded) in [("", None), ("--mpi /shared/other", Some("MPICH 3.4.3"))] {
            let seen = run(options);
            let spoken = seen.stdout.matches("hello from rank ").count();
            let arrived = seen.stdout.contains("all messages arrived");
            let shown = loaded.map(|library| seen.stderr.matches(library).count());
            assert_eq!((spoken, arrived, shown), (8, true, loaded.map(|_| 8)), "{seen:?}");
        }
    });
}

#[test]
fn ranks_say_that_the_other_library_is_theirs_and_their_messages_are_right() {
    let Some([own, other]) = installed(["mpich", "mpich-3.4.3"]) else {
        not_run!("needs mpich in two versions: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        import(cluster, "elsewhere", &own);
        cluster.share("other", &other);
        let seen = cluster
            .user("alice")
            .sh("srun -N4 --ntasks-per-node=2 --mpi=pmi2 \
                 cabane run --mpi /shared/other elsewhere -- /opt/mpi/bin/hello")
            .success();
        let is_right = |line: &&str| line.contains(" of 8, right, ") && line.ends_with("3.4.3");
        assert_eq!(seen.stdout.lines().filter(is_right).count(), 8, "{seen:?}");
    });
}

/// Types `cabane mpi swap` for the container, and returns what it printed. The provider that this MPICH would choose
/// sends datagrams, which takes several times as long.
fn swap(cluster: &Cluster, options: &str, srun: &str, program: &str) -> Finished {
    cluster.user("alice").sh(&format!(
        "FI_PROVIDER=tcp cabane mpi swap --in elsewhere {options} -- \
         srun -N4 --ntasks-per-node=2 {srun} /opt/mpi/bin/{program}"
    ))
}

#[test]
fn the_swap_is_proven_and_measured_over_four_nodes_before_the_program_runs() {
    let Some([own, other]) = installed(["mpich", "mpich-3.4.3"]) else {
        not_run!("needs mpich in two versions: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        import(cluster, "elsewhere", &own);
        cluster.share("other", &other);
        let check = |option: &str, srun: &str, ranks: usize| {
            let seen = swap(cluster, &format!("--with /shared/other {option}"), srun, "hello");
            let seen = seen.success();
            let proven = format!(
                "proven: {ranks} ranks in elsewhere got /shared/other/lib/libmpi.so.12, \
                 MPICH Version: 3.4.3; sums and large messages were right\n"
            );
            assert!(seen.stderr.starts_with(&proven), "{seen:?}");
            let right = format!(" of {ranks}, right, ");
            let is_right = |line: &&str| line.contains(&right) && line.ends_with("3.4.3");
            assert_eq!(seen.stdout.lines().filter(is_right).count(), ranks, "{seen:?}");
            seen
        };
        check("--probe", "--mpi=pmi2", 8);
        // Each rank more waits for its turn on the processors of this machine, and measuring takes a minute.
        let seen = check("--measure", "--mpi=pmi2 --ntasks-per-node=1", 4);
        let numbers = |line: &str| {
            let arguments = line.split_whitespace();
            arguments.filter(|field| field.parse::<f64>().is_ok()).count()
        };
        let rows = seen.stderr.lines().filter(|line| numbers(line) == 3);
        assert_eq!(rows.count(), 7, "{seen:?}");
    });
}

#[test]
fn the_swap_of_open_mpi_is_proven_over_four_nodes() {
    let Some([own, other]) = installed(["openmpi", "openmpi-4.1.8"]) else {
        not_run!("needs openmpi in two versions: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        needs_pmix!(cluster);
        import(cluster, "elsewhere", &own);
        cluster.share("other", &other);
        let options = "--with /shared/other --probe";
        let seen = swap(cluster, options, "--mpi=pmix", "hello").success();
        let proven = "proven: 8 ranks in elsewhere got /shared/other/lib/libmpi.so.40, \
                      Open MPI v4.1.8; sums and large messages were right\n";
        let is_right = |line: &&str| line.contains(" of 8, right, ") && line.ends_with("v4.1.8");
        assert!(seen.stderr.contains(proven), "{seen:?}");
        assert_eq!(seen.stdout.lines().filter(is_right).count(), 8, "{seen:?}");
    });
}

#[test]
fn ranks_that_slurm_leaves_alone_are_not_proven_and_the_program_does_not_run() {
    let Some([own, other]) = installed(["mpich", "mpich-3.4.3"]) else {
        not_run!("needs mpich in two versions: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        import(cluster, "elsewhere", &own);
        cluster.share("other", &other);
        let options = "--with /shared/other --probe";
        let seen = swap(cluster, options, "--mpi=none", "hello");
        let reason = "error: with MPICH 3.4.3, 8 ranks were started, and each believes to be the \
                      only one\n";
        assert!(seen.stderr.starts_with(reason), "{seen:?}");
        assert_eq!((seen.code, seen.stdout.as_str()), (15, ""), "{seen:?}");
    });
}

#[test]
fn an_impossible_swap_is_refused_once_and_no_step_is_started() {
    let Some([own, other]) = installed(["mpich", "openmpi"]) else {
        not_run!("needs mpich and openmpi: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        import(cluster, "elsewhere", &own);
        cluster.share("family", &other);
        let options = "--with /shared/family --probe";
        let seen = swap(cluster, options, "--mpi=pmi2", "hello");
        let expected = "error: the program is for the MPICH ABI, and /shared/family has only Open \
                        MPI\nhint: only a library with the MPICH ABI can replace another one\n";
        assert_eq!((seen.code, seen.stdout.as_str(), seen.stderr.as_str()), (14, "", expected));
    });
}

#[test]
fn an_mpi_of_another_family_is_refused_before_anything_runs() {
    let Some([own, other]) = installed(["mpich", "openmpi"]) else {
        not_run!("needs mpich and openmpi: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        import(cluster, "elsewhere", &own);
        cluster.share("family", &other);
        let seen = cluster
            .user("alice")
            .sh("srun -N2 cabane run --mpi /shared/family elsewhere -- /opt/mpi/bin/ping_pong");
        let reason = "the program is for the MPICH ABI, and /shared/family has only Open MPI";
        assert_eq!(
            (seen.code, seen.stdout.as_str(), seen.stderr.matches(reason).count()),
            (14, "", 2),
            "{seen:?}"
        );
    });
}

#[test]
fn a_stack_gets_another_mpi_as_a_program_of_the_host_does() {
    let Some([own, other]) = installed(["mpich", "mpich-3.4.3"]) else {
        not_run!("needs mpich in two versions: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        let tree = cluster.machine_directory("stack").join("tree");
        let _ = Tree::new(&tree).copy_of(&own, "").meta("stack", "/user-environment");
        compile_below(&tree, "ping_pong");
        cluster.pack("stack", &tree);
        cluster.share("other", &other);
        let seen = cluster
            .user("alice")
            .sh("srun -N4 --ntasks-per-node=2 --mpi=pmi2 cabane run --mpi /shared/other \
                 /shared/stack.squashfs -- /user-environment/bin/ping_pong")
            .success();
        let spoken = seen.stdout.matches("hello from rank ").count();
        assert_eq!(spoken, 8, "{seen:?}");
    });
}
