// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images of users under the policy that is shipped: the kernel reads root's only, and the others
//! are served through FUSE, by one process of the user for each node.

use std::collections::BTreeSet;

use cabane_testkit::not_run;

use crate::arena::{Cluster, assert_failed, in_cluster, no_control_groups};

/// Whose images the kernel may read where a site changes nothing.
pub(crate) fn trust_root_only(cluster: &Cluster) {
    cluster.root("sed -i s/image-owners.*/image-owners\\ root/ /etc/cabane/mount.policy");
}

/// The number of this file system, as `stat` prints it.
const FUSE: &str = "65735546";
const SERVERS: &str = "ps -C squashfuse_ll -o stat=,user= | sed -n '/^Z/!s/.* //p'";

#[test]
fn an_image_of_a_user_is_served_on_all_nodes_outside_of_a_user_namespace() {
    in_cluster!(|cluster: &Cluster| {
        trust_root_only(cluster);
        let script = "srun -N4 -n16 --uenv=app/1:v1,tool/1:v1 \
                      sh -c 'who; what; stat -f -c %t /user-environment; cat /proc/self/uid_map'";
        let output = cluster.user("alice").sh(script).success().stdout;
        let printed: BTreeSet<String> = output
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let expected = ["app 1", "tool", FUSE, "0 0 4294967295"];
        assert_eq!(printed, expected.map(str::to_owned).into());
    });
}

#[test]
fn an_image_that_no_one_else_may_read_is_served_to_its_owner() {
    in_cluster!(|cluster: &Cluster| {
        trust_root_only(cluster);
        let script = "srun -N2 --uenv=/home/bob/own.squashfs /user-environment/bin/who";
        assert_eq!(cluster.user("bob").sh(script).success().stdout, "app 2\napp 2\n");
        let finished = cluster.user("alice").sh(script);
        assert_failed(&finished, "own.squashfs");
    });
}

#[test]
fn one_process_of_the_user_serves_all_tasks_of_a_node_and_ends_with_them() {
    in_cluster!(|cluster: &Cluster| {
        trust_root_only(cluster);
        let script = format!(
            "rm -f end
             srun -N4 -n16 --uenv=app/1:v1 sh -c 'who >/dev/null; until [ -e end ]; do sleep 0.1; done' &
             until [ $({SERVERS} | wc -l) -ge 4 ]; do sleep 0.1; done
             sleep 0.3; {SERVERS}; touch end; wait; rm end"
        );
        let during = cluster.user("alice").sh(&script).success().stdout;
        assert_eq!(during, "alice\nalice\nalice\nalice\n");
    });
}

