// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Adding images and giving them labels.

use std::error::Error as _;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::Duration;

use cabane_label::NameMatch;
use cabane_repository::{Access, Error, ImageFormat, Repository, Transfer};
use sha2::{Digest as _, Sha256};

use crate::support::{World, assert_tidy, image_bytes, label, names, request};

#[test]
fn an_added_image_is_found_under_its_label() {
    let world = World::new();
    world.add("a", 1).unwrap();
    assert_eq!(world.labels(), [("a".to_owned(), 1)].into());
}

#[test]
fn an_image_is_known_by_its_sha256() {
    let world = World::new();
    let added = world.add("a", 1).unwrap();
    let sum: [u8; 32] = Sha256::digest(image_bytes(1)).into();
    assert_eq!(added.record.digest, cabane_label::Digest::from_bytes(sum));
}

#[test]
fn metadata_are_not_added_to_an_image_that_is_there_without_any() {
    let world = World::new();
    let empty = world.place.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let added = world.repository.add(&request("a", &world.image(1), &empty)).unwrap();
    let (digest, access) = (added.record.digest, Access::AsNewFiles);
    assert!(!world.repository.add_metadata(&digest, &world.meta(), access).unwrap());
    assert!(names(&world.repository.meta_path(&digest)).is_empty());
    assert!(world.repository.by_label(&label("a")).unwrap().unwrap().mount.is_none());
}

#[test]
fn metadata_that_came_before_their_image_are_replaced_by_those_of_the_image() {
    let world = World::new();
    let empty = world.place.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let sum: [u8; 32] = Sha256::digest(image_bytes(1)).into();
    let digest = cabane_label::Digest::from_bytes(sum);
    assert!(world.repository.add_metadata(&digest, &world.meta(), Access::AsNewFiles).unwrap());
    assert!(!names(&world.repository.meta_path(&digest)).is_empty());
    world.repository.add(&request("a", &world.image(1), &empty)).unwrap();
    assert!(names(&world.repository.meta_path(&digest)).is_empty());
}

#[test]
fn a_record_shows_what_the_metadata_say() {
    let world = World::new();
    world.add("a", 1).unwrap();
    let record = world.repository.by_label(&label("a")).unwrap().unwrap();
    assert_eq!(
        (
            record.size,
            record.format,
            record.mount.unwrap().to_string(),
            record.description.unwrap(),
            record.views.len(),
            record.default_view.unwrap().to_string()
        ),
        (
            5000,
            ImageFormat::Squashfs,
            "/user-environment".to_owned(),
            "for tests".to_owned(),
            1,
            "default".to_owned()
        )
    );
}

#[test]
fn an_image_without_metadata_can_be_added() {
    let world = World::new();
    let empty = world.place.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let image = world.image(1);
    let added = world.repository.add(&request("a", &image, &empty)).unwrap();
    assert_eq!(added.record.mount, None);
}

#[test]
fn the_metadata_travel_with_the_image() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    let recipe = world.repository.meta_path(&digest).join("recipe/config.yaml");
    assert_eq!(fs::read_to_string(recipe).unwrap(), "name: a\n");
}

#[test]
fn adding_shows_how_far_it_is() {
    let world = World::new();
    let (image, meta) = (world.image(1), world.meta());
    let mut reported = Vec::new();
    let mut progress = |done, total| reported.push((done, total));
    world.repository.add_with_progress(&request("a", &image, &meta), &mut progress).unwrap();
    assert_eq!(reported, [(5000, 5000)]);
}

#[test]
fn adding_leaves_nothing_but_the_image_and_its_label() {
    let world = World::new();
    world.add("a", 1).unwrap();
    assert_tidy(&world.repository);
}

#[test]
fn a_copied_image_also_stays_where_it_was() {
    let world = World::new();
    world.add("a", 1).unwrap();
    assert_eq!(fs::read(world.image(1)).unwrap(), image_bytes(1));
}

