// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Names that occur in many records, kept once.

use std::collections::HashMap;

/// A kind of names has so many at most: who writes a record may invent any. The last one
/// stands for those beyond.
const MOST: usize = 200_000;
const OTHERS: &str = "(others)";
/// A longer name is cut.
const LONGEST: usize = 512;

/// Names by their numbers, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<Box<str>, u32>,
    names: Vec<Box<str>>,
}

impl Names {
    /// Returns the number of a name, which may be a new one.
    pub(crate) fn number(&mut self, name: &str) -> u32 {
        let name = cut(name);
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let name = if self.names.len() < MOST { name } else { OTHERS };
        let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(name.into()).or_insert(next);
        if number == next {
            self.names.push(name.into());
        }
        number
    }

    /// Tells whether a name has occurred.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.numbers.contains_key(name)
    }

    /// Returns a name by its number.
    pub(crate) fn name(&self, number: u32) -> &str {
        let place = usize::try_from(number).ok();
        place.and_then(|place| self.names.get(place)).map_or(OTHERS, AsRef::as_ref)
    }
}

fn cut(name: &str) -> &str {
    if name.len() <= LONGEST {
        return name;
    }
    let end = (0..=LONGEST).rev().find(|end| name.is_char_boundary(*end));
    name.get(..end.unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number_and_those_beyond_the_limit_share_one() {
        let mut names = Names::default();
        assert_eq!(["a", "b", "a"].map(|name| names.number(name)), [0, 1, 0]);
        for number in 2..MOST {
            names.number(&number.to_string());
        }
        let beyond = names.number("beyond");
        assert_eq!(
            (names.number("another"), names.name(beyond), names.name(1)),
            (beyond, OTHERS, "b")
        );
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let mut names = Names::default();
        let number = names.number(&"ä".repeat(LONGEST));
        assert_eq!(names.name(number).len(), LONGEST);
    }
}
