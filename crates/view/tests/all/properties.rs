// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What holds for every patch and every file.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use cabane_view::{Change, EnvPatch, ListOperation, Meta, View, ViewDescription, parse_view_list};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

type Environment = BTreeMap<OsString, OsString>;

const VARIABLE: &str = "A|B|MANPATH";

fn value() -> impl Strategy<Value = String> {
    "([ab:]|\\$\\{@A@\\}|\\$\\{@){0,6}"
}

fn change() -> impl Strategy<Value = Change> {
    let operation = prop_oneof![
        Just(ListOperation::Set),
        Just(ListOperation::Prepend),
        Just(ListOperation::Append),
        Just(ListOperation::Unset),
    ];
    let list = (operation, vec(value(), 0..4))
        .prop_map(|(operation, values)| Change::List { operation, values });
    prop_oneof![1 => value().prop_map(Change::Set), 1 => Just(Change::Unset), 2 => list]
}

fn patch() -> impl Strategy<Value = EnvPatch> {
    vec((VARIABLE, change()), 0..8).prop_map(|changes| {
        let mut patch = EnvPatch::new();
        for (variable, change) in changes {
            patch.push(&variable, change);
        }
        patch
    })
}

fn environment() -> impl Strategy<Value = Environment> {
    let value = vec(prop_oneof![Just(b'a'), Just(b':'), Just(b'$'), Just(0xff)], 0..6);
    let name = prop_oneof![VARIABLE.prop_map(OsString::from), Just(OsString::from("OTHER"))];
    btree_map(name, value.prop_map(OsString::from_vec), 0..4)
}

/// The semantics, written down once more as plainly as possible: one change
/// after the other, each on the whole value.
fn apply_plainly(patch: &EnvPatch, before: Environment, calling: &Environment) -> Environment {
    let mut environment = before;
    for (variable, changes) in patch.iter() {
        for change in changes {
            let before = environment.remove(OsStr::new(variable));
            if let Some(after) = change_plainly(variable, before, change, calling) {
                environment.insert(variable.into(), after);
            }
        }
    }
    environment
}

fn change_plainly(
    variable: &str,
    before: Option<OsString>,
    change: &Change,
    calling: &Environment,
) -> Option<OsString> {
    let a = calling.get(OsStr::new("A")).map_or(&b""[..], |value| value.as_bytes());
    let expand = |text: &String| {
        text.as_bytes().split_inclusive(|&b| b == b'}').fold(Vec::new(), |mut all, piece| {
            match piece.strip_suffix(b"${@A@}") {
                Some(literal) => all.extend([literal, a].concat()),
                None => all.extend(piece),
            }
            all
        })
    };
    let (operation, values) = match change {
        Change::Set(text) => return Some(OsString::from_vec(expand(text))),
        Change::Unset => return None,
        Change::List { operation, values } => (*operation, values),
    };
    let pages_of_the_system = (variable == "MANPATH").then(OsString::new);
    let old = before.or(pages_of_the_system).map(OsString::into_vec).into_iter();
    let new = values.iter().map(expand);
    let texts: Vec<Vec<u8>> = match operation {
        ListOperation::Unset => return None,
        ListOperation::Set => new.collect(),
        ListOperation::Prepend => new.chain(old).collect(),
        ListOperation::Append => old.chain(new).collect(),
    };
    let mut elements: Vec<&[u8]> = Vec::new();
    for element in texts.iter().flat_map(|text| text.split(|&b| b == b':')) {
        let is_kept = !element.is_empty() || variable == "MANPATH";
        if is_kept && !elements.contains(&element) {
            elements.push(element);
        }
    }
    Some(OsString::from_vec(elements.join(&b':')))
}

fn meta_with(patch: EnvPatch) -> Meta {
    let mut meta = Meta::from_json(b"{}").unwrap();
    meta.views.insert("v".parse().unwrap(), View { patch, ..View::default() });
    meta
}

proptest! {
    #[test]
    fn a_patch_does_what_its_changes_do_one_by_one(patch in patch(), calling in environment()) {
        let expected = apply_plainly(&patch, calling.clone(), &calling);
        prop_assert_eq!(patch.apply(&calling), expected);
    }

    #[test]
    fn a_merged_patch_does_what_its_parts_do_one_after_the_other(
        first in patch(), second in patch(), calling in environment(),
    ) {
        let mut merged = first.clone();
        merged.merge(&second);
        let between = apply_plainly(&first, calling.clone(), &calling);
        let expected = apply_plainly(&second, between, &calling);
        prop_assert_eq!(merged.apply(&calling), expected);
    }

    #[test]
    fn what_was_written_has_the_same_effect(patch in patch(), calling in environment()) {
        let written = meta_with(patch.clone()).to_json();
        let read = Meta::from_json(written.as_bytes()).unwrap();
        prop_assert_eq!(read.views["v"].patch.apply(&calling), patch.apply(&calling));
    }

    #[test]
    fn what_was_read_is_written_and_read_again_the_same(patch in patch(), text in ".{0,20}") {
        let mut meta = meta_with(patch);
        meta.name = text.clone();
        meta.description = Some(text);
        let read = Meta::from_json(meta.to_json().as_bytes()).unwrap();
        prop_assert_eq!(Meta::from_json(read.to_json().as_bytes()), Ok(read));
    }

    #[test]
    fn no_file_makes_the_reader_panic(text in "[\\[\\]{}\":,a0\\\\]{0,60}") {
        let _ = Meta::from_json(text.as_bytes());
    }

    #[test]
    fn a_list_of_views_is_read_as_it_is_printed(text in "[ab:, ./@%-]{0,12}") {
        if let Ok(views) = parse_view_list(&text) {
            let texts: Vec<String> = views.iter().map(ViewDescription::to_string).collect();
            prop_assert_eq!(parse_view_list(&texts.join(",")), Ok(views));
        }
    }
}
