// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images with a root file system of their own.

use crate::support::{World, complaint_of, views_of};

fn world() -> World {
    let world = World::new();
    world.add("site", "stack/1:v1@daint%gh200", 1);
    world.add_with(
        "site",
        "debian/12:v1@daint%gh200",
        2,
        r#""mount": "/", "cabane": {"version": 1, "container": {}},"#,
    );
    world
}

#[test]
fn what_a_root_image_sets_comes_before_what_others_add() {
    let environment = world().assemble("stack,debian", "").unwrap();
    assert_eq!(views_of(&environment), ["1:default", "0:default"]);
}

#[test]
fn a_root_image_keeps_its_default_view_where_one_of_another_is_named() {
    let environment = world().assemble("stack,debian", "stack:modules").unwrap();
    assert_eq!(views_of(&environment), ["1:default", "0:modules"]);
}

#[test]
fn a_view_of_a_root_image_that_is_named_replaces_its_default_one() {
    let environment = world().assemble("stack,debian", "debian:modules").unwrap();
    assert_eq!(views_of(&environment), ["1:modules"]);
}

#[test]
fn a_root_image_at_another_place_is_a_tree_without_views() {
    let environment = world().assemble("debian:/mnt", "").unwrap();
    assert_eq!(views_of(&environment), [""; 0]);
}

#[test]
fn what_is_no_root_file_system_is_not_mounted_at_the_root() {
    assert_eq!(
        complaint_of(world().assemble("stack:/", "")),
        "error: the image `stack` cannot be mounted at `/`: it is no root file system\n\
         hint: write the place after the image: `stack:/user-environment`"
    );
}
