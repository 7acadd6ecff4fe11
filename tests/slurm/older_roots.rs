// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Steps in a container that is older than the nodes, with an MPI of the nodes.

use cabane_testkit::mpi::{Root, compile_for_root, installed, libraries_of_debian};
use cabane_testkit::not_run;

use crate::arena::{Cluster, in_cluster};

#[test]
fn ranks_in_an_older_container_get_an_mpi_that_needs_the_c_library_of_the_nodes() {
    let Some([debian, mpich]) = installed(["debian", "mpich"]) else {
        not_run!("needs MPICH of Debian 12: scripts/setup test");
    };
    let Some(root) = Root::find("bullseye").path() else {
        not_run!("needs a root file system of Debian 11: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        cluster.root("echo root-images yes >>/etc/cabane/mount.policy");
        cluster.share("bullseye", &root);
        cluster.share("debian", &debian);
        let place = cluster.machine_directory("program");
        compile_for_root("hello.c", &place.join("hello"), &mpich, &root, "libmpich.so.12");
        cluster.share("program", &place);
        let libraries = libraries_of_debian("/shared/debian".as_ref());
        cluster.root(&format!(
            "printf '[[mpi]]\\nname = \"machine\"\\nprefix = \"/shared/debian/usr\"\\n\
             libraries = [\"{}\"]\\n' >>/etc/cabane/config.toml",
            libraries.display()
        ));
        let alice = cluster.user("alice");
        alice.sh("cabane import dir:/shared/bullseye older/11").success();
        let bind = "--uenv-bind=/shared/program:/shared/program";
        // After their work, ranks of this MPICH sometimes wait for each other without end.
        let srun = "timeout 30 srun -N2 --mpi=pmi2";
        for step in [
            format!("{srun} --uenv=older/11 --uenv-mpi=machine {bind} /shared/program/hello"),
            format!(
                "{srun} cabane run --mpi machine --bind /shared/program older/11 -- \
                 /shared/program/hello"
            ),
        ] {
            let seen = alice.sh(&step);
            let right = seen
                .stdout
                .lines()
                .filter(|line| line.contains(" of 2, right, ") && line.ends_with("4.0.2"));
            assert_eq!(right.count(), 2, "{step}: {seen:?}");
        }
    });
}
