// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Asking a file for its values: sections, lists, texts and truth values.
//!
//! Every question names what it wants in the words of the file, so that the
//! answer to a wrong value can say what to type. A question that gets no
//! answer has noted a problem.

use std::rc::Rc;
use std::str::FromStr;

use cabane_label::ParseError;

use crate::diagnostic::quote;
use crate::language::Language;
use crate::node::{Entry, Kind, Node, Place, SECTION, Scalar, TABLE, Value};
use crate::report::Report;
use crate::suggest::{nearest, suggestion};

/// A value that was requested, and what its author calls it.
#[derive(Clone, Debug)]
pub(crate) struct Field<'n> {
    /// Where its problems are noted.
    pub(crate) report: &'n Report<'n>,
    /// The key, between back quotes, or other words for it.
    pub(crate) name: String,
    /// The key, for hints; items of a list have none.
    key: Option<&'n str>,
    /// Where the key stands; for an item of a list, the item itself.
    pub(crate) key_place: Place,
    pub(crate) node: &'n Node,
}

impl<'n> Field<'n> {
    pub(crate) fn of(report: &'n Report<'n>, entry: &'n Entry) -> Self {
        Self {
            report,
            name: quote(&entry.key),
            key: Some(&entry.key),
            key_place: entry.key_place,
            node: &entry.value,
        }
    }

    pub(crate) fn item(report: &'n Report<'n>, name: impl Into<String>, node: &'n Node) -> Self {
        Self { report, name: name.into(), key: None, key_place: node.place, node }
    }

    /// The value of a key that the author chose: `kind` says for what.
    pub(crate) fn named(report: &'n Report<'n>, kind: &str, entry: &'n Entry) -> Self {
        Self { name: format!("{kind} {}", quote(&entry.key)), ..Self::of(report, entry) }
    }

    /// The line with another value, for hints.
    fn with_value(&self, value: &str) -> String {
        match (self.key, self.report.language) {
            (Some(key), Language::Yaml) => format!("{key}: {value}"),
            (Some(key), Language::Toml) => format!("{key} = {value}"),
            (None, Language::Yaml) => format!("- {value}"),
            (None, Language::Toml) => value.to_owned(),
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.node.value, Value::Null)
    }

    /// Where to point when the value is wrong.
    pub(crate) fn place(&self) -> Place {
        match self.node.value {
            Value::Null => self.key_place,
            _ => self.node.place,
        }
    }

    /// What is there, in words.
    fn found(&self) -> String {
        match &self.node.value {
            // With its quotes, because they may be what is wrong.
            Value::Scalar(Scalar { text, kind: Kind::Quoted }) => quote(&format!("\"{text}\"")),
            Value::Scalar(scalar) => quote(&scalar.text),
            _ => self.node.describe(self.report.language).to_owned(),
        }
    }

