// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The kernel, loop devices and held images.

use super::checks::{
    EROFS, EROFS_FROM_FILE, HELD_IMAGES, KERNEL, LOOP_DEVICES, MOUNT_CALLS, OPENAT2, RELEASE,
    SHARED_NAMESPACES, SQUASHFS,
};
use crate::facts::{AsRoot, Facts, Has, Held, Kernel, Loops, PolicyFacts, Trial};
use crate::finding::{Check, Finding, State};
use cabane_report::shell_word;

/// More unused loop devices than this are reported.
const MANY_LOOP_DEVICES: usize = 64;

/// Judges what the kernel can do, and what it holds.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = match facts.kernel.as_ref() {
        Ok(kernel) => judge_kernel(kernel, facts.as_root.as_ref()),
        Err(reason) => {
            vec![KERNEL.note(format!("could not be tried: {reason}"))]
        }
    };
    findings.push(judge_held(facts));
    findings.push(judge_rendezvous_points(facts));
    findings
}

fn judge_kernel(kernel: &Kernel, as_root: Option<&AsRoot>) -> Vec<Finding> {
    let needed = |check: &Check, has, since: &str| match has {
        Has::Yes => check.ok("there"),
        Has::Unknown => check
            .off("could not be tried")
            .because("it takes a namespace of one's own, and none can be made"),
        Has::No => check
            .problem("not there")
            .because(format!("Linux {since} brings it, and this is {}", kernel.release)),
    };
    let mut findings = vec![
        RELEASE.ok(&kernel.release),
        needed(&MOUNT_CALLS, kernel.new_mount_calls, "5.2"),
        needed(&OPENAT2, kernel.openat2, "5.6"),
        file_system(&SQUASHFS, kernel.squashfs),
        file_system(&EROFS, kernel.erofs),
    ];
    findings.extend(as_root.map(erofs_from_file));
    findings.extend(judge_loops(&kernel.loops));
    findings
}

/// Only root and the helper need it, so its absence alone is no problem.
fn file_system(check: &Check, has: Has) -> Finding {
    match has {
        Has::Yes => check.ok("there"),
        Has::Unknown => check.off("could not be tried"),
        Has::No => check
            .note("not there")
            .because("root and the helper cannot mount such images; FUSE can")
            .fixed_by(format!("sudo modprobe {}", check.name)),
    }
}

fn erofs_from_file(tried: &AsRoot) -> Finding {
    match &tried.erofs_from_file {
        Trial::Works => EROFS_FROM_FILE.ok("an image was mounted without a loop device"),
        Trial::NotTried => EROFS_FROM_FILE.off("not tried"),
        Trial::Fails(failure) => EROFS_FROM_FILE
            .off("not possible: it takes a loop device")
            .because(format!("{}; Linux 6.12 brings it", failure.text)),
    }
}

fn judge_loops(loops: &Loops) -> Vec<Finding> {
    let is_used = |number: &u32| loops.used.iter().any(|(used, _)| used == number);
    let surplus = loops.all.iter().filter(|number| **number >= 8 && !is_used(number));
    let surplus = surplus.count();
    let found =
        format!("{}, {} in use, {surplus} more than usual", loops.all.len(), loops.used.len());
    let judged = if !loops.control {
        LOOP_DEVICES
            .off("/dev/loop-control is not there")
            .because("root and the helper need it for squashfs images; EROFS needs none")
            .fixed_by("sudo modprobe loop")
    } else if surplus > MANY_LOOP_DEVICES {
        LOOP_DEVICES
            .note(found)
            .because("each unused device makes finding a free one slower, until they are removed")
            .fixed_by("sudo rmmod loop && sudo modprobe loop")
    } else {
        LOOP_DEVICES.ok(found)
    };
    let mut findings = vec![judged];
    for (number, file) in &loops.used {
        if let Some(file) = file.strip_suffix(" (deleted)") {
            let device = format!("/dev/loop{number}");
            findings.push(
                LOOP_DEVICES
                    .note("holds a file that was deleted")
                    .named(&device)
                    .because(format!("{file}; its space is freed when its last user ends"))
                    .fixed_by(format!(
                        "sudo cabane clean --mounts; sudo losetup --detach {}",
                        shell_word(&device)
                    )),
            );
        }
    }
    findings
}

fn judge_held(facts: &Facts) -> Finding {
    match facts.held.as_ref() {
        Ok(Held::Hidden) => HELD_IMAGES.off("only root may look").fixed_by("sudo cabane doctor"),
        Ok(Held::Nothing) => HELD_IMAGES.ok("none"),
        Ok(Held::Images { owners, longest }) => {
            let mut users = owners.clone();
            users.dedup();
            let found = format!(
                "{} of {} users, unused for {longest} s at most",
                owners.len(),
                users.len()
            );
            HELD_IMAGES.ok(found).fixed_by("sudo cabane clean --mounts")
        }
        Ok(Held::Unreadable(reason)) => uncounted(facts, reason),
        Err(reason) => uncounted(facts, &reason.to_string()),
    }
}

fn judge_rendezvous_points(facts: &Facts) -> Finding {
    let rendezvous_points = match facts.rendezvous_points.as_ref() {
        Ok(rendezvous_points) => rendezvous_points,
        Err(reason) => {
            return SHARED_NAMESPACES
                .note(format!("cannot be looked for: {reason}"))
                .because("a directory for them does not answer")
                .fixed_by("echo $XDG_RUNTIME_DIR");
        }
    };
    let unsafe_places = rendezvous_points.unsafe_places.join(" ");
    let Some(place) = &rendezvous_points.place else {
        return SHARED_NAMESPACES
            .note("there is no directory for them")
            .because(format!(
                "ranks that are started one by one are refused; not yours alone: {unsafe_places}"
            ))
            .fixed_by(format!("ls -ld {unsafe_places}").trim_end());
    };
    SHARED_NAMESPACES.ok(place)
}

/// Without a policy nothing is ever held.
fn uncounted(facts: &Facts, reason: &str) -> Finding {
    let policy = facts.helper.as_ref().map(|helper| &helper.policy);
    let state = match policy {
        Ok(PolicyFacts::Missing) => State::Off,
        _ => State::Note,
    };
    HELD_IMAGES
        .finding(state, "cannot be counted")
        .because(format!("/run of the first process cannot be looked into: {reason}"))
        .fixed_by("ls -la /proc/1/root/run/cabane")
}
