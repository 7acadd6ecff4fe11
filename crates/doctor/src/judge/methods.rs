// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which ways to mount work, and which would be chosen.

use super::checks::{AS_ROOT, CHOICE};
use super::helper::{images_and_places, judge_helper, policy_is_broken};
use super::user::{judge_fuse, judge_user_namespaces};
use crate::facts::{AsRoot, Facts, Failure, Held, PolicyFacts, Step, Trial};
use crate::finding::{Choice, Finding, State, Way};

/// The three ways by their names.
const ROOT: &str = "root";
const HELPER: &str = "helper";
const USER_NAMESPACE: &str = "user-namespace";

/// Judges the ways to mount and what each needs.
pub(super) fn judge(facts: &Facts) -> (Vec<Way>, Choice, Vec<Finding>) {
    let root = judge_root(facts);
    let helper = judge_helper(&facts.process, &facts.helper, &facts.helper_remedies);
    let mut user = vec![judge_user_namespaces(&facts.process, &facts.user_namespaces)];
    user.extend(judge_fuse(&facts.fuse, &facts.user_namespaces));
    let ways = vec![
        way(ROOT, &root, !facts.process.counts_as_root),
        way(HELPER, &helper, false),
        way(USER_NAMESPACE, &user, false),
    ];
    let choice = choose(facts, &ways);
    let mut findings: Vec<Finding> = [root, helper, user].into_iter().flatten().collect();
    if ways.iter().any(|way| way.works) {
        // What one way lacks matters less to who has the better one.
        if facts.process.counts_as_root && choice.works && choice.backend == ROOT {
            let notes = findings.iter_mut().filter(|one| one.blocks && one.state == State::Note);
            notes.for_each(|finding| finding.state = State::Off);
        }
    } else {
        for finding in findings.iter_mut().filter(|finding| finding.blocks) {
            finding.state = State::Problem;
        }
    }
    findings.insert(0, judge_choice(facts, &ways, &choice));
    (ways, choice, findings)
}

fn way(name: &'static str, findings: &[Finding], is_impossible: bool) -> Way {
    let blocking = findings.iter().find(|finding| finding.blocks);
    let reason = match blocking {
        Some(finding) => Some(format!("{}: {}", finding.name, finding.found)),
        None if is_impossible => findings.first().map(|finding| finding.found.clone()),
        None => None,
    };
    Way { name, works: reason.is_none(), reason }
}

/// Tells whether images that the kernel may not read go through FUSE, by the helper.
fn serves_others(facts: &Facts) -> bool {
    let is_allowed = facts.helper.as_ref().is_ok_and(|helper| {
        matches!(helper.policy, PolicyFacts::Good { owners: Some(_), fuse_images: true, .. })
    });
    let is_possible =
        facts.fuse.as_ref().is_ok_and(|fuse| fuse.device.is_ok() && fuse.squashfs.is_some());
    is_allowed && is_possible
}

/// Mirrors what `cabane run` does.
fn choose(facts: &Facts, ways: &[Way]) -> Choice {
    let works = |name| ways.iter().any(|way| way.name == name && way.works);
    let is_helper_taken = facts
        .helper
        .as_ref()
        .is_ok_and(|helper| helper.unavailable.is_none() && images_and_places(helper).is_some());
    let backend = match &facts.configuration.wanted {
        Some((name, _)) => name,
        None if facts.process.counts_as_root => ROOT,
        None if is_helper_taken => HELPER,
        None => USER_NAMESPACE,
    };
    let explanation = match backend {
        ROOT => "images are mounted as root, with the kernel's file systems".to_owned(),
        HELPER => {
            let which = facts.helper.as_ref().ok().and_then(images_and_places);
            let which = which.unwrap_or_else(|| "images".to_owned());
            let rest = if facts.configuration.wanted.is_some() {
                "nothing else can be mounted in this way"
            } else if works(USER_NAMESPACE) {
                "everything else in a user namespace, through FUSE"
            } else {
                "everything else is impossible here, since a user namespace with FUSE is"
            };
            let served = if serves_others(facts) { ", others there through FUSE" } else { "" };
            format!("{which} are mounted through the helper{served}; {rest}")
        }
        _ => "images are mounted in a user namespace, through FUSE".to_owned(),
    };
    Choice { backend, works: works(backend), explanation }
}

