// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Several writers and readers at once, in one process and in several.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cabane_repository::{Error, Repository};

use crate::support::{
    World, again, assert_tidy, image_in, inside, label, labels, meta_in, request, this_program,
};

/// Puts a link that leads to itself in the place of the lock, so that no one can have it.
fn without_lock(world: &World) {
    let lock = world.file("tmp/.lock");
    std::fs::remove_file(&lock).unwrap();
    std::os::unix::fs::symlink(".lock", &lock).unwrap();
}

#[test]
fn of_two_threads_that_add_under_one_label_one_wins() {
    let world = World::new();
    for _ in 0..30 {
        let won: Vec<bool> = thread::scope(|scope| {
            let adders = [1, 2].map(|content| {
                let world = &world;
                scope.spawn(move || world.add("a", content).is_ok())
            });
            adders.map(|adder| adder.join().unwrap()).into()
        });
        assert_eq!(won.iter().filter(|won| **won).count(), 1);
        assert_tidy(&world.repository);
        world.repository.remove(&label("a")).unwrap();
    }
}

#[test]
fn of_two_processes_that_add_under_one_label_one_wins() {
    const TEST: &str = "racing::of_two_processes_that_add_under_one_label_one_wins";
    if let Some(message) = inside() {
        let (content, place) = message.split_once(' ').unwrap();
        let place = Path::new(place);
        let repository = Repository::open(&place.join("repository")).unwrap();
        let image = image_in(place, content.parse().unwrap());
        repository.add(&request("a", &image, &meta_in(place))).unwrap();
        return;
    }
    let world = World::new();
    let place = world.place.path().to_str().unwrap();
    for _ in 0..10 {
        let adders = [1, 2].map(|content| {
            let mut adder = again(&mut this_program(), TEST, &format!("{content} {place}"));
            adder.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
            adder.spawn().unwrap()
        });
        let won = adders.map(|mut adder| adder.wait().unwrap().success());
        assert_eq!(won.iter().filter(|won| **won).count(), 1);
        assert_tidy(&world.repository);
        world.repository.remove(&label("a")).unwrap();
    }
}

/// Adds and removes the same image under two labels at once, and checks after each round.
fn add_while_removing(world: &World) {
    for round in 0..200 {
        world.add("a", 1).unwrap();
        let (added, removed) = thread::scope(|scope| {
            let adder = scope.spawn(|| world.add("b", 1));
            let remover = scope.spawn(|| world.repository.remove(&label("a")));
            (adder.join().unwrap(), remover.join().unwrap())
        });
        removed.unwrap();
        added.unwrap();
        assert_eq!(world.labels(), [("b".to_owned(), 1)].into(), "round {round}");
        world.repository.remove(&label("b")).unwrap();
    }
}

#[test]
fn an_image_that_is_added_while_it_is_removed_is_there() {
    let world = World::new();
    add_while_removing(&world);
    assert_tidy(&world.repository);
}

#[test]
fn an_image_that_is_added_while_it_is_removed_is_there_without_a_lock() {
    let world = World::new();
    without_lock(&world);
    add_while_removing(&world);
    assert_eq!(world.repository.status(true).unwrap().damaged, Vec::new());
}

#[test]
fn an_image_that_is_tagged_while_it_is_removed_is_there_or_the_label_is_not() {
    let world = World::new();
    without_lock(&world);
    for round in 0..200 {
        let digest = world.add("a", 1).unwrap().record.digest;
        let tagged = thread::scope(|scope| {
            let tagger = scope.spawn(|| world.repository.tag(&digest, label("b"), false));
            world.repository.remove(&label("a")).unwrap();
            tagger.join().unwrap()
        });
        let expected: BTreeMap<String, u8> = match tagged {
            Ok(_) => [("b".to_owned(), 1)].into(),
            Err(Error::RemovedMeanwhile { .. } | Error::NoSuchImage { .. }) => BTreeMap::new(),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(world.labels(), expected, "round {round}");
        drop(world.repository.remove(&label("b")));
        assert_eq!(world.repository.status(true).unwrap().damaged, Vec::new());
    }
}

#[test]
fn two_writers_that_replace_one_label_leave_one_image_without_a_lock() {
    let world = World::new();
    without_lock(&world);
    for round in 0..100 {
        thread::scope(|scope| {
            for content in [1, 2] {
                let world = &world;
                scope.spawn(move || world.replace("a", content).unwrap());
            }
        });
        assert_eq!(world.labels().len(), 1, "round {round}");
        assert_eq!(world.repository.status(true).unwrap().damaged, Vec::new());
    }
}

#[test]
fn many_writers_at_once_all_succeed() {
    let world = World::new();
    thread::scope(|scope| {
        for writer in 0..8_u8 {
            let world = &world;
            scope.spawn(move || {
                for round in 0..10 {
                    let name = format!("writer{writer}");
                    world.replace(&name, 1 + (writer + round) % 4).unwrap();
                }
            });
        }
    });
    assert_eq!(world.labels().len(), 8);
    assert_tidy(&world.repository);
}

/// Lists again and again while another thread gives the label `a` to other images.
fn read_while_replacing(world: &World, others: usize) {
    world.add("a", 1).unwrap();
    world.add("other", 3).unwrap();
    let digest = world.repository.by_label(&label("other")).unwrap().unwrap().digest;
    for other in 0..others {
        world.repository.tag(&digest, label(&format!("other{other}")), false).unwrap();
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut lists = 0;
            while !done.load(Ordering::Relaxed) {
                let records = world.repository.records().unwrap();
                assert!(records.iter().any(|one| one.label == label("a")), "list {lists}");
                assert_eq!(records.len(), others + 2);
                lists += 1;
            }
        });
        for round in 0..150 {
            world.replace("a", 1 + round % 2).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

#[test]
fn a_label_never_vanishes_while_it_is_given_to_another_image() {
    read_while_replacing(&World::new(), 0);
}

#[test]
fn a_label_among_many_never_vanishes_while_it_is_given_to_another_image() {
    read_while_replacing(&World::new(), 300);
}

#[test]
fn a_reader_sees_only_complete_images_while_others_write() {
    let world = World::new();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for record in world.repository.records().unwrap() {
                    let path = world.repository.image_path(&record.digest);
                    // It may have been removed since; it may not be incomplete.
                    let size =
                        std::fs::metadata(path).map_or(record.size, |metadata| metadata.len());
                    assert_eq!(size, 5000);
                }
            }
        });
        for round in 0..100 {
            world.replace("a", 1 + round % 3).unwrap();
            world.repository.remove(&label("a")).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(labels(&world.repository), BTreeMap::new());
}