    /// Returns a section, of which the keys that are not known have been noted.
    pub(crate) fn section_with(&self, known: &[&str]) -> Option<Section<'n>> {
        let section = self.section()?;
        section.refuse_unknown(known, |_| None);
        Some(section)
    }

    /// Returns a section; nothing is an empty section.
    pub(crate) fn section(&self) -> Option<Section<'n>> {
        let entries: &[Entry] = match &self.node.value {
            Value::Section(entries) => entries,
            Value::Null => &[],
            _ => {
                let in_brackets =
                    self.key.map(|key| format!("write its keys below a line `[{key}]`"));
                let (expected, hint) = match self.report.language {
                    Language::Yaml => {
                        (SECTION, "write its keys in the lines below, indented by two spaces")
                    }
                    Language::Toml => {
                        let unnamed = "write its keys below a line with its name in brackets";
                        (TABLE, in_brackets.as_deref().unwrap_or(unnamed))
                    }
                };
                return self.wrong_type(expected, Some(hint));
            }
        };
        let within = format!(" in {}", self.name);
        Some(Section { report: self.report, within, place: Some(self.key_place), entries })
    }

    /// Returns the items of a list; nothing is an empty list.
    pub(crate) fn list(&self) -> Option<&'n [Rc<Node>]> {
        match &self.node.value {
            Value::List(items) => Some(items),
            Value::Null => Some(&[]),
            Value::Scalar(scalar) => {
                let item = self.quoted(&scalar.text);
                let line = self.with_value(&format!("[{item}]"));
                self.wrong_type("a list", Some(&format!("write `{line}`")))
            }
            Value::Section(_) => {
                let hint = match (self.report.language, self.key) {
                    (Language::Toml, Some(key)) => format!("write `[[{key}]]`, with two brackets"),
                    _ => "begin each line of it with `- `".to_owned(),
                };
                self.wrong_type("a list", Some(&hint))
            }
        }
    }

    /// Returns the items of a list, each called by a name.
    pub(crate) fn items(&self, name: &str) -> Option<Vec<Field<'n>>> {
        let items = self.list()?.iter();
        Some(items.map(|item| Field::item(self.report, name, item)).collect())
    }

    /// Returns a text as it is written; in YAML, `3.10` is one.
    pub(crate) fn text(&self) -> Option<&'n str> {
        let scalar = match &self.node.value {
            Value::Scalar(scalar) => scalar,
            Value::Null => {
                let message = format!("{} has no value", self.name);
                return self.refuse(&message, "write a value, or remove it");
            }
            Value::List(_) | Value::Section(_) => {
                let only = match &self.node.value {
                    Value::List(items) => items.first().filter(|_| items.len() == 1),
                    _ => None,
                };
                let hint = match only.map(|item| &item.value) {
                    Some(Value::Scalar(only)) => {
                        let line = self.with_value(&self.quoted(&only.text));
                        Some(format!("write `{line}`"))
                    }
                    _ => None,
                };
                return self.wrong_type("text", hint.as_deref());
            }
        };
        if !self.takes_text(scalar) {
            let line = self.with_value(&format!("\"{}\"", scalar.text));
            return self.wrong_type("text", Some(&format!("write `{line}`")));
        }
        if let Some(offset) = scalar.text.find('\0') {
            let place = self.place_within(offset);
            return self.report.refuse(place, "a text cannot contain a NUL character", None);
        }
        Some(&scalar.text)
    }

    /// Returns a text as [`Self::text`] does, to keep.
    pub(crate) fn string(&self) -> Option<String> {
        self.text().map(str::to_owned)
    }

    /// Returns a text if it passes a check; of another, `problem` and a hint are noted.
    pub(crate) fn text_if(
        &self,
        is_right: impl FnOnce(&str) -> bool,
        problem: &str,
        hint: &str,
    ) -> Option<String> {
        let text = self.text()?;
        if is_right(text) {
            return Some(text.to_owned());
        }
        self.refuse(&format!("{} {problem}", quote(text)), hint)
    }

    /// Returns a text that is a word of a label, or the name of a view.
    pub(crate) fn word<T: FromStr<Err = ParseError>>(&self) -> Option<T> {
        let text = self.text()?;
        let noted = |mut error: ParseError| {
            if let Some(similar) = similar_word::<T>(text) {
                let line = self.with_value(&self.quoted(&similar));
                error = error.with_hint(Some(format!("write `{line}`")));
            }
            self.parse_error(text, &error);
        };
        text.parse().map_err(noted).ok()
    }

    /// Notes why a text is not what it should be, under its wrong character.
    pub(crate) fn parse_error(&self, text: &str, error: &ParseError) {
        let offset = text.char_indices().nth(error.position()).map_or(text.len(), |(at, _)| at);
        let place = if offset == 0 { self.place() } else { self.place_within(offset) };
        self.report.note(Some(place), &error.to_string(), error.hint().as_deref());
    }

    /// Returns `true` or `false`.
    pub(crate) fn truth(&self) -> Option<bool> {
        let Value::Scalar(Scalar { text, kind }) = &self.node.value else {
            return self.wrong_type("`true` or `false`", None);
        };
        let folded = text.to_ascii_lowercase();
        if *kind == Kind::Boolean {
            return Some(folded == "true");
        }
        let meant = match folded.as_str() {
            "yes" | "y" | "on" | "true" | "1" => Some("true"),
            "no" | "n" | "off" | "false" | "0" => Some("false"),
            _ => None,
        };
        let hint = meant.map(|meant| format!("write `{}`", self.with_value(meant)));
        self.wrong_type("`true` or `false`", hint.as_deref())
    }

    /// Tells whether a scalar is a text where one is wanted.
    fn takes_text(&self, scalar: &Scalar) -> bool {
        self.report.language == Language::Yaml || scalar.kind == Kind::Quoted
    }

    /// Returns one of a few choices.
    pub(crate) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let text = match &self.node.value {
            Value::Scalar(scalar) => &scalar.text,
            _ => self.text()?,
        };
        let is_text = |scalar: &Scalar| self.takes_text(scalar);
        let is_word = matches!(&self.node.value, Value::Scalar(scalar) if is_text(scalar));
        if let Some((_, value)) = choices.iter().find(|(word, _)| is_word && *word == text) {
            return Some(*value);
        }
        let known: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let message = format!(
            "{} must be {}, not {}",
            self.name,
            cabane_label::enumerate(&known, "or"),
            quote(text)
        );
        let hint = nearest(text, &known).map(|meant| format!("did you mean `{meant}`?"));
        self.refuse(&message, hint.as_deref())
    }

    /// Notes what is wrong with the value, in the place of it.
    pub(crate) fn refuse<'h, T>(
        &self,
        message: &str,
        hint: impl Into<Option<&'h str>>,
    ) -> Option<T> {
        self.report.refuse(self.place(), message, hint)
    }

    /// Notes that something else is there than what was requested.
    pub(crate) fn wrong_type<T>(&self, expected: &str, hint: Option<&str>) -> Option<T> {
        let found = self.found();
        let message = format!("{} must be {expected}, not {found}", self.name);
        self.refuse(&message, hint)
    }

    /// Returns the place of the character at a byte of a text.
    ///
    /// Where escapes are in the file, it is the place of the whole text.
    pub(crate) fn place_within(&self, offset: usize) -> Place {
        let (place, file) = (self.place(), self.report.source.text);
        let Value::Scalar(Scalar { text, .. }) = &self.node.value else {
            return place;
        };
        let written = file.get(place.start..place.end).unwrap_or_default();
        let start = if written == text {
            place.start + offset
        } else if written.get(1..written.len().saturating_sub(1)) == Some(text) {
            place.start + 1 + offset
        } else {
            return place;
        };
        let length =
            text.get(offset..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        Place { start, end: start + length }
    }

    /// A text as it would be written in the language.
    fn quoted(&self, text: &str) -> String {
        match self.report.language {
            Language::Toml => format!("\"{text}\""),
            Language::Yaml => text.to_owned(),
        }
    }
}

