// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that root has unpacked on the nodes, as a prolog or a boot script does.

use std::process::Stdio;

use crate::arena::{Cluster, in_cluster};
use crate::fuse::trust_root_only;

/// What is bound at the mount point, and how.
const BOUND: &str = r#"grep " /user-environment " /proc/self/mountinfo | cut -d" " -f4,6"#;
const UNPACK: &str = "cabane image unpack app/1:v1";
/// Removes what the tests have unpacked.
const CLEAN: &str = "cabane image unpack --remove --unused; rm -rf /scratch/unpacked";

fn with_store(cluster: &Cluster) {
    trust_root_only(cluster);
    cluster.root(
        "mkdir -p /scratch; rm -rf /scratch/unpacked
         echo 'unpacked-images /scratch/unpacked' >>/etc/cabane/mount.policy",
    );
}

fn lines(output: &str) -> Vec<String> {
    let mut lines: Vec<_> = output.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

#[test]
fn all_tasks_of_a_step_have_the_unpacked_image() {
    in_cluster!(|cluster: &Cluster| {
        with_store(cluster);
        cluster.root(UNPACK);
        let script = format!("srun -N4 -n8 --uenv=app/1:v1,tool/1:v1 sh -c 'who; what; {BOUND}'");
        let printed = cluster.user("alice").sh(&script).success().stdout;
        let [bound, app, tool] = lines(&printed).try_into().unwrap();
        assert_eq!([app, tool], ["app 1", "tool"]);
        assert!(bound.contains("/scratch/unpacked/trees/"), "{bound}");
        assert!(bound.contains("/tree ro,nosuid,nodev"), "{bound}");
        cluster.root(CLEAN);
        let printed = cluster.user("alice").sh("srun -N2 --uenv=app/1:v1 who").success().stdout;
        assert_eq!(lines(&printed), ["app 1"]);
    });
}

#[test]
fn a_task_with_a_namespace_of_its_job_has_it_too() {
    in_cluster!(JobContainers, |cluster: &Cluster| {
        with_store(cluster);
        cluster.root(UNPACK);
        let script = "srun -N2 --uenv=app/1:v1 sh -c 'who; stat -f -c %T /user-environment'";
        let printed = cluster.user("alice").sh(script).success().stdout;
        let printed = lines(&printed);
        let is_bound = printed.iter().all(|line| !line.contains("fuse") && line != "squashfs");
        assert!(printed.contains(&"app 1".to_owned()) && is_bound, "{printed:?}");
        cluster.root(CLEAN);
    });
}

#[test]
fn a_step_keeps_an_image_that_is_removed_meanwhile() {
    in_cluster!(|cluster: &Cluster| {
        with_store(cluster);
        cluster.root(UNPACK);
        // Another test may have left them.
        cluster.user("alice").sh("rm -f started go").success();
        let script = "exec srun -N1 -w n1 --uenv=app/1:v1 sh -c '
                          touch started; until [ -e go ]; do sleep 0.05; done; who'";
        let mut command = cluster.user("alice").command(script);
        let step = command.stdout(Stdio::piped()).spawn().unwrap();
        cluster.user("alice").sh("until [ -e started ]; do sleep 0.05; done").success();
        let remove =
            "cabane image unpack --remove app/1:v1 2>&1; ls /scratch/unpacked/removed | wc -l";
        let said = cluster.on_node("n1", "root").sh(remove).success().stdout;
        assert!(said.contains("a process uses it") && said.ends_with("\n1\n"), "{said}");
        cluster.user("alice").sh("touch go").success();
        let output = step.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "app 1\n");
        let left = "until cabane image unpack --remove --unused && \
                        [ \"$(ls /scratch/unpacked/removed | wc -l)\" = 0 ]; do sleep 0.1; done
                    find /scratch/unpacked -type f ! -name lock";
        assert_eq!(cluster.on_node("n1", "root").sh(left).success().stdout, "");
        cluster.root(CLEAN);
    });
}
