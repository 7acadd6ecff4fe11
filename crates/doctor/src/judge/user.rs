// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! User namespaces and FUSE.

use super::checks::{
    EROFS_TRIAL, EROFSFUSE, FUSE, FUSE_DEVICE, SQUASHFS_TRIAL, SQUASHFUSE, USER_NAMESPACE,
};
use crate::facts::{Answer, Failure, Fuse, Process, Program, Step, Trial, UserNamespaces};
use crate::finding::{Check, Finding};

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const ENXIO: i32 = 6;
const EACCES: i32 = 13;
const ENOSPC: i32 = 28;

/// Judges whether user namespaces can be had.
pub(super) fn judge_user_namespaces(process: &Process, facts: &UserNamespaces) -> Finding {
    let failure = match &facts.trial {
        Trial::Works => return USER_NAMESPACE.ok("one was made, and something mounted in it"),
        Trial::NotTried => return USER_NAMESPACE.note("not tried").blocking(),
        Trial::Fails(failure) => failure,
    };
    let blocked = USER_NAMESPACE.note("cannot be made, or nothing can be mounted in it").blocking();
    match reason(process, facts, failure) {
        Some((cause, command)) => {
            blocked.because(format!("{cause} ({})", failure.text)).fixed_by(command)
        }
        None => blocked.because(failure.text.clone()),
    }
}

/// Returns why, and what can be typed.
fn reason(
    process: &Process,
    facts: &UserNamespaces,
    failure: &Failure,
) -> Option<(String, &'static str)> {
    let most = facts.most.unwrap_or_default();
    let reached =
        format!("the limit of user namespaces is reached: user.max_user_namespaces is {most}");
    let reasons = [
        (
            facts.most == Some(0),
            "user.max_user_namespaces is 0",
            "sudo sysctl -w user.max_user_namespaces=10000",
        ),
        (
            failure.errno == Some(ENOSPC),
            reached.as_str(),
            "sudo sysctl -w user.max_user_namespaces=100000",
        ),
        (
            facts.unprivileged == Some(0) && process.user != 0,
            "kernel.unprivileged_userns_clone is 0",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            facts.restricted.is_some_and(|value| value != 0) && !process.may_mount,
            "AppArmor restricts them: kernel.apparmor_restrict_unprivileged_userns is 1",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        (
            process.is_filtered,
            "system calls are filtered, as in a container: its runtime forbids them",
            "docker run --security-opt seccomp=unconfined …",
        ),
        (
            failure.errno == Some(EPERM),
            "nothing here says why: the process may be in a chroot, or a security module says no",
            "sudo dmesg | tail",
        ),
    ];
    let first = reasons.into_iter().find(|(applies, ..)| *applies);
    first.map(|(_, cause, command)| (cause.to_owned(), command))
}

/// Judges what serves images in a user namespace.
pub(super) fn judge_fuse(fuse: &Answer<Fuse>, namespaces: &UserNamespaces) -> Vec<Finding> {
    let fuse = match fuse.as_ref() {
        Ok(fuse) => fuse,
        Err(reason) => {
            let found = format!("/dev/fuse cannot be looked at: {reason}");
            return vec![FUSE.note(found).blocking()];
        }
    };
    let mut findings = vec![device(fuse), squashfs_program(fuse), erofs_program(fuse)];
    findings.extend(trial(&SQUASHFS_TRIAL, &fuse.squashfs_trial, true));
    findings.extend(trial(&EROFS_TRIAL, &fuse.erofs_trial, false));
    if fuse.squashfs_trial == Trial::NotTried && namespaces.trial.works() {
        // The device or the program is the reason, and says so.
        findings.retain(|finding| !finding.name.ends_with("through FUSE"));
    }
    findings
}

fn device(fuse: &Fuse) -> Finding {
    match fuse.device {
        Ok(()) => FUSE_DEVICE.ok("can be opened"),
        Err(ENOENT) => FUSE_DEVICE
            .note("is not there")
            .because("the kernel module is not loaded, or a container was given no such device")
            .fixed_by("sudo modprobe fuse")
            .blocking(),
        Err(EACCES) => FUSE_DEVICE
            .note("is closed to you")
            .because("its mode; 0666 is usual")
            .fixed_by("sudo chmod 0666 /dev/fuse")
            .blocking(),
        Err(ENXIO) => FUSE_DEVICE
            .note("is something else than the device of FUSE")
            .because("something was put in its place, as containers do")
            .fixed_by("ls -l /dev/fuse; sudo umount /dev/fuse")
            .blocking(),
        Err(errno) => FUSE_DEVICE
            .note("cannot be opened")
            .because(std::io::Error::from_raw_os_error(errno).to_string())
            .fixed_by("ls -l /dev/fuse")
            .blocking(),
    }
}

fn squashfs_program(fuse: &Fuse) -> Finding {
    let Some(program) = &fuse.squashfs else {
        return SQUASHFUSE
            .note("is not installed")
            .because("looked for in /usr/bin, /usr/local/bin, /bin, and PATH")
            .fixed_by_installing("squashfuse")
            .blocking();
    };
    if program.path.ends_with("/squashfuse") {
        SQUASHFUSE
            .note(format!("{}, and no squashfuse_ll", shown(program)))
            .because("squashfuse_ll serves several processes at once and is faster")
            .fixed_by_installing("squashfuse")
    } else {
        SQUASHFUSE.ok(shown(program))
    }
}

fn erofs_program(fuse: &Fuse) -> Finding {
    match &fuse.erofs {
        Some(program) => EROFSFUSE.ok(shown(program)),
        None => EROFSFUSE
            .off("is not installed")
            .because("without it EROFS images need root or the helper")
            .fixed_by_installing("erofsfuse"),
    }
}

fn trial(check: &Check, trial: &Trial, is_needed: bool) -> Option<Finding> {
    let finding = match trial {
        Trial::Works => check.ok("an image was mounted and read"),
        Trial::NotTried if is_needed => check.off("not tried: see above"),
        Trial::NotTried => return None,
        Trial::Fails(failure) => {
            let failed = check.note("an image could not be mounted").because(failure.text.clone());
            let failed = match (failure.step, &failure.hint) {
                (Step::Image, None) => failed.fixed_by("sudo modprobe fuse"),
                _ => failed,
            };
            if is_needed { failed.blocking() } else { failed }
        }
    };
    Some(finding)
}

fn shown(program: &Program) -> String {
    match &program.version {
        Some(version) => format!("{} {version}", program.path),
        None => program.path.clone(),
    }
}
