// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Lists with an item in each line: requirements files, and lists of YAML with dashes.

use std::ops::Range;

/// Returns where the line begins that has a byte.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// Returns where the line ends that has a byte, with its new line.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |end| at + end + 1)
}

/// How the lines of a text end.
pub(super) fn ending(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Inserts a line where one begins; the one before is ended if need be.
pub(super) fn insert(text: &str, at: usize, line: &str) -> String {
    let (before, after) = text.split_at(at);
    let end = ending(text);
    let missing = if before.is_empty() || before.ends_with('\n') { "" } else { end };
    format!("{before}{missing}{line}{end}{after}")
}

/// Removes the lines that have these bytes.
pub(super) fn remove(text: &str, place: &Range<usize>) -> String {
    let (start, end) = (line_start(text, place.start), line_end(text, place.end));
    format!("{}{}", &text[..start], &text[end..])
}

/// Returns what is before the item in its line, if that is a dash: `"  - "`.
pub(super) fn dash<'t>(text: &'t str, item: &Range<usize>) -> Option<&'t str> {
    let before = &text[line_start(text, item.start)..item.start];
    let is_dash = before.trim() == "-" && before.ends_with([' ', '\t']);
    is_dash.then_some(before)
}

/// Finds the requirements of a requirements file. Each place has the lines of the requirement up to a
/// comment behind it; the texts are those of the requirements, without options such as hashes.
pub(super) fn requirements(text: &str) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    let mut start = None;
    let mut joined = String::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let content = without_comment(line.trim_end_matches(['\n', '\r'])).trim_end();
        let blank = content.len() - content.trim_start().len();
        let first = *start.get_or_insert(at + blank);
        let is_continued = content.ends_with('\\');
        joined.push_str(content.trim_end_matches('\\').trim());
        joined.push(' ');
        if !is_continued {
            let requirement = joined.split(" --").next().unwrap_or_default().trim();
            if !requirement.is_empty() && !requirement.starts_with('-') {
                found.push((first..at + content.len(), requirement.to_owned()));
            }
            joined.clear();
            start = None;
        }
        at += line.len();
    }
    found
}

/// A `#` begins a comment at the start of a line and after white space; elsewhere it belongs to an
/// address.
fn without_comment(line: &str) -> &str {
    let is_comment =
        |place: usize| line[..place].chars().next_back().is_none_or(char::is_whitespace);
    let found = line.match_indices('#').map(|(place, _)| place).find(|place| is_comment(*place));
    &line[..found.unwrap_or(line.len())]
}
