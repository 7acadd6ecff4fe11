// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Steps that `srun` starts.

use std::collections::BTreeSet;

use crate::arena::{Cluster, in_cluster};

fn lines(text: &str) -> BTreeSet<&str> {
    text.lines().collect()
}

/// Runs a script as alice and returns what it printed, sorted and without doubles.
fn alice(cluster: &Cluster, script: &str) -> Vec<String> {
    let output = cluster.user("alice").sh(script).success().stdout;
    lines(&output).into_iter().map(str::to_owned).collect()
}

#[test]
fn every_task_has_the_image_and_its_view() {
    in_cluster!(|cluster: &Cluster| {
        let printed = alice(cluster, "srun -N4 -n8 --uenv=app/1:v1 sh -c 'who; echo $CABANE_TEST'");
        assert_eq!(printed, ["app", "app 1"]);
    });
}

#[test]
fn an_image_is_mounted_once_on_each_node_however_many_tasks_there_are() {
    in_cluster!(|cluster: &Cluster| {
        // A number is used again after the end.
        let all = |command| {
            alice(cluster, &format!("srun -N4 -n32 --uenv=app/1:v1 sh -c '{command}; sleep 1'"))
        };
        let namespaces = all("readlink /proc/self/ns/mnt");
        let devices = all("stat --format=%d /user-environment");
        assert_eq!((namespaces.len(), devices.len()), (4, 4));
    });
}

#[test]
fn a_step_that_requests_nothing_is_as_without_the_plugin() {
    in_cluster!(|cluster: &Cluster| {
        let script = "srun -N1 -w n1 sh -c 'env; ls /user-environment; grep NoNewPrivs \
                      /proc/self/status; readlink /proc/self/ns/mnt' | \
                      grep -vE '^(SLURM_|SRUN_|SLURMD_|TMPDIR)'";
        let with = cluster.user("alice").sh(script).success().stdout;
        cluster.root(": >/etc/slurm/plugstack.conf");
        let without = cluster.user("alice").sh(script).success().stdout;
        assert_eq!(with, without);
    });
}

#[test]
fn programs_of_a_step_with_images_cannot_gain_rights() {
    in_cluster!(|cluster: &Cluster| {
        let printed = alice(
            cluster,
            "srun -n2 --uenv=app/1:v1 grep -E '^(CapBnd|NoNewPrivs)' /proc/self/status",
        );
        assert_eq!(printed, ["CapBnd:\t0000000000000000", "NoNewPrivs:\t1"]);
    });
}

#[test]
fn several_images_have_their_places() {
    in_cluster!(|cluster: &Cluster| {
        let printed = alice(
            cluster,
            "srun -N2 --uenv=app/1:v1,tool/1:v1 --view=app:default,tool:default sh -c 'who; what'",
        );
        assert_eq!(printed, ["app 1", "tool"]);
    });
}

#[test]
fn a_path_and_a_mount_point_can_be_named() {
    in_cluster!(|cluster: &Cluster| {
        let printed = alice(
            cluster,
            "srun --uenv=/shared/images/app2.squashfs:/user-tools --no-default-view \
             /user-tools/bin/who",
        );
        assert_eq!(printed, ["app 2"]);
    });
}

#[test]
fn what_is_loaded_where_srun_is_typed_is_there_in_the_step() {
    in_cluster!(|cluster: &Cluster| {
        let printed = alice(cluster, "cabane run app/1:v1 -- srun -N2 sh -c 'who; printenv PATH'");
        assert_eq!(
            printed,
            [
                "/user-environment/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
                "app 1",
            ]
        );
    });
}

#[test]
fn what_is_loaded_can_be_kept_out_of_the_step() {
    in_cluster!(|cluster: &Cluster| {
        let printed = alice(
            cluster,
            "cabane run app/1:v1 -- srun --uenv-passthrough=ignore sh -c \
             'ls -A /user-environment; printenv CABANE_LOADED UENV_MOUNT_LIST; true'",
        );
        assert_eq!(printed, Vec::<String>::new());
    });
}

