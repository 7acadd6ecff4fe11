// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Lists in brackets, as in TOML and in YAML: `["a", "b"]`, in one line or in several.

use std::ops::Range;

use super::lines::{line_end, line_start};

/// Inserts an item behind the last one. `items` are the places of the items, and `open` is that of `[`.
pub(super) fn add(text: &str, open: usize, items: &[Range<usize>], new: &str) -> String {
    let Some(last) = items.last() else { return inserted(text, open + 1, new) };
    let (behind, has_comma) = behind_comma(text, last.end);
    if !is_alone(text, last) {
        return inserted(text, last.end, &format!(", {new}"));
    }
    let start = line_start(text, last.start);
    let indent = &text[start..last.start];
    let end = line_end(text, behind);
    let ending = if text[..end].ends_with("\r\n") { "\r\n" } else { "\n" };
    if has_comma {
        return inserted(text, end, &format!("{indent}{new},{ending}"));
    }
    let line = format!("{indent}{new}{ending}");
    format!("{},{}{line}{}", &text[..last.end], &text[last.end..end], &text[end..])
}

/// Removes the item of a number, with its comma; an item that has lines of its own goes with them.
pub(super) fn remove(text: &str, items: &[Range<usize>], index: usize) -> String {
    let item = &items[index];
    let (behind, has_comma) = behind_comma(text, item.end);
    if is_alone(text, item) {
        return without(text, line_start(text, item.start)..line_end(text, behind));
    }
    let before = index.checked_sub(1).and_then(|before| items.get(before));
    match before.filter(|_| index + 1 == items.len()) {
        // The comma behind the last item stays, if there is one.
        Some(before) if !text[before.end..item.start].contains('#') => {
            without(text, before.end..item.end)
        }
        _ => {
            let end = if has_comma { behind } else { item.end };
            let blanks = text[end..].len() - text[end..].trim_start_matches([' ', '\t']).len();
            without(text, item.start..end + blanks)
        }
    }
}

/// Whether an item has its lines for itself.
fn is_alone(text: &str, item: &Range<usize>) -> bool {
    let (behind, _) = behind_comma(text, item.end);
    let before = &text[line_start(text, item.start)..item.start];
    let after = text[behind..line_end(text, behind)].trim_start();
    before.trim().is_empty() && (after.is_empty() || after.starts_with('#'))
}

/// Returns where an item ends with its comma, and whether it has one in the same line.
fn behind_comma(text: &str, end: usize) -> (usize, bool) {
    let rest = &text[end..];
    let blank = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    if rest[blank..].starts_with(',') { (end + blank + 1, true) } else { (end, false) }
}

fn inserted(text: &str, at: usize, new: &str) -> String {
    format!("{}{new}{}", &text[..at], &text[at..])
}

fn without(text: &str, place: Range<usize>) -> String {
    format!("{}{}", &text[..place.start], &text[place.end..])
}
