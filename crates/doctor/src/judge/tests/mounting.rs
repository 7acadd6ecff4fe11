// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The ways to mount.

use super::*;

/// The name of a line of the report, and what is done to FUSE.
type Change = (&'static str, fn(&mut Fuse));

#[test]
fn a_right_machine_is_healthy_for_everybody() {
    let seen = [right(), as_root(), without_helper()].map(|facts| {
        let report = judge(&facts);
        (report.healthy, report.choice.backend)
    });
    assert_eq!(seen, [(true, "helper"), (true, "root"), (true, "user-namespace")]);
}

#[test]
fn what_goes_through_the_helper_and_what_does_not_is_reported() {
    let all = with_helper(|helper| {
        if let PolicyFacts::Good { owners, .. } = &mut helper.policy {
            *owners = None;
        }
    });
    let explained = [right(), all].map(|facts| judge(&facts).choice.explanation);
    assert_eq!(
        explained,
        [
            "root's images at /user-environment, /user-tools, / are mounted through the helper, \
             others there through FUSE; everything else in a user namespace, through FUSE",
            "all images at /user-environment, /user-tools, / are mounted through the helper; \
             everything else in a user namespace, through FUSE"
        ]
    );
}

#[test]
fn where_nothing_works_every_obstacle_is_a_problem() {
    let facts = with_namespaces(without_helper(), |namespaces| namespaces.most = Some(0));
    let report = judge(&facts);
    let problems: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| finding.state == State::Problem)
        .map(|finding| finding.name.as_str())
        .collect();
    assert_eq!((report.healthy, problems), (false, vec!["choice", "helper", "user namespace"]));
}

#[test]
fn each_fault_of_the_helper_has_its_command() {
    let path = "/usr/libexec/cabane/cabane-mount";
    let installed = |change: fn(&mut Installed)| {
        let facts = with_helper(|helper| {
            change(helper.installed.as_mut().unwrap());
            helper.unavailable = Some("no".to_owned());
            helper.started = None;
        });
        verdict(&facts, "helper")
    };
    let repair = format!("sudo chown root:root {path} && sudo chmod 4755 {path}");
    assert_eq!(
        [
            installed(|found| found.owner = 1000),
            installed(|found| found.mode = 0o755),
            installed(|found| found.mode = 0o4775),
            installed(|found| found.without_set_uid = Some("/usr/lib exec".to_owned())),
        ],
        [
            (State::Problem, repair.clone()),
            (State::Problem, repair.clone()),
            (State::Problem, repair),
            (State::Problem, "sudo mount -o remount,suid '/usr/lib exec'".to_owned()),
        ]
    );
}

#[test]
fn a_helper_of_another_version_is_recognized() {
    let message = "cabane-mount does not understand the request";
    let facts = with_helper(|helper| helper.started = Some(Err(message.to_owned())));
    let report = judge(&facts);
    assert_eq!(
        (report.healthy, find(&report, "start of the helper").found.as_str()),
        (false, "it is of another version than this command")
    );
}

#[test]
fn the_report_shows_who_mounts_root_images() {
    let findings = |allowed: bool, absent: &[&str]| {
        let facts = with_helper(|helper| {
            if let PolicyFacts::Good { root_images, absent_binds, .. } = &mut helper.policy {
                *root_images = allowed;
                *absent_binds = absent.iter().map(ToString::to_string).collect();
            }
        });
        let report = judge(&facts);
        let findings = report.findings.iter();
        let findings = findings.filter(|finding| finding.name == "root images");
        let findings: Vec<_> =
            findings.map(|finding| (finding.state, finding.found.clone())).collect();
        (report.healthy, findings)
    };
    let by_helper =
        (State::Ok, "may be mounted by the helper, in the place of the root".to_owned());
    let by_user = (State::Off, "not by the helper; a user namespace is used".to_owned());
    let absent = (State::Note, "/scratch is not there".to_owned());
    assert_eq!(findings(true, &[]), (true, vec![by_helper.clone()]));
    assert_eq!(findings(false, &[]), (true, vec![by_user]));
    assert_eq!(findings(true, &["/scratch"]), (true, vec![by_helper, absent]));
}

