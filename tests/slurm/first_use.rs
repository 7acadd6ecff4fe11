// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Jobs in container images that are imported when they are first used.

use cabane_testkit::Tree;

use crate::arena::{Cluster, in_cluster};
use crate::fuse::trust_root_only;

/// Allows root images, and puts a container image into `/shared/layout`.
fn prepare(cluster: &Cluster) {
    cluster.root("echo root-images yes >>/etc/cabane/mount.policy");
    let place = cluster.machine_directory("os");
    let tree = Tree::new(place.join("tree")).root_file_system("os", "");
    cluster.pack("os", tree.root());
    cluster
        .user("alice")
        .sh("rm -rf /shared/layout; cabane export /shared/os.squashfs oci:/shared/layout:1")
        .success();
}

#[test]
fn a_job_imports_its_image_where_it_is_submitted() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        let line = "srun -N4 --ntasks-per-node=2 --uenv=oci:/shared/layout:1 sh -c \
                    'cat /etc/image; echo'";
        let printed = cluster.user("alice").sh(line).success();
        assert_eq!(printed.stdout, "os\n".repeat(8), "{}", printed.stderr);
        assert_eq!(printed.stderr.matches("imported oci:/shared/layout:1 as").count(), 1);
        let again = cluster.user("alice").sh(line).success();
        assert_eq!((again.stdout, again.stderr), ("os\n".repeat(8), String::new()));
    });
}

#[test]
fn where_the_kernel_reads_images_of_root_only_tasks_enter_a_container_of_the_user() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        trust_root_only(cluster);
        for line in [
            "srun -N2 --uenv=oci:/shared/layout:1 cat /etc/image",
            "srun -N2 cabane run oci:/shared/layout:1 -- cat /etc/image",
        ] {
            let printed = cluster.user("alice").sh(line).success();
            assert_eq!(printed.stdout, "osos", "{line}: {}", printed.stderr);
        }
    });
}
