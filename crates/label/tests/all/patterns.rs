// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Labels with parts missing.

use cabane_label::{Label, LabelDefaults, LabelPattern, NameMatch, SystemPattern};

const LABEL: &str = "prgenv-gnu/24.11:v1@daint%gh200";

fn matches(pattern: &str, how: NameMatch) -> bool {
    let label: Label = LABEL.parse().unwrap();
    pattern.parse::<LabelPattern>().unwrap().matches(&label, how)
}

fn complete(pattern: &str) -> Result<String, String> {
    let defaults = LabelDefaults {
        tag: "v1".parse().unwrap(),
        system: "eiger".parse().unwrap(),
        uarch: "zen2".parse().unwrap(),
    };
    let label = pattern.parse::<LabelPattern>().unwrap().complete(&defaults);
    label.map(|label| label.to_string()).map_err(|error| error.to_string())
}

#[test]
fn every_choice_of_parts_is_a_pattern() {
    let parts = ["ns::", "a", "/1", ":v1", "@s", "%u"];
    for choice in 1..1_u32 << parts.len() {
        let chosen = (0..parts.len()).filter(|i| choice & (1 << i) != 0);
        let text: String = chosen.map(|i| parts[i]).collect();
        assert_eq!(text.parse::<LabelPattern>().unwrap().to_string(), text);
    }
}

#[test]
fn every_part_that_is_given_must_match() {
    let others = ["cp2k", "/24.7", ":v2", "@eiger", "%zen2", "prgenv-gnu:v2", "/24.11%zen2"];
    assert!(others.iter().all(|pattern| !matches(pattern, NameMatch::Exact)));
}

#[test]
fn parts_that_are_missing_match_everything() {
    let same = ["prgenv-gnu", "/24.11", ":v1", "@daint", "%gh200", "@*", "x::prgenv-gnu", LABEL];
    assert!(same.iter().all(|pattern| matches(pattern, NameMatch::Exact)));
}

#[test]
fn the_beginning_of_a_name_matches_on_request() {
    assert!(matches("prgenv", NameMatch::Prefix));
}

#[test]
fn the_beginning_of_a_name_is_not_the_name() {
    assert!(!matches("prgenv", NameMatch::Exact));
}

#[test]
fn the_beginning_of_a_version_never_matches() {
    assert!(!matches("prgenv-gnu/24", NameMatch::Prefix));
}

#[test]
fn a_star_is_every_system_and_not_one_of_that_name() {
    let pattern: LabelPattern = "@*".parse().unwrap();
    assert_eq!(pattern.system, Some(SystemPattern::Any));
}

#[test]
fn two_colons_end_a_namespace() {
    let pattern: LabelPattern = "build::cp2k:v1".parse().unwrap();
    assert_eq!(pattern.namespace.unwrap().as_str(), "build");
}

#[test]
fn what_is_missing_comes_from_the_defaults() {
    assert_eq!(complete("cp2k/2024.3%zen3").unwrap(), "cp2k/2024.3:v1@eiger%zen3");
}

#[test]
fn a_new_label_needs_a_version() {
    assert_eq!(
        complete("cp2k").unwrap_err(),
        "`cp2k` does not name an image: the version is missing",
    );
}

#[test]
fn a_new_label_needs_a_name() {
    assert_eq!(complete("/1").unwrap_err(), "`/1` does not name an image: the name is missing");
}

#[test]
fn a_new_label_is_for_one_system() {
    assert_eq!(
        complete("a/1@*").unwrap_err(),
        "`a/1@*` does not name an image: `@*` means every system",
    );
}

#[test]
fn a_new_label_has_no_namespace() {
    assert_eq!(
        complete("build::a/1").unwrap_err(),
        "`build::` is a part of a registry, not of a label",
    );
}

#[test]
fn the_pattern_of_a_label_matches_it() {
    let label: Label = LABEL.parse().unwrap();
    assert!(LabelPattern::from(&label).matches(&label, NameMatch::Exact));
}