#[test]
fn a_moved_image_is_not_where_it_was() {
    let world = World::new();
    world.add_with("a", 1, |request| request.how = Transfer::Move).unwrap();
    assert!(!world.place.path().join("1.squashfs").exists());
}

#[test]
fn a_moved_image_is_not_copied_on_the_same_file_system() {
    let world = World::new();
    let inode = fs::metadata(world.image(1)).unwrap().ino();
    let added = world.add_with("a", 1, |request| request.how = Transfer::Move).unwrap();
    let path = world.repository.image_path(&added.record.digest);
    assert_eq!(fs::metadata(path).unwrap().ino(), inode);
}

#[test]
fn an_image_is_moved_from_another_file_system() {
    let world = World::new();
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let image = elsewhere.path().join("image");
    fs::write(&image, image_bytes(1)).unwrap();
    let meta = world.meta();
    let mut request = request("a", &image, &meta);
    request.how = Transfer::Move;
    world.repository.add(&request).unwrap();
    assert_eq!((image.exists(), world.labels()), (false, [("a".to_owned(), 1)].into()));
}

#[test]
fn moving_a_link_leaves_the_file_to_which_it_leads() {
    let world = World::new();
    let link = world.place.path().join("link");
    symlink(world.image(1), &link).unwrap();
    let meta = world.meta();
    let mut request = request("a", &link, &meta);
    request.how = Transfer::Move;
    world.repository.add(&request).unwrap();
    assert_eq!((link.is_symlink(), world.image(1).exists()), (false, true));
}

#[test]
fn an_image_of_the_repository_cannot_be_moved_into_it() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    let (image, meta) = (world.repository.image_path(&digest), world.meta());
    let mut request = request("b", &image, &meta);
    request.how = Transfer::Move;
    let error = world.repository.add(&request).unwrap_err();
    let message = "is in the repository already and cannot be moved there";
    assert_eq!(error.to_string(), format!("{} {message}", image.display()));
    let hint = "`cabane image add LABEL IMAGE` gives an image a second label";
    assert_eq!(error.hint().as_deref(), Some(hint));
}

#[test]
fn a_moved_image_gets_the_mode_of_a_new_file() {
    let world = World::new();
    let (secret, new) = (world.image(1), world.image(2));
    fs::set_permissions(secret, fs::Permissions::from_mode(0o600)).unwrap();
    let added = world.add_with("a", 1, |request| request.how = Transfer::Move).unwrap();
    let image = world.repository.image_path(&added.record.digest);
    assert_eq!(fs::metadata(image).unwrap().mode(), fs::metadata(new).unwrap().mode());
}

#[test]
fn what_is_not_an_image_is_refused() {
    let world = World::new();
    let (text, meta) = (world.place.path().join("text"), world.meta());
    fs::write(&text, "hello\n").unwrap();
    let error = world.repository.add(&request("a", &text, &meta)).unwrap_err();
    assert_eq!(error.source().unwrap().to_string(), "it is a text, and neither squashfs nor EROFS");
}

#[test]
fn an_image_that_is_cut_off_is_refused() {
    let world = World::new();
    let (image, meta) = (world.place.path().join("short"), world.meta());
    fs::write(&image, &image_bytes(1)[..4000]).unwrap();
    let error = world.repository.add(&request("a", &image, &meta)).unwrap_err();
    assert_eq!(
        error.source().unwrap().to_string(),
        "it is cut off: it should have at least 5000 bytes and has 4000"
    );
}

#[test]
fn metadata_that_cannot_be_read_are_refused_before_anything_is_copied() {
    let world = World::new();
    let (image, meta) = (world.image(1), world.meta());
    fs::write(meta.join("env.json"), "{").unwrap();
    let error = world.repository.add(&request("a", &image, &meta)).unwrap_err();
    assert!(matches!(error, Error::Meta { .. }), "{error}");
}

