// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! TOML: from text to a tree of values.
//!
//! This is the only module that knows a TOML crate. Tables become sections and
//! arrays lists, with their places; the keys are in the order of the file.

mod explain;

use std::ops::Range;
use std::rc::Rc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::node::{Entry, Kind, Node, Place, Scalar, Value};
use crate::report::Report;

/// Reads a whole file; `None` if it is not TOML.
pub(crate) fn parse(report: &Report<'_>) -> Option<Rc<Node>> {
    match DeTable::parse(report.source.text) {
        Ok(table) => {
            let place = place(table.span());
            Some(Rc::new(Node { place, value: section(table.into_inner()) }))
        }
        Err(error) => {
            explain::explain(report, error.message(), place(error.span().unwrap_or_default()));
            None
        }
    }
}

fn place(span: Range<usize>) -> Place {
    Place { start: span.start, end: span.end }
}

// The parser refuses what is nested more than 80 deep, so that neither this nor
// dropping the tree can exhaust the stack.
fn node(value: Spanned<DeValue<'_>>) -> Rc<Node> {
    let place = place(value.span());
    let scalar = |text: String, kind| Value::Scalar(Scalar { text, kind });
    let value = match value.into_inner() {
        DeValue::String(text) => scalar(text.into_owned(), Kind::Quoted),
        DeValue::Integer(number) if number.radix() == 10 => {
            scalar(number.as_str().to_owned(), Kind::Integer)
        }
        DeValue::Integer(number) => {
            let value = i64::from_str_radix(number.as_str(), number.radix());
            // What does not fit stays as it is, and is refused as a number.
            let text = value.map_or_else(|_| number.as_str().to_owned(), |value| value.to_string());
            scalar(text, Kind::Integer)
        }
        DeValue::Float(number) => scalar(number.as_str().to_owned(), Kind::Float),
        DeValue::Boolean(value) => scalar(value.to_string(), Kind::Boolean),
        DeValue::Datetime(date) => scalar(date.to_string(), Kind::Date),
        DeValue::Array(items) => Value::List(items.into_iter().map(node).collect()),
        DeValue::Table(table) => section(table),
    };
    Rc::new(Node { place, value })
}

fn section(table: DeTable<'_>) -> Value {
    let mut entries: Vec<Entry> = table
        .into_iter()
        .map(|(key, value)| Entry {
            key_place: place(key.span()),
            key: key.into_inner().into_owned(),
            value: node(value),
        })
        .collect();
    entries.sort_by_key(|entry| entry.key_place.start);
    Value::Section(entries)
}
