// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What goes wrong fails the step, with the reason, and never the node.
//!
//! That nodes are idle afterwards and have nothing left is looked at after every test.

use std::process::Stdio;

use crate::arena::{Cluster, assert_failed, in_cluster};

#[test]
fn an_image_that_is_not_there_is_reported_where_it_is_requested() {
    in_cluster!(|cluster: &Cluster| {
        let finished = cluster.user("alice").sh("srun --uenv=ap/1:v1 echo ran");
        assert_failed(&finished, "error: no image matches `ap/1:v1`");
    });
}

#[test]
fn a_view_without_an_image_is_refused() {
    in_cluster!(|cluster: &Cluster| {
        let finished = cluster.user("alice").sh("srun --view=default echo ran");
        assert_failed(&finished, "error: views of which image?");
    });
}

#[test]
fn a_mount_point_that_the_site_does_not_allow_fails_the_step() {
    in_cluster!(|cluster: &Cluster| {
        let finished = cluster
            .user("alice")
            .sh("srun -N2 --uenv=/shared/images/app.squashfs:/opt/app echo ran");
        assert_failed(
            &finished,
            "/opt/app is not among the mount points that the administrator allows",
        );
        assert_failed(&finished, "`srun cabane run IMAGES -- COMMAND` mounts without privilege");
        let printed = cluster
            .user("alice")
            .sh("srun -N2 cabane run /shared/images/app.squashfs -- who")
            .success();
        assert_eq!(printed.stdout, "app 1\napp 1\n");
    });
}

/// A mount point that the site does not allow, on all nodes of a step.
const REFUSED: &str = "--uenv=/shared/images/app.squashfs:/opt/app";
const REASON: &str = "/opt/app is not among the mount points that the administrator allows";

#[test]
fn a_failure_of_many_nodes_is_one_message_with_all_of_them() {
    in_cluster!(|cluster: &Cluster| {
        let finished = cluster.user("alice").sh(&format!("srun -N4 -n16 {REFUSED} echo ran"));
        let lines: Vec<&str> = finished.stderr.lines().collect();
        let count = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
        assert_eq!(count(&format!("cabane: n[1-4]: {REASON}")), 1, "{finished:?}");
        assert_eq!(count("cabane: hint: "), 1, "{finished:?}");
        // That of the node which was heard first.
        assert_eq!(count("srun: error: n"), 1, "{finished:?}");
        // Where `srun` has ended sooner than the reason was told, it is not told again.
        let again = count("cabane: the step ended because n");
        assert!(again <= 1 && finished.stderr.matches(REASON).count() == 1 + again, "{finished:?}");
        assert!(!finished.stderr.contains("task_init"), "{finished:?}");
        assert_eq!((finished.code, finished.stdout.as_str()), (1, ""));
        let left = "pgrep -x -u alice cabane; true";
        assert_eq!(cluster.user("alice").sh(left).stdout, "");
        // Each node has its own in its log.
        let log = "f=$(scontrol show config | sed -n 's/^SlurmdLogFile *= //p')
             grep -o 'cabane: n3: /opt/app is not among' ${f//%n/n3} | head -n1";
        assert_eq!(cluster.root(log), "cabane: n3: /opt/app is not among\n");
    });
}

#[test]
fn nodes_with_other_reasons_are_told_apart() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root("echo mount-point /var/spool/slurmd/place >>/etc/cabane/mount.policy");
        let on = |node, script: &str| cluster.on_node(node, "root").sh(script).success();
        on("n1", "mkdir -p /var/spool/slurmd/place");
        on("n3", "echo nonsense >/run/policy; mount --bind /run/policy /etc/cabane/mount.policy");
        let place = "--uenv=/shared/images/app.squashfs:/var/spool/slurmd/place";
        let finished = cluster.user("alice").sh(&format!("srun -N4 {place} sleep 40"));
        on("n3", "umount /etc/cabane/mount.policy");
        on("n1", "rmdir /var/spool/slurmd/place");
        for block in [
            "cabane: n[2,4]: failed to open /var/spool/slurmd/place\n",
            "cabane: n3: a mistake in /etc/cabane/mount.policy\n",
        ] {
            assert_eq!(finished.stderr.matches(block).count(), 1, "{finished:?}");
        }
        assert_ne!(finished.code, 0);
    });
}

#[test]
fn a_node_that_is_not_heard_tells_the_reason_itself() {
    in_cluster!(|cluster: &Cluster| {
        // The process ends at once, never answers, and closes the socket.
        let listeners = ["exit 1", "cat >/dev/null", "exec >/dev/null; cat"];
        for listener in listeners {
            cluster.root(&format!(
                "printf '#!/bin/sh\n[ \"$2\" != collect ] || {{ {listener}; exit; }}\n\
                 exec /usr/local/bin/cabane \"$@\"\n' >/shared/wrapped; chmod 755 /shared/wrapped
                 sed -i 's|$| cabane=/shared/wrapped|' /etc/slurm/plugstack.conf"
            ));
            let finished = cluster.user("alice").sh(&format!("srun -N2 -n4 {REFUSED} echo ran"));
            cluster.root("sed -i 's| cabane=.*||' /etc/slurm/plugstack.conf");
            assert_failed(&finished, &format!("cabane: n1: {REASON}"));
            assert_eq!(finished.stderr.matches(REASON).count(), 1, "{finished:?}");
        }
    });
}