#[test]
fn root_does_not_ask_the_server() {
    in_cluster!(|cluster: &Cluster| {
        trust_root_only(cluster);
        let mut step = cluster
            .user("alice")
            .command("exec srun -N1 -w n1 --uenv=app/1:v1 sh -c 'echo $$ >/shared/process; exec sleep 2'")
            .spawn()
            .unwrap();
        let found = cluster.on_node("n1", "root").sh("rm -f /shared/process
             until [ -s /shared/process ]; do sleep 0.1; done
             pkill -STOP -u alice squashfuse_ll
             timeout 2 nsenter -m -t $(cat /shared/process) ls /user-environment 2>&1
             timeout 2 stat -f -c %t /proc/$(cat /shared/process)/root/user-environment 2>&1
             pkill -CONT -u alice squashfuse_ll");
        assert!(step.wait().unwrap().success());
        let expected =
            format!("ls: cannot access '/user-environment': Permission denied\n{FUSE}\n");
        assert_eq!(found.stdout, expected);
    });
}

#[test]
fn a_server_that_does_not_answer_stops_its_own_step_and_no_other() {
    in_cluster!(|cluster: &Cluster| {
        trust_root_only(cluster);
        let script =
            "sbatch --quiet -N2 --wrap 'srun -N2 --uenv=app/1:v1 sh -c \"while who; do :; done\"'
             until pgrep squashfuse_ll >/dev/null; do sleep 0.1; done
             sleep 0.3; pkill -STOP squashfuse_ll; sleep 0.3";
        cluster.user("alice").sh(script).success();
        let other = "srun -N2 --overlap --uenv=/home/bob/own.squashfs /user-environment/bin/who";
        let begin = std::time::Instant::now();
        assert_eq!(cluster.user("bob").sh(other).success().stdout, "app 2\napp 2\n");
        assert!(begin.elapsed() < std::time::Duration::from_secs(30));
        cluster.user("alice").sh("scancel --user=alice; rm -f slurm-*.out").success();
    });
}

#[test]
fn a_server_that_is_killed_gives_errors_to_its_own_step() {
    in_cluster!(|cluster: &Cluster| {
        trust_root_only(cluster);
        let script = "srun -N1 --uenv=app/1:v1 sh -c 'pkill -KILL -u alice squashfuse_ll; sleep 0.2
             cat /user-environment/bin/who'";
        let finished = cluster.user("alice").sh(script);
        let reason = "Transport endpoint is not connected";
        assert!(finished.code != 0 && finished.stderr.contains(reason), "{finished:?}");
    });
}

#[test]
fn a_damaged_image_fails_the_step_before_its_first_task() {
    in_cluster!(|cluster: &Cluster| {
        trust_root_only(cluster);
        let script = "head -c 100 /shared/images/app.squashfs >damaged
             head -c 8000 /dev/zero >>damaged
             srun -N2 --uenv=$PWD/damaged:/user-environment echo ran; code=$?; rm damaged; exit $code";
        let finished = cluster.user("alice").sh(script);
        assert_failed(&finished, "the FUSE program failed");
    });
}

#[test]
fn a_site_can_forbid_it() {
    in_cluster!(|cluster: &Cluster| {
        trust_root_only(cluster);
        cluster.root("echo fuse-images no >>/etc/cabane/mount.policy");
        let finished = cluster.user("alice").sh("srun --uenv=app/1:v1 echo ran");
        assert_failed(&finished, "the kernel may not read");
    });
}

#[test]
fn a_job_with_its_own_directories_has_its_image() {
    in_cluster!(JobContainers, |cluster: &Cluster| {
        trust_root_only(cluster);
        let script = "srun -N2 -n4 --uenv=app/1:v1 sh -c 'echo of-job >/tmp/of-job; who'";
        assert_eq!(cluster.user("alice").sh(script).success().stdout, "app 1\n".repeat(4));
    });
}

#[test]
fn what_serves_is_in_the_control_groups_of_the_step_and_ends_with_it() {
    if let Some(reason) = no_control_groups() {
        not_run!("{reason}");
    }
    in_cluster!(ControlGroups, |cluster: &Cluster| {
        trust_root_only(cluster);
        let script = "srun -N2 --mem=64 --uenv=app/1:v1 sh -c '
             who; grep -E \":(freezer|memory|devices):\" /proc/$(pgrep squashfuse_ll)/cgroup | cut -d: -f3'";
        let output = cluster.user("alice").sh(script).success().stdout;
        let groups: BTreeSet<&str> = output.lines().filter(|line| *line != "app 1").collect();
        assert!(
            !groups.is_empty()
                && groups.iter().all(|group| group.contains("/job_") && group.contains("/step_0")),
            "{output}"
        );
        ends_with_its_step_when_it_is_stopped(cluster);
    });
}

/// A program that its user has stopped is killed with the tasks that wait for it.
pub(crate) fn ends_with_its_step_when_it_is_stopped(cluster: &Cluster) {
    let script = "sbatch --quiet -N1 --wrap 'srun --uenv=app/1:v1 sh -c \"while who; do :; done\"'
         until pgrep squashfuse_ll >/dev/null; do sleep 0.1; done
         sleep 0.3; pkill -STOP squashfuse_ll; sleep 0.3
         scancel --user=alice; rm -f slurm-*.out";
    cluster.user("alice").sh(script).success();
}
