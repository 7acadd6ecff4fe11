// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The tree of values that a file holds, with the place of each.
//!
//! Both languages, YAML and TOML, are read into this one tree. The texts are
//! kept as they are in the file: whether `3.10` is a number or the name of a
//! version is decided by the caller, and nothing is lost before that.

use std::ops::Range;
use std::rc::Rc;

use crate::language::Language;

/// Some bytes of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl From<Range<usize>> for Place {
    fn from(bytes: Range<usize>) -> Self {
        Self { start: bytes.start, end: bytes.end }
    }
}

impl From<Place> for Range<usize> {
    fn from(place: Place) -> Self {
        place.start..place.end
    }
}

/// A value and where it is.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Value,
}

/// What is there. Children are shared, because an alias is its anchor.
#[derive(Debug)]
pub(crate) enum Value {
    /// Nothing, or `null`.
    Null,
    /// One word, one number, one text.
    Scalar(Scalar),
    /// Values in an order.
    List(Vec<Rc<Node>>),
    /// Keys with values, in the order of the file.
    Section(Vec<Entry>),
}

/// The text of a scalar, and what its language takes it for.
#[derive(Debug)]
pub(crate) struct Scalar {
    /// The text, with quotes and escapes resolved.
    pub(crate) text: String,
    pub(crate) kind: Kind,
}

/// What a language takes a scalar for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text between quotes.
    Quoted,
    /// Text without quotes.
    Bare,
    Boolean,
    Integer,
    Float,
    Date,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) value: Rc<Node>,
}

/// What keys with values are called in YAML.
pub(crate) const SECTION: &str = "a section with keys";
/// What they are called in TOML.
pub(crate) const TABLE: &str = "a table";

impl Node {
    /// Says in words what is there.
    pub(crate) fn describe(&self, language: Language) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::List(_) => "a list",
            Value::Section(_) if language == Language::Toml => TABLE,
            Value::Section(_) => SECTION,
            Value::Scalar(scalar) => match scalar.kind {
                Kind::Quoted | Kind::Bare => "text",
                Kind::Boolean => "`true` or `false`",
                Kind::Integer | Kind::Float => "a number",
                Kind::Date => "a date",
            },
        }
    }
}
