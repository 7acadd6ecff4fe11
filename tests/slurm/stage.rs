// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that are copied on the node first.
//!
//! From where an image is mounted the kernel tells in `/sys`, and everyone can look. That
//! nothing is left after the idle time is looked at after every test.

use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use cabane_testkit::{Finished, not_run};

use crate::arena::{Cluster, assert_failed, in_cluster, no_control_groups};

/// Prints the file that a mounted image is read from.
const SOURCE: &str =
    "cat /sys/dev/block/$(stat --format=%Hd:%Ld /user-environment)/loop/backing_file";
/// What that is of a copy in memory.
const IN_MEMORY: &str = "/memfd:cabane (deleted)";

/// The site allows copies; MiB for all of them in memory.
fn allow(cluster: &Cluster, memory: u32) {
    cluster.root(&format!(
        "mkdir -p /scratch/cabane
         printf 'stage-memory {memory}\\nstage-local 64 /scratch/cabane\\n' >>/etc/cabane/mount.policy"
    ));
}

fn alice(cluster: &Cluster, script: &str) -> Vec<String> {
    let output = cluster.user("alice").sh(script).success().stdout;
    let mut lines: Vec<_> = output.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// Starts something of alice that goes on meanwhile.
fn start(cluster: &Cluster, script: &str) -> Child {
    let mut command = cluster.user("alice").command(script);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

#[test]
fn an_image_is_copied_into_the_memory_of_each_node() {
    in_cluster!(|cluster: &Cluster| {
        allow(cluster, 64);
        let script =
            format!("srun -N4 -n8 --uenv=app/1:v1 --uenv-stage=memory sh -c 'who; {SOURCE}'");
        assert_eq!(alice(cluster, &script), [IN_MEMORY, "app 1"]);
    });
}

#[test]
fn an_image_is_copied_into_the_directory_of_the_site() {
    in_cluster!(|cluster: &Cluster| {
        allow(cluster, 64);
        let script = format!("srun -N2 --uenv=app/1:v1 --uenv-stage=local sh -c 'who; {SOURCE}'");
        let printed = cluster.user("alice").sh(&script).success().stdout;
        let copies = printed.lines().filter(|line| line.ends_with(" (deleted)"));
        assert_eq!((copies.count(), printed.matches("app 1").count()), (2, 2), "{printed}");
        assert_eq!(cluster.root("ls -A /scratch/cabane"), "");
    });
}

#[test]
fn what_becomes_of_the_original_does_not_matter_to_a_copy() {
    in_cluster!(|cluster: &Cluster| {
        allow(cluster, 64);
        let printed = alice(
            cluster,
            "rm -f started go; cp /shared/images/app.squashfs fleeting.squashfs
             srun --uenv=$PWD/fleeting.squashfs --uenv-stage=memory sh -c '
                 touch started; while ! [ -e go ]; do sleep 0.02; done; who' &
             while ! [ -e started ]; do sleep 0.02; done
             truncate --size=0 fleeting.squashfs; rm fleeting.squashfs; touch go; wait $!",
        );
        assert_eq!(printed, ["app 1"]);
    });
}

#[test]
fn steps_at_the_same_time_have_one_copy_on_a_node() {
    in_cluster!(|cluster: &Cluster| {
        allow(cluster, 300);
        // It takes a moment, so that all of them come while the first copies.
        let devices = alice(
            cluster,
            "cp /shared/images/app.squashfs large.squashfs; truncate --size=256M large.squashfs
             salloc --quiet -N2 bash -c '
                 for i in 1 2 3 4; do
                     srun --overlap --uenv=$PWD/large.squashfs --uenv-stage=memory \
                         sh -c \"hostname; stat --format=%d /user-environment; sleep 1\" &
                 done
                 wait'
             rm large.squashfs",
        );
        assert_eq!(devices.len(), 2 + 2, "{devices:?}");
    });
}

#[test]
fn users_who_may_read_an_image_share_the_copy() {
    in_cluster!(|cluster: &Cluster| {
        allow(cluster, 64);
        let step = "srun -w n1 --uenv=/shared/images/app.squashfs --uenv-stage=memory";
        cluster
            .root("rm -f /shared/started /shared/device; install -m 666 /dev/null /shared/device");
        let mut first = start(
            cluster,
            &format!(
                "{step} sh -c 'stat --format=%d /user-environment >/shared/device; touch /shared/started; sleep 3'"
            ),
        );
        cluster.root("while ! [ -e /shared/started ]; do sleep 0.02; done");
        let second = cluster.user("bob").sh(&format!("{step} stat --format=%d /user-environment"));
        assert_eq!(second.success().stdout, cluster.root("cat /shared/device"));
        first.wait().unwrap();
    });
}

#[test]
fn a_copy_is_not_for_who_may_not_read_the_original() {
    in_cluster!(|cluster: &Cluster| {
        allow(cluster, 64);
        cluster.root("chmod 755 /home/bob; rm -f /shared/started");
        let mut bobs = cluster.user("bob").command(
            "srun -w n1 --uenv=$HOME/own.squashfs --uenv-stage=memory sh -c 'touch /shared/started; sleep 4'",
        );
        let mut bobs = bobs.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        cluster.root("while ! [ -e /shared/started ]; do sleep 0.02; done");
        // Where it is submitted it is hers; by the time it starts it leads to his.
        let printed = cluster.user("alice").sh("printf '#!/bin/bash\necho ran\n' >job.sh; rm -f out
             cp /shared/images/app.squashfs mine.squashfs
             job=$(sbatch --parsable --hold -w n1 --output=out --uenv=$PWD/mine.squashfs --uenv-stage=memory job.sh)
             rm mine.squashfs; ln -s /home/bob/own.squashfs mine.squashfs
             scontrol release $job
             while squeue --noheader --job=$job 2>/dev/null | grep -q .; do sleep 0.1; done
             rm mine.squashfs
             cat out");
        bobs.wait().unwrap();
        let printed = printed.success().stdout;
        assert!(printed.contains("Permission denied") && !printed.contains("ran"), "{printed}");
    });
}

#[test]
fn a_copy_that_is_too_large_fails_the_step() {
    in_cluster!(|cluster: &Cluster| {
        allow(cluster, 1);
        let finished = cluster
            .user("alice")
            .sh("cp /shared/images/app.squashfs large.squashfs; truncate --size=2M large.squashfs
             srun --uenv=$PWD/large.squashfs --uenv-stage=memory echo ran");
        assert_failed(
            &finished,
            "large.squashfs in the memory of this node, where all copies may have 1 MiB",
        );
    });
}

#[test]
fn an_unused_copy_makes_space_for_another() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root("sed -i s/idle-seconds.*/idle-seconds\\ 600/ /etc/cabane/mount.policy");
        allow(cluster, 1);
        let printed = alice(
            cluster,
            "for i in 1 2; do
                 cp /shared/images/app.squashfs part$i.squashfs; truncate --size=700K part$i.squashfs
             done
             step='srun -w n1 --uenv-stage=memory'
             $step --uenv=$PWD/part1.squashfs who; sleep 3; $step --uenv=$PWD/part2.squashfs who",
        );
        assert_eq!(printed, ["app 1"]);
    });
}

#[test]
fn a_copier_that_is_killed_leaves_nothing_in_the_way() {
    in_cluster!(|cluster: &Cluster| {
        allow(cluster, 4096);
        let script = "srun -w n1 --uenv=$PWD/large.squashfs --uenv-stage=memory who";
        cluster
            .user("alice")
            .sh("cp /shared/images/app.squashfs large.squashfs; truncate --size=2G large.squashfs")
            .success();
        let mut step = start(cluster, script);
        let node = cluster.on_node("n1", "root");
        node.sh(
            "until found=$(find /proc/[0-9]*/fd -lname '/memfd:cabane*' 2>/dev/null | grep .); do :; done
             kill -KILL $(echo \"$found\" | head -n 1 | cut -d/ -f3)",
        )
        .success();
        cluster.root("scancel --user=alice; pkill -u alice srun; true");
        step.wait().unwrap();
        cluster.user("alice").sh("truncate --size=16M large.squashfs").success();
        assert_eq!(alice(cluster, script), ["app 1"]);
    });
}

#[test]
fn memory_is_given_back_after_the_idle_time() {
    in_cluster!(|cluster: &Cluster| {
        allow(cluster, 64);
        alice(cluster, "srun -N4 --uenv=app/1:v1 --uenv-stage=memory true");
        // An image counts as used for two seconds.
        sleep(Duration::from_secs(3));
        alice(cluster, "srun -N4 --uenv=tool/1:v1 true");
        let left = cluster.root("grep -l memfd:cabane /sys/block/loop*/loop/backing_file; true");
        assert_eq!(left, "");
    });
}

#[test]
fn a_variable_says_where_images_are_copied_and_steps_do_as_their_job() {
    in_cluster!(|cluster: &Cluster| {
        allow(cluster, 64);
        let script = format!(
            "cat >job.sh <<'END'
#!/bin/bash
#SBATCH --uenv=app/1:v1
{SOURCE}
srun sh -c '{SOURCE}'
srun --uenv-stage=no sh -c '{SOURCE}'
END
             SBATCH_UENV_STAGE=memory sbatch --wait --output=out job.sh >&2
             cat out
             SLURM_UENV_STAGE=memory srun --uenv=app/1:v1 sh -c '{SOURCE}'"
        );
        let output = cluster.user("alice").sh(&script).success().stdout;
        // A busy node makes `srun` say that it tries again.
        let lines = output.lines().filter(|line| !line.starts_with("srun: "));
        let from_memory: Vec<_> = lines.map(|line| line == IN_MEMORY).collect();
        assert_eq!(from_memory, [true, true, false, true], "{output}");
    });
}

#[test]
fn a_site_that_allows_no_copies_is_reported() {
    in_cluster!(|cluster: &Cluster| {
        let finished =
            cluster.user("alice").sh("srun --uenv=app/1:v1 --uenv-stage=memory echo ran");
        assert_failed(&finished, "no copies of images are allowed in the memory of this node");
    });
}

#[test]
fn a_copy_that_root_makes_is_still_the_image_of_its_owner() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root("sed -i s/image-owners.*/image-owners\\ root/ /etc/cabane/mount.policy");
        // The nodes of the test are on an overlay, whose layers they cannot see.
        cluster.root("echo image-filesystems overlay tmpfs >>/etc/cabane/mount.policy");
        allow(cluster, 64);
        let finished =
            cluster.user("alice").sh("srun --uenv=app/1:v1 --uenv-stage=memory echo ran");
        assert_failed(&finished, "the policy does not trust its owner");
    });
}

