// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Repositories in which something is not as it should be.

use std::fs;

use cabane_repository::{Corruption, Repository};

use crate::support::{World, assert_tidy, image_bytes, label, names};

/// Returns what is wrong, as texts, without the digests.
fn corruption(world: &World) -> Vec<String> {
    let status = world.repository.status(true).unwrap();
    status.damaged.iter().map(ToString::to_string).collect()
}

#[test]
fn labels_come_back_from_the_index_where_all_refs_are_lost() {
    for lost in ["the directory", "its files"] {
        let world = World::new();
        world.add("a", 1).unwrap();
        world.add("b", 2).unwrap();
        world.add("c", 3).unwrap();
        world.repository.remove(&label("c")).unwrap();
        let before = world.labels();
        fs::remove_dir_all(world.file("refs")).unwrap();
        if lost == "its files" {
            fs::create_dir(world.file("refs")).unwrap();
        }
        let repaired = world.repository.update().unwrap();
        assert_eq!(repaired.rewritten, [label("a"), label("b")], "{lost}");
        assert_eq!(world.labels(), before, "{lost}");
        assert_tidy(&world.repository);
    }
}

#[test]
fn a_label_that_was_removed_does_not_come_back() {
    let world = World::new();
    world.add("a", 1).unwrap();
    let index = fs::read(world.file("index")).unwrap();
    world.repository.remove(&label("a")).unwrap();
    fs::write(world.file("index"), index).unwrap();
    world.repository.update().unwrap();
    assert!(world.labels().is_empty());
}

#[test]
fn an_index_that_is_missing_is_not_missed() {
    let world = World::new();
    world.add("a", 1).unwrap();
    fs::remove_file(world.file("index")).unwrap();
    assert_eq!(world.labels(), [("a".to_owned(), 1)].into());
}

#[test]
fn an_index_that_is_cut_off_is_ignored() {
    let world = World::new();
    world.add("a", 1).unwrap();
    let index = fs::read(world.file("index")).unwrap();
    fs::write(world.file("index"), &index[..index.len() / 2]).unwrap();
    assert_eq!(world.labels(), [("a".to_owned(), 1)].into());
}

#[test]
fn an_index_of_other_bytes_is_ignored() {
    let world = World::new();
    world.add("a", 1).unwrap();
    fs::write(world.file("index"), b"\xff\0not an index").unwrap();
    assert_eq!(world.labels(), [("a".to_owned(), 1)].into());
}

#[test]
fn a_damaged_index_is_written_anew_with_the_next_change() {
    let world = World::new();
    world.add("a", 1).unwrap();
    let index = fs::read(world.file("index")).unwrap();
    fs::write(world.file("index"), "").unwrap();
    world.add("b", 2).unwrap();
    assert!(fs::read(world.file("index")).unwrap().len() > index.len());
}

#[test]
fn an_index_from_an_earlier_time_hides_nothing_and_invents_nothing() {
    let world = World::new();
    world.add("a", 1).unwrap();
    let index = fs::read(world.file("index")).unwrap();
    world.add("b", 2).unwrap();
    world.repository.remove(&label("a")).unwrap();
    fs::write(world.file("index"), index).unwrap();
    assert_eq!(world.labels(), [("b".to_owned(), 2)].into());
}

#[test]
fn an_index_from_an_earlier_time_does_not_bring_an_old_date_back() {
    let world = World::new();
    world.add("a", 1).unwrap();
    let index = fs::read(world.file("index")).unwrap();
    world.repository.remove(&label("a")).unwrap();
    fs::write(world.file("index"), index).unwrap();
    let record = world.add("a", 1).unwrap().record;
    assert_eq!(world.repository.by_label(&label("a")).unwrap(), Some(record));
}

#[test]
fn a_label_whose_image_is_missing_does_not_exist() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    fs::remove_dir_all(world.file("images").join(digest.as_str())).unwrap();
    assert_eq!(world.repository.records().unwrap(), Vec::new());
}

