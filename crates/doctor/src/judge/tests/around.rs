// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The kernel, repositories, and what is around the process.

use super::*;

#[test]
fn what_the_kernel_lacks_is_reported_with_what_needs_it() {
    let seen = [
        ("new mount calls", with_kernel(|kernel| kernel.new_mount_calls = Has::No)),
        ("openat2", with_kernel(|kernel| kernel.openat2 = Has::Unknown)),
        ("erofs", with_kernel(|kernel| kernel.erofs = Has::No)),
        ("loop devices", with_kernel(|kernel| kernel.loops.control = false)),
        ("loop devices", with_kernel(|kernel| kernel.loops.all = (0..300).collect())),
        (
            "/dev/loop3",
            with_kernel(|kernel| kernel.loops.used = vec![(3, "/a (deleted)".to_owned())]),
        ),
    ]
    .map(|(name, facts)| state(&facts, name));
    assert_eq!(
        seen,
        [State::Problem, State::Off, State::Note, State::Off, State::Note, State::Note]
    );
}

#[test]
fn a_kernel_that_could_not_be_tried_breaks_nothing() {
    let facts = Facts { kernel: Err(NoAnswer::Silent(15)), ..right() };
    assert!(judge(&facts).healthy);
}

#[test]
fn held_images_are_counted_for_root() {
    let held = Held::Images { owners: vec![0, 1000, 1000], longest: 90 };
    let facts = Facts { held: Ok(held), ..as_root() };
    let report = judge(&facts);
    assert_eq!(find(&report, "on this node").found, "3 of 2 users, unused for 90 s at most");
}

#[test]
fn a_missing_place_for_shared_namespaces_is_noted() {
    let nowhere = RendezvousPoints {
        unsafe_places: vec!["/tmp/cabane-1000".to_owned()],
        ..RendezvousPoints::default()
    };
    let facts = Facts { rendezvous_points: Ok(nowhere), ..right() };
    let expected = (State::Note, "ls -ld /tmp/cabane-1000".to_owned());
    assert_eq!(verdict(&facts, "shared namespaces"), expected);
}

#[test]
fn each_state_of_a_repository_has_its_verdict() {
    let changed = |change: fn(&mut RepositoryFacts)| {
        let mut facts = usable();
        change(&mut facts);
        Ok(facts)
    };
    let unusable = RepositoryFacts::Unusable { reason: "denied".to_owned(), hint: None };
    let seen = [
        Ok(usable()),
        Ok(RepositoryFacts::Missing),
        Ok(unusable),
        Ok(RepositoryFacts::TooLong),
        Err(NoAnswer::Silent(5)),
        changed(|facts| {
            if let RepositoryFacts::Usable { damaged, .. } = facts {
                damaged.push("the image is missing".to_owned());
            }
        }),
        changed(|facts| {
            if let RepositoryFacts::Usable { leftovers, .. } = facts {
                *leftovers = 2;
            }
        }),
        changed(|facts| {
            if let RepositoryFacts::Usable { free, .. } = facts {
                *free = 1 << 20;
            }
        }),
        changed(|facts| {
            if let RepositoryFacts::Usable { file_system, .. } = facts {
                "fuse".clone_into(file_system);
            }
        }),
    ]
    .map(|facts| state(&with_repository(facts), "repository site"));
    assert_eq!(
        seen,
        [
            State::Ok,
            State::Problem,
            State::Problem,
            State::Note,
            State::Problem,
            State::Problem,
            State::Note,
            State::Note,
            State::Note,
        ]
    );
}

#[test]
fn a_users_own_repository_need_not_exist() {
    let mut facts = with_repository(Ok(RepositoryFacts::Missing));
    facts.repositories[0].is_default = true;
    assert_eq!(state(&facts, "repository site"), State::Off);
}

#[test]
fn a_mistake_in_the_configuration_is_a_problem_with_its_text() {
    let mistake = Mistake { text: "there are 2 mistakes".to_owned(), hint: None };
    let facts = Facts {
        configuration: Configuration { mistake: Some(mistake), ..Configuration::default() },
        ..right()
    };
    let report = judge(&facts);
    assert_eq!(find(&report, "configuration").cause.as_deref(), Some("there are 2 mistakes"));
}

#[test]
fn a_requested_way_is_judged_as_requested() {
    let mut facts = without_helper();
    facts.configuration.wanted = Some(("helper", "variable CABANE_BACKEND".to_owned()));
    let report = judge(&facts);
    let choice = find(&report, "choice");
    assert_eq!(
        (report.choice.works, choice.cause.as_deref()),
        (false, Some("variable CABANE_BACKEND asks for it"))
    );
}

#[test]
fn what_is_around_the_process_is_noted() {
    let text = |name: &str| name.to_owned();
    let seen = [
        (
            "environment",
            with_search_path(SearchPath {
                loaded: vec![(text("/user-environment"), true)],
                ..SearchPath::default()
            }),
        ),
        (
            "environment",
            with_search_path(SearchPath {
                loaded: vec![(text("/user-environment"), false)],
                ..SearchPath::default()
            }),
        ),
        (
            "variables",
            with_search_path(SearchPath {
                foreign: vec![text("UENV_VIEW")],
                ..SearchPath::default()
            }),
        ),
        (
            "cabane",
            with_search_path(SearchPath {
                names: OwnNames {
                    commands: vec![text("/a/cabane"), text("/b/cabane")],
                    uenv: None,
                },
                ..SearchPath::default()
            }),
        ),
        (
            "uenv",
            with_search_path(SearchPath {
                names: OwnNames { commands: Vec::new(), uenv: Some((text("/a/uenv"), true)) },
                ..SearchPath::default()
            }),
        ),
    ]
    .map(|(name, facts)| state(&facts, name));
    assert_eq!(seen, [State::Ok, State::Note, State::Note, State::Note, State::Off]);
}

#[test]
fn a_tool_that_is_missing_breaks_nothing() {
    let tool = Tool { name: "mksquashfs", purpose: "packing", found: Ok(None) };
    let facts = Facts { tools: vec![tool], ..right() };
    assert_eq!(
        verdict(&facts, "mksquashfs"),
        (State::Off, "sudo apt-get install squashfs-tools".to_owned())
    );
}
