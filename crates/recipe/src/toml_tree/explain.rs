// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Broken TOML, explained.
//!
//! The parser says what it expected in words that are mostly good enough. The
//! mistakes of people who do not know TOML (values without quotes, colons, a
//! key twice) get words of their own, and the line as it should be.

use crate::diagnostic::quote;
use crate::node::Place;
use crate::report::Report;

/// The longest line that a hint repeats, in bytes.
const LONGEST_HINT: usize = 100;

/// Notes the error of the parser about a place.
pub(super) fn explain(report: &Report<'_>, reason: &str, place: Place) {
    let source = report.source;
    let (start, line) = source.line_at(place.start.min(source.text.len()));
    let column = place.start.saturating_sub(start).min(line.len());
    let written = line.get(column..).unwrap_or_default();
    // What follows the first comma is what was expected instead.
    let (message, hint) = match reason.split(", expected").next().unwrap_or(reason) {
        "string values must be quoted" if written.is_empty() => {
            ("a value is missing behind the `=`", None)
        }
        "string values must be quoted" if is_truth(written) => {
            ("a truth value is `true` or `false`", pair(line, '='))
        }
        "string values must be quoted" => ("a text must be in quotes", pair(line, '=')),
        "invalid boolean" => {
            ("`true` and `false` are written in lower case", pair(&line.to_ascii_lowercase(), '='))
        }
        "key with no value" => (
            "a key, `=` and a value are expected in this line",
            pair(line, '=').or_else(|| pair(line, ':')),
        ),
        "invalid basic string" | "invalid literal string" => {
            ("this text has no closing quote", closed(line))
        }
        "unclosed table" | "unclosed array table" => ("the line has fewer `]` than `[`", None),
        "unclosed array" | "missing comma between array elements" => {
            ("a `,` or `]` is expected before this", None)
        }
        "unexpected leading zero" => ("a number cannot begin with `0`", None),
        "unexpected key or value" => (
            "something follows the value",
            Some("write one key with one value in a line".to_owned()),
        ),
        "missing escaped value" => (
            "this `\\` means nothing between double quotes",
            Some("use single quotes, in which `\\` is a letter".to_owned()),
        ),
        "unquoted keys cannot be empty" | "invalid unquoted key" => {
            ("a key has letters, digits, `_` and `-`", None)
        }
        "duplicate key" => return twice(report, place, line),
        "cannot recurse further; max recursion depth met" | "recursion limit" => {
            ("lists and tables are nested too deep", None)
        }
        _ => return report.problem(place, &format!("this is not TOML: {reason}")),
    };
    report.note(Some(place), message, hint.as_deref());
}

/// Tells whether a word is a truth value of other languages.
fn is_truth(word: &str) -> bool {
    let word = word.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    matches!(word.as_str(), "yes" | "no" | "on" | "off")
}

/// Returns the hint to write a line as `key = value`.
fn pair(line: &str, separator: char) -> Option<String> {
    let (key, value) = line.split_once(separator)?;
    let value = value.split(" #").next().unwrap_or(value).trim();
    let value = value.trim_matches(|c: char| matches!(c, '"' | '\'' | '“' | '”' | '‘' | '’'));
    let key = key.trim();
    let value = match value {
        "true" | "false" => value.to_owned(),
        "yes" | "on" => "true".to_owned(),
        "no" | "off" => "false".to_owned(),
        _ if value.is_empty() || value.contains(['"', '\\', '[', '{', '\'']) => return None,
        _ if value.bytes().all(|byte| byte.is_ascii_digit()) => value.to_owned(),
        _ => format!("\"{value}\""),
    };
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let is_usable = !key.is_empty() && key.chars().all(is_key) && line.len() <= LONGEST_HINT;
    is_usable.then(|| format!("write `{key} = {value}`"))
}

/// Returns the hint to close the one quote of a line.
fn closed(line: &str) -> Option<String> {
    let quotes: Vec<char> = line.chars().filter(|c| matches!(c, '"' | '\'')).collect();
    match quotes.as_slice() {
        [mark] if line.len() <= LONGEST_HINT => Some(format!("write `{}{mark}`", line.trim())),
        _ => None,
    }
}

/// Notes that a key is given twice, with the line of the other if it is found.
fn twice(report: &Report<'_>, place: Place, line: &str) {
    let text = report.source.text;
    let key = text.get(place.start..place.end).unwrap_or_default();
    let message = format!("the key {} is given twice", quote(key));
    let beginning = line.split('=').next().unwrap_or(line).trim();
    let above = text.get(..place.start).unwrap_or_default().lines().position(|other| {
        // The line itself is there in part, and shorter than its beginning.
        other.split('=').next().unwrap_or(other).trim() == beginning
    });
    let hint = match above {
        Some(line) => format!("remove one of the two; the other is in line {}", line + 1),
        None => "remove one of the two".to_owned(),
    };
    report.problem_with_hint(place, &message, &hint);
}
