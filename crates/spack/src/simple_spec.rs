// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Specs as far as they are compared here: a package with its versions and variants.

use std::collections::BTreeMap;

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
        let is_other = !self.version.is_empty() && !includes(&self.version, &installed.version);
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
            (!is_there).then(|| (text(wanted), has.map(text)))
        });
        version.into_iter().chain(switches).chain(values)
    }
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

/// Tells whether a version is one of a list of versions and ranges. As in Spack, `5` stands
/// for all versions that begin with it, also at the end of a range.
fn includes(list: &str, version: &str) -> bool {
    let version = numbers(version);
    list.split(',').any(|one| {
        if let Some(exact) = one.strip_prefix('=') {
            return numbers(exact) == version;
        }
        let (from, to) = one.split_once(':').unwrap_or((one, one));
        let (from, to) = (numbers(from), numbers(to));
        let is_not_before = from.is_empty() || version >= from;
        let is_not_after = to.is_empty() || version <= to || version.starts_with(&to);
        is_not_before && is_not_after
    })
}

/// A part of a version. A word, as in `rc1`, comes before numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Word(String),
    Number(u64),
}

fn numbers(version: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = version;
    while let Some(first) = rest.chars().next() {
        let is_digit = first.is_ascii_digit();
        let is_same = |c: char| c.is_ascii_digit() == is_digit && c.is_alphanumeric();
        let end = rest.find(|c: char| !is_same(c)).unwrap_or(rest.len());
        if end == 0 {
            rest = skip(rest);
            continue;
        }
        let (part, after) = rest.split_at(end);
        parts.push(match part.parse() {
            Ok(number) => Part::Number(number),
            Err(_) => Part::Word(part.to_owned()),
        });
        rest = after;
    }
    parts
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
    fn ranges_include_what_they_include_for_spack() {
        let lists = ["4.1", ":4", "=4.1", "=4.1.4", "4.1.5:", ":4.1.3,4.1.5:", "3,4.1.2:4.2", "40"];
        let found = lists.map(|list| includes(list, "4.1.4"));
        assert_eq!(found, [true, true, false, true, false, false, true, false]);
    }

    #[test]
    fn what_means_nothing_is_passed_over() {
        assert_eq!(SimpleSpec::read("a ? b @ =").name, "a");
    }
}