#[test]
fn a_mount_point_that_a_node_does_not_have_fails_the_step() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root("echo 'mount-point /absent' >>/etc/cabane/mount.policy");
        let finished =
            cluster.user("alice").sh("srun --uenv=/shared/images/app.squashfs:/absent echo ran");
        assert_failed(&finished, "/absent");
    });
}

#[test]
fn without_a_policy_nothing_is_mounted() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root("rm /etc/cabane/mount.policy");
        let finished = cluster.user("alice").sh("srun --uenv=app/1:v1 echo ran");
        assert_failed(&finished, "/etc/cabane/mount.policy");
    });
}

#[test]
fn an_image_that_went_away_after_submission_fails_the_job() {
    in_cluster!(|cluster: &Cluster| {
        let finished = cluster.user("alice").sh("cp /shared/images/app.squashfs gone.squashfs
             printf '#!/bin/bash\\necho ran\\n' >job.sh; rm -f out
             job=$(sbatch --parsable --hold --output=out --uenv=$PWD/gone.squashfs job.sh)
             rm gone.squashfs
             scontrol release $job
             while squeue --noheader --job=$job 2>/dev/null | grep -q .; do sleep 0.1; done
             scontrol show job $job | grep -oE 'JobState=[A-Z]+' >&2
             cat out >&2; exit 1");
        assert_failed(&finished, "JobState=FAILED");
        assert!(finished.stderr.contains("gone.squashfs"), "{finished:?}");
    });
}

#[test]
fn an_image_that_was_cut_off_fails_the_step() {
    in_cluster!(|cluster: &Cluster| {
        let finished = cluster
            .user("alice")
            .sh("cp /shared/images/app.squashfs cut.squashfs; truncate --size=1000 cut.squashfs
             UENV_MOUNT_LIST=$PWD/cut.squashfs:/user-environment srun echo ran");
        assert_failed(&finished, "cut.squashfs");
    });
}

#[test]
fn a_list_of_images_without_anything_that_is_loaded_is_stale() {
    in_cluster!(|cluster: &Cluster| {
        let finished = cluster
            .user("alice")
            .sh("SLURM_CABANE_IMAGES=2,squashfs:/shared/images/app.squashfs:/user-environment \
             srun ls -A /user-environment");
        assert_eq!(finished.success().stdout, "");
    });
}

#[test]
fn an_image_that_its_user_may_not_read_is_refused_on_the_node() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root("chmod 755 /home/bob");
        // Where the job is submitted it is hers; by the time it starts it leads to his.
        let finished =
            cluster.user("alice").sh("printf '#!/bin/bash\necho ran\n' >job.sh; rm -f out
             cp /shared/images/app.squashfs mine.squashfs
             job=$(sbatch --parsable --hold --output=out --uenv=$PWD/mine.squashfs job.sh)
             rm mine.squashfs; ln -s /home/bob/own.squashfs mine.squashfs
             scontrol release $job
             while squeue --noheader --job=$job 2>/dev/null | grep -q .; do sleep 0.1; done
             rm mine.squashfs
             cat out >&2; exit 1");
        assert_failed(&finished, "mine.squashfs");
        assert!(finished.stderr.contains("Permission denied"), "{finished:?}");
    });
}

#[test]
fn a_step_whose_slurmstepd_is_killed_leaves_nothing() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root("rm -f /shared/started");
        let mut step = cluster
            .user("alice")
            .command("srun -N1 -w n1 --uenv=app/1:v1 sh -c 'touch /shared/started; exec sleep 30'")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        cluster.root("while ! [ -e /shared/started ]; do sleep 0.02; done");
        // First the one that would clean up, then the task.
        let kill = "pkill -KILL slurmstepd; pkill -KILL -u alice sleep";
        cluster.on_node("n1", "root").sh(kill).success();
        cluster.root("scancel --user=alice; pkill -u alice srun; true");
        step.wait().unwrap();
    });
}

#[test]
fn a_plugin_for_another_release_of_slurm_is_not_taken() {
    in_cluster!(|cluster: &Cluster| {
        cluster.make_for_another_release("/shared/other.so");
        cluster.root("echo 'required /shared/other.so' >/etc/slurm/plugstack.conf");
        let finished = cluster.user("alice").sh("srun echo ran");
        assert_failed(&finished, "/shared/other.so");
    });
}
