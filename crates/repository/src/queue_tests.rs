// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Waiting, on file systems with locks and without, on one host and on several.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;
use crate::heartbeat::KeepAlive;

fn layout() -> (tempfile::TempDir, Layout) {
    let place = tempfile::tempdir().unwrap();
    let layout = Layout::new(place.path().to_owned());
    fs::create_dir(layout.tmp()).unwrap();
    (place, layout)
}

fn queue(layout: &Layout, reach: Reach, kernel: char) -> Queue {
    Queue {
        layout: layout.clone(),
        digest: "a".repeat(64).parse().unwrap(),
        reach,
        is_local: false,
        kernel: Some(kernel.to_string().repeat(32)),
        lease: Duration::from_millis(400),
        settle: Duration::from_millis(50),
        seen: HashMap::new(),
        of_uenv: Watch::default(),
    }
}

fn taken(queue: &mut Queue) -> Option<Incoming> {
    match queue.try_take().unwrap() {
        Claim::Taken(incoming) => Some(incoming),
        Claim::Busy => None,
    }
}

/// Waits until the place is there, and returns how long that took.
fn wait(queue: &mut Queue) -> (Incoming, Duration) {
    let started = Instant::now();
    loop {
        if let Some(incoming) = taken(queue) {
            return (incoming, started.elapsed());
        }
        assert!(started.elapsed() < Duration::from_secs(20), "it never comes");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_place_of_one_process_goes_with_it() {
    let (_place, layout) = layout();
    let incoming = taken(&mut queue(&layout, Reach::Nowhere, 'a')).unwrap();
    fs::write(incoming.image(), "abc").unwrap();
    drop(incoming);
    assert_eq!(disk::names(&layout.tmp()).unwrap().len(), 0);
}

#[test]
fn locks_of_one_host_are_not_relied_on_by_another() {
    let (_place, layout) = layout();
    let place = |reach, kernel| {
        let incoming = taken(&mut queue(&layout, reach, kernel)).unwrap();
        incoming.path().to_owned()
    };
    let places = [
        place(Reach::AllHosts, 'a'),
        place(Reach::ThisHost, 'a'),
        place(Reach::ThisHost, 'b'),
        place(Reach::Nowhere, 'b'),
    ];
    let distinct: std::collections::BTreeSet<_> = places.iter().collect();
    assert_eq!(distinct.len(), 4);
}

#[test]
fn while_one_downloads_the_others_wait_however_far_locks_reach() {
    for reach in [Reach::AllHosts, Reach::ThisHost, Reach::Nowhere] {
        let (_place, layout) = layout();
        let one = taken(&mut queue(&layout, reach, 'a')).unwrap();
        let _alive = KeepAlive::every(Duration::from_millis(20), one.path().to_owned());
        let mut other = queue(&layout, reach, 'b');
        let end = Instant::now() + 3 * other.lease;
        while Instant::now() < end {
            assert!(taken(&mut other).is_none(), "{reach:?}");
            sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn who_is_done_is_not_waited_for() {
    for reach in [Reach::AllHosts, Reach::ThisHost, Reach::Nowhere] {
        let (_place, layout) = layout();
        let one = taken(&mut queue(&layout, reach, 'a')).unwrap();
        drop(one);
        let (_, waited) = wait(&mut queue(&layout, reach, 'b'));
        assert!(waited < Duration::from_millis(300), "{reach:?}: {waited:?}");
    }
}

/// Leaves a place as a host leaves it that is gone from one instant to the next.
fn dies(incoming: Incoming) {
    std::mem::forget(incoming);
}

#[test]
fn a_host_that_is_gone_is_waited_for_as_long_as_its_lease_and_no_longer() {
    // Its locks are held for ever, as those of an NFS server are.
    for reach in [Reach::AllHosts, Reach::ThisHost] {
        let (_place, layout) = layout();
        dies(taken(&mut queue(&layout, reach, 'a')).unwrap());
        let mut other = queue(&layout, reach, 'b');
        let lease = other.lease;
        let (_, waited) = wait(&mut other);
        assert!(waited >= lease && waited < 3 * lease, "{reach:?}: {waited:?}");
    }
}

#[test]
fn who_seems_dead_and_is_not_writes_into_a_file_of_its_own() {
    let (_place, layout) = layout();
    let slow = taken(&mut queue(&layout, Reach::AllHosts, 'a')).unwrap();
    let (other, _) = wait(&mut queue(&layout, Reach::AllHosts, 'b'));
    assert_ne!(slow.image(), other.image());
}

#[test]
fn a_line_of_another_kernel_counts_though_its_lock_is_not_seen() {
    let (_place, layout) = layout();
    let mut ours = queue(&layout, Reach::AllHosts, 'a');
    let place = layout.tmp().join(ours.name().unwrap());
    fs::create_dir(&place).unwrap();
    fs::write(place.join("alive"), "downloads 0123 1 5\n").unwrap();
    let (_, waited) = wait(&mut ours);
    assert!(waited >= ours.lease, "{waited:?}");
}

/// Claims the place, and does something else while the claim waits for others to see it.
fn claims_while(queue: &mut Queue, then: impl FnOnce()) -> Claim {
    let own = queue.path(&queue.name().unwrap());
    thread::scope(|scope| {
        let claims = scope.spawn(|| queue.try_take().unwrap());
        while !own.join("alive").exists() {
            sleep(Duration::from_millis(1));
        }
        then();
        claims.join().unwrap()
    })
}

#[test]
fn who_rewrites_its_line_at_this_moment_is_at_work() {
    let (_place, layout) = layout();
    let mut first = queue(&layout, Reach::ThisHost, 'a');
    first.settle = Duration::from_secs(1);
    let place = layout.tmp().join(queue(&layout, Reach::ThisHost, 'b').name().unwrap());
    let claims = claims_while(&mut first, || {
        fs::create_dir(&place).unwrap();
        fs::write(place.join("alive"), "").unwrap();
    });
    assert!(matches!(claims, Claim::Busy));
}

#[test]
fn a_claim_that_is_made_anew_is_not_that_of_a_dead_process() {
    let (_place, layout) = layout();
    let mut ours = queue(&layout, Reach::ThisHost, 'b');
    let place = layout.tmp().join(queue(&layout, Reach::ThisHost, 'a').name().unwrap());
    fs::create_dir(&place).unwrap();
    heartbeat::write(&place, State::Claims);
    assert!(taken(&mut ours).is_none());
    heartbeat::stop(&place);
    drop(taken(&mut ours).unwrap());
    sleep(ours.lease);
    heartbeat::write(&place, State::Claims);
    assert!(taken(&mut ours).is_none());
}

#[test]
fn a_claim_that_is_made_anew_at_this_moment_goes_first_as_it_did_before() {
    let (_place, layout) = layout();
    let mut ours = queue(&layout, Reach::ThisHost, 'b');
    ours.settle = Duration::from_secs(1);
    let place = layout.tmp().join(queue(&layout, Reach::ThisHost, 'a').name().unwrap());
    fs::create_dir(&place).unwrap();
    heartbeat::write(&place, State::Claims);
    assert!(taken(&mut ours).is_none());
    heartbeat::stop(&place);
    let claims = claims_while(&mut ours, || heartbeat::write(&place, State::Claims));
    assert!(matches!(claims, Claim::Busy));
}

#[test]
fn after_a_restart_of_the_host_no_process_is_waited_for_on_its_own_disk() {
    let (_place, layout) = layout();
    let mut ours = queue(&layout, Reach::AllHosts, 'a');
    ours.is_local = true;
    let place = layout.tmp().join(ours.name().unwrap());
    fs::create_dir(&place).unwrap();
    fs::write(place.join("alive"), "downloads 0123 1 5\n").unwrap();
    assert!(taken(&mut ours).is_some());
}

#[test]
fn of_many_that_begin_at_once_on_many_hosts_one_downloads_at_a_time() {
    for reach in [Reach::AllHosts, Reach::ThisHost, Reach::Nowhere] {
        let (_place, layout) = layout();
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for kernel in ['a', 'b', 'c', 'd', 'e'] {
                let (layout, now, most) = (&layout, &now, &most);
                scope.spawn(move || {
                    let mut queue = queue(layout, reach, kernel);
                    queue.settle = Duration::from_millis(600);
                    queue.lease = Duration::from_secs(5);
                    let (incoming, _) = wait(&mut queue);
                    let path = incoming.path().to_owned();
                    let _alive = KeepAlive::every(Duration::from_millis(50), path);
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    sleep(Duration::from_millis(100));
                    now.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(most.into_inner(), 1, "{reach:?}");
    }
}
