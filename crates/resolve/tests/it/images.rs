// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which image is meant by a pattern, an id or a digest.

use std::fs;

use crate::support::World;

#[test]
fn a_name_alone_finds_the_only_image_of_that_name() {
    let world = World::new();
    world.add("user", "cp2k/1:v1@daint%gh200", 1);
    assert_eq!(world.label("cp2k"), "cp2k/1:v1@daint%gh200");
}

#[test]
fn the_beginning_of_a_name_is_not_enough() {
    let world = World::new();
    world.add("user", "prgenv-gnu/1:v1@daint%gh200", 1);
    assert_eq!(
        world.complaint("prgenv"),
        "error: no image matches `prgenv`\n\
         cause: searched the repositories `site`, `user` for images built for `@daint`\n\
         hint: did you mean `prgenv-gnu`?"
    );
}

#[test]
fn the_repository_of_high_priority_decides() {
    let world = World::new();
    world.add("user", "a/1:v1@daint%gh200", 1);
    world.add("site", "a/1:v1@daint%gh200", 2);
    assert_eq!(world.locate("a").unwrap().repository.as_deref(), Some("site"));
}

#[test]
fn a_repository_without_a_match_is_passed_over() {
    let world = World::new();
    world.add("user", "a/1:v1@daint%gh200", 1);
    world.add("site", "b/1:v1@daint%gh200", 2);
    assert_eq!(world.locate("a").unwrap().repository.as_deref(), Some("user"));
}

#[test]
fn several_images_are_too_many() {
    let world = World::new();
    world.add("site", "a/1:v1@daint%gh200", 1);
    world.add("site", "a/1:v2@daint%gh200", 2);
    let complaint = world.complaint("a/1");
    let masked: String = complaint
        .lines()
        .map(|line| line.split("  ").take(2).collect::<Vec<_>>().join("  ") + "\n")
        .collect();
    assert_eq!(
        masked,
        "error: `a/1` matches 2 images in the repository `site`:\n  \
         a/1:v1@daint%gh200\n  \
         a/1:v2@daint%gh200\n\
         hint: write a label in full: `a/1:v2@daint%gh200`\n"
    );
}

#[test]
fn candidates_are_shown_with_id_size_and_date() {
    let world = World::new();
    world.add("site", "a/1:v1@daint%gh200", 1);
    world.add("site", "a/1:v2@daint%gh200", 2);
    let complaint = world.complaint("a/1");
    let line = complaint.lines().nth(1).unwrap().to_owned();
    let fields: Vec<usize> = line.trim().split("  ").map(str::len).collect();
    assert_eq!((fields, line.contains("  200 B  20")), (vec![18, 16, 5, 10], true));
}

#[test]
fn several_labels_of_one_image_are_one_image() {
    let world = World::new();
    world.add("site", "a/1:v2@daint%gh200", 1);
    world.add("site", "a/1:v1@daint%gh200", 1);
    assert_eq!(world.label("a/1"), "a/1:v1@daint%gh200");
}

#[test]
fn images_for_other_systems_are_not_taken_by_accident() {
    let world = World::new();
    world.add("site", "a/1:v1@todi%gh200", 1);
    assert_eq!(
        world.complaint("a"),
        "error: no image matches `a`\n\
         cause: searched the repositories `site`, `user` for images built for `@daint`\n\
         hint: it is built for `@todi`: write `a@todi` or `a@*`"
    );
}

#[test]
fn images_for_another_system_can_be_requested() {
    let world = World::new();
    world.add("site", "a/1:v1@todi%gh200", 1);
    assert_eq!(world.label("a@todi"), "a/1:v1@todi%gh200");
}

#[test]
fn images_for_any_system_can_be_requested() {
    let world = World::new();
    world.add("site", "a/1:v1@todi%gh200", 1);
    assert_eq!(world.label("a@*"), "a/1:v1@todi%gh200");
}

#[test]
fn of_several_systems_the_current_one_is_taken() {
    let world = World::new();
    world.add("site", "a/1:v1@todi%gh200", 1);
    world.add("site", "a/1:v1@daint%gh200", 2);
    assert_eq!(world.label("a"), "a/1:v1@daint%gh200");
}

#[test]
fn where_the_system_is_unknown_none_is_preferred() {
    let mut world = World::new();
    world.system = None;
    world.add("site", "a/1:v1@todi%gh200", 1);
    assert_eq!(world.label("a"), "a/1:v1@todi%gh200");
}

