// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Keys with values, in their order.

use super::Yaml;

/// Keys with values, in the order in which they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct YamlMap(Vec<(String, Yaml)>);

impl YamlMap {
    /// Makes a map without keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns what follows a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Yaml> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// Returns what follows a key, to change it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Yaml> {
        self.0.iter_mut().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// Puts a value behind a key: in the place of the old one, or at the end.
    pub fn insert(&mut self, key: &str, value: impl Into<Yaml>) {
        let value = value.into();
        match self.get_mut(key) {
            Some(old) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Puts a value behind a key, if there is one.
    pub fn insert_some(&mut self, key: &str, value: Option<impl Into<Yaml>>) {
        if let Some(value) = value {
            self.insert(key, value);
        }
    }

    /// Puts a list or a map behind a key, unless it is empty.
    pub(crate) fn insert_filled(&mut self, key: &str, value: impl Into<Yaml>) {
        match value.into() {
            Yaml::List(items) if items.is_empty() => {}
            Yaml::Map(map) if map.is_empty() => {}
            value => self.insert(key, value),
        }
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: &str) -> Option<Yaml> {
        let at = self.0.iter().position(|(known, _)| known == key)?;
        Some(self.0.remove(at).1)
    }

    /// Puts the keys of another map over those of this one.
    ///
    /// Nothing is merged below the keys: of two values the later is taken whole.
    #[must_use]
    pub fn overlaid(mut self, later: &Self) -> Self {
        for (key, value) in &later.0 {
            self.insert(key, value.clone());
        }
        self
    }

    /// Returns the keys and values in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Yaml)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Returns the keys in their order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }

    /// Tells whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> FromIterator<(&'a str, Yaml)> for YamlMap {
    fn from_iter<T: IntoIterator<Item = (&'a str, Yaml)>>(entries: T) -> Self {
        let mut map = Self::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}
