// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Texts that nothing can break out of: scalars of YAML, and words of a shell.

use std::fmt::Write as _;

/// Writes a text as a scalar of YAML in double quotes. Every version of YAML reads it alike.
pub(super) fn scalar(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        // Writing to a string never fails.
        let _ = match character {
            '"' | '\\' => write!(quoted, "\\{character}"),
            '\n' => write!(quoted, "\\n"),
            ' '..='~' => write!(quoted, "{character}"),
            '\0'..='\u{ffff}' => write!(quoted, "\\u{:04x}", u32::from(character)),
            _ => write!(quoted, "\\U{:08x}", u32::from(character)),
        };
    }
    quoted.push('"');
    quoted
}

/// Writes texts as a list of YAML on one line.
pub(super) fn list<T: AsRef<str>>(texts: &[T]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| scalar(text.as_ref())).collect();
    format!("[{}]", quoted.join(", "))
}

/// Quotes a word for every shell.
pub(super) fn word(text: &str) -> String {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '@' | '%');
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A command for a shell.
pub(super) struct Words(String);

impl Words {
    /// Begins a command with words that need no quotes.
    pub(super) fn of(first: &str) -> Self {
        Self(first.to_owned())
    }

    /// Adds words that are quoted already.
    pub(super) fn plain(&mut self, words: &str) {
        self.0.push(' ');
        self.0.push_str(words);
    }

    /// Adds an option with a value.
    pub(super) fn option(&mut self, name: &str, value: &str) {
        self.plain(&format!("{name}={}", word(value)));
    }

    /// Adds an option whose value is in a variable, if that is set.
    pub(super) fn variable(&mut self, name: &str, variable: &str) {
        self.plain(&format!("${{{variable}:+\"{name}=${variable}\"}}"));
    }

    /// Returns the command.
    pub(super) fn end(self) -> String {
        self.0
    }
}