#[test]
fn an_image_without_a_label_hides_no_other() {
    let world = World::new();
    world.add("a", 1).unwrap();
    fs::create_dir(world.file("images").join("f".repeat(64))).unwrap();
    assert_eq!(world.labels(), [("a".to_owned(), 1)].into());
}

#[test]
fn the_status_names_a_missing_image() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    fs::remove_dir_all(world.file("images").join(digest.as_str())).unwrap();
    let id = digest.id();
    let message = format!("the image {id} of the label `a/1:v1@daint%gh200` is missing");
    assert_eq!(corruption(&world), [message]);
}

#[test]
fn the_status_names_an_image_of_another_size() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    fs::write(world.repository.image_path(&digest), "hsqs").unwrap();
    assert_eq!(
        corruption(&world),
        [format!("the image {} has 4 bytes and should have 5000", digest.id())]
    );
}

#[test]
fn only_reading_everything_finds_an_image_of_other_content() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    fs::write(world.repository.image_path(&digest), image_bytes(2)).unwrap();
    let quick = world.repository.status(false).unwrap().damaged;
    let message = format!("the content of the image {} has changed", digest.id());
    assert_eq!((quick, corruption(&world)), (Vec::new(), vec![message]));
}

#[test]
fn the_status_names_an_image_without_a_label() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    fs::remove_file(world.only_ref()).unwrap();
    assert_eq!(corruption(&world), [format!("the image {digest} has no label")]);
}

#[test]
fn the_status_names_a_damaged_ref() {
    let world = World::new();
    world.add("a", 1).unwrap();
    fs::write(world.only_ref(), "{}").unwrap();
    let damaged = world.repository.status(false).unwrap().damaged;
    assert!(matches!(damaged.as_slice(), [Corruption::UnreadableRef { .. }]), "{damaged:?}");
}

#[test]
fn the_status_names_what_does_not_belong_there() {
    let world = World::new();
    fs::write(world.file("refs/notes.txt"), "").unwrap();
    assert_eq!(corruption(&world), ["`refs/notes.txt` does not belong there"]);
}

#[test]
fn the_status_shows_on_which_file_system_the_repository_lies() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let repository = Repository::create(&place.path().join("repository")).unwrap();
    assert_eq!(repository.status(false).unwrap().file_system, "tmpfs");
}

#[test]
fn an_update_writes_a_damaged_ref_anew() {
    let world = World::new();
    world.add("a", 1).unwrap();
    fs::write(world.only_ref(), "{}").unwrap();
    let repaired = world.repository.update().unwrap();
    assert_eq!(
        (repaired.rewritten, world.labels()),
        (vec![label("a")], [("a".to_owned(), 1)].into())
    );
}

#[test]
fn an_update_drops_a_ref_whose_image_is_missing() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    fs::remove_dir_all(world.file("images").join(digest.as_str())).unwrap();
    let repaired = world.repository.update().unwrap();
    assert_eq!((repaired.dropped.len(), names(&world.file("refs")).len()), (1, 0));
}

