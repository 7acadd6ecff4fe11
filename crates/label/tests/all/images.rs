// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Descriptions of images, alone and in lists.

use cabane_label::{ImageDescription, UenvDescription, parse_uenv_list};

fn kind(text: &str) -> &'static str {
    match text.parse::<ImageDescription>().unwrap() {
        ImageDescription::Pattern(_) => "pattern",
        ImageDescription::Id(_) => "id",
        ImageDescription::Digest(_) => "digest",
        ImageDescription::Path(_) => "path",
        ImageDescription::Container(_) => "container",
    }
}

/// The image and the mount point of each element.
fn list(text: &str) -> Vec<(String, String)> {
    let mount_point = |uenv: &UenvDescription| match &uenv.mount_point {
        None => String::new(),
        Some(mount_point) => mount_point.to_string(),
    };
    let uenvs = parse_uenv_list(text).unwrap();
    uenvs.iter().map(|uenv| (uenv.image.to_string(), mount_point(uenv))).collect()
}

fn pair(image: &str, mount_point: &str) -> (String, String) {
    (image.to_owned(), mount_point.to_owned())
}

#[test]
fn a_scheme_or_a_kind_makes_a_container() {
    let texts = ["docker://ghcr.io/a/b:1", "ghcr.io#a/b:1", "sif:b", "./b.sif", "oci-archive:b"];
    assert_eq!(texts.map(kind), ["container"; 5]);
}

#[test]
fn sixteen_digits_are_an_id() {
    assert_eq!(kind("0123456789abcdef"), "id");
}

#[test]
fn sixty_four_digits_are_a_digest() {
    assert_eq!(kind(&"a3".repeat(32)), "digest");
}

#[test]
fn fifteen_digits_are_a_name() {
    assert_eq!(kind("0123456789abcde"), "pattern");
}

#[test]
fn sixteen_digits_with_a_version_are_a_name() {
    assert_eq!(kind("0123456789abcdef/1"), "pattern");
}

#[test]
fn a_slash_begins_a_path_and_not_a_version() {
    assert_eq!(kind("/24.11"), "path");
}

#[test]
fn a_dot_begins_a_path() {
    assert_eq!(kind("../a b.squashfs"), "path");
}

#[test]
fn after_a_namespace_a_slash_begins_a_version() {
    assert_eq!(list("build::/24.11"), [pair("build::/24.11", "")]);
}

#[test]
fn what_follows_the_last_colon_and_begins_with_a_slash_is_a_mount_point() {
    assert_eq!(list("prgenv-gnu/24.11:v1:/mnt"), [pair("prgenv-gnu/24.11:v1", "/mnt")]);
}

#[test]
fn a_tag_alone_can_have_a_mount_point() {
    assert_eq!(list(":v1:/mnt"), [pair(":v1", "/mnt")]);
}

#[test]
fn a_path_can_have_a_mount_point() {
    assert_eq!(list("./a.squashfs:/mnt/"), [pair("./a.squashfs", "/mnt")]);
}

#[test]
fn an_id_can_have_a_mount_point() {
    assert_eq!(list("0123456789abcdef:/mnt"), [pair("0123456789abcdef", "/mnt")]);
}

#[test]
fn commas_separate_images() {
    assert_eq!(list("a:/x,/b c.sqfs,@*"), [pair("a", "/x"), pair("/b c.sqfs", ""), pair("@*", "")]);
}

#[test]
fn blanks_around_a_list_and_a_comma_at_its_end_are_tolerated() {
    assert_eq!(list(" a,b,\n"), [pair("a", ""), pair("b", "")]);
}

#[test]
fn a_path_in_a_list_may_end_with_a_blank_unless_it_is_the_last() {
    assert_eq!(list("./a ,./b ,"), [pair("./a ", ""), pair("./b", "")]);
}

#[test]
fn a_digest_with_a_digit_missing_is_a_name_with_a_hint() {
    let image: ImageDescription = "a".repeat(63).parse().unwrap();
    assert_eq!(image.hint().unwrap(), "a digest has 64 digits, and this has 63");
}

#[test]
fn an_id_in_upper_case_is_a_name_with_a_hint() {
    let image: ImageDescription = "0123456789ABCDEF".parse().unwrap();
    assert_eq!(image.hint().unwrap(), "an image id is written in lower case: `0123456789abcdef`");
}

#[test]
fn the_name_of_a_file_is_a_name_with_a_hint() {
    let image: ImageDescription = "tools.squashfs".parse().unwrap();
    assert_eq!(image.hint().unwrap(), "write `./tools.squashfs` for the file of this name");
}

#[test]
fn a_plain_name_has_no_hint() {
    let image: ImageDescription = "prgenv-gnu/24.11".parse().unwrap();
    assert_eq!(image.hint(), None);
}
