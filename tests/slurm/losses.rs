// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is lost, killed or cancelled while a step with images runs.
//!
//! That nodes are idle afterwards and have nothing left is looked at after every test.

use cabane_testkit::Finished;

use crate::arena::{Cluster, in_cluster};

/// What a task does: it says that it is there, waits, and looks at its image.
const TASK: &str = "sh -c 'touch /shared/up.$SLURM_PROCID
    for i in $(seq 600); do [ -e /shared/go ] && break; sleep 0.05; done; who'";

/// Starts a step of alice on n1 and n2, does something when its tasks are there, lets them go
/// on, and returns what became of the step.
fn while_a_step_runs(cluster: &Cluster, act: impl FnOnce()) -> Finished {
    cluster.root("rm -f /shared/up.* /shared/go");
    std::thread::scope(|scope| {
        let step = scope.spawn(|| {
            let step = format!("srun -w n[1-2] -n2 --uenv=app/1:v1 {TASK}");
            cluster.user("alice").sh(&step)
        });
        cluster.root("while ! [ -e /shared/up.0 -a -e /shared/up.1 ]; do sleep 0.02; done");
        act();
        cluster.root("touch /shared/go");
        step.join().unwrap()
    })
}

/// Waits until the controller knows of a state of a node.
fn wait_for_node(cluster: &Cluster, node: &str, state: &str) {
    cluster.root(&format!(
        "while ! sinfo --noheader --nodes={node} --format=%T | grep -q {state}; do sleep 0.1; done"
    ));
}

#[test]
fn a_step_that_loses_a_node_fails_and_the_node_can_be_used_again() {
    in_cluster!(|cluster: &Cluster| {
        let finished = while_a_step_runs(cluster, || {
            cluster.power("n2", false);
            // What the controller finds out by itself, after half a minute.
            cluster.root("scontrol update NodeName=n2 State=DOWN Reason=lost");
        });
        cluster.power("n2", true);
        wait_for_node(cluster, "n2", "idle");
        assert!(finished.code != 0, "{finished:?}");
        let again = cluster.user("alice").sh("srun -w n2 --uenv=app/1:v1 who");
        assert_eq!(again.success().stdout, "app 1\n");
    });
}

#[test]
fn a_step_goes_on_while_slurmd_is_killed_and_started_again() {
    in_cluster!(|cluster: &Cluster| {
        let finished = while_a_step_runs(cluster, || {
            let node = cluster.on_node("n2", "root");
            node.sh("kill -KILL $(pgrep -x slurmd); sleep 0.2; slurmd -N n2").success();
        });
        assert_eq!(finished.success().stdout, "app 1\napp 1\n");
    });
}

