// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The section `env_vars:` of a view: lists of maps with one key, as
//! Stackinator has them.

use crate::ask::{Field, each, instead};
use crate::diagnostic::quote;
use crate::language::Language;
use crate::node::{Entry, Node, Place, Value};
use crate::recipe::EnvVars;
use crate::report::Report;
use crate::suggest::{nearest, suggestion};

const KEYS: &[&str] = &["set", "prepend_path", "append_path"];

/// Variables that hold a list of paths, of which a view of Spack changes some.
pub const PATH_LISTS: &[&str] = &[
    "ACLOCAL_PATH",
    "CMAKE_PREFIX_PATH",
    "CPATH",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "MANPATH",
    "MODULEPATH",
    "PATH",
    "PKG_CONFIG_PATH",
    "PYTHONPATH",
];

/// What the build puts in the place of `$@name@`.
const SUBSTITUTIONS: &[&str] = &["mount", "view_path", "view_name"];

/// Reads the variables of a view of Spack: only those are changed as lists that
/// every tool knows as such.
pub(crate) fn read_for_lists(field: &Field<'_>) -> Option<EnvVars> {
    let env_vars = read(field);
    let section = field.section()?;
    let mut is_right = true;
    for key in ["prepend_path", "append_path"] {
        let items = section.get(key).and_then(|field| match &field.node.value {
            Value::List(items) => Some(items),
            _ => None,
        });
        for item in items.into_iter().flatten() {
            if let Value::Section(entries) = &item.value
                && let [entry] = entries.as_slice()
                && is_identifier(&entry.key)
                && !PATH_LISTS.contains(&entry.key.as_str())
            {
                is_right = false;
                refuse_list(field.report, entry);
            }
        }
    }
    env_vars.filter(|_| is_right)
}

fn refuse_list(report: &Report<'_>, entry: &Entry) {
    let message = format!("`{}` is not known as a list of paths", entry.key);
    let all = format!("set the whole of it: `set: [{{{}: …}}]`; lists are", entry.key);
    let hint = suggestion(&entry.key, PATH_LISTS, &all);
    report.problem_with_hint(entry.key_place, &message, &hint);
}

pub(crate) fn read(field: &Field<'_>) -> Option<EnvVars> {
    let section = field.section()?;
    section.refuse_unknown(KEYS, |key| match key {
        "unset" => instead("to unset a variable, write `set: [{NAME: null}]`"),
        _ => None,
    });
    let set = section.given_or("set", Vec::new(), set);
    let prepend = section.given_or("prepend_path", Vec::new(), paths);
    let append = section.given_or("append_path", Vec::new(), paths);
    Some(EnvVars { set: set?, prepend_path: prepend?, append_path: append? })
}

fn set(field: &Field<'_>) -> Option<Vec<(String, Option<String>)>> {
    each(field.list()?, |item| {
        let entry = pair(field.report, item)?;
        let value = Field::of(field.report, entry);
        let name = variable(field.report, entry);
        if value.is_null() {
            return Some((name?, None));
        }
        let text = value_of(&value)?;
        let name = name?;
        if PATH_LISTS.contains(&name.as_str()) {
            refuse_set(field.report, entry, &text);
            return None;
        }
        Some((name, Some(text)))
    })
}

fn refuse_set(report: &Report<'_>, entry: &Entry, text: &str) {
    let name = &entry.key;
    let message = format!("`{name}` is a list of paths, and a view cannot replace all of it");
    let reference = [format!("${name}"), format!("${{{name}}}"), format!("${{@{name}@}}")];
    let path = text.split(':').find(|part| !reference.iter().any(|word| word == part));
    let hint = format!("write `prepend_path: [{{{name}: {}}}]`", path.unwrap_or("/a/path"));
    report.problem_with_hint(entry.key_place, &message, &hint);
}

