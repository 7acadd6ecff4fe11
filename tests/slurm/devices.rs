// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Devices of nodes in the images of a job: each node has its own.
//!
//! ```text
//! /run/cdi/vendor.yaml     of n1 and n2: what their vendor says about the device
//! /run/driver/             of n1 and n2: libfake.so.NODE with the soname libfake.so.1
//! ```

use cabane_testkit::{Tree, driver};

use crate::arena::{Cluster, assert_failed, in_cluster};

const VENDOR: &str = "\
cdiVersion: 0.6.0
kind: vendor.example/fake
devices:
- name: one
  containerEdits:
    deviceNodes: [{path: /dev/null, major: 1, minor: 3}]
containerEdits:
  env: [FAKE=NODE]
  mounts:
  - {hostPath: /run/driver/libfake.so.NODE, containerPath: /usr/lib/fake/libfake.so.NODE, options: [ro, rbind]}
  hooks:
  - {hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, update-ldcache, --folder, /usr/lib/fake]}
  - {hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, enable-cuda-compat, --host-driver-version=1.0]}
";

/// Gives two nodes a driver each, and alice the image `fake` with a program that needs it.
fn prepare(cluster: &Cluster) {
    cluster.root("echo root-images yes >>/etc/cabane/mount.policy");
    let place = cluster.machine_directory("fake");
    for node in [1, 2] {
        let library = place.join(format!("libfake.so.{node}"));
        driver(&library, node);
        cluster
            .on_node(&format!("n{node}"), "root")
            .sh(&format!(
                "mkdir -p /run/cdi /run/driver && install -m 644 {} /run/driver/ &&
             cat >/run/cdi/vendor.yaml <<'END'\n{}END",
                library.display(),
                VENDOR.replace("NODE", &node.to_string())
            ))
            .success();
    }
    let tree = Tree::new(place.join("tree"))
        .user_of_driver(&place.join("libfake.so.1"))
        .root_file_system("fake", "");
    cluster.pack("fake", tree.root());
}

#[test]
fn each_node_gives_its_own_driver() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        let output = cluster
            .user("alice")
            .sh("srun -w n1,n2 -N2 --uenv=/shared/fake.squashfs \
                 --uenv-device=vendor.example/fake=one,vendor.example/fake=all \
                 sh -c 'uses-fake; echo $FAKE' | sort")
            .success();
        assert_eq!(output.stdout, "1\n1\n2\n2\n", "{output:?}");
        assert_eq!(output.stderr, "");
    });
}

#[test]
fn a_node_without_the_device_fails_the_step_and_says_so() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        let output = cluster.user("alice").sh(
            "srun -w n3 --uenv=/shared/fake.squashfs --uenv-device=vendor.example/fake=one true",
        );
        assert_failed(&output, "there is no device `vendor.example/fake=one` here");
    });
}

#[test]
fn a_site_gives_what_a_node_has() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        cluster.root(
            "printf '[container]\\ndevices = [\"vendor.example/fake=one\"]\\n' \
             >>/etc/cabane/config.toml",
        );
        let output = cluster
            .user("alice")
            .sh("srun -w n2,n3 -N2 --uenv=/shared/fake.squashfs \
                 sh -c 'uses-fake 2>/dev/null; echo of ${FAKE-none}' | sort
                 srun -w n2 --uenv=/shared/fake.squashfs --uenv-device=none \
                 sh -c 'echo ${FAKE-none}'")
            .success();
        assert_eq!(output.stdout, "2\nof 2\nof none\nnone\n", "{output:?}");
    });
}

#[test]
fn an_environment_file_names_devices_for_a_job_and_its_steps() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        let output = cluster
            .user("alice")
            .sh("printf 'images = [\"/shared/fake.squashfs\"]\\n%s\\n' \
                 'devices = [\"vendor.example/fake=one\"]' >fake.toml
                 srun -w n1 --environment=./fake.toml uses-fake
                 salloc -Q -w n2 --environment=./fake.toml srun uses-fake")
            .success();
        assert_eq!(output.stdout, "1\n2\n", "{output:?}");
    });
}

#[test]
fn stack_images_get_the_variables() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        let output = cluster
            .user("alice")
            .sh("srun -w n2 --uenv=app/1:v1 --uenv-device=vendor.example/fake=one \
                 sh -c 'who; echo $FAKE ${LD_LIBRARY_PATH-none}'")
            .success();
        assert_eq!(output.stdout, "app 1\n2 none\n", "{output:?}");
    });
}

#[test]
fn what_cannot_be_done_is_reported_once_on_a_node() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        cluster
            .on_node("n1", "root")
            .sh("printf '    additionalGids: [4000000]\\n' >gids
             sed -i '/deviceNodes/r gids' /run/cdi/vendor.yaml; rm gids")
            .success();
        let output = cluster
            .user("alice")
            .sh("srun -w n1 -n2 --uenv=/shared/fake.squashfs \
                 --uenv-device=vendor.example/fake=one uses-fake")
            .success();
        let warning = "wants you to be in the group 4000000, and you are not";
        assert_eq!(
            (output.stdout.as_str(), output.stderr.matches(warning).count()),
            ("1\n1\n", 1),
            "{output:?}"
        );
    });
}
