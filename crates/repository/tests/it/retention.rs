// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the limits want to go, and what stays all the same.

use std::fs::{self, File};
use std::num::NonZeroU32;
use std::thread::sleep;
use std::time::Duration;

use cabane_repository::{Cleared, Fate, Kept, Limits, Reason, Retention, Verdict};

use crate::support::{World, assert_tidy, label};

const NONE: Limits =
    Limits { older_than: None, keep_last: None, max_size: None, spare: Duration::ZERO };

fn everything() -> Limits {
    Limits { older_than: Some(Duration::ZERO), ..NONE }
}

/// Reaches a verdict, when no other test happens to start a process: until that has become
/// another program, it has all files of this one open.
fn verdict(world: &World, limits: &Limits) -> Retention {
    let is_open = |one: &Verdict| one.fate == Fate::Kept(Kept::InUse);
    for _ in 0..100 {
        let retention = world.repository.retention(limits).unwrap();
        if !retention.labels.iter().any(is_open) {
            return retention;
        }
        sleep(Duration::from_millis(5));
    }
    world.repository.retention(limits).unwrap()
}

fn fates(world: &World, limits: &Limits) -> Vec<(String, Fate)> {
    let retention = verdict(world, limits);
    let fate = |one: &Verdict| (one.label.name.to_string(), one.fate);
    retention.labels.iter().map(fate).collect()
}

fn remove(world: &World, retention: &Retention) -> Cleared {
    let repository = &world.repository;
    repository.remove_excess(retention, &mut |_| ()).unwrap()
}

#[test]
fn without_a_limit_everything_stays() {
    let world = World::new();
    world.add("a", 1).unwrap();
    let kept = Fate::Kept(Kept::WithinLimits);
    assert_eq!(fates(&world, &NONE), [("a".to_owned(), kept)]);
}

#[test]
fn what_was_used_within_the_time_that_is_spared_stays() {
    let world = World::new();
    world.add("a", 1).unwrap();
    let limits = Limits { spare: Duration::from_secs(3600), ..everything() };
    let kept = Fate::Kept(Kept::Recent);
    assert_eq!(fates(&world, &limits), [("a".to_owned(), kept)]);
}

#[test]
fn an_image_that_is_open_stays() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    let _open = File::open(world.repository.image_path(&digest)).unwrap();
    let kept = Fate::Kept(Kept::InUse);
    assert_eq!(fates(&world, &everything()), [("a".to_owned(), kept)]);
}

#[test]
fn an_image_that_is_opened_after_the_verdict_stays() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    let retention = verdict(&world, &everything());
    let _open = File::open(world.repository.image_path(&digest)).unwrap();
    let cleared = remove(&world, &retention);
    assert_eq!(cleared.spared, [(label("a"), Kept::InUse)]);
}

#[test]
fn a_label_that_is_pinned_after_the_verdict_stays() {
    let world = World::new();
    world.add("a", 1).unwrap();
    let retention = verdict(&world, &everything());
    world.repository.pin(&label("a")).unwrap();
    let cleared = remove(&world, &retention);
    assert_eq!(cleared.spared, [(label("a"), Kept::Pinned)]);
}

#[test]
fn a_label_that_was_given_to_another_image_after_the_verdict_stays() {
    let world = World::new();
    world.add("a", 1).unwrap();
    let retention = verdict(&world, &everything());
    world.replace("a", 2).unwrap();
    remove(&world, &retention);
    assert_eq!(world.labels(), [("a".to_owned(), 2)].into());
}

#[test]
fn an_image_goes_with_its_last_label_only() {
    let world = World::new();
    world.add("a", 1).unwrap();
    world.add("b", 1).unwrap();
    world.repository.pin(&label("b")).unwrap();
    let retention = verdict(&world, &everything());
    let cleared = remove(&world, &retention);
    assert_eq!(
        (cleared.removed.images.len(), cleared.bytes, world.labels()),
        (0, 0, [("b".to_owned(), 1)].into())
    );
}

#[test]
fn what_goes_leaves_nothing() {
    let world = World::new();
    world.add("a", 1).unwrap();
    world.add("b", 2).unwrap();
    let retention = verdict(&world, &everything());
    let cleared = remove(&world, &retention);
    assert_eq!((cleared.bytes, retention.bytes_before), (10_000, 10_000));
    assert_tidy(&world.repository);
}

#[test]
fn the_images_that_are_too_much_are_those_not_used_for_longest() {
    let world = World::new();
    for (name, content) in [("a", 1), ("b", 2), ("c", 3)] {
        world.add(name, content).unwrap();
    }
    let limits = Limits { max_size: Some(10_000), ..NONE };
    let (kept, gone) = (Fate::Kept(Kept::WithinLimits), Fate::Removed(Reason::Size));
    let expected = [("a", gone), ("b", kept), ("c", kept)];
    let expected = expected.map(|(name, fate)| (name.to_owned(), fate));
    assert_eq!(fates(&world, &limits), expected);
}

#[test]
fn what_is_among_the_newest_stays_however_old() {
    let world = World::new();
    world.add("a", 1).unwrap();
    let limits = Limits { keep_last: NonZeroU32::new(1), ..everything() };
    let kept = Fate::Kept(Kept::Newest);
    assert_eq!(fates(&world, &limits), [("a".to_owned(), kept)]);
}

#[test]
fn a_pin_outlives_the_image_it_was_for() {
    let world = World::new();
    world.add("a", 1).unwrap();
    world.repository.pin(&label("a")).unwrap();
    world.replace("a", 2).unwrap();
    let kept = Fate::Kept(Kept::Pinned);
    assert_eq!(fates(&world, &everything()), [("a".to_owned(), kept)]);
}

#[test]
fn a_pin_under_the_name_of_another_label_is_refused() {
    let world = World::new();
    world.add("a", 1).unwrap();
    world.repository.pin(&label("a")).unwrap();
    let pin = fs::read_dir(world.file("pins")).unwrap().next().unwrap();
    let text = format!("{}\n", label("b"));
    fs::write(pin.unwrap().path(), text).unwrap();
    assert!(world.repository.retention(&everything()).is_err());
}

#[test]
fn a_base_of_an_image_that_was_added_after_the_verdict_stays() {
    let world = World::new();
    let base = world.add("base", 1).unwrap().record.digest;
    let retention = verdict(&world, &everything());
    world.add_on("top", 2, &base);
    let cleared = remove(&world, &retention);
    assert_eq!(cleared.spared, [(label("base"), Kept::Base)]);
    assert!(world.repository.has_image(&base));
}

#[test]
fn a_base_goes_together_with_the_image_that_needs_it() {
    let world = World::new();
    let base = world.add("base", 1).unwrap().record.digest;
    world.add_on("top", 2, &base);
    let cleared = remove(&world, &verdict(&world, &everything()));
    assert_eq!((cleared.spared, cleared.removed.images.len()), (Vec::new(), 2));
    assert_tidy(&world.repository);
}