#[test]
fn each_fault_of_the_policy_has_its_command() {
    let policy = |policy: PolicyFacts| {
        let facts = with_helper(|helper| {
            helper.policy = policy;
            helper.unavailable = Some("no".to_owned());
        });
        verdict(&facts, "policy").1
    };
    let file = "/etc/cabane/mount.policy";
    assert_eq!(
        [
            policy(PolicyFacts::Mistake { line: 3, problem: "what".to_owned() }),
            policy(PolicyFacts::Weak(weak(file, WeaknessKind::Owner(7)))),
            policy(PolicyFacts::Weak(weak("/etc", WeaknessKind::Writable(0o777)))),
            policy(PolicyFacts::Unreadable("denied".to_owned())),
        ],
        [
            "sudoedit /etc/cabane/mount.policy",
            "sudo chown root:root /etc/cabane/mount.policy",
            "sudo chmod go-w /etc",
            "sudo chmod 0644 /etc/cabane/mount.policy",
        ]
    );
}

#[test]
fn one_bad_mount_point_does_not_stop_the_helper_at_the_others() {
    let facts = with_helper(|helper| {
        if let PolicyFacts::Good { mount_points, .. } = &mut helper.policy {
            mount_points[0].1 = Some(weak("/user-environment", WeaknessKind::Missing));
        }
    });
    let report = judge(&facts);
    assert_eq!(
        (report.healthy, report.choice.works, find(&report, "mount point /user-environment").state),
        (false, true, State::Problem)
    );
}

#[test]
fn inside_an_environment_the_helper_is_off_and_nothing_is_broken() {
    let mut facts = with_helper(|helper| {
        helper.unavailable = Some("no_new_privs".to_owned());
        helper.started = None;
    });
    facts.process.no_new_privileges = true;
    let through_helper = judge(&facts);
    facts.process.in_first_user_namespace = false;
    let in_user_namespace = judge(&facts);
    let seen = [through_helper, in_user_namespace];
    assert!(
        seen.iter().all(|report| report.healthy && report.choice.backend == "user-namespace"),
        "{seen:#?}"
    );
}