#[test]
fn metadata_that_lead_out_leave_nothing_behind() {
    let world = World::new();
    let (image, meta) = (world.image(1), world.meta());
    symlink("/etc/passwd", meta.join("link")).unwrap();
    world.repository.add(&request("a", &image, &meta)).unwrap_err();
    assert_tidy(&world.repository);
}

#[test]
fn a_label_is_not_taken_from_another_image() {
    let world = World::new();
    world.add("a", 1).unwrap();
    let error = world.add("a", 2).unwrap_err();
    assert!(
        error.to_string().starts_with("the label `a/1:v1@daint%gh200` belongs to the image "),
        "{error}"
    );
}

#[test]
fn a_label_that_is_taken_is_noticed_before_anything_is_copied() {
    let world = World::new();
    world.add("a", 1).unwrap();
    let (image, meta) = (world.image(2), world.meta());
    let mut reported = Vec::new();
    let mut progress = |done, total| reported.push((done, total));
    let outcome = world.repository.add_with_progress(&request("a", &image, &meta), &mut progress);
    assert_eq!((outcome.is_err(), reported), (true, Vec::new()));
}

#[test]
fn a_clock_that_was_ahead_does_not_keep_a_label() {
    let world = World::new();
    world.add("a", 1).unwrap();
    let path = world.only_ref();
    let (future, date) = ("2099-01-01T00:00:00Z", "387ec5fc29030000");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    json["date"] = future.into();
    let name = path.file_name().unwrap().to_str().unwrap();
    let name = format!("{}{date}.json", &name[..name.len() - "0123456789abcdef.json".len()]);
    fs::write(path.with_file_name(name), json.to_string()).unwrap();
    fs::remove_file(path).unwrap();
    world.replace("a", 2).unwrap();
    assert_eq!(world.labels(), [("a".to_owned(), 2)].into());
}

#[test]
fn a_refused_image_leaves_nothing_behind() {
    let world = World::new();
    world.add("a", 1).unwrap();
    world.add("a", 2).unwrap_err();
    assert_tidy(&world.repository);
}

#[test]
fn an_image_that_loses_its_label_stays_for_the_grace_and_goes_with_the_next_writer() {
    let mut world = World::new();
    let first = world.add("a", 1).unwrap().record.digest;
    world.repository = world.repository.with_grace(Duration::from_secs(3600));
    let second = world.replace("a", 2).unwrap();
    let during = (second.kept, second.removed, world.labels());
    assert_eq!(during, (Some(first.clone()), vec![], [("a".to_owned(), 2)].into()));
    assert!(
        world.repository.has_image(&first)
            && world.repository.status(true).unwrap().damaged.is_empty()
    );
    world.repository = world.repository.with_grace(Duration::ZERO);
    world.add("b", 3).unwrap();
    assert!(!world.repository.has_image(&first));
    assert_tidy(&world.repository);
}

#[test]
fn a_label_whose_image_is_removed_does_not_go_back_to_an_earlier_one() {
    let mut world = World::new();
    world.repository = world.repository.with_grace(Duration::from_secs(3600));
    world.add("a", 1).unwrap();
    let second = world.replace("a", 2).unwrap().record.digest;
    world.repository.remove_image(&second).unwrap();
    assert_eq!(world.labels(), [].into());
    assert_tidy(&world.repository);
}

#[test]
fn a_label_that_comes_back_to_an_image_keeps_one_ref_of_it() {
    let mut world = World::new();
    world.repository = world.repository.with_grace(Duration::from_secs(3600));
    world.add("a", 1).unwrap();
    world.replace("a", 2).unwrap();
    let third = world.replace("a", 1).unwrap();
    assert_eq!((third.kept, names(&world.file("refs")).len()), (third.replaced, 2));
}

#[test]
fn a_label_is_taken_from_another_image_when_that_is_wanted() {
    let world = World::new();
    let first = world.add("a", 1).unwrap();
    let second = world.replace("a", 2).unwrap();
    assert_eq!(
        (world.labels(), second.replaced, second.removed),
        (
            [("a".to_owned(), 2)].into(),
            Some(first.record.digest.clone()),
            vec![first.record.digest]
        )
    );
}

