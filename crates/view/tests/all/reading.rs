// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is read from an `env.json`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use cabane_view::{Change, ListOperation, Meta};

const META: &str = r#"{
  "name": "app", "description": "the application", "mount": "/user-environment",
  "modules": {"root": "/user-environment/modules"}, "default-view": "app",
  "views": {
    "app": {
      "activate": "/user-environment/env/app/activate.sh", "description": "the main view",
      "root": "/user-environment/env/app", "type": "spack-view",
      "env": {"version": 1, "values": {
        "list": {
          "PATH": [{"op": "prepend", "value": ["/app/bin"]}, {"op": "append", "value": ["/z"]}],
          "PYTHONPATH": [{"op": "unset", "value": []}],
          "BOTH": [{"op": "prepend", "value": ["/first"]}]
        },
        "scalar": {"BOOST_ROOT": null, "CUDA_HOME": "/cuda", "BOTH": "/second"}
      }}
    },
    "empty": {}
  },
  "cabane": {"version": 1, "engine": "python", "new": [],
    "needs": {"interpreter": {"path": "/usr/bin/python3.11", "version": "3.11.2"}, "new": 1}}
}"#;

fn meta() -> Meta {
    Meta::from_json(META.as_bytes()).unwrap()
}

fn changes(variable: &str) -> Vec<Change> {
    let meta = meta();
    let mut changes = meta.views["app"].patch.iter().filter(|(name, _)| *name == variable);
    changes.next().unwrap().1.to_vec()
}

fn list(operation: ListOperation, values: &[&str]) -> Change {
    Change::List { operation, values: values.iter().map(ToString::to_string).collect() }
}

#[test]
fn an_image_says_where_it_must_be_mounted() {
    assert_eq!(meta().mount.unwrap().as_str(), "/user-environment");
}

#[test]
fn an_image_has_a_default_view() {
    assert_eq!(meta().default_view.unwrap().as_str(), "app");
}

#[test]
fn an_image_says_which_interpreter_it_needs() {
    assert_eq!(meta().needs.interpreter.unwrap().path, Path::new("/usr/bin/python3.11"));
}

#[test]
fn operations_stand_in_their_order() {
    let expected =
        [list(ListOperation::Prepend, &["/app/bin"]), list(ListOperation::Append, &["/z"])];
    assert_eq!(changes("PATH"), expected);
}

#[test]
fn a_null_unsets_a_variable() {
    assert_eq!(changes("BOOST_ROOT"), [Change::Unset]);
}

#[test]
fn scalars_come_before_lists() {
    let expected = [Change::Set("/second".to_owned()), list(ListOperation::Prepend, &["/first"])];
    assert_eq!(changes("BOTH"), expected);
}

#[test]
fn the_view_has_its_effect() {
    let calling = [("PATH", "/bin"), ("PYTHONPATH", "/x"), ("BOOST_ROOT", "/y"), ("HOME", "/h")];
    let calling = calling.map(|(name, value)| (name.into(), value.into())).into();
    let after = meta().views["app"].patch.apply(&calling);
    let expected: BTreeMap<_, _> = [
        ("BOTH", "/first:/second"),
        ("CUDA_HOME", "/cuda"),
        ("HOME", "/h"),
        ("PATH", "/app/bin:/bin:/z"),
    ]
    .map(|(name, value)| (OsStr::new(name).to_owned(), OsStr::new(value).to_owned()))
    .into();
    assert_eq!(after, expected);
}

#[test]
fn a_view_without_variables_changes_nothing() {
    assert!(meta().views["empty"].patch.is_empty());
}

#[test]
fn an_image_that_says_nothing_has_no_name() {
    assert_eq!(Meta::from_json(b"{}").unwrap().name, "unnamed");
}

#[test]
fn null_is_the_same_as_nothing() {
    let text = br#"{"name":null,"description":null,"mount":null,"default-view":null,"views":null,
        "cabane":{"engine":null,"needs":{"interpreter":null}}}"#;
    assert_eq!(Meta::from_json(text).unwrap(), Meta::from_json(b"{}").unwrap());
}

#[test]
fn an_unset_needs_no_values() {
    let text = br#"{"views":{"v":{"env":{"values":{"list":{"A":[{"op":"unset"}]}}}}}}"#;
    let meta = Meta::from_json(text).unwrap();
    let (_, changes) = meta.views["v"].patch.iter().next().unwrap();
    assert_eq!(changes, [list(ListOperation::Unset, &[])]);
}

#[test]
fn a_mount_point_with_a_slash_at_its_end_is_the_same() {
    let meta = Meta::from_json(br#"{"mount": "/user-environment/"}"#).unwrap();
    assert_eq!(meta.mount.unwrap().as_str(), "/user-environment");
}
