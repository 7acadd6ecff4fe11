// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a patch does to variables.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use cabane_view::Change::{self, Set, Unset};
use cabane_view::{EnvPatch, ListOperation};

fn list(operation: ListOperation, values: &[&str]) -> Change {
    Change::List { operation, values: values.iter().map(ToString::to_string).collect() }
}

fn prepend(values: &[&str]) -> Change {
    list(ListOperation::Prepend, values)
}

fn append(values: &[&str]) -> Change {
    list(ListOperation::Append, values)
}

/// What becomes of one variable, `None` meaning that it is not set.
fn result(variable: &str, before: Option<&str>, changes: Vec<Change>) -> Option<String> {
    let mut patch = EnvPatch::new();
    for change in changes {
        patch.push(variable, change);
    }
    let calling: BTreeMap<OsString, OsString> =
        before.map(|value| (variable.into(), value.into())).into_iter().collect();
    let after = patch.apply(&calling);
    after.get(OsStr::new(variable)).map(|value| value.to_str().unwrap().to_owned())
}

#[track_caller]
fn assert_list(before: Option<&str>, changes: Vec<Change>, after: Option<&str>) {
    assert_eq!(result("PATH", before, changes).as_deref(), after);
}

#[test]
fn a_value_that_is_set_replaces_the_one_before() {
    assert_list(Some("/bin"), vec![Set("/x".to_owned())], Some("/x"));
}

#[test]
fn a_variable_that_is_unset_is_gone() {
    assert_list(Some("/bin"), vec![Unset], None);
}

#[test]
fn values_are_prepended_in_their_order() {
    assert_list(Some("/bin"), vec![prepend(&["/a", "/b"])], Some("/a:/b:/bin"));
}

#[test]
fn what_is_prepended_later_stands_first() {
    assert_list(Some("/bin"), vec![prepend(&["/a"]), prepend(&["/b"])], Some("/b:/a:/bin"));
}

#[test]
fn values_are_appended_in_their_order() {
    assert_list(Some("/bin"), vec![append(&["/a", "/b"])], Some("/bin:/a:/b"));
}

#[test]
fn a_list_that_is_set_replaces_the_one_before() {
    assert_list(Some("/bin"), vec![list(ListOperation::Set, &["/a", "/b"])], Some("/a:/b"));
}

#[test]
fn a_list_that_is_not_set_starts_empty() {
    assert_list(None, vec![append(&["/a"])], Some("/a"));
}

#[test]
fn after_a_list_is_unset_it_starts_empty() {
    let unset = list(ListOperation::Unset, &[]);
    assert_list(Some("/bin"), vec![unset, prepend(&["/a"])], Some("/a"));
}

#[test]
fn a_list_that_is_unset_last_is_gone() {
    let unset = list(ListOperation::Unset, &["/ignored"]);
    assert_list(Some("/bin"), vec![prepend(&["/a"]), unset], None);
}

#[test]
fn a_list_set_to_nothing_is_an_empty_text() {
    assert_list(Some("/bin"), vec![list(ListOperation::Set, &[])], Some(""));
}

#[test]
fn the_first_of_equal_elements_stays() {
    assert_list(Some("/bin:/a:/bin"), vec![prepend(&["/a"])], Some("/a:/bin"));
}

#[test]
fn empty_elements_are_dropped() {
    assert_list(Some(":/bin::/usr/bin:"), vec![append(&["", "/a"])], Some("/bin:/usr/bin:/a"));
}

#[test]
fn a_value_with_colons_is_several_elements() {
    assert_list(Some("/b"), vec![prepend(&["/a:/b"])], Some("/a:/b"));
}

#[test]
fn list_operations_work_on_a_value_that_was_set_before() {
    assert_list(None, vec![Set("/a:/b".to_owned()), prepend(&["/c"])], Some("/c:/a:/b"));
}

#[test]
fn an_empty_element_of_manpath_stays() {
    let after = result("MANPATH", Some("/usr/man:"), vec![prepend(&["/a"])]);
    assert_eq!(after.unwrap(), "/a:/usr/man:");
}

#[test]
fn an_empty_manpath_means_the_pages_of_the_system_and_they_stay() {
    let after = result("MANPATH", Some(""), vec![prepend(&["/a"])]);
    assert_eq!(after.unwrap(), "/a:");
}

#[test]
fn a_manpath_that_is_not_set_starts_empty() {
    let after = result("MANPATH", None, vec![prepend(&["/a", ""])]);
    assert_eq!(after.unwrap(), "/a:");
}

#[test]
fn other_variables_stay_byte_for_byte() {
    let odd = OsStr::from_bytes(b"\xff=::\n\x01");
    let calling: BTreeMap<OsString, OsString> = [
        ("BASH_FUNC_module%%".into(), "() {  eval 1\n}".into()),
        ("LIST".into(), "::a:a:".into()),
        (OsStr::from_bytes(b"\xfe").into(), odd.into()),
    ]
    .into();
    let mut patch = EnvPatch::new();
    patch.push("GONE", Unset);
    assert_eq!(patch.apply(&calling), calling);
}

#[test]
fn a_list_keeps_elements_that_are_not_text() {
    let calling = [("PATH".into(), OsStr::from_bytes(b"/\xff:/bin").into())].into();
    let mut patch = EnvPatch::new();
    patch.push("PATH", prepend(&["/a"]));
    assert_eq!(patch.apply(&calling)[OsStr::new("PATH")], OsStr::from_bytes(b"/a:/\xff:/bin"));
}

#[test]
fn a_name_that_no_variable_can_have_has_no_effect() {
    let mut patch = EnvPatch::new();
    for name in ["", "A=B", "A\0"] {
        patch.push(name, Set("x".to_owned()));
    }
    assert_eq!(patch.apply(&BTreeMap::new()), BTreeMap::new());
}

#[test]
fn variables_stand_in_the_order_of_their_first_appearance() {
    let mut patch = EnvPatch::new();
    patch.push("B", Unset);
    let mut later = EnvPatch::new();
    later.push("A", Unset);
    later.push("B", Set("x".to_owned()));
    patch.merge(&later);
    let changes: Vec<_> = patch.iter().collect();
    assert_eq!(changes, [("B", &[Unset, Set("x".to_owned())][..]), ("A", &[Unset][..])]);
}

#[test]
fn hundreds_of_thousands_of_operations_on_one_variable_are_bearable() {
    let mut patch = EnvPatch::new();
    for _ in 0..200_000 {
        patch.push("PATH", prepend(&["/a"]));
        patch.push("PATH", append(&["/b"]));
    }
    let calling = [("PATH".into(), "/bin".into())].into();
    assert_eq!(patch.apply(&calling)[OsStr::new("PATH")], "/a:/bin:/b");
}
