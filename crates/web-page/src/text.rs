// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Texts, numbers and times as they are in a page. Pure.

use std::time::Duration;

use cabane_evidence::Outcome;
use cabane_label::escape_html;
use jiff::Timestamp;

/// The most bytes that a character has when it is escaped.
const LONGEST_ESCAPED: usize = 12;

/// Returns a text of one line, cut to a number of characters.
#[must_use]
pub fn line(text: &str, most: usize) -> String {
    let first = text.lines().next().unwrap_or_default();
    let mut shown = escape_html(&start(first, most));
    if first.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

/// Returns a text with its lines, cut to a number of characters.
#[must_use]
pub fn lines(text: &str, most: usize) -> String {
    let cut = start(text, most);
    let mut shown = cut.lines().map(escaped_line).collect::<Vec<_>>().join("\n");
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

/// Returns the last lines of a text, so many that they have at most that many bytes when they are escaped,
/// and whether something is missing.
#[must_use]
pub fn last_lines(text: &str, most: usize) -> (String, bool) {
    let mut kept = Vec::new();
    let mut left = most;
    let mut is_cut = false;
    for line in text.lines().rev() {
        let shown = escaped_line(line);
        let Some(rest) = left.checked_sub(shown.len() + 1) else {
            is_cut = true;
            break;
        };
        left = rest;
        kept.push(shown);
    }
    if is_cut && kept.is_empty() {
        // A single long line.
        let last = text.lines().next_back().unwrap_or_default();
        let end: Vec<char> = last.chars().rev().take(most / LONGEST_ESCAPED).collect();
        let end: String = end.into_iter().rev().collect();
        kept.push(escaped_line(&end));
    }
    kept.reverse();
    (kept.join("\n"), is_cut)
}

fn start(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

fn escaped_line(line: &str) -> String {
    escape_html(&line.replace('\t', "    "))
}

/// Returns the class of an outcome.
#[must_use]
pub fn class(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Passed) => "o p",
        Some(Outcome::Failed) => "o f",
        Some(Outcome::Error) => "o e",
        Some(Outcome::NotTested) => "o n",
        None => "o u",
    }
}

/// Returns an outcome in its box.
#[must_use]
pub fn chip(outcome: Option<Outcome>) -> String {
    format!("<span class=\"{}\">{}</span>", class(outcome), words(outcome))
}

/// Returns the words of an outcome.
#[must_use]
pub fn words(outcome: Option<Outcome>) -> &'static str {
    outcome.map_or("no result", Outcome::as_str)
}

/// Writes how many there are of something.
#[must_use]
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Writes a point in time.
#[must_use]
pub fn date(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Writes how long something took.
#[must_use]
pub fn duration(seconds: f64) -> String {
    let length = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    match length.as_secs() {
        0..60 => format!("{:.1} s", length.as_secs_f64()),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Writes a number with five digits or all before the point.
#[must_use]
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e12).contains(&size) {
        return format!("{value:.3e}");
    }
    let bounds = [1e4, 1e3, 1e2, 1e1, 1e0, 1e-1, 1e-2, 1e-3];
    let decimals = bounds.iter().position(|bound| size >= *bound).unwrap_or(bounds.len());
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// Writes a number with its unit.
#[must_use]
pub fn with_unit(value: f64, unit: &str) -> String {
    let number = number(value);
    if unit.is_empty() { number } else { format!("{number} {}", line(unit, 40)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_not_wrong() {
        for (value, text) in [
            (0.0, "0"),
            (42.5, "42.5"),
            (-0.1, "-0.1"),
            (23894.0, "23894"),
            (1_234_567.0, "1234567"),
            (100_000.0, "100000"),
            (std::f64::consts::PI, "3.1416"),
            (0.000_25, "0.00025"),
            (1e308, "1.000e308"),
            (1e-9, "1.000e-9"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn times_are_words() {
        let times = [0.04, 59.94, 61.0, 7320.0, -1.0, f64::NAN, 1e300].map(duration);
        let expected = ["0.0 s", "59.9 s", "1 min 1 s", "2 h 2 min", "0.0 s", "0.0 s", "0.0 s"];
        assert_eq!(times, expected);
    }

    #[test]
    fn the_end_of_a_log_fits_whatever_is_in_it() {
        assert_eq!(last_lines("a\nb\nc\n", 4), ("b\nc".to_owned(), true));
        assert_eq!(last_lines("a\tb\n", 99), ("a    b".to_owned(), false));
        for hostile in ["\u{1b}", "<", "\"", "\u{e0001}", "\u{202e}", "ä"] {
            let (end, is_cut) = last_lines(&hostile.repeat(5000), 600);
            assert!(is_cut && !end.is_empty() && end.len() <= 600, "{hostile:?} {}", end.len());
        }
        assert_eq!(last_lines("", 10), (String::new(), false));
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        assert_eq!(lines("äöü\n<b>", 5), "äöü\n&lt;…");
        assert_eq!(line("äöü\nb", 2), "äö…");
        assert_eq!(line("äö", 2), "äö");
    }
}