fn judge_choice(facts: &Facts, ways: &[Way], choice: &Choice) -> Finding {
    // What stops root stops the helper as well.
    let other = ways.iter().rev().find(|way| way.works);
    if choice.works {
        let explanation = &choice.explanation;
        match &facts.configuration.wanted {
            Some((name, origin)) => {
                CHOICE.ok(format!("`{name}`, which {origin} asks for; {explanation}"))
            }
            None => CHOICE.ok(explanation),
        }
    } else if let Some(other) = other {
        let cause = match &facts.configuration.wanted {
            Some((_, origin)) => format!("{origin} asks for it"),
            None => "it is chosen by what is installed, before anything is mounted".to_owned(),
        };
        let (backend, other) = (choice.backend, other.name);
        CHOICE
            .problem(format!("`{backend}` is chosen and does not work; `{other}` does"))
            .because(cause)
            .fixed_by(format!("export CABANE_BACKEND={other}"))
    } else {
        CHOICE
            .problem("nothing can be mounted here")
            .because("no method works; fix one of the problems below")
    }
}

/// Mounting as root: being root, and the kernel's file systems.
fn judge_root(facts: &Facts) -> Vec<Finding> {
    let process = &facts.process;
    if process.user != 0 {
        return vec![AS_ROOT.off(format!("not possible: you are user {}", process.user))];
    }
    let Some(tried) = &facts.as_root else {
        let found = if process.may_mount {
            AS_ROOT
                .off("not possible: root of a user namespace only")
                .because("the kernel mounts no images of such a root")
        } else {
            AS_ROOT
                .note("not possible: root without CAP_SYS_ADMIN")
                .because("a container takes it away")
                .fixed_by("docker run --cap-add SYS_ADMIN …")
        };
        return vec![found];
    };
    let judged = judge_root_trial(tried);
    match stands_in_the_way(facts).filter(|_| !judged.blocks) {
        Some(reason) => vec![
            AS_ROOT
                .problem(format!("not possible: {reason}"))
                .because("root keeps to the policy, where there is one; see below")
                .blocking(),
        ],
        None => vec![judged],
    }
}

/// Where there is a policy, root uses images that are held for everyone.
fn stands_in_the_way(facts: &Facts) -> Option<&'static str> {
    let helper = facts.helper.as_ref().ok()?;
    if policy_is_broken(&helper.policy) {
        Some("the policy is broken")
    } else if helper.policy == PolicyFacts::Missing {
        None
    } else if helper.state_directory.is_some() {
        Some("there is no safe place for images that are held")
    } else if !matches!(facts.held.as_ref(), Ok(Held::Nothing | Held::Images { .. } | Held::Hidden))
    {
        Some("the place of images that are held is out of reach")
    } else {
        None
    }
}

fn judge_root_trial(tried: &AsRoot) -> Finding {
    match (&tried.squashfs, &tried.erofs) {
        (Trial::Works, Trial::Works) => AS_ROOT.ok("squashfs and EROFS images were mounted"),
        (Trial::Works, _) => AS_ROOT.ok("a squashfs image was mounted; EROFS is not there"),
        (Trial::Fails(failure), _) => {
            let cause = root_cause(failure);
            let failed = AS_ROOT
                .problem("a squashfs image could not be mounted")
                .because(format!("{}{cause}", failure.text))
                .blocking();
            match (failure.step, &failure.hint) {
                (Step::LoopDevice, _) => failed.fixed_by("sudo modprobe loop"),
                (Step::Image, Some(_)) => failed.fixed_by("sudo modprobe squashfs"),
                _ => failed.fixed_by("export CABANE_BACKEND=user-namespace"),
            }
        }
        (Trial::NotTried, _) => AS_ROOT.off("not tried").blocking(),
    }
}

fn root_cause(failure: &Failure) -> &'static str {
    /// Operation not permitted.
    const EPERM: i32 = 1;
    if failure.errno == Some(EPERM) {
        "; a container may allow CAP_SYS_ADMIN in name only"
    } else {
        ""
    }
}
