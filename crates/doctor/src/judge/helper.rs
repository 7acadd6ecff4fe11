// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The set-uid helper and its policy.

use cabane_report::shell_word;
use cabane_site::Remedy;

use super::checks::{
    HELPER, HELPER_START, MOUNT_POINT, POLICY, PRIVILEGES, ROOT_IMAGES, STATE_DIRECTORY, UNPACKED,
    VERIFIED,
};
use crate::facts::{
    Answer, HelperFacts, HelperRemedies, Installed, PolicyFacts, Process, UnpackedFacts,
    VerifiedFacts, Weakness, WeaknessKind,
};
use crate::finding::{Finding, State};

const SET_UID: u32 = 0o4000;
const POLICY_FILE: &str = "/etc/cabane/mount.policy";
/// Writes a policy that trusts root's images.
const WRITE_POLICY: &str = "printf 'mount-point /user-environment\\nimage-owners root\\n' | \
                            sudo install -D -m 0644 /dev/stdin /etc/cabane/mount.policy";

/// Judges everything about the helper.
pub(super) fn judge_helper(
    process: &Process,
    helper: &Answer<HelperFacts>,
    remedies: &HelperRemedies,
) -> Vec<Finding> {
    let helper = match helper.as_ref() {
        Ok(helper) => helper,
        Err(reason) => {
            return vec![HELPER.problem(format!("cannot be looked at: {reason}")).blocking()];
        }
    };
    if !process.in_first_user_namespace {
        return vec![
            HELPER
                .off("not possible: the process is in a user namespace")
                .because("as in an environment or a container without root")
                .blocking(),
        ];
    }
    let Some(installed) = &helper.installed else {
        return judge_missing(process, helper, &remedies.missing);
    };
    let mut findings = vec![judge_program(installed)];
    if process.no_new_privileges {
        findings.push(no_new_privileges());
    }
    findings.extend(judge_policy(helper));
    findings.extend(judge_start(process, helper, remedies));
    findings
}

fn judge_missing(process: &Process, helper: &HelperFacts, remedy: &Remedy) -> Vec<Finding> {
    let state = if process.counts_as_root { State::Off } else { State::Note };
    let missing = HELPER
        .finding(state, "is not installed")
        .because(format!(
            "users can go without; with it their images are mounted by the kernel, faster \
             (looked for {})",
            helper.places.join(" ")
        ))
        .fixed_by_remedy(remedy)
        .blocking();
    let mut findings = vec![missing];
    // Root keeps to the policy, helper or not.
    if policy_is_broken(&helper.policy) {
        findings.extend(judge_policy(helper));
    }
    findings
}

fn judge_program(installed: &Installed) -> Finding {
    let path = &installed.path;
    let broken = |found: &str| HELPER.problem(format!("{path} {found}")).blocking();
    let mode = || format!("its mode is {:04o}", installed.mode);
    let wrong = if installed.owner != 0 {
        Some(("does not belong to root", format!("its owner is user {}", installed.owner)))
    } else if installed.mode & SET_UID == 0 {
        Some(("is not set-uid root", mode()))
    } else if installed.mode & 0o022 != 0 {
        Some(("can be changed by others", mode()))
    } else {
        None
    };
    if let Some((found, cause)) = wrong {
        let typed = shell_word(path);
        let right = format!("sudo chown root:root {typed} && sudo chmod 4755 {typed}");
        broken(found).because(cause).fixed_by(right)
    } else if let Some(place) = &installed.without_set_uid {
        broken("is on a file system mounted with `nosuid`")
            .because(format!("set-uid has no effect below {place}"))
            .fixed_by(format!("sudo mount -o remount,suid {}", shell_word(place)))
    } else {
        HELPER.ok(format!("{path}, set-uid root"))
    }
}

fn no_new_privileges() -> Finding {
    PRIVILEGES
        .off("this process cannot gain any")
        .because("no_new_privs is set, as in an environment; the helper works outside of it")
        .fixed_by("exit")
        .blocking()
}

/// Tells whether the policy is there and void.
pub(super) fn policy_is_broken(policy: &PolicyFacts) -> bool {
    !matches!(policy, PolicyFacts::Missing | PolicyFacts::Good { .. })
}