#[test]
fn an_image_with_another_label_survives_the_loss_of_one() {
    let world = World::new();
    world.add("a", 1).unwrap();
    world.add("b", 1).unwrap();
    world.replace("a", 2).unwrap();
    assert_eq!(world.labels(), [("a".to_owned(), 2), ("b".to_owned(), 1)].into());
}

#[test]
fn adding_the_same_again_changes_nothing() {
    let world = World::new();
    let first = world.add("a", 1).unwrap();
    let second = world.add("a", 1).unwrap();
    assert_eq!((second.unchanged, second.record), (true, first.record));
}

#[test]
fn two_labels_of_one_image_share_its_file() {
    let world = World::new();
    world.add("a", 1).unwrap();
    world.add("b", 1).unwrap();
    assert_eq!(world.repository.status(false).unwrap().images, 1);
}

#[test]
fn an_image_can_get_a_second_label() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    world.repository.tag(&digest, label("b"), false).unwrap();
    assert_eq!(world.labels(), [("a".to_owned(), 1), ("b".to_owned(), 1)].into());
}

#[test]
fn an_image_that_is_not_there_gets_no_label() {
    let world = World::new();
    let digest = "a".repeat(64).parse().unwrap();
    let error = world.repository.tag(&digest, label("b"), false).unwrap_err();
    assert!(matches!(error, Error::NoSuchImage { .. }), "{error}");
}

#[test]
fn a_second_label_is_not_taken_from_another_image() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    world.add("b", 2).unwrap();
    let error = world.repository.tag(&digest, label("b"), false).unwrap_err();
    assert!(matches!(error, Error::LabelTaken { .. }), "{error}");
}

#[test]
fn a_label_too_long_for_a_file_name_can_be_used() {
    let world = World::new();
    let part = "p".repeat(64);
    let long: cabane_label::Label = format!("{part}/{part}:{part}@{part}%{part}").parse().unwrap();
    world.add_with("a", 1, |request| request.label = long.clone()).unwrap();
    assert!(world.repository.by_label(&long).unwrap().is_some());
}

#[test]
fn a_damaged_image_is_replaced_by_a_whole_one() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    fs::write(world.repository.image_path(&digest), "hsqs").unwrap();
    world.add("a", 1).unwrap();
    assert_tidy(&world.repository);
}

#[test]
fn images_are_found_by_id_and_by_digest_under_all_their_labels() {
    let world = World::new();
    let digest = world.add("a", 1).unwrap().record.digest;
    world.add("b", 1).unwrap();
    world.add("c", 2).unwrap();
    let by_id = world.repository.by_id(&digest.id()).unwrap();
    let by_digest = world.repository.by_digest(&digest).unwrap();
    assert_eq!((by_id.len(), by_id), (2, by_digest));
}

#[test]
fn a_pattern_finds_what_begins_with_its_name() {
    let world = World::new();
    for (name, content) in [("prgenv-gnu", 1), ("prgenv-nvidia", 2), ("cp2k", 3)] {
        world.add(name, content).unwrap();
    }
    let found = world.repository.find(&"prgenv".parse().unwrap(), NameMatch::Prefix).unwrap();
    assert_eq!(found.len(), 2);
}

#[test]
fn a_repository_that_may_not_be_written_says_so() {
    let world = World::new();
    let path = world.repository.path().to_owned();
    // Root may write anywhere; a file in the place of the directory stops root as well.
    fs::remove_dir_all(path.join("tmp")).unwrap();
    fs::write(path.join("tmp"), "").unwrap();
    let error = Repository::open(&path).unwrap().add(&request("a", &world.image(1), &world.meta()));
    assert!(error.unwrap_err().to_string().starts_with("cannot write in "));
}
