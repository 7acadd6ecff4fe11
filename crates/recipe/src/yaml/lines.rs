// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Lines of YAML as a person sees them: the key, the value, what to quote.

/// The longest line that a hint repeats.
const LONGEST: usize = 90;

/// A line without its indentation, taken apart at the first `: `.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeyAndValue<'a> {
    /// The key, with the `- ` of list items before it.
    pub(super) key: &'a str,
    /// What follows the colon, without a comment.
    pub(super) value: &'a str,
    /// The byte of the line at which the value begins.
    pub(super) value_start: usize,
}

impl<'a> KeyAndValue<'a> {
    pub(super) fn of(line: &'a str) -> Option<Self> {
        let colon = line.find(": ").or_else(|| line.strip_suffix(':').map(str::len))?;
        let key = line[..colon].trim();
        if key.is_empty() || key.contains(['"', '\'', '{', '[', '#']) {
            return None;
        }
        let behind = &line[colon + 1..];
        let value = without_comment(behind);
        let value_start = colon + 1 + (behind.len() - behind.trim_start().len());
        Some(Self { key, value, value_start })
    }
}

/// Returns the indentation of a line, in bytes.
pub(super) fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn without_comment(text: &str) -> &str {
    let end = if text.starts_with('#') { Some(0) } else { text.find(" #") };
    end.map_or(text, |end| &text[..end]).trim()
}

/// Returns the line with its value, or its list item, in quotes.
pub(super) fn in_quotes(line: &str) -> Option<String> {
    let quoted = match KeyAndValue::of(line) {
        Some(KeyAndValue { value: "", .. }) => return None,
        Some(KeyAndValue { key, value, .. }) => format!("{key}: {}", quoted(value)),
        None => format!("- {}", quoted(without_comment(line.trim().strip_prefix("- ")?))),
    };
    (quoted.len() <= LONGEST).then_some(quoted)
}

/// Returns a text between quotes, as YAML reads it back.
pub(super) fn quoted(text: &str) -> String {
    let inner = ['"', '\'']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(text);
    if inner.contains(['"', '\\']) {
        format!("'{}'", inner.replace('\'', "''"))
    } else {
        format!("\"{inner}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_quoted(line: &str, expected: &str) {
        assert_eq!(in_quotes(line).as_deref(), Some(expected));
    }

    #[test]
    fn a_value_with_a_colon_is_put_in_quotes() {
        assert_quoted("  description: a: b  # why", "description: \"a: b\"");
    }

    #[test]
    fn a_value_with_quotes_gets_the_other_ones() {
        assert_quoted("a: say \"it's\"", "a: 'say \"it''s\"'");
    }

    #[test]
    fn wrong_quotes_are_replaced() {
        assert_quoted("a: 'it's'", "a: \"it's\"");
    }

    #[test]
    fn an_item_of_a_list_is_put_in_quotes() {
        assert_quoted("  - @foo", "- \"@foo\"");
    }

    #[test]
    fn a_line_that_would_not_fit_into_a_hint_is_not_repeated() {
        assert_eq!(in_quotes(&format!("a: {}", "x".repeat(100))), None);
    }

    #[test]
    fn the_key_of_a_line_ends_at_the_first_colon_with_a_space() {
        assert_eq!(
            KeyAndValue::of("  a:b: c: d"),
            Some(KeyAndValue { key: "a:b", value: "c: d", value_start: 7 })
        );
    }
}
