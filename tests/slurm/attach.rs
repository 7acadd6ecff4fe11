// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane attach JOB[.STEP]` on a node where the job runs.

use std::path::{Path, PathBuf};

use cabane_testkit::{Finished, not_run};

use crate::arena::{Cluster, in_cluster, no_control_groups};

const INSTALLED: &str = "/usr/local/libexec/cabane/cabane-mount";
/// What a task does until it may end.
const WAIT: &str =
    "sh -c 'touch /shared/up.$SLURM_STEP_ID; while ! [ -e /shared/go ]; do sleep 0.05; done'";

fn helper() -> PathBuf {
    let beside = || Path::new(env!("CARGO_BIN_EXE_cabane")).with_file_name("cabane-mount");
    std::env::var_os("CABANE_TEST_HELPER_BINARY").map_or_else(beside, PathBuf::from)
}

/// Starts a batch job of alice on n1, where the helper is installed, and does something while
/// its steps wait. Each script of a step runs in the background.
fn beside_job(options: &str, steps: &[&str], test: impl FnOnce(&Cluster, &str)) {
    if !helper().is_file() {
        not_run!("cabane-mount is not built; `cargo build -p cabane-helper` does it");
    }
    in_cluster!(|cluster: &Cluster| {
        let helper = helper();
        cluster.root(&format!(
            "rm -f /shared/up.* /shared/go; install -D -m 4755 {} {INSTALLED}",
            helper.display()
        ));
        let lines = steps.iter().map(|step| format!("{step} {WAIT} &\n"));
        let script = format!("#!/bin/bash\n{}wait\n{WAIT}\n", lines.collect::<String>());
        let submit = format!(
            "cat >job.sh <<'END'\n{script}END\n
             job=$(sbatch --parsable --output=out -w n1 -n4 {options} job.sh)
             while [ \"$(ls /shared/up.* 2>/dev/null | wc -l)\" -lt {} ]; do sleep 0.02; done
             echo $job",
            steps.len().max(1)
        );
        let job = cluster.user("alice").sh(&submit).success().stdout;
        test(cluster, job.trim());
        cluster.root(&format!("touch /shared/go; rm {INSTALLED}"));
    });
}

fn attach(cluster: &Cluster, user: &str, arguments: &str) -> Finished {
    let script = format!("cabane attach {arguments}");
    cluster.on_node("n1", user).sh(&script)
}

/// It was refused, with this error and hint.
fn assert_refused(finished: &Finished, error: &str, hint: &str) {
    let Finished { code, stdout, stderr } = finished;
    assert!(
        *code == 125 && stdout.is_empty() && stderr.contains(error) && stderr.contains(hint),
        "{finished:?}"
    );
}

const STEP: &str = "srun -n1 --overlap";

#[test]
fn a_user_gets_to_where_the_task_is() {
    beside_job("--uenv=app/1:v1", &[STEP], |cluster, job| {
        let look = "who; readlink /proc/self/ns/mnt; echo $SLURM_JOB_ID.$SLURM_STEP_ID; echo $SLURM_PROCID";
        let seen = attach(cluster, "alice", &format!("{job}.0 -- sh -c '{look}'")).success();
        let find = "readlink /proc/$(pgrep -u alice -x sh | head -1)/ns/mnt";
        let there = cluster.on_node("n1", "alice").sh(find).success().stdout;
        assert_eq!(seen.stdout, format!("app 1\n{there}{job}.0\n\n"));
    });
}

#[test]
fn a_job_alone_means_its_only_step_or_its_script() {
    beside_job("--uenv=app/1:v1", &[STEP], |cluster, job| {
        let step = "-- sh -c 'echo step $SLURM_STEP_ID'";
        assert_eq!(attach(cluster, "alice", &format!("{job} {step}")).stdout, "step 0\n");
        let batch = attach(cluster, "alice", &format!("{job}.batch {step}"));
        // Slurm 26.05 gives the script a number, too.
        assert!(["step\n", "step -5\n"].contains(&batch.stdout.as_str()), "{batch:?}");
    });
}

#[test]
fn a_script_without_steps_is_found_by_its_job() {
    beside_job("--uenv=app/1:v1", &[], |cluster, job| {
        let seen = attach(cluster, "alice", &format!("--job {job} -- who"));
        assert_eq!(seen.success().stdout, "app 1\n");
    });
}

#[test]
fn a_job_that_was_given_no_variables_is_found() {
    beside_job("--export=NONE --uenv=app/1:v1", &[], |cluster, job| {
        let arguments = format!("{job}.batch -- /user-environment/bin/who");
        let seen = attach(cluster, "alice", &arguments);
        assert_eq!(seen.success().stdout, "app 1\n");
    });
}

#[test]
fn one_of_several_steps_must_be_named() {
    let steps = [STEP, "srun -n1 --overlap --uenv=tool/1:v1"];
    beside_job("--uenv=app/1:v1", &steps, |cluster, job| {
        let refused = attach(cluster, "alice", &format!("{job} -- who"));
        assert_refused(
            &refused,
            &format!("error: job {job} has several steps on this node"),
            &format!("`cabane attach {job}.0`, `cabane attach {job}.1`"),
        );
    });
}

#[test]
fn a_task_of_an_array_is_found_by_its_place() {
    beside_job("--array=3 --uenv=app/1:v1", &[STEP], |cluster, job| {
        let seen = attach(cluster, "alice", &format!("{job}_3 -- who"));
        assert_eq!(seen.success().stdout, "app 1\n");
    });
}

#[test]
fn the_jobs_of_others_are_as_good_as_none() {
    beside_job("--uenv=app/1:v1", &[STEP], |cluster, job| {
        let refused = attach(cluster, "bob", &format!("{job}.0 -- who"));
        assert_refused(
            &refused,
            &format!("error: you have no task of job {job}.0 on this node"),
            &format!("hint: `squeue --me --jobs={job}` shows"),
        );
    });
}

#[test]
fn root_learns_whose_job_it_is() {
    beside_job("--uenv=app/1:v1", &[STEP], |cluster, job| {
        let refused = attach(cluster, "root", &format!("{job}.0 -- who"));
        assert_refused(&refused, "belongs to another user", "hint: be that user: `sudo -u ");
    });
}

#[test]
fn a_job_without_images_is_reported() {
    beside_job("", &[STEP], |cluster, job| {
        let refused = attach(cluster, "alice", &format!("{job}.0 -- who"));
        assert_refused(
            &refused,
            &format!("error: job {job}.0 has no images on this node"),
            &format!("`srun --jobid={job} --overlap --pty bash`"),
        );
    });
}

#[test]
fn without_the_helper_a_step_beside_it_is_the_way() {
    beside_job("--uenv=app/1:v1", &[STEP], |cluster, job| {
        cluster.root(&format!("mv {INSTALLED} {INSTALLED}.away"));
        let refused = attach(cluster, "alice", &format!("{job}.0 -- who"));
        cluster.root(&format!("mv {INSTALLED}.away {INSTALLED}"));
        let way = format!("srun --jobid={job} --overlap --uenv=app/1:v1 --quiet who");
        assert_refused(
            &refused,
            "but the helper cabane-mount is not installed",
            &format!("`srun --jobid={job} --overlap --uenv=IMAGE --pty bash`"),
        );
        assert_eq!(cluster.user("alice").sh(&way).success().stdout, "app 1\n");
    });
}

#[test]
fn from_another_host_a_step_leads_to_the_task() {
    beside_job("--uenv=app/1:v1", &[STEP], |cluster, job| {
        let arguments = format!("srun --jobid={job} --overlap --pty cabane attach {job}.0 -- who");
        // A terminal is what --pty takes.
        let script = format!("script --quiet --return --command '{arguments}' /dev/null");
        let seen = cluster.user("alice").sh(&script).success();
        // The terminal may echo the end of its input, as `^D` or `^@`.
        let echo = ['^', 'D', '@', '\u{8}', '\r', '\n'];
        assert!(seen.stdout.trim_end_matches(echo).ends_with("app 1"), "{seen:?}");
    });
}

#[test]
fn further_images_are_there_for_the_command_alone() {
    beside_job("--uenv=app/1:v1", &[STEP], |cluster, job| {
        let arguments = format!("{job}.0 --with tool/1:v1 -- sh -c 'who; what'");
        let seen = attach(cluster, "alice", &arguments).success();
        assert_eq!(seen.stdout, "app 1\ntool\n");
    });
}

/// Lets users into n1 by `ssh`, as a site does: those whose jobs are there.
const LET_IN: &str = "
     id sshd >/dev/null 2>&1 || useradd --system --home-dir /run/sshd sshd
     mkdir -p /run/sshd /etc/ssh
     [ -e /etc/ssh/ssh_host_ed25519_key ] || ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
     module=$(find $SSH -name pam_slurm_adopt.so)
     printf '%s\n' \"account required $module\" 'account required pam_permit.so' \
         'session required pam_permit.so' >/etc/pam.d/sshd
     for user in alice bob; do
         install -d -m 700 -o $user -g $user /home/$user/.ssh
         [ -e /home/$user/.ssh/id ] || ssh-keygen -q -t ed25519 -N '' -f /home/$user/.ssh/id
         cp /home/$user/.ssh/id.pub /home/$user/.ssh/authorized_keys
         chown $user: /home/$user/.ssh/*
     done
     LD_LIBRARY_PATH=$(dirname $(find $SSH -name libwrap.so.0)) \
         $SSH/usr/sbin/sshd -f /dev/null -o UsePAM=yes -o PidFile=/run/sshd.pid";

#[test]
fn a_user_who_comes_by_ssh_is_in_the_job_and_gets_to_its_images() {
    if let Some(reason) = no_control_groups() {
        not_run!("{reason}");
    }
    if !helper().is_file() {
        not_run!("cabane-mount is not built; `cargo build -p cabane-helper` does it");
    }
    let ssh = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cabane/ssh");
    let Ok(ssh) = ssh.canonicalize() else {
        not_run!("needs the server of ssh: scripts/setup test");
    };
    in_cluster!(ControlGroups, |cluster: &Cluster| {
        let let_in = format!("SSH={}\n{LET_IN}", ssh.display());
        cluster.on_node("n1", "root").sh(&let_in).success();
        cluster.root(&format!("install -D -m 4755 {} {INSTALLED}", helper().display()));
        let come = "ssh -q -i .ssh/id -o StrictHostKeyChecking=no -o BatchMode=yes n1";
        let script = format!(
            "rm -f up go
             job=$(sbatch --parsable --output=/dev/null -w n1 --uenv=app/1:v1 --wrap 'touch up; until [ -e go ]; do sleep 0.1; done')
             until [ -e up ]; do sleep 0.1; done
             {come} 'grep -o job_.* /proc/self/cgroup | sort -u'
             {come} cabane attach $job -- who
             touch go"
        );
        let seen = cluster.user("alice").sh(&script).success().stdout;
        let lines: Vec<&str> = seen.lines().collect();
        let [groups @ .., who] = &lines[..] else { panic!("{seen}") };
        let is_adopted = |group: &&str| group.contains("/step_extern");
        assert!(*who == "app 1" && !groups.is_empty() && groups.iter().all(is_adopted), "{seen}");
        let refused = cluster.user("bob").sh(&format!("{come} true"));
        assert!(refused.code != 0, "{refused:?}");
        cluster.on_node("n1", "root").sh("kill $(cat /run/sshd.pid)").success();
        cluster.root(&format!("rm -rf {INSTALLED} /home/alice/up /home/alice/go"));
    });
}
