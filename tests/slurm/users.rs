// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Two users on the same nodes.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::arena::{Cluster, in_cluster};

/// What alice and bob get to see on node n1, where each has an image until the other has one.
fn both(cluster: &Cluster, alice: &str, bob: &str) -> [String; 2] {
    cluster.on_node("n1", "root").sh("mkdir --mode=1777 /tmp/both").success();
    let seen = std::thread::scope(|scope| {
        [("alice", alice), ("bob", bob)]
            .map(|(name, image)| {
                let script = format!(
                    "srun -w n1 --uenv={image} sh -c 'who; stat --format=%d /user-environment
                     mkdir /tmp/both/$USER
                     timeout 60 sh -c \"until cd /tmp/both/alice/ && cd /tmp/both/bob/; do sleep 0.05; done\" 2>/dev/null'"
                );
                scope.spawn(move || cluster.user(name).sh(&script).success().stdout)
            })
            .map(|thread| thread.join().unwrap())
    });
    cluster.on_node("n1", "root").sh("rm -r /tmp/both").success();
    seen
}

#[test]
fn two_users_with_one_image_share_what_the_kernel_holds_of_it() {
    in_cluster!(|cluster: &Cluster| {
        let [alice, bob] = both(cluster, "app/1:v1", "app/1:v1");
        assert_eq!(alice, bob);
    });
}

#[test]
fn two_users_with_different_images_have_their_own() {
    in_cluster!(|cluster: &Cluster| {
        let output = both(cluster, "app/1:v1", "/home/bob/own.squashfs");
        let output = output.map(|text| text.lines().next().unwrap_or_default().to_owned());
        assert_eq!(output, ["app 1", "app 2"]);
    });
}

#[test]
fn a_file_system_of_one_user_that_hangs_holds_up_no_other_user() {
    in_cluster!(|cluster: &Cluster| {
        // On the head there is a plain file; on the node a server of hers, which has stopped.
        let alice = cluster.user("alice");
        alice
            .sh("mkdir -p served tree; cp /shared/images/app.squashfs served/
                 cp /shared/images/app.squashfs tree/; mksquashfs tree outer.squashfs -quiet")
            .success();
        let serving = cluster
            .on_node("n1", "alice")
            .sh("cd; squashfuse outer.squashfs served && pkill -STOP -x -u alice squashfuse");
        serving.success();
        let mut hers = alice
            .command("srun -w n1 --uenv=$HOME/served/app.squashfs echo ran")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let node = cluster.on_node("n1", "root");
        node.sh("until grep -qs fuse_ /proc/[0-9]*/task/*/stack || grep -qs request_wait_answer /proc/[0-9]*/wchan; do sleep 0.05; done")
            .success();
        let begin = Instant::now();
        let his = cluster.user("bob").sh("srun -w n1 --uenv=app/1:v1 who");
        let time = begin.elapsed();
        // Who waits for her server is a process with her rights.
        let waiting = node.sh("for process in /proc/[0-9]*; do
                 if grep -qs request_wait_answer $process/wchan; then stat --format=%U $process; fi
             done");
        node.sh("pkill -KILL -x -u alice squashfuse; umount --lazy /home/alice/served; true");
        hers.wait().unwrap();
        alice.sh("rm -rf served tree outer.squashfs").success();
        assert_eq!(his.success().stdout, "app 1\n");
        assert!(time < Duration::from_secs(20), "{time:?}");
        assert_eq!(waiting.success().stdout.trim(), "alice");
    });
}
