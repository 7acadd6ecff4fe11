// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The names of views, alone and in lists.

use cabane_view::{ViewOwner, parse_view_list};

fn refused(text: &str) -> String {
    let error = parse_view_list(text).unwrap_err();
    format!("{error}\n{}", error.pointer())
}

#[test]
fn a_view_may_say_which_image_it_belongs_to() {
    let views = parse_view_list("prgenv-gnu:default,modules").unwrap();
    let parts: Vec<_> =
        views.iter().map(|v| (v.uenv.as_ref().map(ToString::to_string), v.view.as_str())).collect();
    assert_eq!(parts, [(Some("prgenv-gnu".to_owned()), "default"), (None, "modules")]);
}

#[test]
fn the_image_of_a_view_may_be_named_by_its_label_or_its_mount_point() {
    let views = parse_view_list("app/1.0:v1@here%zen2:a,app/1.0:b,/mnt/app:c").unwrap();
    let owners: Vec<_> = views.into_iter().map(|view| view.uenv.unwrap()).collect();
    assert_eq!(
        owners,
        [
            ViewOwner::Label(Box::new("app/1.0:v1@here%zen2".parse().unwrap())),
            ViewOwner::Label(Box::new("app/1.0".parse().unwrap())),
            ViewOwner::MountPoint("/mnt/app".parse().unwrap()),
        ]
    );
}

#[test]
fn a_colon_promises_a_view() {
    assert_eq!(
        refused("a,prgenv-gnu:"),
        "`prgenv-gnu:` is not a view: the view is missing after `:`\na,prgenv-gnu:\n             ^",
    );
}

#[test]
fn a_colon_needs_an_image_before_it() {
    assert_eq!(
        refused(":default"),
        "`:default` is not a view: the uenv is missing before `:`\n:default\n^",
    );
}

#[test]
fn what_is_wrong_with_the_image_of_a_view_is_pointed_at() {
    assert_eq!(
        refused("a,b:c:d:e"),
        "`b:c:d` is not a label: the tag is given twice\na,b:c:d:e\n     ^",
    );
}

#[test]
fn a_list_of_views_has_no_empty_elements() {
    assert_eq!(
        refused("a,,b"),
        "`a,,b` is not a list of views: the view is missing before `,`\na,,b\n  ^",
    );
}

#[test]
fn what_is_printed_is_what_was_typed() {
    let views = parse_view_list("a:b,c").unwrap();
    let texts: Vec<String> = views.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["a:b", "c"]);
}