#[test]
fn a_version_that_is_not_there_is_answered_with_one_that_is() {
    let world = World::new();
    world.add("site", "a/1:v1@daint%gh200", 1);
    assert!(world.complaint("a/2").ends_with("hint: there is `a/1:v1@daint%gh200`"));
}

#[test]
fn an_image_is_found_by_its_id_in_any_repository() {
    let world = World::new();
    world.add("user", "a/1:v1@todi%gh200", 1);
    let digest = world.locate("a@todi").unwrap().digest.unwrap();
    assert_eq!(world.label(digest.id().as_str()), "a/1:v1@todi%gh200");
}

#[test]
fn an_image_is_found_by_its_digest_in_any_repository() {
    let world = World::new();
    world.add("user", "a/1:v1@todi%gh200", 1);
    let digest = world.locate("a@todi").unwrap().digest.unwrap();
    assert_eq!(world.label(digest.as_str()), "a/1:v1@todi%gh200");
}

#[test]
fn an_id_that_nothing_has_is_not_found() {
    let id = "0123456789abcdef";
    let world = World::new();
    world.add("site", "a/1:v1@daint%gh200", 1);
    assert_eq!(
        world.complaint(id),
        "error: no image matches `0123456789abcdef`\n\
         cause: searched the repositories `site`, `user`\n\
         hint: `cabane image ls` shows all images"
    );
}

#[test]
fn without_any_image_the_hint_is_how_to_add_one() {
    assert_eq!(
        World::new().complaint("a"),
        "error: no image matches `a`: there are no images yet\n\
         cause: searched the repositories `site`, `user` for images built for `@daint`\n\
         hint: `cabane build`, `cabane image pull`, and `cabane import` add images"
    );
}

#[test]
fn a_namespace_belongs_to_a_registry() {
    let world = World::new();
    world.add("site", "a/1:v1@daint%gh200", 1);
    assert_eq!(
        world.complaint("build::a"),
        "error: `build::a` names a namespace of a registry, and repositories have none\n\
         hint: write `a` for the image in a repository"
    );
}

#[test]
fn what_looks_like_a_file_is_answered_with_how_to_name_one() {
    let complaint = World::new().complaint("a.squashfs");
    assert!(complaint.contains("hint: write `./a.squashfs`"), "{complaint}");
}

#[test]
fn a_damaged_image_of_a_repository_is_refused() {
    let world = World::new();
    world.add("site", "a/1:v1@daint%gh200", 1);
    let path = world.locate("a").unwrap().path;
    fs::write(&path, &fs::read(&path).unwrap()[..150]).unwrap();
    let complaint = world.complaint("a");
    assert!(
        complaint.contains("cause: it is cut off: it should have at least 200 bytes and has 150")
            && complaint
                .ends_with("hint: `cabane repo status --verify PLACE/site` finds what is damaged"),
        "{complaint}"
    );
}

#[test]
fn an_image_comes_with_its_metadata() {
    let world = World::new();
    world.add("site", "a/1:v1@daint%gh200", 1);
    assert_eq!(world.locate("a").unwrap().meta.unwrap().views.len(), 3);
}

#[test]
fn labels_that_differ_in_their_micro_architectures_are_builds_of_one_image() {
    let world = World::new();
    world.add("site", "a/1:v1@daint%zen3", 1);
    world.add("site", "a/1:v1@daint%zen2", 2);
    world.add("site", "b/1:v1@daint%zen2", 3);
    world.add("user", "a/1:v1@daint%gh200", 4);
    let found = ["a", "a%zen3", "b"].map(|text| world.builds(text).unwrap());
    let expected = [
        &["a/1:v1@daint%zen2", "a/1:v1@daint%zen3"][..],
        &["a/1:v1@daint%zen3"],
        &["b/1:v1@daint%zen2"],
    ];
    assert_eq!(found, expected);
}

#[test]
fn labels_that_differ_in_more_are_no_builds() {
    let world = World::new();
    world.add("site", "a/1:v1@daint%zen3", 1);
    world.add("site", "a/1:v2@daint%zen2", 2);
    let error = world.builds("a").unwrap_err().to_string();
    assert!(error.starts_with("`a` matches 2 images"), "{error}");
}