/// Keys with values that belong together.
#[derive(Debug)]
pub(crate) struct Section<'n> {
    /// Where its problems are noted.
    pub(crate) report: &'n Report<'n>,
    /// What its author calls it: `` in `python` ``; nothing for a whole file.
    within: String,
    /// Where its key stands; nothing for a whole file.
    pub(crate) place: Option<Place>,
    pub(crate) entries: &'n [Entry],
}

impl<'n> Section<'n> {
    pub(crate) fn get(&self, key: &str) -> Option<Field<'n>> {
        self.entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| Field::of(self.report, entry))
    }

    /// Returns a value unless it is missing or `null`.
    pub(crate) fn given(&self, key: &str) -> Option<Field<'n>> {
        self.get(key).filter(|field| !field.is_null())
    }

    /// Returns the items of a list, each called by a name; none if it is missing or wrong.
    pub(crate) fn items(&self, key: &str, name: &str) -> Vec<Field<'n>> {
        self.get(key).and_then(|field| field.items(name)).unwrap_or_default()
    }

    /// Returns the section behind a key; without it, an empty one.
    pub(crate) fn inner(&self, key: &str) -> Option<Self> {
        let empty = Self { within: String::new(), place: None, entries: &[], ..*self };
        self.get(key).map_or(Some(empty), |field| field.section())
    }

    /// Returns a value that must be there; the hint says what to add.
    pub(crate) fn require(&self, key: &str, hint: &str) -> Option<Field<'n>> {
        let found = self.get(key);
        if found.is_none() {
            let message = format!("the key `{key}` is missing{}", self.within);
            self.report.note(self.place, &message, Some(hint));
        }
        found
    }

    /// Reads a value that must be there; the hint says what to add.
    pub(crate) fn needed<T>(
        &self,
        key: &str,
        hint: &str,
        read: impl FnOnce(&Field<'n>) -> Option<T>,
    ) -> Option<T> {
        read(&self.require(key, hint)?)
    }

    /// Reads a value, or returns the default if it is missing or `null`.
    pub(crate) fn given_or<T>(
        &self,
        key: &str,
        default: T,
        read: impl FnOnce(&Field<'n>) -> Option<T>,
    ) -> Option<T> {
        self.given(key).map_or(Some(default), |field| read(&field))
    }

    /// Reads a value that may be missing or `null`; `None` if it is wrong.
    #[expect(clippy::option_option, reason = "missing is right, wrong is not")]
    pub(crate) fn optional<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Field<'n>) -> Option<T>,
    ) -> Option<Option<T>> {
        self.given_or(key, None, |field| read(field).map(Some))
    }

    /// Reads what is behind each of the keys that the author chose in a section; nothing if there
    /// is no such section.
    pub(crate) fn chosen<T, C: FromIterator<T> + Default>(
        &self,
        key: &str,
        mut read: impl FnMut(&'n Report<'n>, &'n Entry) -> Option<T>,
    ) -> Option<C> {
        self.given_or(key, C::default(), |field| {
            each(field.section()?.entries, |entry| read(self.report, entry))
        })
    }

    /// Notes every key that is not known.
    ///
    /// `elsewhere` may know more about a key that is not known here: what to
    /// say about it, and what to do.
    pub(crate) fn refuse_unknown(
        &self,
        known: &[&str],
        elsewhere: impl Fn(&str) -> Option<Elsewhere>,
    ) {
        for entry in self.entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let (message, hint) = elsewhere(&entry.key).unwrap_or_else(|| {
                let all =
                    if known.len() == 1 { "the only key here is" } else { "the keys here are" };
                (None, suggestion(&entry.key, known, all))
            });
            let message = message
                .unwrap_or_else(|| format!("unknown key {}{}", quote(&entry.key), self.within));
            self.report.problem_with_hint(entry.key_place, &message, &hint);
        }
    }
}

