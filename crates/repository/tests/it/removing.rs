// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Taking labels and images away.

use std::fs;

use cabane_repository::Error;

use crate::support::{World, assert_tidy, label};

#[test]
fn an_image_goes_with_its_last_label() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    let removed = world.repository.remove(&label("a")).unwrap();
    assert_eq!(
        (removed.images, world.repository.image_path(&digest).exists()),
        (vec![digest], false)
    );
}

#[test]
fn an_image_stays_while_it_has_a_label() {
    let world = World::new();
    world.add("a", 1).unwrap();
    world.add("b", 1).unwrap();
    world.repository.remove(&label("a")).unwrap();
    assert_eq!(world.labels(), [("b".to_owned(), 1)].into());
}

#[test]
fn removing_leaves_nothing_behind() {
    let world = World::new();
    world.add("a", 1).unwrap();
    world.add("b", 2).unwrap();
    world.repository.remove(&label("a")).unwrap();
    assert_tidy(&world.repository);
}

#[test]
fn a_label_that_does_not_exist_cannot_be_removed() {
    let world = World::new();
    let error = world.repository.remove(&label("a")).unwrap_err();
    assert!(
        error.to_string().starts_with("no image has the label `a/1:v1@daint%gh200` in"),
        "{error}"
    );
}

#[test]
fn a_label_whose_image_is_missing_can_be_removed() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    fs::remove_dir_all(world.file("images").join(digest.as_str())).unwrap();
    world.repository.remove(&label("a")).unwrap();
    assert_tidy(&world.repository);
}

#[test]
fn an_image_is_removed_with_all_its_labels() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    world.add("b", 1).unwrap();
    world.add("c", 2).unwrap();
    let removed = world.repository.remove_image(&digest).unwrap();
    assert_eq!((removed.records.len(), world.labels()), (2, [("c".to_owned(), 2)].into()));
}

#[test]
fn an_image_without_a_label_can_be_removed() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    fs::remove_file(world.only_ref()).unwrap();
    world.repository.remove_image(&digest).unwrap();
    assert_tidy(&world.repository);
}

#[test]
fn an_image_that_is_not_there_cannot_be_removed() {
    let world = World::new();
    let error = world.repository.remove_image(&"a".repeat(64).parse().unwrap()).unwrap_err();
    assert!(matches!(error, Error::NoSuchImage { .. }), "{error}");
}

#[test]
fn who_has_the_image_open_can_go_on_reading() {
    use std::io::Read;

    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    let mut image = fs::File::open(world.repository.image_path(&digest)).unwrap();
    world.repository.remove(&label("a")).unwrap();
    let mut bytes = Vec::new();
    assert_eq!(image.read_to_end(&mut bytes).unwrap(), 5000);
}

#[test]
fn a_base_goes_by_force_only_and_its_other_labels_at_any_time() {
    let world = World::new();
    let base = world.add("base", 1).unwrap().record.digest;
    world.add_on("top", 2, &base);
    world.add("other", 1).unwrap();
    world.repository.remove(&label("other")).unwrap();
    let repository = &world.repository;
    for refused in [repository.remove(&label("base")), repository.remove_image(&base)] {
        let error = refused.unwrap_err();
        assert!(
            matches!(&error, Error::IsBase { labels, .. } if *labels == [label("top")]),
            "{error}"
        );
    }
    repository.remove_forced(&label("base")).unwrap();
    assert_eq!(world.labels(), [("top".to_owned(), 2)].into());
}
