// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `${@VAR@}` in values.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use cabane_view::{Change, EnvPatch, ListOperation};

fn calling() -> BTreeMap<OsString, OsString> {
    [
        ("USER".into(), "ada".into()),
        ("SCRATCH".into(), "/scratch/ada".into()),
        ("TRICK".into(), "${@USER@}".into()),
        ("BYTES".into(), OsStr::from_bytes(b"\xff").into()),
    ]
    .into()
}

fn set_to(text: &str) -> OsString {
    let mut patch = EnvPatch::new();
    patch.push("X", Change::Set(text.to_owned()));
    patch.apply(&calling()).remove(OsStr::new("X")).unwrap()
}

#[test]
fn a_variable_of_the_caller_is_put_in() {
    assert_eq!(set_to("${@SCRATCH@}/work"), "/scratch/ada/work");
}

#[test]
fn a_variable_that_is_not_set_gives_nothing() {
    assert_eq!(set_to("a${@NOTHING@}b"), "ab");
}

#[test]
fn several_variables_can_stand_in_one_value() {
    assert_eq!(set_to("${@USER@}${@USER@}-${@SCRATCH@}"), "adaada-/scratch/ada");
}

#[test]
fn what_was_put_in_is_not_looked_at_again() {
    assert_eq!(set_to("${@TRICK@}"), "${@USER@}");
}

#[test]
fn what_is_not_text_is_put_in_as_it_is() {
    assert_eq!(set_to("${@BYTES@}").as_bytes(), b"\xff");
}

#[test]
fn what_has_no_end_stays() {
    assert_eq!(set_to("a${@USER"), "a${@USER");
}

#[test]
fn what_is_not_a_name_stays() {
    let texts = ["${@@}", "${@1A@}", "${@A B@}", "${@A-B@}", "${@ä@}", "${USER}", "$USER", "@}"];
    assert_eq!(texts.map(set_to), texts.map(OsString::from));
}

#[test]
fn after_what_is_not_a_name_the_rest_is_still_looked_at() {
    assert_eq!(set_to("${@A ${@USER@}"), "${@A ada");
}

#[test]
fn values_come_from_before_the_first_change() {
    let mut patch = EnvPatch::new();
    patch.push("USER", Change::Set("root".to_owned()));
    patch.push("X", Change::Set("${@USER@}".to_owned()));
    assert_eq!(patch.apply(&calling())[OsStr::new("X")], "ada");
}

#[test]
fn elements_of_lists_are_expanded_and_those_of_the_caller_are_not() {
    let values = vec!["${@SCRATCH@}/bin".to_owned(), "${@NOTHING@}".to_owned()];
    let mut patch = EnvPatch::new();
    patch.push("TRICK", Change::List { operation: ListOperation::Prepend, values });
    assert_eq!(patch.apply(&calling())[OsStr::new("TRICK")], "/scratch/ada/bin:${@USER@}");
}
