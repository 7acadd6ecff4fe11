// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that are named by their path.

use std::fs;

use crate::support::{World, complaint_of, write_image};

fn typed(world: &World, name: &str) -> String {
    world.file(name).to_str().unwrap().to_owned()
}

#[test]
fn an_image_is_found_by_its_path() {
    let world = World::new();
    write_image(&world.file("b.squashfs"));
    let located = world.locate(&typed(&world, "b.squashfs")).unwrap();
    assert_eq!((located.path, located.meta), (world.file("b.squashfs"), None));
}

#[test]
fn a_path_to_nothing_is_an_error() {
    let world = World::new();
    assert_eq!(
        world.complaint(&typed(&world, "b.squashfs")),
        "error: the image PLACE/b.squashfs cannot be read\n\
         cause: No such file or directory (os error 2)"
    );
}

#[test]
fn a_directory_is_not_an_image() {
    let world = World::new();
    fs::create_dir(world.file("tree")).unwrap();
    assert_eq!(
        world.complaint(&typed(&world, "tree")),
        "error: PLACE/tree is a directory, and an image is a file\n\
         hint: `cabane build` makes an image from a recipe"
    );
}

#[test]
fn the_image_in_a_directory_is_pointed_at() {
    let world = World::new();
    fs::create_dir(world.file("tree")).unwrap();
    write_image(&world.file("tree/store.squashfs"));
    let complaint = world.complaint(&typed(&world, "tree"));
    assert!(complaint.ends_with("hint: write `PLACE/tree/store.squashfs` for the image inside"));
}

#[test]
fn a_file_that_is_no_image_is_called_by_its_name() {
    let world = World::new();
    fs::write(world.file("b.squashfs"), b"\x1f\x8b and more").unwrap();
    assert_eq!(
        world.complaint(&typed(&world, "b.squashfs")),
        "error: PLACE/b.squashfs is not a usable image\n\
         cause: it is gzip-compressed data, and neither squashfs nor EROFS"
    );
}

#[test]
fn an_image_without_metadata_needs_a_mount_point() {
    let world = World::new();
    write_image(&world.file("b.squashfs"));
    let complaint = complaint_of(world.assemble(&typed(&world, "b.squashfs"), ""));
    assert_eq!(
        complaint.replace(world.place.path().to_str().unwrap(), "PLACE"),
        "error: the image `PLACE/b.squashfs` does not say where it is to be mounted\n\
         hint: write the place after the image: `PLACE/b.squashfs:/user-environment`"
    );
}

#[test]
fn an_image_without_metadata_is_mounted_at_the_typed_place() {
    let world = World::new();
    write_image(&world.file("b.squashfs"));
    let uenv = format!("{}:/mnt/b", typed(&world, "b.squashfs"));
    let environment = world.assemble(&uenv, "").unwrap();
    let image = &environment.images[0];
    assert_eq!((image.mount_point.as_str(), image.name()), ("/mnt/b", "b"));
}