fn judge_policy(helper: &HelperFacts) -> Vec<Finding> {
    let edit = format!("sudoedit {POLICY_FILE}");
    let (found, cause, command) = match &helper.policy {
        PolicyFacts::Missing => (
            format!("{POLICY_FILE} is not there"),
            "without it the helper mounts nothing",
            WRITE_POLICY.to_owned(),
        ),
        PolicyFacts::Mistake { line, problem } => {
            (format!("{POLICY_FILE} has a mistake in line {line}"), problem.as_str(), edit)
        }
        PolicyFacts::Weak(weakness) => {
            let (what, command) = repair(weakness, false);
            let cause = "only root may be able to change it, or a directory above it";
            (format!("{POLICY_FILE} cannot be trusted: {what}"), cause, command)
        }
        PolicyFacts::Unreadable(reason) => (
            format!("{POLICY_FILE} cannot be read"),
            reason.as_str(),
            format!("sudo chmod 0644 {POLICY_FILE}"),
        ),
        PolicyFacts::Good { mount_points, .. } if mount_points.is_empty() => (
            format!("{POLICY_FILE} lists no mount point"),
            "the helper mounts nowhere else",
            format!("echo 'mount-point /user-environment' | sudo tee -a {POLICY_FILE}"),
        ),
        PolicyFacts::Good {
            mount_points,
            owners,
            images_per_user,
            idle_seconds,
            root_images,
            absent_binds,
            verified,
            ..
        } => {
            let found = format!(
                "{} images; up to {images_per_user} for each user; unused images stay mounted for {idle_seconds} s",
                whose(owners.as_deref())
            );
            let mut findings = vec![POLICY.ok(found)];
            findings.extend(judge_mount_points(mount_points));
            findings.extend(judge_verified(verified));
            findings.extend(judge_root_images(*root_images, absent_binds));
            return findings;
        }
    };
    vec![POLICY.problem(found).because(cause).fixed_by(command).blocking()]
}

/// Nothing is said where no image is trusted for its content.
fn judge_verified(verified: &VerifiedFacts) -> Option<Finding> {
    let VerifiedFacts { list, weakness, count, signatures, in_kernel } = verified;
    if let Some(weakness) = weakness {
        let (what, command) = repair(weakness, false);
        let cause = "the helper reads only a list that only root can change";
        return Some(VERIFIED.problem(what).because(cause).fixed_by(command));
    }
    let signed =
        if *signatures { ", and those that the kernel accepts the signature of" } else { "" };
    let found = format!("{count} in {list}{signed}");
    match (*count > 0 || *signatures, in_kernel) {
        (false, _) => None,
        (true, true) => Some(VERIFIED.ok(found)),
        (true, false) => Some(
            VERIFIED
                .note(found)
                .because("the kernel has no dm-verity: these images go through FUSE")
                .fixed_by("sudo modprobe dm-verity"),
        ),
    }
}

/// Judges the images that root has unpacked.
pub(super) fn judge_unpacked(unpacked: &UnpackedFacts) -> Finding {
    let UnpackedFacts { directory, weakness, count, in_kernel } = unpacked;
    if let Some(weakness) = weakness {
        let (what, command) = repair(weakness, true);
        let cause = "images are mounted from their files, as if none were unpacked";
        return UNPACKED.problem(what).because(cause).fixed_by(command);
    }
    let found = format!("{count} in {directory}");
    if *count > 0 && !in_kernel {
        return UNPACKED
            .note(found)
            .because("the kernel is older than 5.12: images are mounted from their files");
    }
    UNPACKED.ok(found)
}

fn judge_root_images(are_allowed: bool, absent_binds: &[String]) -> Vec<Finding> {
    let allowed = if are_allowed {
        ROOT_IMAGES.ok("may be mounted by the helper, in the place of the root")
    } else {
        ROOT_IMAGES.off("not by the helper; a user namespace is used")
    };
    let absent = absent_binds.iter().map(|place| {
        ROOT_IMAGES
            .note(format!("{place} is not there"))
            .because(format!("{POLICY_FILE} shows it in every one of them"))
            .fixed_by(format!("sudoedit {POLICY_FILE}"))
    });
    std::iter::once(allowed).chain(absent).collect()
}

