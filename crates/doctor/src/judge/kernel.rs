// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The kernel, loop devices and held images.

use super::quoted;
use crate::facts::{AsRoot, Facts, Has, Held, Kernel, Loops, PolicyFacts, Trial};
use crate::finding::{Finding, Group, State};

/// More unused loop devices than this are told.
const MANY_LOOP_DEVICES: usize = 64;

/// Judges what the kernel can do, and what it holds.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = match facts.kernel.known() {
        Ok(kernel) => judge_kernel(kernel, facts.as_root.as_ref()),
        Err(reason) => {
            let found = format!("could not be tried: {reason}");
            vec![finding("kernel", State::Note, &found)]
        }
    };
    findings.push(judge_held(facts));
    findings.push(judge_rendezvous_points(facts));
    findings
}

fn finding(name: &str, state: State, found: &str) -> Finding {
    Finding::new(Group::Kernel, name, state, found)
}

fn judge_kernel(kernel: &Kernel, as_root: Option<&AsRoot>) -> Vec<Finding> {
    let needed = |name, has, since: &str, purpose| {
        let judged = match has {
            Has::Yes => finding(name, State::Ok, "there"),
            Has::Unknown => finding(name, State::Off, "could not be tried")
                .because("it takes a namespace of one's own, and none can be made"),
            Has::No => finding(name, State::Problem, "not there")
                .because(format!("Linux {since} brings it, and this is {}", kernel.release)),
        };
        judged.serving(purpose)
    };
    let mut findings = vec![
        finding("version", State::Ok, &kernel.release).serving("5.8 is the least that is needed"),
        needed(
            "new mount calls",
            kernel.new_mount_calls,
            "5.2",
            "mounting what was opened, and nothing else",
        ),
        needed(
            "openat2",
            kernel.openat2,
            "5.6",
            "opening files of an image without being led out of it",
        ),
        file_system("squashfs", kernel.squashfs),
        file_system("erofs", kernel.erofs),
    ];
    findings.extend(as_root.map(erofs_from_file));
    findings.extend(judge_loops(&kernel.loops));
    findings
}

/// Only root and the helper need it, so its absence alone is no problem.
fn file_system(name: &str, has: Has) -> Finding {
    match has {
        Has::Yes => finding(name, State::Ok, "there"),
        Has::Unknown => finding(name, State::Off, "could not be tried"),
        Has::No => finding(name, State::Note, "not there")
            .because("root and the helper cannot mount such images; FUSE can")
            .fixed_by(format!("sudo modprobe {name}")),
    }
    .serving("images mounted by the kernel, as root or through the helper")
}

fn erofs_from_file(tried: &AsRoot) -> Finding {
    let name = "erofs from a file";
    match &tried.erofs_from_file {
        Trial::Works => finding(name, State::Ok, "an image was mounted without a loop device"),
        Trial::NotTried => finding(name, State::Off, "not tried"),
        Trial::Fails(failure) => finding(name, State::Off, "not possible: it takes a loop device")
            .because(format!("{}; Linux 6.12 brings it", failure.text)),
    }
    .serving("starts that are fast on a busy node, and need no loop device")
}

fn judge_loops(loops: &Loops) -> Vec<Finding> {
    let is_used = |number: &u32| loops.used.iter().any(|(used, _)| used == number);
    let surplus = loops.all.iter().filter(|number| **number >= 8 && !is_used(number));
    let surplus = surplus.count();
    let found =
        format!("{}, {} in use, {surplus} more than usual", loops.all.len(), loops.used.len());
    let judged = if !loops.control {
        finding("loop devices", State::Off, "/dev/loop-control is not there")
            .because("root and the helper need it for squashfs images; EROFS needs none")
            .fixed_by("sudo modprobe loop")
    } else if surplus > MANY_LOOP_DEVICES {
        finding("loop devices", State::Note, &found)
            .because("each unused device makes finding a free one slower, until they are removed")
            .fixed_by("sudo rmmod loop && sudo modprobe loop")
    } else {
        finding("loop devices", State::Ok, &found)
    };
    let mut findings = vec![judged.serving("squashfs images mounted by the kernel")];
    for (number, file) in &loops.used {
        if let Some(file) = file.strip_suffix(" (deleted)") {
            let device = format!("/dev/loop{number}");
            findings.push(
                finding(&device, State::Note, "holds a file that was deleted")
                    .because(format!("{file}; its space is freed when its last user ends"))
                    .fixed_by(format!(
                        "sudo cabane clean --mounts; sudo losetup --detach {}",
                        quoted(&device)
                    )),
            );
        }
    }
    findings
}

fn judge_held(facts: &Facts) -> Finding {
    let finding = |state, found: &str| {
        Finding::new(Group::Held, "on this node", state, found)
            .serving("images that stay mounted for a while, so that the next start is fast")
    };
    match facts.held.known() {
        Ok(Held::Hidden) => {
            finding(State::Off, "only root may look").fixed_by("sudo cabane doctor")
        }
        Ok(Held::Nothing) => finding(State::Ok, "none"),
        Ok(Held::Images { owners, longest }) => {
            let mut users = owners.clone();
            users.dedup();
            let found = format!(
                "{} of {} users, unused for {longest} s at most",
                owners.len(),
                users.len()
            );
            finding(State::Ok, &found).fixed_by("sudo cabane clean --mounts")
        }
        Ok(Held::Unreadable(reason)) => uncounted(facts, finding, reason),
        Err(reason) => uncounted(facts, finding, &reason),
    }
}

fn judge_rendezvous_points(facts: &Facts) -> Finding {
    let finding = |state, found: String| {
        Finding::new(Group::Held, "shared namespaces", state, found)
            .serving("where ranks of one program find each other, to share memory")
    };
    let rendezvous_points = match facts.rendezvous_points.known() {
        Ok(rendezvous_points) => rendezvous_points,
        Err(reason) => {
            return finding(State::Note, format!("cannot be looked for: {reason}"))
                .because("a directory for them does not answer")
                .fixed_by("echo $XDG_RUNTIME_DIR");
        }
    };
    let unsafe_places = rendezvous_points.unsafe_places.join(" ");
    let Some(place) = &rendezvous_points.place else {
        return finding(State::Note, "there is no directory for them".to_owned())
            .because(format!(
                "ranks that are started one by one are refused; not yours alone: {unsafe_places}"
            ))
            .fixed_by(format!("ls -ld {unsafe_places}").trim_end());
    };
    if rendezvous_points.stale > 0 {
        finding(State::Note, format!("{} left over", rendezvous_points.stale))
            .because("files of processes that were killed; the next start removes them, too")
            .fixed_by("cabane clean")
    } else {
        finding(State::Ok, place.clone())
    }
}

/// Without a policy nothing is ever held.
fn uncounted(facts: &Facts, finding: impl Fn(State, &str) -> Finding, reason: &str) -> Finding {
    let policy = facts.helper.known().map(|helper| &helper.policy);
    let state = match policy {
        Ok(PolicyFacts::Missing) => State::Off,
        _ => State::Note,
    };
    finding(state, "cannot be counted")
        .because(format!("/run of the first process cannot be looked into: {reason}"))
        .fixed_by("ls -la /proc/1/root/run/cabane")
}
