// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Heterogeneous jobs: several parts, each with nodes and options of its own.

use crate::arena::{Cluster, assert_failed, in_cluster};

#[test]
fn all_parts_of_a_step_have_the_images_and_the_view_once() {
    in_cluster!(|cluster: &Cluster| {
        let show = "sh -c 'who; echo $PATH | grep -o /user-environment/bin'";
        let printed = cluster
            .user("alice")
            .sh(&format!("srun -N1 --uenv=app/1:v1 {show} : -N2 {show}"))
            .success();
        let mut printed: Vec<_> = printed.stdout.lines().collect();
        printed.sort_unstable();
        let (path, name) = ("/user-environment/bin", "app 1");
        assert_eq!(printed, [path, path, path, name, name, name]);
    });
}

#[test]
fn parts_of_one_step_that_want_different_images_are_refused() {
    in_cluster!(|cluster: &Cluster| {
        let steps = [
            "srun -N1 --uenv=app/1:v1 echo ran : -N1 --uenv=tool/1:v1 echo ran",
            "srun -N1 echo ran : -N1 --uenv=tool/1:v1 echo ran",
        ];
        for step in steps {
            let finished = cluster.user("alice").sh(step);
            assert_failed(&finished, "srun --het-group=1 --uenv=");
        }
    });
}

#[test]
fn a_heterogeneous_batch_job_has_the_image_in_all_its_parts() {
    in_cluster!(|cluster: &Cluster| {
        let printed = cluster
            .user("alice")
            .sh("cat >job.sh <<'END'
#!/bin/bash
#SBATCH -N1 --uenv=app/1:v1
#SBATCH hetjob
#SBATCH -N2
who
srun --het-group=0,1 who
srun --het-group=1 --uenv=tool/1:v1 what
END
                 rm -f out
                 sbatch --quiet --wait --output=out job.sh; cat out")
            .success();
        let expected = format!("{}{}", "app 1\n".repeat(4), "tool\n".repeat(2));
        assert_eq!(printed.stdout, expected);
    });
}

#[test]
fn a_heterogeneous_allocation_has_steps_with_images_of_their_own() {
    in_cluster!(|cluster: &Cluster| {
        let printed = cluster
            .user("alice")
            .sh("salloc --quiet -N1 : -N1 sh -c '
                     srun --het-group=0 --uenv=app/1:v1 who
                     srun --het-group=1 --uenv=tool/1:v1 what'")
            .success();
        assert_eq!(printed.stdout, "app 1\ntool\n");
    });
}
