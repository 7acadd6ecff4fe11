// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Jobs that have their own `/tmp` and `/dev/shm` on each node (`job_container/tmpfs`).

use crate::arena::{Cluster, assert_failed, in_cluster};

#[test]
fn tasks_have_the_image_and_the_private_directories_of_their_job() {
    in_cluster!(JobContainers, |cluster: &Cluster| {
        let printed =
            cluster.user("alice").sh("srun -N4 --ntasks-per-node=2 --uenv=app/1:v1 sh -c '
                 touch /tmp/task-$SLURM_PROCID /dev/shm/task-$SLURM_PROCID
                 while [ $(ls /tmp/task-* /dev/shm/task-* | wc -l) -lt 4 ]; do sleep 0.02; done
                 who'
             ls -d /tmp/task-*");
        assert_eq!((printed.code, printed.stdout), (2, "app 1\n".repeat(8)), "{}", printed.stderr);
    });
}

#[test]
fn a_batch_script_and_its_steps_have_one_tmp() {
    in_cluster!(JobContainers, |cluster: &Cluster| {
        let printed = cluster
            .user("alice")
            .sh("printf '#!/bin/bash\nwho >/tmp/output\nsrun sh -c \"who; cat /tmp/output\"\n' >job.sh
                 rm -f out
                 sbatch --quiet --wait --output=out --uenv=app/1:v1 job.sh; cat out")
            .success();
        assert_eq!(printed.stdout, "app 1\napp 1\n");
    });
}

#[test]
fn an_image_may_lie_in_the_tmp_of_the_machine_that_the_job_does_not_see() {
    in_cluster!(JobContainers, |cluster: &Cluster| {
        let place = "/tmp/alice.squashfs";
        cluster
            .on_node("n1", "alice")
            .sh(&format!("cp /shared/images/app.squashfs {place}"))
            .success();
        let printed = cluster.user("alice").sh(&format!(
            "cp /shared/images/app.squashfs {place}
             srun -w n1 --uenv={place} sh -c 'who; ls {place}'; rm {place}"
        ));
        cluster.on_node("n1", "alice").sh(&format!("rm {place}")).success();
        assert_eq!(printed.stdout, "app 1\n", "{}", printed.stderr);
    });
}

#[test]
fn a_step_without_images_has_the_tmp_of_its_job() {
    in_cluster!(JobContainers, |cluster: &Cluster| {
        let printed = cluster
            .user("alice")
            .sh("salloc --quiet -N1 sh -c '
                     srun --uenv=app/1:v1 sh -c \"who >/tmp/output\"; srun cat /tmp/output'")
            .success();
        assert_eq!(printed.stdout, "app 1\n");
    });
}

#[test]
fn what_goes_wrong_fails_the_step_and_no_node() {
    in_cluster!(JobContainers, |cluster: &Cluster| {
        let finished = cluster
            .user("alice")
            .sh("srun -N2 --uenv=/shared/images/app.squashfs:/opt/app echo ran");
        let reason = "/opt/app is not among the mount points that the administrator allows";
        assert_failed(&finished, reason);
    });
}
