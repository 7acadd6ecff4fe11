// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that only a group may read.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use cabane_repository::Transfer;

use crate::support::World;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

fn modes_after(how: Transfer, before: u32) -> [u32; 2] {
    let world = World::new();
    fs::set_permissions(world.image(1), Permissions::from_mode(before)).unwrap();
    let added = world.add_with("a", 1, |request| request.how = how).unwrap();
    let image = world.repository.image_path(&added.record.digest);
    [mode(&image), mode(image.parent().unwrap())]
}

#[test]
fn a_copied_image_that_only_a_group_may_read_stays_so() {
    assert_eq!(modes_after(Transfer::Copy, 0o640), [0o640, 0o750]);
}

#[test]
fn a_moved_image_that_only_a_group_may_read_stays_so() {
    assert_eq!(modes_after(Transfer::Move, 0o440), [0o640, 0o750]);
}

#[test]
fn the_group_of_an_image_stays_too() {
    let world = World::new();
    let groups = rustix::process::getgroups().unwrap();
    let own = rustix::process::getegid();
    let other = groups.into_iter().find(|group| *group != own);
    // Root may use any group; someone in no second group has only one to lose.
    let group = match other {
        Some(group) => group.as_raw(),
        None if rustix::process::geteuid().is_root() => 61_235,
        None => own.as_raw(),
    };
    std::os::unix::fs::chown(world.image(1), None, Some(group)).unwrap();
    fs::set_permissions(world.image(1), Permissions::from_mode(0o640)).unwrap();
    let added = world.add("a", 1).unwrap();
    let image = world.repository.image_path(&added.record.digest);
    let groups =
        [image.as_path(), image.parent().unwrap()].map(|path| fs::metadata(path).unwrap().gid());
    assert_eq!(groups, [group, group]);
}

#[test]
fn the_ref_of_an_image_for_a_group_is_for_everybody() {
    let world = World::new();
    fs::set_permissions(world.image(1), Permissions::from_mode(0o640)).unwrap();
    world.add("a", 1).unwrap();
    world.add("b", 2).unwrap();
    let modes: Vec<u32> = fs::read_dir(world.file("refs"))
        .unwrap()
        .map(|entry| mode(&entry.unwrap().path()))
        .collect();
    assert_eq!(modes[0], modes[1]);
}
