// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Values of any shape: configuration of Spack that is passed on.
//!
//! What a recipe or a system says about packages and modules is Spack's to
//! understand. It is kept as it is, with its keys in their order, so that it
//! can be merged and written again.

mod json;
mod map;
mod read;
mod write;

pub use map::YamlMap;

/// A value of a YAML file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Yaml {
    /// Nothing, or `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as it is written: `3.10` stays `3.10`.
    Number(String),
    /// Text.
    Text(String),
    /// Values in an order.
    List(Vec<Yaml>),
    /// Keys with values.
    Map(YamlMap),
}

impl Yaml {
    /// Makes a list of texts.
    #[must_use]
    pub fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::List(texts.into_iter().map(Self::from).collect())
    }

    /// Makes a map of keys with values.
    #[must_use]
    pub fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Self)>) -> Self {
        Self::Map(entries.into_iter().collect())
    }

    /// Returns the map, if this is one.
    #[must_use]
    pub fn as_map(&self) -> Option<&YamlMap> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the text, if this is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the items, if this is a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Yaml]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns what follows keys, one inside of the other.
    #[must_use]
    pub fn at(&self, keys: &[&str]) -> Option<&Self> {
        keys.iter().try_fold(self, |value, key| value.as_map()?.get(key))
    }
}

impl From<&str> for Yaml {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Yaml {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Yaml {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u32> for Yaml {
    fn from(number: u32) -> Self {
        Self::Number(number.to_string())
    }
}

impl From<Vec<Yaml>> for Yaml {
    fn from(items: Vec<Yaml>) -> Self {
        Self::List(items)
    }
}

impl From<YamlMap> for Yaml {
    fn from(map: YamlMap) -> Self {
        Self::Map(map)
    }
}