#[test]
fn a_step_goes_on_while_the_controller_is_killed_and_started_again() {
    in_cluster!(|cluster: &Cluster| {
        let finished = while_a_step_runs(cluster, || {
            // The controller saves its state seconds after a change. If it knew neither the job nor
            // the nodes, Slurm itself would end the step, or not use the nodes for a minute.
            cluster.root(
                "mark=saved-$(squeue --noheader --format=%i)
                 scontrol update JobId=${mark#saved-} Comment=$mark
                 scontrol update NodeName=n[1-4] Comment=$mark
                 cd /var/lib/slurm/ctld
                 until grep -qs $mark job_state && grep -qs $mark node_state; do sleep 0.1; done
                 pid=$(pgrep -x slurmctld)
                 kill -KILL $pid
                 while [ -e /proc/$pid ]; do sleep 0.02; done
                 slurmctld",
            );
        });
        assert_eq!(finished.success().stdout, "app 1\napp 1\n");
    });
}

#[test]
fn a_task_that_is_killed_fails_the_step() {
    in_cluster!(|cluster: &Cluster| {
        let finished = while_a_step_runs(cluster, || {
            let node = cluster.on_node("n2", "alice");
            node.sh("kill -KILL $(pgrep -x -u alice sh | head -1)").success();
        });
        assert_eq!((finished.code, finished.stdout.as_str()), (137, "app 1\n"), "{finished:?}");
    });
}

#[test]
fn a_step_can_be_cancelled() {
    in_cluster!(|cluster: &Cluster| {
        let finished = while_a_step_runs(cluster, || {
            cluster.user("alice").sh("scancel --user=alice").success();
            // Before it is let go, all of it has ended.
            cluster.root("while squeue --noheader | grep -q .; do sleep 0.05; done");
        });
        assert!(finished.code != 0 && finished.stdout.is_empty(), "{finished:?}");
    });
}

#[test]
fn a_step_ends_with_its_time() {
    in_cluster!(|cluster: &Cluster| {
        let finished = while_a_step_runs(cluster, || {
            // The controller looks twice a minute.
            let state = cluster.root(
                "job=$(squeue --noheader --format=%i)
                 scontrol update JobId=$job EndTime=now+1
                 while squeue --noheader | grep -q .; do sleep 0.2; done
                 scontrol show job $job | grep -o 'JobState=[A-Z]*'",
            );
            assert_eq!(state, "JobState=TIMEOUT\n");
        });
        // That it was the time limit is printed by a node whose messages may come too late.
        assert!(finished.code != 0 && finished.stdout.is_empty(), "{finished:?}");
    });
}

/// Does something while the policy of one node is no policy.
fn with_broken_policy<T>(cluster: &Cluster, node: &str, test: impl FnOnce() -> T) -> T {
    let root = cluster.on_node(node, "root");
    root.sh("echo nonsense >/run/policy; mount --bind /run/policy /etc/cabane/mount.policy")
        .success();
    let tested = test();
    root.sh("umount /etc/cabane/mount.policy").success();
    tested
}

#[test]
fn a_step_ends_on_all_nodes_where_one_cannot_mount_and_says_which() {
    in_cluster!(|cluster: &Cluster| {
        let finished = with_broken_policy(cluster, "n3", || {
            let step = "srun -N4 -n8 --uenv=app/1:v1 sh -c 'who; exec sleep 40'";
            cluster.user("alice").sh(&format!("time {step}"))
        });
        let reason = "cabane: n3: a mistake in /etc/cabane/mount.policy";
        let seconds = finished.stderr.split("real\t0m").nth(1);
        let seconds = seconds.and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
        assert!(
            finished.code != 0
                && finished.stderr.contains(reason)
                && finished.stderr.contains("srun: error: n3: task")
                && seconds.is_some_and(|seconds| seconds < 20),
            "{finished:?}"
        );
    });
}

#[test]
fn a_batch_job_fails_where_its_first_node_cannot_mount_and_no_node_is_drained() {
    in_cluster!(|cluster: &Cluster| {
        let finished = with_broken_policy(cluster, "n1", || {
            cluster.user("alice").sh("printf '#!/bin/bash\\necho ran\\n' >job.sh; rm -f out
                 sbatch --quiet --wait -N4 --output=out --uenv=app/1:v1 job.sh
                 code=$?; cat out; exit $code")
        });
        assert!(
            finished.code == 1
                && !finished.stdout.contains("ran")
                && finished.stdout.contains("error: cabane: n1: "),
            "{finished:?}"
        );
    });
}

#[test]
fn a_step_of_a_batch_job_fails_the_job_where_another_node_cannot_mount() {
    in_cluster!(|cluster: &Cluster| {
        let finished = with_broken_policy(cluster, "n4", || {
            cluster.user("alice").sh(
                "printf '#!/bin/bash\\nset -e\\nwho\\nsrun sleep 40\\necho after\\n' >job.sh
                 rm -f out; sbatch --quiet --wait -N4 --output=out --uenv=app/1:v1 job.sh
                 code=$?; cat out; exit $code",
            )
        });
        assert!(
            finished.code != 0
                && finished.stdout.starts_with("app 1\n")
                && finished.stdout.contains("cabane: n4: ")
                && !finished.stdout.contains("after"),
            "{finished:?}"
        );
    });
}