impl Report<'_> {
    /// Returns the keys of a whole file.
    pub(crate) fn file<'n>(&'n self, root: &'n Node, example: &str) -> Option<Section<'n>> {
        match &root.value {
            Value::Section(entries) => {
                Some(Section { report: self, within: String::new(), place: None, entries })
            }
            Value::Null => self.refuse(None, "there is nothing in this file", example),
            _ => {
                let message = format!(
                    "the file must consist of keys with values, not of {}",
                    root.describe(self.language)
                );
                self.refuse(root.place, &message, example)
            }
        }
    }

    /// Returns the keys of a whole file, of which those that are not known have been noted.
    pub(crate) fn file_with<'n>(
        &'n self,
        root: &'n Node,
        example: &str,
        known: &[&str],
    ) -> Option<Section<'n>> {
        let file = self.file(root, example)?;
        file.refuse_unknown(known, |_| None);
        Some(file)
    }
}

/// What to say about a key that is not known here, if that is special, and what to do.
pub(crate) type Elsewhere = (Option<String>, String);

/// Returns what to do about a key that is not known here.
pub(crate) fn instead(hint: &str) -> Option<Elsewhere> {
    Some((None, hint.to_owned()))
}

/// Reads all items, so that every problem is noted; `None` if any of them is wrong.
pub(crate) fn each<N, T, C: FromIterator<T>>(
    items: impl IntoIterator<Item = N>,
    read: impl FnMut(N) -> Option<T>,
) -> Option<C> {
    items.into_iter().map(read).collect::<Vec<_>>().into_iter().collect()
}

/// Returns a name that may replace a title.
pub(crate) fn similar_word<T: FromStr>(text: &str) -> Option<String> {
    let words: Vec<&str> = text
        .split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.'))
        .map(|word| word.trim_matches('.'))
        .filter(|word| !word.is_empty())
        .collect();
    let joined = words.join("-");
    joined.parse::<T>().is_ok().then_some(joined)
}
