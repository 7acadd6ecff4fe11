// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Jobs in images with a root file system of their own.

use std::path::Path;

use cabane_testkit::mpi::{compile_below, installed};
use cabane_testkit::{Tree, not_run};

use crate::arena::{Cluster, assert_failed, in_cluster};
use crate::mpi::{are_one_program, needs_pmix};

/// Lets the site allow root images, and gives alice one: `os`.
fn prepare(cluster: &Cluster) {
    allow(cluster);
    let place = cluster.machine_directory("os");
    let tree = Tree::new(place.join("tree")).root_file_system("os", r#""glibc":"2.99""#);
    cluster.pack("os", tree.root());
}

fn allow(cluster: &Cluster) {
    cluster.root("echo root-images yes >>/etc/cabane/mount.policy");
}

#[test]
fn every_task_is_in_the_root_of_the_image() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        let printed = cluster
            .user("alice")
            .sh("srun -N4 --ntasks-per-node=2 --uenv=/shared/os.squashfs \
                 sh -c 'cat /etc/image; echo; readlink /proc/self/ns/mnt; sleep 1' | sort | uniq -c")
            .success();
        // Eight tasks, two in each of four namespaces. They stay for a moment: a number is used
        // again after the end.
        let counts: Vec<&str> =
            printed.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(counts, ["2", "2", "2", "2", "8"], "{}", printed.stdout);
    });
}

#[test]
fn home_working_directory_and_name_are_the_users() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        let printed = cluster
            .user("alice")
            .sh("pwd; srun --uenv=/shared/os.squashfs sh -c 'pwd; id -un; touch of-a-task'; ls of-a-task; rm of-a-task")
            .success();
        let lines: Vec<&str> = printed.stdout.lines().collect();
        assert_eq!(lines, [lines[0], lines[0], "alice", "of-a-task"]);
    });
}

#[test]
fn a_batch_script_starts_in_the_image_and_its_steps_too() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        let printed = cluster
            .user("alice")
            .sh("printf '#!/bin/sh\ncat /etc/image; echo\n' >job.sh; rm -f out
                 sbatch --quiet --wait --output=out --uenv=/shared/os.squashfs job.sh; cat out")
            .success();
        assert_eq!(printed.stdout, "os\n");
    });
}

#[test]
fn a_stack_is_mounted_in_the_image() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        let printed = cluster
            .user("alice")
            .sh("srun -N2 --uenv=/shared/os.squashfs,app/1:v1 sh -c 'cat /etc/image; who'")
            .success();
        assert_eq!(printed.stdout, "osapp 1\n".repeat(2));
    });
}

#[test]
fn tasks_can_gain_no_rights() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        let printed = cluster
            .user("alice")
            .sh("srun --uenv=/shared/os.squashfs \
                 grep -E '^(NoNewPrivs|CapEff)' /proc/self/status")
            .success();
        assert_eq!(printed.stdout, "CapEff:\t0000000000000000\nNoNewPrivs:\t1\n");
    });
}

#[test]
fn without_the_keyword_in_the_policy_the_step_fails_and_says_why() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        cluster.root("sed -i '/root-images/d' /etc/cabane/mount.policy");
        let printed = cluster.user("alice").sh("srun --uenv=/shared/os.squashfs true");
        assert_failed(
            &printed,
            "the policy does not allow images with a root file system of their own",
        );
    });
}

#[test]
fn what_the_environment_file_names_must_be_on_the_node() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        let printed = cluster.user("alice").sh(
            "printf 'images = [\"/shared/os.squashfs\"]\nmounts = [\"%s:/data:ro\"]\n' \
                 /var/only-here >os.toml
             mkdir -p /tmp/only-here
             sed -i s,/var/only-here,/tmp/only-here, os.toml
             srun -w n2 --environment=./os.toml ls /data; rm -r /tmp/only-here",
        );
        assert!(printed.stderr.contains("/tmp/only-here"), "{printed:?}");
        assert_eq!(printed.stdout, "");
    });
}

/// Shows a directory, and whether the home directory is there.
const LOOK: &str =
    "sh -c 'cat /data/text; touch /data/new 2>&1 || true; test -d \"$HOME\" || echo no home'";

#[test]
fn options_show_more_and_leave_the_home_directory_out() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        let options = "--uenv=/shared/os.squashfs --uenv-no-home \
                       --uenv-bind=/shared/seen:/data:ro,/shared/seen:/again";
        // A step in what was allocated has what was requested there.
        for command in [
            format!("cd / && srun -N2 {options} {LOOK}"),
            format!("cd / && salloc --quiet -N2 {options} srun {LOOK}"),
        ] {
            let printed = cluster
                .user("alice")
                .sh(&format!("mkdir -p /shared/seen; echo it is >/shared/seen/text; {command}"))
                .success();
            let mut lines: Vec<_> = printed.stdout.lines().collect();
            lines.sort_unstable();
            let touched = "touch: cannot touch '/data/new': Read-only file system";
            let expected = ["it is", "it is", "no home", "no home", touched, touched];
            assert_eq!(lines, expected, "{command}");
        }
    });
}

#[test]
fn options_about_what_is_seen_need_an_image_with_a_root() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        for (options, reason) in [
            ("--uenv-bind=/shared", "what is seen in which image?"),
            ("--uenv=app/1:v1 --uenv-no-home", "`--uenv-no-home` is about container images"),
            ("--uenv=app/1:v1 --uenv-bind=/shared", "nothing but images is mounted"),
            ("--uenv=/shared/os.squashfs --uenv-bind=a:b:c:d", "does not say what is shown where"),
        ] {
            let printed = cluster.user("alice").sh(&format!("srun {options} echo started"));
            assert_failed(&printed, reason);
            assert_eq!(printed.stdout, "", "{options}");
        }
    });
}

#[test]
fn the_private_directories_of_a_job_are_those_in_the_image() {
    in_cluster!(JobContainers, |cluster: &Cluster| {
        prepare(cluster);
        let printed = cluster.user("alice").sh(
            "srun -N2 --uenv=/shared/os.squashfs sh -c 'cat /etc/image; touch /tmp/root-image; ls /tmp'
             ls /tmp/root-image",
        );
        assert_eq!(
            (printed.code, printed.stdout.as_str()),
            (2, "osroot-image\nosroot-image\n"),
            "{}",
            printed.stderr
        );
    });
}

/// Makes a root image with a library and a program, and runs eight ranks on four nodes.
fn ranks_are_one_program(cluster: &Cluster, name: &str, kind: &str, installed: &Path) {
    allow(cluster);
    let place = cluster.machine_directory(name);
    let tree =
        Tree::new(place.join("tree")).root_file_system(name, "").copy_of(installed, "opt/mpi");
    compile_below(&tree.root().join("opt/mpi"), "ping_pong");
    let tree = tree.host_libraries_of("opt/mpi");
    cluster.pack(name, tree.root());
    are_one_program(cluster, name, kind, "/opt/mpi/bin/ping_pong");
}

#[test]
fn ranks_of_mpich_in_a_root_image_are_one_program() {
    let Some([installed]) = installed(["mpich"]) else {
        not_run!("needs mpich: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        ranks_are_one_program(cluster, "root-mpich", "pmi2", &installed);
    });
}

#[test]
fn ranks_of_open_mpi_in_a_root_image_are_one_program() {
    let Some([installed]) = installed(["openmpi"]) else {
        not_run!("needs openmpi: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        needs_pmix!(cluster);
        ranks_are_one_program(cluster, "root-openmpi", "pmix", &installed);
    });
}