fn paths(field: &Field<'_>) -> Option<Vec<(String, String)>> {
    each(field.list()?, |item| {
        let entry = pair(field.report, item)?;
        let name = variable(field.report, entry);
        let value = Field::of(field.report, entry);
        let text = value_of(&value)?;
        if text.is_empty() {
            let message = "an empty path would mean the current directory";
            return value.refuse(message, "write a path, or remove the item");
        }
        if let Some(colon) = text.find(':') {
            let message = "an item is one path, but this has several";
            let hint =
                format!("write an item for each, such as `- {}: {}`", entry.key, &text[..colon]);
            let place = value.place_within(colon);
            return field.report.refuse(place, message, hint.as_str());
        }
        Some((name?, text))
    })
}

/// Returns the one key of an item, `NAME: value`.
fn pair<'n>(report: &Report<'_>, item: &'n Node) -> Option<&'n Entry> {
    let (message, hint) = match &item.value {
        Value::Section(entries) => match entries.as_slice() {
            [entry] => return Some(entry),
            [] => (
                "an item is a variable with its value, but this is empty".to_owned(),
                "write `- NAME: value`".to_owned(),
            ),
            _ => (
                "an item changes one variable, but this has several".to_owned(),
                "begin each of its lines with `- `".to_owned(),
            ),
        },
        Value::Scalar(scalar) => {
            let hint = match scalar.text.split_once(['=', ':']) {
                Some((name, value)) => format!("write `- {}: {}`", name.trim(), value.trim()),
                None => "write `- NAME: value`".to_owned(),
            };
            (format!("{} is not a variable with its value", quote(&scalar.text)), hint)
        }
        Value::Null | Value::List(_) => (
            format!("an item is a variable with its value, not {}", item.describe(Language::Yaml)),
            "write `- NAME: value`".to_owned(),
        ),
    };
    report.refuse(item.place, &message, hint.as_str())
}

/// Tells whether a shell could name a variable like this.
fn is_identifier(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_letter)
        && !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns the name of the variable that an item changes.
fn variable(report: &Report<'_>, entry: &Entry) -> Option<String> {
    if is_identifier(&entry.key) {
        return Some(entry.key.clone());
    }
    let message = format!("{} is not the name of a variable", quote(&entry.key));
    let hint = "a name has letters, digits and `_`, and does not begin with a digit";
    report.refuse(entry.key_place, &message, hint)
}

/// Returns the value of a variable, with everything in it that will be replaced.
fn value_of(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let mut is_right = true;
    for (offset, _) in text.match_indices("$@") {
        let rest = &text[offset + 2..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        if SUBSTITUTIONS.contains(&name) && behind.starts_with('@') {
            continue;
        }
        is_right = false;
        let written = &text[offset..offset + 2 + end + usize::from(behind.starts_with('@'))];
        let message = if behind.starts_with('@') {
            format!("nothing is known that could replace {}", quote(written))
        } else {
            format!("{} is not closed by `@`", quote(written))
        };
        let hint = match nearest(name, SUBSTITUTIONS) {
            Some(meant) => format!("did you mean `$@{meant}@`?"),
            None => "what is replaced is `$@mount@`, `$@view_path@`, and `$@view_name@`".to_owned(),
        };
        let place = stretch(field.place_within(offset), field, written.len());
        field.report.problem_with_hint(place, &message, &hint);
    }
    for (offset, _) in text.match_indices("${@") {
        let rest = &text[offset + 3..];
        let name = rest.split_once("@}").map(|(name, _)| name);
        if name.is_some_and(is_identifier) {
            continue;
        }
        is_right = false;
        let place = stretch(field.place_within(offset), field, 3);
        let message = "the name of a variable and `@}` are expected after `${@`";
        field.report.problem_with_hint(place, message, "write it as `${@HOME@}`");
    }
    is_right.then(|| text.to_owned())
}

/// Makes the place of one character as long as a word.
fn stretch(place: Place, field: &Field<'_>, length: usize) -> Place {
    // A place that could not be found exactly is that of the whole text.
    if place == field.place() {
        return place;
    }
    Place { end: place.start + length, ..place }
}
