// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Conditions behind a requirement of Python, as PEP 508 writes them:
//! `python_version < '3.12' and (os_name == 'posix' or extra == 'gui')`.

const VARIABLES: [&str; 14] = [
    "dependency_groups",
    "extra",
    "extras",
    "implementation_name",
    "implementation_version",
    "os_name",
    "platform_machine",
    "platform_python_implementation",
    "platform_release",
    "platform_system",
    "platform_version",
    "python_full_version",
    "python_version",
    "sys_platform",
];
const COMPARISONS: [&str; 8] = ["===", "==", "~=", "!=", "<=", ">=", "<", ">"];
/// How deep parentheses may be nested.
const DEPTH: usize = 50;

/// Tells whether a text is a condition.
pub(super) fn is_marker(text: &str) -> bool {
    after_condition(text, DEPTH).is_some_and(|rest| rest.trim().is_empty())
}

/// Returns what follows a condition. How `and` and `or` bind does not matter here.
fn after_condition(text: &str, depth: usize) -> Option<&str> {
    let mut rest = after_term(text, depth)?;
    while let Some(next) = after_word(rest, "and").or_else(|| after_word(rest, "or")) {
        rest = after_term(next, depth)?;
    }
    Some(rest)
}

fn after_term(text: &str, depth: usize) -> Option<&str> {
    let text = text.trim_start();
    if let Some(inner) = text.strip_prefix('(') {
        let rest = after_condition(inner, depth.checked_sub(1)?)?;
        return rest.trim_start().strip_prefix(')');
    }
    after_value(after_comparison(after_value(text)?)?)
}

fn after_value(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let quote = text.chars().next().filter(|one| matches!(one, '\'' | '"'));
    if let Some(quote) = quote {
        return text[1..].split_once(quote).map(|(_, rest)| rest);
    }
    VARIABLES.iter().find_map(|name| after_word(text, name))
}

fn after_comparison(text: &str) -> Option<&str> {
    let text = text.trim_start();
    if let Some(rest) = after_word(text, "not") {
        return after_word(rest, "in");
    }
    let mark = || COMPARISONS.iter().find_map(|mark| text.strip_prefix(mark));
    after_word(text, "in").or_else(mark)
}

/// Returns what follows a word, which ends there.
fn after_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let rest = text.trim_start().strip_prefix(word)?;
    let goes_on = rest.starts_with(|one: char| one.is_ascii_alphanumeric() || one == '_');
    (!goes_on).then_some(rest)
}
