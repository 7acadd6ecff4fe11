// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Mount points.

use cabane_label::MountPoint;

fn refused(text: &str) -> String {
    text.parse::<MountPoint>().unwrap_err().to_string()
}

#[test]
fn a_mount_point_has_one_spelling() {
    let mount_point: MountPoint = "//user-environment/./x//".parse().unwrap();
    assert_eq!(mount_point.as_str(), "/user-environment/x");
}

#[test]
fn a_mount_point_is_absolute() {
    assert_eq!(refused("mnt"), "`mnt` is not a mount point: a mount point begins with `/`");
}

#[test]
fn the_root_is_a_mount_point_however_it_is_written() {
    assert!("//.".parse::<MountPoint>().unwrap().is_root());
}

#[test]
fn the_root_is_no_place_below_it() {
    assert_eq!(
        MountPoint::below_root("//.").unwrap_err().to_string(),
        "`//.` is not a mount point: nothing can be mounted at `/`"
    );
}

#[test]
fn a_mount_point_does_not_lead_upwards() {
    let error = "/a/../b".parse::<MountPoint>().unwrap_err();
    assert_eq!(error.pointer(), "/a/../b\n   ^");
}

#[test]
fn a_name_with_two_dots_leads_nowhere() {
    assert_eq!("/a..b/..c".parse::<MountPoint>().unwrap().as_str(), "/a..b/..c");
}

#[test]
fn a_mount_point_holds_nothing_that_separates_elements() {
    assert_eq!(refused("/a,b"), "`/a,b` is not a mount point: a mount point cannot contain `,`");
}

#[test]
fn a_mount_point_does_not_end_with_a_blank() {
    let error = "/mnt /".parse::<MountPoint>().unwrap_err();
    assert_eq!(error.pointer(), "/mnt /\n    ^");
}

#[test]
fn a_control_character_is_refused_and_not_shown() {
    assert_eq!(
        refused("/a\u{1b}[2J"),
        "`/a\\u{1b}[2J` is not a mount point: a mount point cannot contain `\\u{1b}`",
    );
}

#[test]
fn a_mount_point_that_the_kernel_cannot_take_is_refused() {
    let error = "/a".repeat(2048).parse::<MountPoint>().unwrap_err();
    assert_eq!(
        error.kind().to_string(),
        "a mount point has at most 4095 characters, but this has 4096",
    );
}
