// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that are built by jobs: `cabane build --on slurm`.

use std::process::Stdio;

use cabane_testkit::Finished;

use crate::arena::{Account, Cluster, in_cluster};

/// A recipe, and a tool that packs when it may: it says on which node, and may fail.
const FILES: &str = r#"rm -rf /shared/svc; mkdir -p /shared/svc/recipe/files/bin /shared/svc/tools; cd /shared/svc; set -e
printf '#!/bin/sh\necho hello\n' >recipe/files/bin/hello; chmod 755 recipe/files/bin/hello
cat >recipe/config.yaml <<EOF
name: built
engine: tree
store: /user-environment
tree: {source: files}
EOF
cat >tools/mksquashfs <<'EOF'
#!/bin/sh
[ "$1" = -version ] && exec /usr/bin/mksquashfs -version
uname -n >>/shared/svc/packed
while [ -e /shared/svc/wait ]; do sleep 0.1; done
[ ! -e /shared/svc/fail ] || exit 3
exec /usr/bin/mksquashfs "$@"
EOF
chmod 755 tools/mksquashfs
cabane repo create repo
"#;

const BUILD: &str = "PATH=/shared/svc/tools:$PATH cabane --repo /shared/svc/repo build --on slurm --sbatch=--mem=50M \
     /shared/svc/recipe built/1.0";
/// Waits until a node packs.
const PACKS: &str = "until [ -s /shared/svc/packed ]; do sleep 0.1; done";

fn packed(alice: Account<'_>) -> String {
    alice.sh("cat /shared/svc/packed 2>/dev/null").stdout
}

fn remove(alice: Account<'_>) {
    alice.sh("rm -rf /shared/svc ~/.cache/cabane/elsewhere").success();
}

/// Asserts that a command has added the image.
fn assert_added(seen: Finished) -> Finished {
    let seen = seen.success();
    assert!(seen.stderr.contains("added built/1.0:v1@"), "{}", seen.stderr);
    seen
}

#[test]
fn an_image_is_built_on_a_node_and_added_here() {
    in_cluster!(|cluster: &Cluster| {
        let alice = cluster.user("alice");
        alice.sh(FILES).success();
        let seen = assert_added(alice.sh(&BUILD.replace("slurm", "slurm:normal")));
        assert!(seen.stderr.contains("[2/2] pack…\n"), "{}", seen.stderr);
        assert!(packed(alice).starts_with('n'), "{}", packed(alice));
        let run = "cabane --repo /shared/svc/repo run built -- sh -c '/user-environment/bin/hello'";
        assert_eq!(alice.sh(run).success().stdout, "hello\n");
        // What the job needed is gone, and nothing is built twice.
        assert_eq!(alice.sh("ls -A ~/.cache/cabane/elsewhere/builds").success().stdout, "");
        let again = alice.sh(&BUILD.replace("slurm", "slurm:normal")).success();
        assert!(again.stderr.contains("the image is already built"), "{}", again.stderr);
        assert_eq!(packed(alice).lines().count(), 1);
        let refused = alice.sh(&BUILD.replace("slurm", "slurm:nowhere"));
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        assert!(refused.stderr.contains("Slurm does not accept the build"), "{}", refused.stderr);
        remove(alice);
    });
}

#[test]
fn a_build_that_fails_in_a_job_fails_here() {
    in_cluster!(|cluster: &Cluster| {
        let alice = cluster.user("alice");
        alice.sh(FILES).success();
        alice.sh("touch /shared/svc/fail").success();
        let failed = alice.sh(BUILD);
        assert_eq!(failed.code, 7, "{}", failed.stderr);
        assert!(failed.stderr.contains("error: step `pack` failed: "), "{}", failed.stderr);
        alice.sh("rm /shared/svc/fail").success();
        assert_added(alice.sh(BUILD));
        remove(alice);
    });
}

#[test]
fn a_job_that_is_cancelled_is_an_error_of_the_place_and_is_submitted_again() {
    in_cluster!(|cluster: &Cluster| {
        let alice = cluster.user("alice");
        alice.sh(FILES).success();
        let lost = alice.sh(&format!(
            "touch /shared/svc/wait; ({BUILD}; echo code $?) & {PACKS}; scancel --user alice; wait"
        ));
        assert!(lost.stdout.contains("code 1\n"), "{}{}", lost.stdout, lost.stderr);
        let says = lost.stderr.contains("was terminated by a signal")
            || lost.stderr.contains("ended without a result");
        assert!(says && lost.stderr.contains("the same command"), "{}", lost.stderr);
        // A process that is killed leaves no result at all.
        alice.sh("rm /shared/svc/packed").success();
        let mut command = alice.command(BUILD);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        alice.sh(PACKS).success();
        let node = packed(alice).trim().to_owned();
        cluster.on_node(&node, "alice").sh("pkill -9 -x cabane").success();
        let killed = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&killed.stderr);
        assert!(errors.contains("ended without a result"), "{errors}");
        assert_eq!(killed.status.code(), Some(1));
        alice.sh("rm /shared/svc/wait").success();
        assert_added(alice.sh(BUILD));
        remove(alice);
    });
}

