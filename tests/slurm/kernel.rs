// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Jobs where the kernel has control groups of the second version, or checks the content of images:
//! in a virtual machine with a kernel of Debian.

use std::path::Path;
use std::process::Stdio;

use cabane_testkit::belongs_to;

use crate::arena::{Cluster, NODES, has_unified_control_groups, in_cluster};
use crate::fuse::{ends_with_its_step_when_it_is_stopped, trust_root_only};
use crate::stage::copy_with_limits;

/// Leaves a test out where the kernel has none of what it is about.
macro_rules! needs_kernel {
    ($has:expr) => {
        if !$has {
            belongs_to!("make test-slurm KERNEL=6.12");
        }
    };
}

/// Whether the kernel can check the content of images.
fn has_verity() -> bool {
    let modules = std::fs::read_to_string("/proc/devices").unwrap_or_default();
    modules.contains("device-mapper") && Path::new("/sys/module/dm_verity").exists()
}

#[test]
fn what_serves_is_in_the_unified_control_group_of_the_step_and_ends_with_it() {
    needs_kernel!(has_unified_control_groups());
    in_cluster!(UnifiedControlGroups, |cluster: &Cluster| {
        trust_root_only(cluster);
        let script = "srun -N2 --mem=64 --uenv=app/1:v1 sh -c '
             who; cut -d: -f3 /proc/self/cgroup /proc/$(pgrep squashfuse_ll)/cgroup'";
        let output = cluster.user("alice").sh(script).success().stdout;
        let groups: Vec<&str> = output.lines().filter(|line| *line != "app 1").collect();
        let of_step = |group: &&&str| group.contains("/job_") && group.contains("/step_0");
        assert_eq!(groups.iter().filter(of_step).count(), 4, "{output}");
        ends_with_its_step_when_it_is_stopped(cluster);
    });
}

#[test]
fn a_copy_in_memory_counts_for_the_unified_control_group_of_its_step() {
    needs_kernel!(has_unified_control_groups());
    in_cluster!(UnifiedControlGroups, |cluster: &Cluster| {
        let [refused, copied] = copy_with_limits(cluster);
        assert!(refused.code != 0 && refused.stdout.is_empty(), "{refused:?}");
        assert_eq!(copied.success().stdout, "94371840\n");
    });
}

/// A file system that all nodes see, on a disk of the machine: of the overlay that is the root of a
/// cluster nobody can tell in which file system its layers are.
const MAKE_DISK: &str = "truncate -s 64M /shared/disk && mkfs.ext4 -q /shared/disk
     losetup --find --show /shared/disk >/shared/device";
const MOUNT_DISK: &str = "mkdir -p /shared/scratch && mount $(cat /shared/device) /shared/scratch";
const UNMOUNT_DISK: &str = "umount /shared/scratch";
const REMOVE_DISK: &str =
    "losetup --detach $(cat /shared/device); rm -r /shared/scratch /shared/disk";

fn on_all(cluster: &Cluster, script: &str) {
    cluster.root(script);
    for node in (1..=NODES).map(|number| format!("n{number}")) {
        cluster.on_node(&node, "root").sh(script).success();
    }
}

/// What alice does with an image of her own, in her own repository, once the site trusts it.
fn is_trusted(cluster: &Cluster) {
    let alice = cluster.user("alice");
    let own = "cabane repo create /shared/scratch/own
         cabane --repo /shared/scratch/own image add mine/1:v1@here%any /shared/images/app.squashfs
         ls /shared/scratch/own/images/*/image";
    let file = alice.sh(own).success().stdout.lines().last().unwrap_or_default().to_owned();
    let ways = "sh -c 'who; stat -f -c %T /user-environment; cat /proc/self/uid_map'";
    let run = format!("srun -N4 -n8 --repo=/shared/scratch/own --uenv=mine {ways}");
    let kinds = |output: &str| {
        ["squashfs", "fuse"].map(|kind| output.lines().filter(|line| line.contains(kind)).count())
    };
    assert_eq!(kinds(&alice.sh(&run).success().stdout), [0, 8]);
    cluster.root(&format!("cabane image trust {file}"));
    let trusted = alice.sh(&run).success().stdout;
    assert_eq!((kinds(&trusted), trusted.matches("app 1\n").count()), ([8, 0], 8), "{trusted}");
    // She writes over it while a step has it; nothing of it is in memory any more.
    let overwritten = format!(
        "srun -N2 -n2 --repo=/shared/scratch/own --uenv=mine sh -c '
             touch $SLURM_PROCID.up; until [ -e dropped ]; do sleep 0.1; done
             cat /user-environment/bin/who' &
         until [ -e 0.up ] && [ -e 1.up ]; do sleep 0.1; done
         chmod u+w {file}
         head -c $(stat -c %s {file}) /dev/urandom | dd of={file} conv=notrunc status=none
         sync; touch written; wait $!; code=$?; rm -f *.up written dropped; exit $code"
    );
    let step = alice.command(&overwritten).stdout(Stdio::piped()).spawn().unwrap();
    cluster.root(
        "until [ -e /home/alice/written ]; do sleep 0.1; done
         echo 3 >/proc/sys/vm/drop_caches; touch /home/alice/dropped",
    );
    let step = step.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&step.stdout);
    assert!(!step.status.success() && !printed.contains("app 1"), "{printed}");
    let changed = alice.sh(&run);
    assert!(changed.code != 0 && !changed.stdout.contains("app 1"), "{changed:?}");
}

#[test]
fn an_image_of_a_user_that_the_site_trusts_is_read_by_the_kernel_of_each_node() {
    needs_kernel!(has_verity());
    in_cluster!(|cluster: &Cluster| {
        trust_root_only(cluster);
        cluster.root(MAKE_DISK);
        on_all(cluster, MOUNT_DISK);
        cluster.root("chown alice /shared/scratch");
        is_trusted(cluster);
        cluster.root("rm /etc/cabane/verified-images");
        on_all(cluster, &format!("cabane clean --mounts; {UNMOUNT_DISK}"));
        cluster.root(REMOVE_DISK);
    });
}
