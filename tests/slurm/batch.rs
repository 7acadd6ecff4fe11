// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Jobs of `sbatch` and `salloc`.

use crate::arena::{Cluster, in_cluster};

/// Submits a script as alice with options, waits, and returns its output.
fn batch(cluster: &Cluster, before: &str, options: &str, script: &str) -> String {
    let text = format!(
        "cat >job.sh <<'END'\n#!/bin/bash\n{script}\nEND
         rm -f out
         {before} sbatch --quiet --wait --output=out {options} job.sh
         code=$?; cat out; exit $code"
    );
    cluster.user("alice").sh(&text).success().stdout
}

#[test]
fn a_batch_script_and_its_steps_have_the_image() {
    in_cluster!(|cluster: &Cluster| {
        let printed = batch(cluster, "", "-N2 --uenv=app/1:v1", "who\nsrun who");
        assert_eq!(printed, "app 1\napp 1\napp 1\n");
    });
}

#[test]
fn a_batch_script_names_its_image() {
    in_cluster!(|cluster: &Cluster| {
        let printed = batch(cluster, "", "", "#SBATCH --uenv=app/1:v1 --view=default\nwho");
        assert_eq!(printed, "app 1\n");
    });
}

#[test]
fn what_is_typed_wins_over_what_the_script_says() {
    in_cluster!(|cluster: &Cluster| {
        let printed = batch(
            cluster,
            "",
            "--uenv=tool/1:v1",
            "#SBATCH --uenv=app/1:v1\nls -A /user-environment; what",
        );
        assert_eq!(printed, "tool\n");
    });
}

#[test]
fn a_variable_stands_for_the_option_of_sbatch() {
    in_cluster!(|cluster: &Cluster| {
        let printed = batch(cluster, "SBATCH_UENV=app/1:v1", "", "who");
        assert_eq!(printed, "app 1\n");
    });
}

#[test]
fn views_are_applied_once() {
    in_cluster!(|cluster: &Cluster| {
        let printed = batch(
            cluster,
            "",
            "--uenv=app/1:v1",
            "srun sh -c 'echo $PATH' | grep -o /user-environment/bin",
        );
        assert_eq!(printed, "/user-environment/bin\n");
    });
}

#[test]
fn a_step_of_a_job_may_have_another_image() {
    in_cluster!(|cluster: &Cluster| {
        let printed = batch(
            cluster,
            "",
            "--uenv=app/1:v1",
            "srun --uenv=/shared/images/app2.squashfs who; who",
        );
        assert_eq!(printed, "app 2\napp 1\n");
    });
}

#[test]
fn a_step_that_names_its_image_has_no_other() {
    in_cluster!(|cluster: &Cluster| {
        let printed = batch(
            cluster,
            "",
            "--uenv=app/1:v1",
            "srun --uenv=tool/1:v1 sh -c 'ls -A /user-environment; echo $PATH; what'",
        );
        assert_eq!(
            printed,
            "/user-tools/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin\ntool\n"
        );
    });
}

#[test]
fn a_step_may_have_an_image_beside_those_of_its_job() {
    in_cluster!(|cluster: &Cluster| {
        let printed = batch(
            cluster,
            "",
            "--uenv=app/1:v1",
            "srun --uenv=tool/1:v1 --uenv-passthrough=use sh -c 'who; what'",
        );
        assert_eq!(printed, "app 1\ntool\n");
    });
}

#[test]
fn every_task_of_an_array_has_the_image() {
    in_cluster!(|cluster: &Cluster| {
        let printed = cluster
            .user("alice")
            .sh("rm -rf array; mkdir array; cd array
                 printf '#!/bin/bash\\nwho\\n' >job.sh
                 sbatch --quiet --wait --array=1-4 --output=out-%a --uenv=app/1:v1 job.sh
                 cat out-*")
            .success()
            .stdout;
        assert_eq!(printed, "app 1\n".repeat(4));
    });
}

#[test]
fn what_was_submitted_is_what_runs_although_the_label_has_moved() {
    in_cluster!(|cluster: &Cluster| {
        let printed = cluster
            .user("alice")
            .sh("set -e
                 rm -rf repository out; cabane repo create repository
                 export CABANE_REPO=$PWD/repository
                 cabane image add moves/1:v1@here%any /shared/images/app.squashfs
                 printf '#!/bin/bash\\nwho\\n' >job.sh
                 job=$(sbatch --parsable --hold --output=out --uenv=moves/1:v1 job.sh)
                 cabane image add --force moves/1:v1@here%any /shared/images/app2.squashfs
                 scontrol release $job
                 while squeue --noheader --job=$job 2>/dev/null | grep -q .; do sleep 0.1; done
                 cat out")
            .success()
            .stdout;
        assert!(printed.ends_with("app 1\n"), "{printed}");
    });
}

#[test]
fn steps_of_a_job_have_what_was_submitted_although_the_label_has_moved() {
    in_cluster!(|cluster: &Cluster| {
        let printed = cluster
            .user("alice")
            .sh("set -e
                 rm -rf repository; cabane repo create repository
                 export CABANE_REPO=$PWD/repository
                 cabane image add moves/1:v1@here%any /shared/images/app.squashfs
                 cabane image add stays/1:v1@here%any /shared/images/app.squashfs
                 salloc --quiet --uenv=moves/1:v1 sh -c '
                     cabane image add --force moves/1:v1@here%any /shared/images/app2.squashfs
                     srun who'")
            .success()
            .stdout;
        assert_eq!(printed, "app 1\n");
    });
}

#[test]
fn a_job_does_not_depend_on_what_is_loaded_by_chance() {
    in_cluster!(|cluster: &Cluster| {
        let finished = cluster.user("alice").sh("printf '#!/bin/bash\\nwho\\n' >job.sh
             cabane run app/1:v1 -- sbatch --wait job.sh");
        let hint = "hint: `sbatch --uenv=app/1:v1@here%any` names what the job needs";
        assert!(finished.code != 0 && finished.stderr.contains(hint), "{finished:?}");
    });
}

#[test]
fn a_job_gets_what_is_loaded_on_request() {
    in_cluster!(|cluster: &Cluster| {
        let printed =
            batch(cluster, "cabane run app/1:v1 --", "--uenv-passthrough=use", "who; srun who");
        assert_eq!(printed, "app 1\napp 1\n");
    });
}

#[test]
fn steps_of_an_allocation_have_its_image() {
    in_cluster!(|cluster: &Cluster| {
        let printed =
            cluster.user("alice").sh("salloc --quiet -N2 --uenv=app/1:v1 srun who").success();
        assert_eq!(printed.stdout, "app 1\napp 1\n");
    });
}

#[test]
fn a_batch_job_without_variables_has_its_image() {
    in_cluster!(|cluster: &Cluster| {
        let printed =
            batch(cluster, "", "--export=NONE --uenv=app/1:v1", "/user-environment/bin/who");
        assert_eq!(printed, "app 1\n");
    });
}
