// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that are built on other images, on several nodes: each node mounts the recorded bases.

use crate::arena::{Cluster, assert_failed, in_cluster};

/// A repository with `base`, `top` on it, and a newer image under the label of `base`.
const SCENE: &str = r#"set -e
rm -rf /shared/stacked; mkdir -p /shared/stacked; cd /shared/stacked
mkdir -p base/meta newer/meta top/meta top/bin
echo 'the recorded base' >base/name
echo 'a newer base' >newer/name
for name in base newer; do
    printf '{"name": "base", "mount": "/user-environment", "views": {}}' >$name/meta/env.json
done
cabane() { command cabane --repo /shared/stacked/repo "$@"; }
cabane repo create repo
for name in base newer; do
    mksquashfs $name $name.squashfs -quiet -no-progress >/dev/null
    cabane image add --force base/1:v1@here%any ./$name.squashfs
    [ -n "${digest:-}" ] || digest=$(cabane image ls --no-header '--format={digest}' base)
    cabane image add --force kept/1:$name@here%any ./$name.squashfs
done
printf '#!/bin/sh\necho "$(hostname): $(cat /user-environment/name)"\n' >top/bin/top
chmod +x top/bin/top
printf '{"name": "top", "mount": "/user-tools", "views": {}, "cabane": {"version": 1, "bases": [
    {"label": "base/1:v1@here%%any", "digest": "%s", "mount": "/user-environment"}]}}' $digest >top/meta/env.json
mksquashfs top top.squashfs -quiet -no-progress >/dev/null
cabane image add top/1:v1@here%any ./top.squashfs
"#;

#[test]
fn each_node_of_a_job_mounts_the_recorded_base_of_an_image() {
    in_cluster!(|cluster: &Cluster| {
        let alice = cluster.user("alice");
        alice.sh(SCENE).success();
        let srun = "srun --nodes=2 --ntasks=2 --repo=/shared/stacked/repo --uenv=top/1:v1";
        let in_sorted_lines = |text: &str| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let both = ["n1: the recorded base", "n2: the recorded base"];
        let seen = alice.sh(&format!("{srun} --nodelist=n1,n2 /user-tools/bin/top")).success();
        assert_eq!(in_sorted_lines(&seen.stdout), both);
        // A job hands its images on to its steps, and another user has the same ones.
        let bob = cluster.user("bob");
        let seen = bob.sh("cd; rm -f out
            printf '#!/bin/sh\\nsrun /user-tools/bin/top\\n' >job.sh
            sbatch --quiet --wait --output=out --nodes=2 --ntasks=2 --nodelist=n1,n2 \\
                --repo=/shared/stacked/repo --uenv=top/1:v1 job.sh
            cat out; rm job.sh out");
        assert_eq!(in_sorted_lines(&seen.success().stdout), both);
        let forget = "cabane --repo /shared/stacked/repo image rm --force \
                      $(cabane --repo /shared/stacked/repo image ls --no-header '--format={id}' kept/1:base@here)";
        alice.sh(forget).success();
        let refused = alice.sh(&format!("{srun} /user-tools/bin/top"));
        assert_failed(&refused, "is built on `base/1:v1@here%any`");
        alice.sh("rm -rf /shared/stacked").success();
    });
}
