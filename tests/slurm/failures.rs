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