fn judge_mount_points(mount_points: &[(String, Option<Weakness>)]) -> Vec<Finding> {
    let any_good = mount_points.iter().any(|(_, weakness)| weakness.is_none());
    let judged = mount_points.iter().map(|(path, weakness)| {
        let name = format!("mount point {path}");
        let Some(weakness) = weakness else {
            return MOUNT_POINT.ok("exists, and only root can write to it").named(name);
        };
        let (what, command) = repair(weakness, true);
        let weak = MOUNT_POINT
            .problem(what)
            .named(name)
            .because(
                "the helper covers only directories that only root can change, and the \
                 policy lists it",
            )
            .fixed_by(command);
        if any_good { weak } else { weak.blocking() }
    });
    judged.collect()
}

/// Returns what is wrong, and a command against it.
fn repair(weakness: &Weakness, is_directory: bool) -> (String, String) {
    let path = &weakness.path;
    let typed = shell_word(path);
    match &weakness.kind {
        WeaknessKind::Missing => {
            (format!("{path} is not there"), format!("sudo install -d -m 0755 {typed}"))
        }
        WeaknessKind::Link => (
            format!("{path} is a link"),
            format!("sudo rm {typed} && sudo install -d -m 0755 {typed}"),
        ),
        WeaknessKind::WrongKind => (
            format!("{path} is no {}", if is_directory { "directory" } else { "plain file" }),
            format!("ls -ld {typed}"),
        ),
        WeaknessKind::Owner(owner) => {
            (format!("{path} belongs to user {owner}"), format!("sudo chown root:root {typed}"))
        }
        WeaknessKind::Writable(mode) => (
            format!("others than root can write to {path} (mode {mode:04o})"),
            if path == "/run/cabane" {
                format!("sudo chmod 0700 {typed}")
            } else {
                format!("sudo chmod go-w {typed}")
            },
        ),
        WeaknessKind::OnFuse => {
            (format!("{path} is on a FUSE file system"), format!("findmnt --target {typed}"))
        }
        WeaknessKind::Unreachable(reason) => {
            (format!("{path} cannot be looked at: {reason}"), format!("ls -ld {typed}"))
        }
    }
}

fn judge_start(process: &Process, helper: &HelperFacts, remedies: &HelperRemedies) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(weakness) = &helper.state_directory {
        let (what, command) = repair(weakness, true);
        findings.push(
            STATE_DIRECTORY
                .problem(what)
                .because("images are held there, so only root may be able to change it")
                .fixed_by(command)
                .blocking(),
        );
    }
    match &helper.started {
        Some(Ok(())) => findings.push(HELPER_START.ok("started and works")),
        Some(Err(reason)) if findings.is_empty() => {
            let failed = HELPER_START
                .problem("started, and failed")
                .because(format!("its error: {reason}"))
                .blocking();
            findings.push(if reason.contains("does not understand") {
                Finding { found: "it is of another version than this command".to_owned(), ..failed }
                    .fixed_by_remedy(&remedies.missing)
            } else if process.is_filtered {
                failed.fixed_by("docker run --security-opt seccomp=unconfined …")
            } else {
                failed.fixed_by_remedy(&remedies.broken)
            });
        }
        _ => {}
    }
    findings
}

/// Says which images the helper mounts where, if it does anywhere.
pub(super) fn images_and_places(helper: &HelperFacts) -> Option<String> {
    let PolicyFacts::Good { mount_points, owners, root_images, .. } = &helper.policy else {
        return None;
    };
    let good = mount_points.iter().filter(|(_, weakness)| weakness.is_none());
    let mut places: Vec<&str> = good.map(|(path, _)| path.as_str()).collect();
    if places.is_empty() {
        return None;
    }
    if *root_images {
        places.push("/");
    }
    Some(format!("{} images at {}", whose(owners.as_deref()), places.join(", ")))
}

fn whose(owners: Option<&[u32]>) -> String {
    let Some(owners) = owners else {
        return "all".to_owned();
    };
    let names = owners.iter().map(|owner| match owner {
        0 => "root's".to_owned(),
        owner => format!("user {owner}'s"),
    });
    names.collect::<Vec<_>>().join(" and ")
}
