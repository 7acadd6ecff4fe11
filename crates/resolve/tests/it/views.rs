// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which views are used, and what they do together.

use std::collections::BTreeMap;

use cabane_resolve::DefaultView;

use crate::support::{World, complaint_of, views_of};

/// Two images, `a` and `b`; both have the views `default` and `modules`.
fn world() -> World {
    let world = World::new();
    world.add("site", "a/1:v1@daint%gh200", 1);
    world.add_with("site", "b/1:v1@daint%gh200", 2, r#""mount": "/user-tools","#);
    world
}

fn views(uenvs: &str, views: &str) -> Vec<String> {
    views_of(&world().assemble(uenvs, views).unwrap())
}

#[test]
fn without_a_view_the_default_of_each_image_is_used() {
    assert_eq!(views("b,a", ""), ["0:default", "1:default"]);
}

#[test]
fn without_default_views_none_is_used() {
    assert_eq!(world().assemble_with("a", "", DefaultView::Left).unwrap().views, []);
}

#[test]
fn a_named_view_is_used_in_place_of_the_defaults() {
    assert_eq!(views("a,b", "only2"), ["1:only2"]);
}

#[test]
fn views_take_effect_in_the_order_in_which_they_are_named() {
    assert_eq!(views("a,b", "b:default,only1,a:modules"), ["1:default", "0:only1", "0:modules"]);
}

#[test]
fn a_view_takes_effect_once() {
    assert_eq!(views("a", "default,modules,a:default"), ["0:default", "0:modules"]);
}

#[test]
fn patches_are_merged_in_the_order_of_the_views() {
    let environment = world().assemble("a,b", "only2,a:modules,only1").unwrap();
    let variables = environment.patch.apply(&BTreeMap::new());
    assert_eq!(variables["ORDER".as_ref() as &std::ffi::OsStr], "2-only2:1-modules:1-only1");
}

#[test]
fn a_view_of_several_images_must_be_qualified() {
    assert_eq!(
        complaint_of(world().assemble("a,b", "modules")),
        "error: several images have a view `modules`\n\
         hint: write `a:modules` or `b:modules`"
    );
}

#[test]
fn a_view_that_does_not_exist_is_answered_with_those_that_do() {
    assert_eq!(
        complaint_of(world().assemble("a,b", "modlues")),
        "error: there is no view `modlues`: `a` has `default`, `modules`, `only1`, \
         `b` has `default`, `modules`, `only2`\n\
         hint: did you mean `modules`?"
    );
}

#[test]
fn a_view_of_another_image_is_not_taken_for_one_of_this() {
    assert_eq!(
        complaint_of(world().assemble("a,b", "a:only2")),
        "error: there is no view `a:only2`: `a` has `default`, `modules`, `only1`\n\
         hint: did you mean `b:only2`?"
    );
}

#[test]
fn a_qualified_view_is_corrected_with_its_image() {
    let complaint = complaint_of(world().assemble("a,b", "a:onyl1"));
    assert!(complaint.ends_with("hint: did you mean `a:only1`?"), "{complaint}");
}

#[test]
fn a_view_of_an_image_that_is_not_there_is_an_error() {
    assert_eq!(
        complaint_of(world().assemble("a,b", "c:default")),
        "error: no image is called `c`\n\
         hint: the images are `a`, `b`"
    );
}

#[test]
fn of_one_image_at_two_places_the_view_is_that_of_the_right_place() {
    assert_eq!(views("a:/mnt,a", "modules"), ["1:modules"]);
}

/// Two versions of one image, both built for `/user-environment`.
fn two_versions() -> World {
    let world = World::new();
    world.add("site", "a/1:v1@daint%gh200", 1);
    world.add("site", "a/2:v1@daint%gh200", 2);
    world
}

#[test]
fn a_view_of_one_of_two_versions_is_named_by_label_or_mount_point() {
    let environment =
        two_versions().assemble("a/1,a/2:/mnt", "a/2:modules,/user-environment:default");
    assert_eq!(views_of(&environment.unwrap()), ["1:modules", "0:default"]);
}

#[test]
fn two_versions_are_distinguished_by_the_shortest_names() {
    assert_eq!(
        complaint_of(two_versions().assemble("a/1,a/2:/mnt", "a:default")),
        "error: several images have a view `a:default`\n\
         hint: write `a/1:default` or `a/2:default`"
    );
}

#[test]
fn a_mount_point_without_an_image_is_answered_with_those_that_have_one() {
    assert_eq!(
        complaint_of(two_versions().assemble("a/1,a/2:/mnt", "/nowhere:default")),
        "error: no image is mounted at `/nowhere`\n\
         hint: the images are `/user-environment`, `/mnt`"
    );
}

#[test]
fn a_version_that_is_not_mounted_is_answered_with_those_that_are() {
    assert_eq!(
        complaint_of(two_versions().assemble("a/1", "a/2:default")),
        "error: no image that is mounted matches `a/2`\n\
         hint: the images are `a/1:v1@daint%gh200`"
    );
}
