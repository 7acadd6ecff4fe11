// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Sections: keys that are given twice, and keys that are merged in.

use std::collections::HashMap;
use std::rc::Rc;

use super::explain::{Stop, no_word_as_key};
use crate::diagnostic::quote;
use crate::language::Language;
use crate::node::{Entry, Kind, Node, Place, Scalar, Value};
use crate::report::Report;

/// A section of which keys and values arrive one after the other.
#[derive(Debug, Default)]
pub(super) struct SectionBuilder {
    entries: Vec<Entry>,
    /// Where each key of the section itself stands.
    places: HashMap<String, Place>,
    /// The key that waits for its value.
    pending: Option<Key>,
    /// What follows `<<`.
    merged: Vec<(Place, Rc<Node>)>,
}

#[derive(Debug)]
struct Key {
    /// Nothing if nothing precedes the colon.
    text: Option<String>,
    place: Place,
    /// `<<` without quotes.
    is_merge: bool,
}

impl Key {
    /// Returns a node as a key, unless it is a list or a section.
    fn of(report: &Report<'_>, node: &Node, place: Place) -> Result<Self, Stop> {
        let (text, is_merge) = match &node.value {
            Value::Scalar(Scalar { text, kind }) => {
                (Some(text.clone()), text == "<<" && *kind == Kind::Bare)
            }
            Value::Null => {
                // `null:` is a word like others; `: value` has no key.
                let written = report.source.text.get(place.start..place.end);
                let text = written.filter(|text| !text.is_empty()).map(str::to_owned);
                if text.is_none() {
                    report.problem(place, "the key before `:` is missing");
                }
                (text, false)
            }
            Value::List(_) | Value::Section(_) => return Err(no_word_as_key(report, place)),
        };
        Ok(Self { text, place, is_merge })
    }
}

impl SectionBuilder {
    pub(super) fn expects_key(&self) -> bool {
        self.pending.is_none()
    }

    /// Takes a key or the value of the key before.
    ///
    /// `place` is where it is written, which for an alias is not where the
    /// node stands.
    pub(super) fn take(
        &mut self,
        report: &Report<'_>,
        node: Rc<Node>,
        place: Place,
    ) -> Result<(), Stop> {
        match self.pending.take() {
            Some(key) => self.take_value(report, key, node),
            None => self.pending = Some(Key::of(report, &node, place)?),
        }
        Ok(())
    }

    fn take_value(&mut self, report: &Report<'_>, key: Key, node: Rc<Node>) {
        // The missing key has been reported.
        let Some(text) = key.text else { return };
        if let Some(first) = self.places.get(&text) {
            let line = report.source.line_number(first.start);
            let message = format!("the key {} is given twice", quote(&text));
            let hint = if key.is_merge {
                "merge several sections with one list: `<<: [*one, *other]`".to_owned()
            } else {
                format!("remove one of the two; the other is in line {line}")
            };
            return report.problem_with_hint(key.place, &message, &hint);
        }
        self.places.insert(text.clone(), key.place);
        if key.is_merge {
            self.merged.push((key.place, node));
        } else {
            self.entries.push(Entry { key: text, key_place: key.place, value: node });
        }
    }

    /// Ends the section: merges what is to be merged.
    ///
    /// A key of the section itself precedes a merged one, and what is
    /// merged first before what is merged later.
    pub(super) fn finish(mut self, report: &Report<'_>) -> Vec<Entry> {
        for (place, node) in std::mem::take(&mut self.merged) {
            let sections: Vec<&Rc<Node>> = match &node.value {
                Value::List(items) => items.iter().collect(),
                _ => vec![&node],
            };
            for section in sections {
                let Value::Section(entries) = &section.value else {
                    let message =
                        format!("`<<` merges sections, not {}", section.describe(Language::Yaml));
                    let hint = "give it an alias of a section: `<<: *name`";
                    report.problem_with_hint(place, &message, hint);
                    continue;
                };
                for entry in entries {
                    if !self.places.contains_key(&entry.key) {
                        self.places.insert(entry.key.clone(), entry.key_place);
                        self.entries.push(entry.clone());
                    }
                }
            }
        }
        self.entries
    }
}
