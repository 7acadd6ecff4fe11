// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Specs as far as they are compared here: a package with its versions and variants.

use std::collections::BTreeMap;

use crate::versions::may_satisfy;

/// What a spec says about one package. Its compilers and what it needs are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SimpleSpec {
    /// The package; empty for a spec that holds for any.
    pub(crate) name: String,
    /// What follows `@`: a version, or several and ranges of them.
    pub(crate) version: String,
    /// Variants that are on or off.
    pub(crate) switches: BTreeMap<String, bool>,
    /// Variants with values.
    pub(crate) values: BTreeMap<String, Vec<String>>,
}

impl SimpleSpec {
    /// Reads a spec, up to what it is built with and what it needs.
    pub(crate) fn read(text: &str) -> Self {
        let mut spec = Self::default();
        let mut rest = text.trim();
        // What precedes a package that is needed: `[virtuals=mpi]`.
        if let Some((_, after)) = rest.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            rest = after.trim_start();
        }
        while let Some(first) = rest.chars().next() {
            rest = match first {
                '%' | '^' | '/' => break,
                '@' => {
                    let (word, after) = split(&rest[1..]);
                    word.clone_into(&mut spec.version);
                    after
                }
                '+' | '~' | '-' => {
                    let (word, after) = split(rest[1..].trim_start_matches(['+', '~']));
                    spec.switches.insert(word.to_owned(), first == '+');
                    after
                }
                _ => spec.word(rest),
            }
            .trim_start();
        }
        spec
    }

    /// Reads a name, or a variant with its value, and returns what follows.
    fn word<'t>(&mut self, rest: &'t str) -> &'t str {
        let (word, after) = split(rest);
        let Some(value) = after.strip_prefix(":=").or_else(|| after.strip_prefix('=')) else {
            if self.name.is_empty() {
                word.clone_into(&mut self.name);
            }
            // A character that belongs to nothing is passed over.
            return if word.is_empty() { skip(after) } else { after };
        };
        let value = value.trim_start_matches('=');
        let quote = value.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let (value, after) = match quote {
            Some(quote) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            None => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
        };
        let values = value.split(',').map(str::to_owned).collect();
        self.values.insert(word.to_owned(), values);
        after
    }

    /// Returns what this spec asks for that an installed package does not have, each with what
    /// that has instead if it says so.
    pub(crate) fn not_in<'a>(
        &'a self,
        installed: &'a Self,
    ) -> impl Iterator<Item = (String, Option<String>)> + 'a {
        let is_other = !self.version.is_empty() && !may_satisfy(&installed.version, &self.version);
        let version = is_other
            .then(|| (format!("@{}", self.version), Some(format!("@{}", installed.version))));
        let switches = self.switches.iter().filter_map(|(name, is_on)| {
            let sign = |is_on: bool| format!("{}{name}", if is_on { '+' } else { '~' });
            let has = installed.switches.get(name).copied();
            (has != Some(*is_on)).then(|| (sign(*is_on), has.map(sign)))
        });
        let values = self.values.iter().filter_map(|(name, wanted)| {
            let has = installed.values.get(name);
            let text = |values: &Vec<String>| format!("{name}={}", values.join(","));
            let is_there = has.is_some_and(|has| wanted.iter().all(|value| has.contains(value)));
            // An installed package that does not name them has any.
            let is_free =
                has.is_none() && matches!(name.as_str(), "target" | "os" | "platform" | "arch");
            (!is_there && !is_free).then(|| (text(wanted), has.map(text)))
        });
        version.into_iter().chain(switches).chain(values)
    }
}

/// Whether a package in this version may be what a spec asks for.
#[must_use]
pub fn may_be(spec: &str, version: &str) -> bool {
    let wanted = SimpleSpec::read(spec).version;
    wanted.is_empty() || may_satisfy(version, &wanted)
}

/// Splits a text after its first word.
fn split(text: &str) -> (&str, &str) {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ',' | ':');
    let end = text.char_indices().find(|(at, c)| {
        // A version may begin with `=`, and `:=` belongs to a value.
        let is_exact = *at == 0 && *c == '=';
        let is_assignment = *c == ':' && text[at + 1..].starts_with('=');
        !is_exact && (!is_part(*c) || is_assignment)
    });
    text.split_at(end.map_or(text.len(), |(at, _)| at))
}

fn skip(text: &str) -> &str {
    let mut characters = text.chars();
    characters.next();
    characters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_is_taken_apart() {
        let spec =
            SimpleSpec::read("openmpi@4.1.4~cuda+cxx fabrics:=cma,ofi languages:='c,c++' %gcc ^a");
        assert_eq!(
            (spec.name.as_str(), spec.version.as_str(), spec.switches, spec.values),
            (
                "openmpi",
                "4.1.4",
                BTreeMap::from([("cuda".to_owned(), false), ("cxx".to_owned(), true)]),
                BTreeMap::from([
                    ("fabrics".to_owned(), vec!["cma".to_owned(), "ofi".to_owned()]),
                    ("languages".to_owned(), vec!["c".to_owned(), "c++".to_owned()]),
                ]),
            )
        );
    }

    #[test]
    fn what_means_nothing_is_passed_over() {
        assert_eq!(SimpleSpec::read("a ? b @ =").name, "a");
    }
}