#[test]
fn a_value_that_is_no_place_is_refused_where_it_is_typed() {
    in_cluster!(|cluster: &Cluster| {
        let finished = cluster.user("alice").sh("srun --uenv=app/1:v1 --uenv-stage=disk echo ran");
        assert!(
            finished.code != 0 && finished.stderr.contains("[possible values: no, memory, local]"),
            "{finished:?}"
        );
    });
}

#[test]
fn an_image_that_slurm_has_broadcast_is_mounted_from_the_node() {
    in_cluster!(|cluster: &Cluster| {
        let script = format!(
            "cat >job.sh <<'END'
#!/bin/bash
#SBATCH --nodes=4
sbcast --force /shared/images/app.squashfs /tmp/app.squashfs
srun --uenv=/tmp/app.squashfs sh -c 'who; {SOURCE}'
srun rm /tmp/app.squashfs
END
             sbatch --wait --output=out job.sh >&2; cat out"
        );
        let printed = cluster.user("alice").sh(&script).success().stdout;
        assert_eq!(printed.matches("app 1").count(), 4, "{printed}");
    });
}

/// Runs two steps that copy an image of 90 MB into memory: one with a limit of 40 MB, and one of 300 MB.
pub(crate) fn copy_with_limits(cluster: &Cluster) -> [Finished; 2] {
    cluster.root(
        "echo stage-memory 200 >>/etc/cabane/mount.policy
         mkdir -p /shared/large/meta && head -c 90M /dev/urandom >/shared/large/file
         mksquashfs /shared/large /shared/large.squashfs -noI -noD -quiet -no-progress >/dev/null
         chmod 644 /shared/large.squashfs; rm -r /shared/large",
    );
    let finished = [40, 300].map(|memory| {
        cluster.user("alice").sh(&format!(
            "srun --mem={memory} --uenv=/shared/large.squashfs:/user-environment \
             --uenv-stage=memory stat -c %s /user-environment/file"
        ))
    });
    cluster.root("rm /shared/large.squashfs");
    finished
}

#[test]
fn a_copy_in_memory_counts_for_no_step_in_control_groups_of_the_first_version() {
    if let Some(reason) = no_control_groups() {
        not_run!("{reason}");
    }
    in_cluster!(ControlGroups, |cluster: &Cluster| {
        for finished in copy_with_limits(cluster) {
            assert_eq!(finished.success().stdout, "94371840\n");
        }
    });
}
