// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the owner of a job names is opened by a child that is the owner: the plugin of Slurm,
//! which is root's, waits for a limited time.

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use cabane_mount::Policy;
use cabane_privileged::{Caller, Trust, open_at_place};
use cabane_process::as_user::User;
use cabane_process::open_as::open_as;
use cabane_testkit::time_limit;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::arena::{Arena, in_private_world};
use crate::hostile_files::Attacker;
use crate::limits::Up;

fn owner(arena: &Arena) -> User {
    User { user: arena.user(), group: arena.user(), groups: Vec::new() }
}

#[test]
fn root_does_not_wait_for_what_the_owner_of_a_job_names() {
    in_private_world(|arena| {
        let attacker = Attacker::new(arena);
        let user = owner(arena);
        for operation in ["lookup", "getattr"] {
            let hang = format!("hang={operation}");
            let start = attacker.descriptor(arena.start(), ["fuse", "here", ""], &[&hang]);
            let up = Up::with(&start, "echo up");
            let image = [attacker.place().join("image")];
            let limit = time_limit(Duration::from_secs(1));
            let begin = Instant::now();
            let opened = open_as(&user, &image, limit);
            let time = begin.elapsed();
            attacker.kill_server();
            up.end();
            attacker.unmount();
            let error = opened.map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{operation}: {error}");
            assert!(time < 5 * limit, "{operation}: {time:?}");
        }
    });
}

#[test]
fn to_open_and_close_what_the_owner_of_a_job_names_sends_no_request_to_a_server() {
    in_private_world(|arena| {
        let attacker = Attacker::new(arena);
        let user = owner(arena);
        for operation in ["open", "flush", "release"] {
            let hang = format!("hang={operation}");
            let start = attacker.descriptor(arena.start(), ["fuse", "here", ""], &[&hang]);
            let up = Up::with(&start, "echo up");
            let image = [attacker.place().join("image")];
            let opened = open_as(&user, &image, time_limit(Duration::from_secs(10)));
            let was_opened = opened.is_ok_and(|opened| opened.iter().all(Result::is_ok));
            attacker.kill_server();
            up.end();
            attacker.unmount();
            assert!(was_opened && !attacker.log().contains("hang "), "{operation}");
        }
    });
}

#[test]
fn only_plain_files_of_the_owner_of_a_job_are_opened() {
    in_private_world(|arena| {
        let fifo = arena.world.path("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU | Mode::RWXO, 0).unwrap();
        let (policy, caller) = (Policy::read().unwrap(), Caller::of_thread(arena.user()));
        for path in [fifo, "/dev/null".into(), "/".into()] {
            let named = std::slice::from_ref(&path);
            let limit = time_limit(Duration::from_secs(10));
            let mut opened = open_as(&owner(arena), named, limit).unwrap();
            let place = opened.remove(0).unwrap().file;
            for trust in [Trust::Owner, Trust::Content] {
                let opened = open_at_place(&policy, place.as_fd(), &path, trust, &caller);
                let error = opened.unwrap_err().to_string();
                assert!(error.contains("it is no plain file"), "{path:?}: {error}");
            }
        }
    });
}