#[test]
fn each_switch_against_user_namespaces_is_named() {
    let command = |change: fn(&mut UserNamespaces)| {
        verdict(&with_namespaces(right(), change), "user namespace")
    };
    let note = |command: &str| (State::Note, command.to_owned());
    assert_eq!(
        [
            command(|facts| facts.most = Some(0)),
            command(|facts| facts.trial = failing(Step::Namespace, 28)),
            command(|facts| facts.unprivileged = Some(0)),
            command(|facts| facts.restricted = Some(1)),
            command(|facts| facts.trial = failing(Step::Other, 5)),
        ],
        [
            note("sudo sysctl -w user.max_user_namespaces=10000"),
            note("sudo sysctl -w user.max_user_namespaces=100000"),
            note("sudo sysctl -w kernel.unprivileged_userns_clone=1"),
            note("sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
            note(""),
        ]
    );
}

#[test]
fn a_filter_of_system_calls_is_named_where_no_switch_is_off() {
    let mut facts = with_namespaces(right(), |_| {});
    facts.process.is_filtered = true;
    let (_, command) = verdict(&facts, "user namespace");
    assert_eq!(command, "docker run --security-opt seccomp=unconfined …");
}

#[test]
fn what_fuse_lacks_is_a_note_beside_the_helper_and_a_problem_without() {
    let changes: [Change; 4] = [
        ("/dev/fuse", |fuse| fuse.device = Err(2)),
        ("/dev/fuse", |fuse| fuse.device = Err(13)),
        ("/dev/fuse", |fuse| fuse.device = Err(6)),
        ("squashfuse", |fuse| fuse.squashfs = None),
    ];
    let seen = changes.map(|(name, change)| {
        let broken = |facts| {
            with_fuse(facts, |fuse| {
                change(fuse);
                fuse.squashfs_trial = Trial::NotTried;
                fuse.erofs_trial = Trial::NotTried;
            })
        };
        (state(&broken(right()), name), state(&broken(without_helper()), name))
    });
    assert_eq!(seen, [(State::Note, State::Problem); 4]);
}

#[test]
fn a_fuse_mount_that_fails_for_no_known_reason_blocks_that_way() {
    let facts = with_fuse(without_helper(), |fuse| {
        fuse.squashfs_trial = failing(Step::Image, 22);
    });
    let report = judge(&facts);
    assert_eq!(
        (report.choice.works, find(&report, "squashfs through FUSE").state),
        (false, State::Problem)
    );
}

#[test]
fn the_slower_squashfuse_and_a_missing_erofsfuse_break_nothing() {
    let facts = with_fuse(right(), |fuse| {
        fuse.squashfs = Some(program("/usr/bin/squashfuse"));
        fuse.erofs = None;
        fuse.erofs_trial = Trial::NotTried;
    });
    let report = judge(&facts);
    assert_eq!(
        (report.healthy, find(&report, "squashfuse").state, find(&report, "erofsfuse").state),
        (true, State::Note, State::Off)
    );
}

#[test]
fn root_that_cannot_mount_gets_the_way_that_works() {
    let tried = |step, errno| {
        let facts = Facts {
            as_root: Some(AsRoot {
                squashfs: failing(step, errno),
                erofs: Trial::Works,
                erofs_from_file: Trial::Works,
            }),
            ..as_root()
        };
        (verdict(&facts, "as root").1, verdict(&facts, "choice").1)
    };
    let other_way = "export CABANE_BACKEND=user-namespace".to_owned();
    assert_eq!(
        [tried(Step::LoopDevice, 2), tried(Step::Image, 1)],
        [
            ("sudo modprobe loop".to_owned(), "export CABANE_BACKEND=user-namespace".to_owned()),
            (other_way.clone(), other_way),
        ]
    );
}

#[test]
fn root_keeps_to_a_policy_that_is_there() {
    let with_policy = |policy: PolicyFacts, held: Held| {
        let facts = with_helper(|helper| {
            helper.unavailable = Some("no".to_owned());
            helper.started = None;
            helper.policy = policy;
        });
        let facts = Facts { helper: facts.helper, held: Ok(held), ..as_root() };
        judge(&facts).choice.works
    };
    let mistake = PolicyFacts::Mistake { line: 1, problem: String::new() };
    let unreachable = || Held::Unreadable("denied".to_owned());
    assert_eq!(
        [
            with_policy(mistake, Held::Nothing),
            with_policy(good_policy(), unreachable()),
            with_policy(PolicyFacts::Missing, unreachable()),
        ],
        [false, false, true]
    );
}

#[test]
fn root_of_a_user_namespace_and_root_without_the_capability_are_distinguished() {
    let facts = |may_mount, in_first_user_namespace| Facts {
        process: Process { user: 0, may_mount, in_first_user_namespace, ..Process::default() },
        as_root: None,
        ..without_helper()
    };
    assert_eq!(
        [state(&facts(true, false), "as root"), state(&facts(false, true), "as root")],
        [State::Off, State::Note]
    );
}

fn verified(change: impl FnOnce(&mut VerifiedFacts)) -> Facts {
    with_helper(|helper| {
        if let PolicyFacts::Good { verified, .. } = &mut helper.policy {
            *verified = VerifiedFacts {
                list: "/etc/cabane/verified-images".to_owned(),
                count: 2,
                in_kernel: true,
                ..VerifiedFacts::default()
            };
            change(verified);
        }
    })
}

#[test]
fn images_that_are_trusted_for_their_content_need_dm_verity() {
    let seen = |change: fn(&mut VerifiedFacts)| {
        let report = judge(&verified(change));
        let found = report.findings.iter().find(|finding| finding.name == "verified images");
        found.map(|finding| (finding.state, finding.found.clone()))
    };
    let found = "2 in /etc/cabane/verified-images".to_owned();
    assert_eq!(seen(|_| ()), Some((State::Ok, found.clone())));
    assert_eq!(seen(|facts| facts.in_kernel = false), Some((State::Note, found)));
    assert_eq!(seen(|facts| facts.count = 0), None);
    let weak =
        Weakness { path: "/etc/cabane/verified-images".to_owned(), kind: WeaknessKind::Owner(7) };
    let report = judge(&verified(|facts| facts.weakness = Some(weak)));
    assert!(
        report
            .findings
            .iter()
            .any(|one| one.name == "verified images" && one.state == State::Problem)
    );
}

#[test]
fn unpacked_images_that_others_could_change_are_a_problem_and_an_old_kernel_is_not() {
    let seen = |change: fn(&mut UnpackedFacts)| {
        let mut unpacked = UnpackedFacts {
            directory: "/disk/unpacked".to_owned(),
            count: 2,
            in_kernel: true,
            ..UnpackedFacts::default()
        };
        change(&mut unpacked);
        let report = judge(&Facts { unpacked: Some(unpacked), ..right() });
        let finding = find(&report, "unpacked images");
        (finding.state, finding.found.clone())
    };
    let found = "2 in /disk/unpacked".to_owned();
    assert_eq!(seen(|_| ()), (State::Ok, found.clone()));
    assert_eq!(seen(|facts| facts.in_kernel = false), (State::Note, found));
    let weak = seen(|facts| {
        let (path, kind) = ("/disk".to_owned(), WeaknessKind::Owner(7));
        facts.weakness = Some(Weakness { path, kind });
    });
    assert_eq!(weak, (State::Problem, "/disk belongs to user 7".to_owned()));
}
