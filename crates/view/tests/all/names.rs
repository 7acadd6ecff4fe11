// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The names of views, alone and in lists.

use cabane_view::parse_view_list;

fn refused(text: &str) -> String {
    let error = parse_view_list(text).unwrap_err();
    format!("{error}\n{}", error.pointer())
}

#[test]
fn a_view_may_say_which_image_it_belongs_to() {
    let views = parse_view_list("prgenv-gnu:default,modules").unwrap();
    let parts: Vec<_> = views
        .iter()
        .map(|v| (v.uenv.as_deref(), v.view.as_str()))
        .collect();
    assert_eq!(parts, [(Some("prgenv-gnu"), "default"), (None, "modules")]);
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
fn a_view_has_one_colon_at_most() {
    assert_eq!(
        refused("a:b:c"),
        "`b:c` is not the name of a view: the name of a view cannot contain `:`\na:b:c\n   ^",
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