#[test]
fn a_killed_command_that_is_typed_again_follows_the_same_job() {
    in_cluster!(|cluster: &Cluster| {
        let alice = cluster.user("alice");
        alice.sh(FILES).success();
        let killed = alice.sh(&format!(
            "touch /shared/svc/wait; {BUILD} & {PACKS}; kill -9 $!; wait; squeue --noheader --user alice --format=%i | wc -l"
        ));
        assert_eq!(killed.stdout, "1\n", "{}", killed.stderr);
        let seen = assert_added(alice.sh(&format!(
            "({BUILD}) & until squeue --noheader --user alice | grep -q .; do sleep 0.1; done; sleep 1; \
             squeue --noheader --user alice --format=%i | wc -l; rm /shared/svc/wait; wait $!"
        )));
        assert_eq!(seen.stdout, "1\n", "{}", seen.stderr);
        assert!(seen.stderr.contains("following the build "), "{}", seen.stderr);
        assert_eq!(packed(alice).lines().count(), 1);
        remove(alice);
    });
}

#[test]
fn a_build_is_detached_cancelled_and_attached() {
    in_cluster!(|cluster: &Cluster| {
        let alice = cluster.user("alice");
        alice.sh(FILES).success();
        let pending = BUILD.replace("--on slurm", "--on slurm --detach --sbatch=--begin=now+1hour");
        let seen = alice.sh(&pending).success();
        let id = seen.stderr.split("--attach ").nth(1).unwrap().split('`').next().unwrap();
        let cabane = "cabane --repo /shared/svc/repo build";
        alice.sh(&format!("{cabane} --cancel {id}")).success();
        let queue = "squeue --noheader --user alice";
        assert_eq!(alice.sh(queue).success().stdout, "");
        let detached = alice.sh(&BUILD.replace("--on slurm", "--on slurm --detach")).success();
        assert!(detached.stderr.contains(&format!("--attach {id}")), "{}", detached.stderr);
        let list = alice.sh(&format!("{cabane} --list")).success().stdout;
        assert!(list.contains(id) && list.contains("/shared/svc/recipe"), "{list}");
        assert_added(alice.sh(&format!("{cabane} --attach {id}")));
        assert_eq!(packed(alice).lines().count(), 1);
        remove(alice);
    });
}

#[test]
fn while_slurm_does_not_answer_no_second_job_is_submitted() {
    in_cluster!(|cluster: &Cluster| {
        let alice = cluster.user("alice");
        alice.sh(FILES).success();
        // As after a command that was killed before it noted the job.
        let detach = BUILD.replace("--on slurm", "--on slurm --detach");
        alice.sh(&format!("touch /shared/svc/wait; {detach}; {PACKS}")).success();
        alice.sh("rm ~/.cache/cabane/elsewhere/builds/*/job.json").success();
        let silent =
            "mkdir /shared/svc/silent; printf '#!/bin/sh\\nexit 1\\n' >/shared/svc/silent/squeue
                      chmod 755 /shared/svc/silent/squeue";
        alice.sh(silent).success();
        let seen = alice.sh(&BUILD.replace("PATH=", "PATH=/shared/svc/silent:"));
        let says = "error: Slurm does not say whether there is a job `cabane-build-";
        assert!(seen.code == 1 && seen.stderr.contains(says), "{}", seen.stderr);
        let count = "squeue --noheader --user alice --format=%i | wc -l";
        assert_eq!(alice.sh(count).success().stdout, "1\n");
        alice.sh("rm /shared/svc/wait").success();
        assert_added(alice.sh(BUILD));
        assert_eq!(packed(alice).lines().count(), 1);
        remove(alice);
    });
}

#[test]
fn a_job_that_slurm_requeues_builds_and_the_command_waits_for_it() {
    in_cluster!(|cluster: &Cluster| {
        let alice = cluster.user("alice");
        alice.sh(FILES).success();
        let on = BUILD.replace("--on slurm", "--on slurm --sbatch=--requeue");
        // A node does not start a job in the second in which it has stopped it: its credential is revoked.
        let seen = assert_added(alice.sh(&format!(
            "touch /shared/svc/wait; ({on}) & {PACKS}
             job=$(squeue --noheader --user alice --format=%i); scontrol requeue $job
             until squeue --noheader --jobs $job --format=%T | grep -q PENDING; do sleep 0.1; done
             cat ~/.cache/cabane/elsewhere/builds/*/result.json
             rm /shared/svc/packed; sleep 2
             until squeue --noheader --jobs $job --format=%T | grep -q RUNNING; do
                 scontrol show job $job | grep -Eq 'JobState=(PENDING|RUNNING|COMPLETING|REQUEUED)' || {{
                     scontrol show job $job >&2; tail -n 50 ~/.cache/cabane/elsewhere/builds/*/* >&2
                     rm /shared/svc/wait; exit 1; }}
                 scontrol update jobid=$job StartTime=now; sleep 0.5; done
             {PACKS}; rm /shared/svc/wait; wait"
        )));
        assert_eq!(seen.stdout, "\"interrupted\"");
        assert_eq!(packed(alice).lines().count(), 1);
        remove(alice);
    });
}
