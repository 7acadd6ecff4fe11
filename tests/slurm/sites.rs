// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What sites do: nodes have their configuration from the head, and jobs a prolog, an epilog,
//! and a step that Slurm starts before theirs (`PrologFlags=Contain`).

use cabane_testkit::{Program, belongs_to, not_run};

use crate::arena::{Cluster, SEEN_BY_SCRIPTS, in_cluster, no_control_groups};
use crate::fuse::trust_root_only;

#[test]
fn steps_have_images_where_nodes_have_their_configuration_from_the_head() {
    in_cluster!(Configless, |cluster: &Cluster| {
        let output = cluster.user("alice").sh("srun -N4 -n8 --uenv=app/1:v1 who").success();
        assert_eq!(output.stdout, "app 1\n".repeat(8));
    });
}

#[test]
fn a_batch_script_and_its_steps_have_the_image_where_there_is_no_file_of_slurm() {
    in_cluster!(Configless, |cluster: &Cluster| {
        let script = "printf '#!/bin/bash\nls -A /etc/slurm\nwho\nsrun who\n' >job.sh; rm -f out
             sbatch --quiet --wait --output=out -N2 --uenv=app/1:v1 job.sh; cat out";
        let output = cluster.user("alice").sh(script).success();
        assert_eq!(output.stdout, "app 1\n".repeat(3));
    });
}

#[test]
fn a_node_that_has_its_configuration_from_the_head_is_healthy() {
    in_cluster!(Configless, |cluster: &Cluster| {
        let finished = cluster.on_node("n2", "root").sh("cabane slurm check");
        let end = "named in: /run/slurm/conf/plugstack.conf\njobs get their images here\n";
        let seen = finished.success();
        assert!(seen.stderr.ends_with(end), "{seen:?}");
    });
}

#[test]
fn prolog_and_epilog_see_no_image_and_nothing_that_serves_one() {
    in_cluster!(Configless, |cluster: &Cluster| {
        trust_root_only(cluster);
        cluster.root(&format!("rm -f {SEEN_BY_SCRIPTS}"));
        let output = cluster.user("alice").sh("srun -N4 --uenv=app/1:v1 who").success();
        assert_eq!(output.stdout, "app 1\n".repeat(4));
        let seen = cluster.root(&format!(
            "until [ $(wc -l <{SEEN_BY_SCRIPTS}) -ge 8 ]; do sleep 0.05; done; sort {SEEN_BY_SCRIPTS}"
        ));
        let expected = ["n1", "n2", "n3", "n4"].map(|node| {
            ["epilog", "prolog"]
                .map(|script| format!("{node} {script} alice: 0 files, 0 servers\n"))
        });
        assert_eq!(seen, expected.concat().concat());
    });
}

#[test]
fn an_allocation_alone_mounts_and_serves_nothing() {
    in_cluster!(Configless, |cluster: &Cluster| {
        trust_root_only(cluster);
        cluster.root("rm -f /shared/go /shared/up");
        std::thread::scope(|scope| {
            let job = scope.spawn(|| {
                cluster.user("alice").sh("salloc --quiet -w n1 --uenv=app/1:v1 sh -c 'srun who
                     touch /shared/up; while ! [ -e /shared/go ]; do sleep 0.05; done'")
            });
            let seen =
                cluster.on_node("n1", "root").sh("while ! [ -e /shared/up ]; do sleep 0.05; done
                 # What served the step ends with it, a moment later.
                 for _ in $(seq 200); do pgrep squashfuse_ll >/dev/null || break; sleep 0.05; done
                 pgrep -fc 'slurmstepd: .*[e]xtern'; pgrep -c squashfuse_ll
                 cat /proc/[0-9]*/mountinfo 2>/dev/null | grep -c ' /user-environment '
                 true");
            cluster.user("alice").sh("touch /shared/go").success();
            assert_eq!(job.join().unwrap().success().stdout, "app 1\n");
            assert_eq!(seen.stdout, "1\n0\n0\n");
        });
    });
}

#[test]
fn a_step_with_windows_has_its_image() {
    if let Some(reason) = no_control_groups() {
        not_run!("{reason}");
    }
    let programs = ["Xvfb", "xauth", "xdpyinfo"];
    if programs.iter().any(|name| Program::find(name).path().is_none()) {
        belongs_to!("make test-slurm");
    }
    in_cluster!(ControlGroups, |cluster: &Cluster| {
        trust_root_only(cluster);
        let script = "rm -f .Xauthority; xauth -q add :7 . $(mcookie) 2>/dev/null
             Xvfb :7 -screen 0 64x64x8 -auth .Xauthority >/dev/null 2>&1 & server=$!
             until [ -e /tmp/.X11-unix/X7 ]; do sleep 0.1; done
             export DISPLAY=:7
             srun -w n1 --x11 --uenv=app/1:v1 sh -c 'who; echo $DISPLAY; xdpyinfo | grep \"^vendor string\"'
             kill $server; wait";
        let seen = cluster.user("alice").sh(script).stdout;
        let lines: Vec<&str> = seen.lines().collect();
        let [who, display, vendor] = lines[..] else { panic!("{seen}") };
        assert!(
            who == "app 1" && display.starts_with("localhost:") && vendor.contains("X.Org"),
            "{seen}"
        );
    });
}
