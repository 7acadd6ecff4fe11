// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From the tree of a file to a value without places.

use std::path::Path;

use super::{Yaml, YamlMap};
use crate::diagnostic::Mistakes;
use crate::file;
use crate::language::Language;
use crate::node::{Entry, Kind, Node, Scalar, Value};

impl Yaml {
    /// Reads a file of any shape.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, Mistakes> {
        file::read(path, bytes, Language::Yaml, |_, root| Some(Self::of(root)))
            .map_err(Mistakes::in_the("the recipe"))
    }

    /// Takes a value out of a file.
    ///
    /// Without quotes, `yes` and `no` are truth values, as they are for the
    /// YAML 1.1 in which recipes and systems were written so far.
    pub(crate) fn of(node: &Node) -> Self {
        match &node.value {
            Value::Null => Self::Null,
            Value::Scalar(scalar) => of_scalar(scalar),
            Value::List(items) => Self::List(items.iter().map(|item| Self::of(item)).collect()),
            Value::Section(entries) => Self::Map(YamlMap::of(entries)),
        }
    }
}

impl YamlMap {
    /// Takes keys with their values out of a file.
    pub(crate) fn of(entries: &[Entry]) -> Self {
        entries.iter().map(|entry| (entry.key.as_str(), Yaml::of(&entry.value))).collect()
    }
}

fn of_scalar(scalar: &Scalar) -> Yaml {
    let text = &scalar.text;
    match scalar.kind {
        Kind::Boolean => Yaml::Bool(text.eq_ignore_ascii_case("true")),
        Kind::Integer | Kind::Float => Yaml::Number(text.clone()),
        Kind::Bare => match text.as_str() {
            "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Yaml::Bool(true),
            "no" | "No" | "NO" | "off" | "Off" | "OFF" => Yaml::Bool(false),
            _ => Yaml::Text(text.clone()),
        },
        Kind::Quoted | Kind::Date => Yaml::Text(text.clone()),
    }
}