#[test]
fn a_variable_stands_for_the_option_of_srun() {
    in_cluster!(|cluster: &Cluster| {
        let printed = alice(cluster, "SLURM_UENV=app/1:v1 SLURM_UENV_VIEW=default srun who");
        assert_eq!(printed, ["app 1"]);
    });
}

#[test]
fn an_option_means_another_image_than_the_variables() {
    in_cluster!(|cluster: &Cluster| {
        let printed = alice(
            cluster,
            "SLURM_UENV=app/1:v1 SLURM_UENV_VIEW=app:default srun --uenv=tool/1:v1 what",
        );
        assert_eq!(printed, ["tool"]);
    });
}

#[test]
fn an_option_that_is_given_twice_has_the_last_value() {
    in_cluster!(|cluster: &Cluster| {
        let printed = alice(cluster, "srun --uenv=nowhere/1 --uenv=app/1:v1 who");
        assert_eq!(printed, ["app 1"]);
    });
}

#[test]
fn images_are_there_where_no_variables_are_handed_on() {
    in_cluster!(|cluster: &Cluster| {
        let printed =
            alice(cluster, "srun --export=NONE --uenv=app/1:v1 /user-environment/bin/who");
        assert_eq!(printed, ["app 1"]);
    });
}

#[test]
fn a_view_whose_variables_are_not_handed_on_is_refused() {
    in_cluster!(|cluster: &Cluster| {
        let view = "--uenv=app/1:v1 --view=default";
        let refused = cluster.user("alice").sh(&format!("srun --export=NONE {view} echo ran"));
        assert!(refused.code != 0 && refused.stdout.is_empty(), "{refused:?}");
        let reason = "the variables of the view default were not handed on to the job";
        assert!(refused.stderr.contains(reason), "{refused:?}");
        assert!(refused.stderr.contains("hint: `--export=ALL` hands them on"), "{refused:?}");
        assert_eq!(alice(cluster, &format!("srun --export=ALL {view} who")), ["app 1"]);
    });
}

#[test]
fn steps_of_one_allocation_have_images_of_their_own() {
    in_cluster!(|cluster: &Cluster| {
        let printed = cluster
            .user("alice")
            .sh("salloc --quiet -N2 bash -c '
                 srun --uenv=app/1:v1 --overlap sh -c \"who; sleep 0.5\" &
                 srun --uenv=tool/1:v1 --overlap sh -c \"ls -A /user-environment; what; sleep 0.5\" &
                 wait'")
            .success();
        let mut printed: Vec<_> = printed.stdout.lines().collect();
        printed.sort_unstable();
        assert_eq!(printed, ["app 1", "app 1", "tool", "tool"]);
    });
}

#[test]
fn ten_thousand_variables_arrive() {
    in_cluster!(|cluster: &Cluster| {
        let printed = alice(
            cluster,
            "for i in $(seq 10000); do export V$i=$i; done
             srun --uenv=app/1:v1 sh -c 'env | grep -c ^V[0-9]; who'",
        );
        assert_eq!(printed, ["10000", "app 1"]);
    });
}

#[test]
fn a_list_of_mounts_may_be_long() {
    in_cluster!(|cluster: &Cluster| {
        let part = "a".repeat(200);
        let deep = [part.as_str(); 10].join("/");
        let printed = alice(
            cluster,
            &format!(
                "mkdir -p {deep}; cp /shared/images/app.squashfs {deep}/
                 srun -N2 --uenv=$HOME/{deep}/app.squashfs who"
            ),
        );
        assert_eq!(printed, ["app 1"]);
    });
}

#[test]
fn a_step_inside_a_step_has_the_images_of_the_outer_one_and_the_view_once() {
    in_cluster!(|cluster: &Cluster| {
        let printed = alice(
            cluster,
            "srun -N2 --uenv=app/1:v1 sh -c '[ $SLURM_PROCID = 1 ] || srun --overlap -N2 sh -c \
             \"who; echo \\$PATH\"'",
        );
        assert_eq!(
            printed,
            [
                "/user-environment/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
                "app 1",
            ]
        );
    });
}
