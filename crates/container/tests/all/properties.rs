// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Any layers in any order give what a simple model gives; any bytes give an error and no
//! panic.

use std::collections::BTreeMap;

use cabane_container::tar::Reader;
use proptest::prelude::*;

use crate::kit::{Entry, What, dir, file, flat, hard, layer, link};

/// What the model knows about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Directory,
    File(String),
    Link,
}

#[derive(Clone, Debug)]
enum Step {
    File(String, u32),
    Directory(String),
    Link(String),
    Hard(String, String),
    Hide(String),
    HideAll(String),
}

fn name() -> impl Strategy<Value = String> {
    let part = prop_oneof![Just("a"), Just("b"), Just("c")];
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (name(), any::<u32>()).prop_map(|(name, text)| Step::File(name, text)),
        2 => name().prop_map(Step::Directory),
        // Nothing is ever put below such a name.
        1 => name().prop_map(|name| Step::Link(format!("{name}-link"))),
        2 => (name(), name()).prop_map(|(name, target)| Step::Hard(name, target)),
        2 => name().prop_map(Step::Hide),
        1 => name().prop_map(Step::HideAll),
    ]
}

fn entry(step: &Step) -> Entry {
    match step {
        Step::File(name, text) => file(name, &text.to_string()),
        Step::Directory(name) => dir(&format!("{name}/")),
        Step::Link(name) => link(name, "../somewhere"),
        Step::Hard(name, target) => hard(name, target),
        Step::Hide(name) => match name.rsplit_once('/') {
            Some((parent, last)) => file(&format!("{parent}/.wh.{last}"), ""),
            None => file(&format!(".wh.{name}"), ""),
        },
        Step::HideAll(name) => file(&format!("{name}/.wh..wh..opq"), ""),
    }
}

type Model = BTreeMap<String, Node>;

fn remove_below(model: &mut Model, name: &str) {
    let start = format!("{name}/");
    model.retain(|path, _| !path.starts_with(&start));
}

fn put(model: &mut Model, name: &str, node: Node) {
    let mut parent = name;
    while let Some((above, _)) = parent.rsplit_once('/') {
        parent = above;
        if model.get(parent) != Some(&Node::Directory) {
            model.insert(parent.to_owned(), Node::Directory);
        }
    }
    if node != Node::Directory {
        remove_below(model, name);
    }
    model.insert(name.to_owned(), node);
}

/// Applies a layer; `None` if a hard link in it cannot be right.
fn apply(model: &mut Model, steps: &[Step]) -> Option<()> {
    for step in steps {
        match step {
            Step::Hide(name) => {
                model.remove(name);
                remove_below(model, name);
            }
            Step::HideAll(name) => remove_below(model, name),
            _ => {}
        }
    }
    for step in steps {
        match step {
            Step::File(name, text) => put(model, name, Node::File(text.to_string())),
            Step::Directory(name) => put(model, name, Node::Directory),
            Step::Link(name) => put(model, name, Node::Link),
            Step::Hard(name, target) => {
                let node = model.get(target).cloned();
                put(model, name, node.filter(|node| *node != Node::Directory)?);
            }
            Step::Hide(_) | Step::HideAll(_) => {}
        }
    }
    Some(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn layers_give_what_the_model_gives(
        layers in prop::collection::vec(prop::collection::vec(step(), 0..12), 1..5)
    ) {
        let mut model = Model::new();
        let is_right = layers.iter().all(|steps| apply(&mut model, steps).is_some());
        prop_assume!(is_right);
        let bytes: Vec<Vec<u8>> = layers
            .iter()
            .map(|steps| layer(&steps.iter().map(entry).collect::<Vec<_>>()))
            .collect();
        let flat = flat(&bytes).map_err(TestCaseError::fail)?;
        let seen: Model = flat
            .entries
            .iter()
            .map(|(name, seen)| {
                let node = match &seen.what {
                    What::Directory => Node::Directory,
                    What::File(text) => Node::File(String::from_utf8_lossy(text).into_owned()),
                    What::Link(_) | What::Other => Node::Link,
                };
                (name.clone(), node)
            })
            .collect();
        prop_assert_eq!(seen, model);
    }
}

proptest! {
    #[test]
    fn whatever_the_bytes_are_reading_comes_to_an_end(
        start in prop::collection::vec(any::<u8>(), 0..2000),
        place in 0..2000_usize,
        with in any::<u8>(),
    ) {
        let mut bytes = layer(&[dir("a/"), file("a/b", "text"), hard("c", "a/b")]);
        if let Some(byte) = bytes.get_mut(place) {
            *byte = with;
        }
        for bytes in [start, bytes] {
            let mut reader = Reader::new(bytes.as_slice());
            let mut count = 0;
            while let Ok(Some(_)) = reader.next_entry() {
                count += 1;
            }
            prop_assert!(count <= bytes.len() / 512);
        }
    }
}
