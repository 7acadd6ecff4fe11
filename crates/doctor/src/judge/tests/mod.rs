// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Machines that exist on paper only: each is a right one with one thing changed.

mod around;
mod mounting;

use cabane_site::Remedy;

use super::judge;
use crate::facts::{
    Answer, AsRoot, Configuration, DeviceFacts, Facts, Failure, Fuse, Has, Held, HelperFacts,
    HelperRemedies, Installed, Kernel, Loops, Mistake, NoAnswer, OwnNames, PolicyFacts, Process,
    Program, RendezvousPoints, RepositoryEntry, RepositoryFacts, SearchPath, Step, Tool, Trial,
    UnpackedFacts, UserNamespaces, VerifiedFacts, Weakness, WeaknessKind,
};
use crate::finding::{Diagnosis, Finding, State};

fn program(path: &str) -> Program {
    Program { path: path.to_owned(), version: Some("0.5.0".to_owned()) }
}

fn typed(command: &str) -> Remedy {
    Remedy { command: Some(command.to_owned()), remark: None }
}

fn good_helper() -> HelperFacts {
    HelperFacts {
        places: vec!["/usr/libexec/cabane/cabane-mount".to_owned()],
        installed: Some(Installed {
            path: "/usr/libexec/cabane/cabane-mount".to_owned(),
            owner: 0,
            mode: 0o4755,
            without_set_uid: None,
        }),
        policy: good_policy(),
        unavailable: None,
        state_directory: None,
        started: Some(Ok(())),
    }
}

fn good_policy() -> PolicyFacts {
    PolicyFacts::Good {
        mount_points: vec![
            ("/user-environment".to_owned(), None),
            ("/user-tools".to_owned(), None),
        ],
        owners: Some(vec![0]),
        fuse_images: true,
        verified: VerifiedFacts::default(),
        images_per_user: 16,
        idle_seconds: 600,
        root_images: true,
        absent_binds: Vec::new(),
    }
}

/// A machine with everything, seen by an ordinary user.
fn right() -> Facts {
    Facts {
        process: Process { user: 1000, in_first_user_namespace: true, ..Process::default() },
        as_root: None,
        helper: Ok(good_helper()),
        helper_remedies: HelperRemedies {
            missing: typed("install it"),
            broken: typed("install it again"),
        },
        user_namespaces: UserNamespaces {
            trial: Trial::Works,
            most: Some(10_000),
            unprivileged: None,
            restricted: None,
        },
        fuse: Ok(Fuse {
            device: Ok(()),
            squashfs: Some(program("/usr/bin/squashfuse_ll")),
            erofs: Some(program("/usr/bin/erofsfuse")),
            squashfs_trial: Trial::Works,
            erofs_trial: Trial::Works,
        }),
        kernel: Ok(Kernel {
            release: "6.12.0".to_owned(),
            new_mount_calls: Has::Yes,
            openat2: Has::Yes,
            squashfs: Has::Yes,
            erofs: Has::Yes,
            loops: Loops { control: true, all: (0..8).collect(), used: Vec::new() },
        }),
        held: Ok(Held::Hidden),
        unpacked: None,
        rendezvous_points: Ok(RendezvousPoints {
            place: Some("/tmp/cabane-1000".to_owned()),
            ..RendezvousPoints::default()
        }),
        configuration: Configuration::default(),
        repositories: Vec::new(),
        search_path: Ok(SearchPath::default()),
        devices: Ok(DeviceFacts::default()),
        tools: Vec::new(),
    }
}

fn as_root() -> Facts {
    Facts {
        process: Process {
            user: 0,
            may_mount: true,
            in_first_user_namespace: true,
            counts_as_root: true,
            ..Process::default()
        },
        as_root: Some(AsRoot {
            squashfs: Trial::Works,
            erofs: Trial::Works,
            erofs_from_file: Trial::Works,
        }),
        held: Ok(Held::Nothing),
        ..right()
    }
}

fn without_helper() -> Facts {
    Facts {
        helper: Ok(HelperFacts {
            places: vec!["/usr/libexec/cabane/cabane-mount".to_owned()],
            unavailable: Some("the helper cabane-mount is not installed".to_owned()),
            ..HelperFacts::default()
        }),
        ..right()
    }
}

fn with_helper(change: impl FnOnce(&mut HelperFacts)) -> Facts {
    let mut helper = good_helper();
    change(&mut helper);
    Facts { helper: Ok(helper), ..right() }
}

fn with_fuse(facts: Facts, change: impl FnOnce(&mut Fuse)) -> Facts {
    let mut fuse = facts.fuse.as_ref().unwrap().clone();
    change(&mut fuse);
    Facts { fuse: Ok(fuse), ..facts }
}

fn with_namespaces(facts: Facts, change: impl FnOnce(&mut UserNamespaces)) -> Facts {
    let mut user_namespaces =
        UserNamespaces { trial: failing(Step::Namespace, 1), ..facts.user_namespaces.clone() };
    change(&mut user_namespaces);
    let facts = with_fuse(facts, |fuse| {
        fuse.squashfs_trial = Trial::NotTried;
        fuse.erofs_trial = Trial::NotTried;
    });
    Facts { user_namespaces, ..facts }
}

fn with_kernel(change: impl FnOnce(&mut Kernel)) -> Facts {
    let mut kernel = right().kernel.as_ref().unwrap().clone();
    change(&mut kernel);
    Facts { kernel: Ok(kernel), ..right() }
}

fn with_repository(facts: Answer<RepositoryFacts>) -> Facts {
    let entry = RepositoryEntry {
        name: "site".to_owned(),
        path: "/shared/repository".to_owned(),
        origin: "/etc/cabane/config.toml".to_owned(),
        is_default: false,
        unusable: None,
        facts: Some(facts),
    };
    Facts { repositories: vec![entry], ..right() }
}

fn usable() -> RepositoryFacts {
    RepositoryFacts::Usable {
        file_system: "lustre".to_owned(),
        writable: true,
        labels: 1,
        images: 1,
        free: 1 << 40,
        leftovers: 0,
        damaged: Vec::new(),
    }
}

fn with_search_path(search_path: SearchPath) -> Facts {
    Facts { search_path: Ok(search_path), ..right() }
}

fn failing(step: Step, errno: i32) -> Trial {
    Trial::Fails(Failure { step, text: "no".to_owned(), errno: Some(errno), hint: None })
}

fn find<'a>(report: &'a Diagnosis, name: &str) -> &'a Finding {
    let found = report.findings.iter().find(|finding| finding.name == name);
    found.unwrap_or_else(|| panic!("no `{name}` in {report:#?}"))
}

/// Returns state and command of one line of the report.
fn verdict(facts: &Facts, name: &str) -> (State, String) {
    let report = judge(facts);
    let finding = find(&report, name);
    (finding.state, finding.command.clone().unwrap_or_default())
}

fn state(facts: &Facts, name: &str) -> State {
    verdict(facts, name).0
}

fn weak(path: &str, kind: WeaknessKind) -> Weakness {
    Weakness { path: path.to_owned(), kind }
}
