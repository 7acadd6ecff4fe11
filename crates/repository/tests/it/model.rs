// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Random changes, compared with a map from labels to images.

use std::collections::BTreeMap;
use std::fs;

use cabane_repository::{Error, Transfer};
use proptest::prelude::*;

use crate::support::{World, assert_tidy, label};

#[derive(Clone, Debug)]
enum Change {
    Add { name: String, content: u8, replace: bool, how: Transfer },
    Tag { from: String, name: String, replace: bool },
    Remove { name: String },
    RemoveImage { name: String },
    Update,
    CutIndex { share: u64 },
    RemoveIndex,
    KeepIndex,
    RestoreIndex,
}

fn a_name() -> impl Strategy<Value = String> {
    prop_oneof!["a", "b", "c", "d"].prop_map(String::from)
}

fn change() -> impl Strategy<Value = Change> {
    let how = prop_oneof![Just(Transfer::Copy), Just(Transfer::Move)];
    prop_oneof![
        4 => (a_name(), 1..5_u8, any::<bool>(), how)
            .prop_map(|(name, content, replace, how)| Change::Add { name, content, replace, how }),
        2 => (a_name(), a_name(), any::<bool>())
            .prop_map(|(from, name, replace)| Change::Tag { from, name, replace }),
        2 => a_name().prop_map(|name| Change::Remove { name }),
        1 => a_name().prop_map(|name| Change::RemoveImage { name }),
        1 => Just(Change::Update),
        1 => (0..100_u64).prop_map(|share| Change::CutIndex { share }),
        1 => Just(Change::RemoveIndex),
        1 => Just(Change::KeepIndex),
        1 => Just(Change::RestoreIndex),
    ]
}

type Model = BTreeMap<String, u8>;

fn give(model: &mut Model, name: String, content: u8, replace: bool) -> bool {
    let free = replace || model.get(&name).is_none_or(|found| *found == content);
    if free {
        model.insert(name, content);
    }
    free
}

fn apply(world: &World, model: &mut Model, kept_index: &mut Vec<u8>, change: Change) {
    let index = world.file("index");
    match change {
        Change::Add { name, content, replace, how } => {
            let outcome = world.add_with(&name, content, |request| {
                request.replace = replace;
                request.how = how;
            });
            let taken = matches!(outcome, Err(Error::LabelTaken { .. }));
            assert!(outcome.is_ok() || taken, "{outcome:?}");
            assert_eq!(!taken, give(model, name, content, replace));
        }
        Change::Tag { from, name, replace } => {
            let record = world.repository.by_label(&label(&from)).unwrap();
            assert_eq!(record.is_some(), model.contains_key(&from));
            if let Some(record) = record {
                let content = model[&from];
                let outcome = world.repository.tag(&record.digest, label(&name), replace);
                assert_eq!(outcome.is_ok(), give(model, name, content, replace));
            }
        }
        Change::Remove { name } => {
            let outcome = world.repository.remove(&label(&name));
            assert_eq!(outcome.is_ok(), model.remove(&name).is_some());
        }
        Change::RemoveImage { name } => {
            if let Some(record) = world.repository.by_label(&label(&name)).unwrap() {
                let content = model[&name];
                world.repository.remove_image(&record.digest).unwrap();
                model.retain(|_, found| *found != content);
            }
        }
        Change::Update => assert!(world.repository.update().unwrap().is_nothing()),
        Change::CutIndex { share } => {
            if let Ok(bytes) = fs::read(&index) {
                let end = bytes.len() * usize::try_from(share).unwrap() / 100;
                fs::write(&index, &bytes[..end]).unwrap();
            }
        }
        Change::RemoveIndex => drop(fs::remove_file(&index)),
        Change::KeepIndex => *kept_index = fs::read(&index).unwrap_or_default(),
        Change::RestoreIndex => fs::write(&index, kept_index).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_repository_behaves_like_a_map(changes in prop::collection::vec(change(), 1..30)) {
        let world = World::new();
        let (mut model, mut kept_index) = (Model::new(), Vec::new());
        for change in changes {
            apply(&world, &mut model, &mut kept_index, change);
            prop_assert_eq!(&world.labels(), &model);
            assert_tidy(&world.repository);
        }
    }
}
