// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Full labels.

use cabane_label::Label;

fn refused(text: &str) -> String {
    text.parse::<Label>().unwrap_err().kind().to_string()
}

#[test]
fn a_label_has_five_parts() {
    let label: Label = "prgenv-gnu/24.11:v1@daint%gh200".parse().unwrap();
    let parts = [
        label.name.as_str(),
        label.version.as_str(),
        label.tag.as_str(),
        label.system.as_str(),
        label.uarch.as_str(),
    ];
    assert_eq!(parts, ["prgenv-gnu", "24.11", "v1", "daint", "gh200"]);
}

#[test]
fn the_first_missing_part_is_named() {
    assert_eq!(refused("cp2k@daint"), "the version is missing");
}

#[test]
fn a_missing_part_is_marked_where_it_would_stand() {
    let error = "cp2k:v1@daint%zen3".parse::<Label>().unwrap_err();
    assert_eq!(error.position(), 4);
}

#[test]
fn a_label_has_no_namespace() {
    assert_eq!(refused("build::a/1:v1@s%u"), "a label has no namespace");
}

#[test]
fn a_label_names_one_system() {
    assert_eq!(refused("a/1:v1@*%u"), "`@*` means every system, but a label names one");
}

#[test]
fn system_and_uarch_may_stand_in_either_order() {
    let label: Label = "a/1:v1%zen3@daint".parse().unwrap();
    assert_eq!(label.to_string(), "a/1:v1@daint%zen3");
}

#[test]
fn labels_are_ordered_by_their_parts() {
    let mut labels: Vec<Label> = ["b/1:v1@s%u", "a/2:v1@s%u", "a/1:v2@s%u", "a/1:v1@s%u"]
        .map(|text| text.parse().unwrap())
        .into();
    labels.sort();
    let texts: Vec<String> = labels.iter().map(Label::to_string).collect();
    assert_eq!(texts, ["a/1:v1@s%u", "a/1:v2@s%u", "a/2:v1@s%u", "b/1:v1@s%u"]);
}

#[test]
fn in_json_a_label_is_a_text() {
    let json = r#""a/1:v1@s%u""#;
    let label: Label = serde_json::from_str(json).unwrap();
    assert_eq!(serde_json::to_string(&label).unwrap(), json);
}

#[test]
fn a_wrong_label_in_json_is_refused_with_the_reason() {
    let error = serde_json::from_str::<Label>(r#""a/1:@s%u""#).unwrap_err().to_string();
    assert!(error.starts_with("`a/1:@s%u` is not a label: the tag is missing after `:`"));
}