#[test]
fn an_update_leaves_a_ref_of_a_later_version_alone() {
    let world = World::new();
    world.add("a", 1).unwrap();
    fs::write(world.only_ref(), r#"{"version":2}"#).unwrap();
    world.repository.update().unwrap();
    assert_eq!(fs::read_to_string(world.only_ref()).unwrap(), r#"{"version":2}"#);
}

#[test]
fn an_update_keeps_an_image_without_a_known_label() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    fs::remove_file(world.only_ref()).unwrap();
    // Which knows the label.
    fs::remove_file(world.file("index")).unwrap();
    assert_eq!(world.repository.update().unwrap().without_label, [digest]);
}

#[test]
fn an_update_of_a_repository_in_order_does_nothing() {
    let world = World::new();
    world.add("a", 1).unwrap();
    assert!(world.repository.update().unwrap().is_nothing());
}

#[test]
fn an_update_makes_missing_directories() {
    let world = World::new();
    fs::remove_dir_all(world.file("tmp")).unwrap();
    fs::remove_dir(world.file("images")).unwrap();
    world.repository.update().unwrap();
    assert_tidy(&world.repository);
}

#[test]
fn the_newest_of_two_refs_of_a_label_is_valid() {
    let world = World::new();
    world.add("a", 1).unwrap();
    let old = (world.only_ref(), fs::read(world.only_ref()).unwrap());
    // The old image needs a second label, or it would be gone with its first.
    world.add("b", 1).unwrap();
    world.replace("a", 2).unwrap();
    fs::write(old.0, old.1).unwrap();
    assert_eq!(world.labels(), [("a".to_owned(), 2), ("b".to_owned(), 1)].into());
}

#[test]
fn the_next_writer_removes_the_older_of_two_refs_of_a_label() {
    let world = World::new();
    world.add("a", 1).unwrap();
    let old = (world.only_ref(), fs::read(world.only_ref()).unwrap());
    world.add("b", 1).unwrap();
    world.replace("a", 2).unwrap();
    fs::write(old.0, old.1).unwrap();
    world.add("c", 3).unwrap();
    assert_tidy(&world.repository);
}

/// A process that has ended and that was on this host, as a part of temporary names.
fn dead_owner() -> String {
    let names = rustix::system::uname();
    let host =
        names.nodename().to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let namespace =
        std::os::unix::fs::MetadataExt::ino(&fs::metadata("/proc/self/ns/pid").unwrap());
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    format!("{host}-{namespace:x}-{}-0-0-0", child.id())
}

#[test]
fn an_image_that_a_killed_writer_had_taken_away_comes_back() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    let trash = world.file("tmp").join(format!("trash-{digest}-{}", dead_owner()));
    fs::rename(world.file("images").join(digest.as_str()), trash).unwrap();
    assert_eq!(world.repository.update().unwrap().restored, [digest]);
}

#[test]
fn an_image_that_a_killed_writer_was_removing_is_removed() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    let trash = world.file("tmp").join(format!("trash-{digest}-{}", dead_owner()));
    fs::remove_file(world.only_ref()).unwrap();
    fs::rename(world.file("images").join(digest.as_str()), trash).unwrap();
    world.repository.update().unwrap();
    assert_tidy(&world.repository);
}

#[test]
fn an_image_that_a_killed_writer_left_without_a_label_is_removed() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    let staging = world.file("tmp").join(dead_owner());
    fs::create_dir(&staging).unwrap();
    fs::write(staging.join(format!("orphan-{digest}")), "").unwrap();
    fs::remove_file(world.only_ref()).unwrap();
    assert_eq!(world.repository.update().unwrap().removed, [digest]);
}

#[test]
fn an_image_that_a_killed_writer_left_without_a_label_can_be_given_one() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    let staging = world.file("tmp").join(dead_owner());
    fs::create_dir(&staging).unwrap();
    fs::write(staging.join(format!("orphan-{digest}")), "").unwrap();
    fs::remove_file(world.only_ref()).unwrap();
    world.repository.tag(&digest, label("b"), false).unwrap();
    assert_eq!(world.labels(), [("b".to_owned(), 1)].into());
    assert_tidy(&world.repository);
}

#[test]
fn what_a_writer_on_another_host_is_making_is_left_alone() {
    let world = World::new();
    let now = jiff::Timestamp::now().as_second();
    let staging = world.file("tmp").join(format!("elsewhere-0-1-0-{now}-0"));
    fs::create_dir(&staging).unwrap();
    world.repository.update().unwrap();
    assert!(staging.exists());
}

#[test]
fn what_a_writer_on_another_host_left_days_ago_is_swept() {
    let world = World::new();
    let long_ago = jiff::Timestamp::now().as_second() - 2 * 24 * 60 * 60;
    let staging = world.file("tmp").join(format!("elsewhere-0-1-0-{long_ago}-0"));
    fs::create_dir(&staging).unwrap();
    world.repository.update().unwrap();
    assert_tidy(&world.repository);
}
