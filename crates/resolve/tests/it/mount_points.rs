// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where images are mounted.

use crate::support::{World, complaint_of};

fn world() -> World {
    let world = World::new();
    world.add("site", "a/1:v1@daint%gh200", 1);
    world.add("site", "b/1:v1@daint%gh200", 2);
    world.add_with("site", "tools/1:v1@daint%gh200", 3, r#""mount": "/user-tools","#);
    world
}

fn mount_points(world: &World, uenvs: &str) -> Vec<String> {
    let environment = world.assemble(uenvs, "").unwrap();
    environment.images.iter().map(|image| image.mount_point.to_string()).collect()
}

#[test]
fn an_image_is_mounted_where_its_metadata_say() {
    assert_eq!(mount_points(&world(), "a"), ["/user-environment"]);
}

#[test]
fn images_are_mounted_in_the_order_in_which_they_are_named() {
    assert_eq!(mount_points(&world(), "tools,a"), ["/user-tools", "/user-environment"]);
}

#[test]
fn a_mount_point_that_was_typed_comes_first() {
    assert_eq!(mount_points(&world(), "a:/mnt"), ["/mnt"]);
}

#[test]
fn to_mount_an_image_elsewhere_is_worth_a_warning() {
    assert_eq!(
        world().assemble("a:/mnt", "").unwrap().warnings,
        ["`a` was built for /user-environment and is mounted at /mnt: paths inside may not work"]
    );
}

#[test]
fn to_type_the_mount_point_for_which_an_image_was_built_is_not() {
    assert!(world().assemble("a:/user-environment", "").unwrap().warnings.is_empty());
}

#[test]
fn two_images_cannot_be_mounted_at_one_place() {
    assert_eq!(
        complaint_of(world().assemble("a,b", "")),
        "error: `a` and `b` would both be mounted at /user-environment\n\
         hint: write another place after one of them: `b:/mount/point`"
    );
}

#[test]
fn an_image_cannot_be_named_twice() {
    assert_eq!(
        complaint_of(world().assemble("a,a/1", "")),
        "error: the image `a/1` was named twice"
    );
}

#[test]
fn an_image_can_be_mounted_at_two_places() {
    assert_eq!(mount_points(&world(), "a,a:/mnt"), ["/user-environment", "/mnt"]);
}
