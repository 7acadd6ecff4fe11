// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The parts of a label, each a type of its own.
//!
//! All parts have one grammar: letters, digits, `_`, `-`, and `.`, not beginning
//! with `-` or `.`, 1 to 64 characters. They differ in what they mean.

use crate::text::{check_length, word};
use crate::{Expected, ParseError, ParseErrorKind};

/// The largest number of characters in one part.
pub const MAX_PART_LENGTH: usize = 64;

/// Checks that a whole text is one part, or a word of the same grammar such as
/// the name of a view.
pub(crate) fn check_part(text: &str, part: Expected) -> Result<(), ParseError> {
    check_length(text, part)?;
    match part_problem(text, part) {
        None => Ok(()),
        Some((offset, kind)) => Err(ParseError::new(part, text, offset, kind)),
    }
}

/// Returns the first thing that is wrong with a part, and the byte where it is.
pub(crate) fn part_problem(text: &str, part: Expected) -> Option<(usize, ParseErrorKind)> {
    let Some(first) = text.chars().next() else {
        return Some((0, ParseErrorKind::Empty));
    };
    if matches!(first, '-' | '.') {
        return Some((0, ParseErrorKind::Start { part, character: first }));
    }
    if let Some((offset, character)) = text.char_indices().find(|&(_, c)| !is_part_character(c)) {
        return Some((offset, ParseErrorKind::Character { part, character }));
    }
    // Only ASCII is left, so that bytes are characters.
    let (length, limit) = (text.len(), MAX_PART_LENGTH);
    (length > limit).then_some((limit, ParseErrorKind::TooLong { part, length, limit }))
}

/// Tells whether a character may be in a part.
fn is_part_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.')
}

word! {
    /// The name of an image: `prgenv-gnu`.
    Name, check_part
}
word! {
    /// The version of what is in an image: `24.11`.
    Version, check_part
}
word! {
    /// The release of a version: `v2`.
    Tag, check_part
}
word! {
    /// The cluster for which something is built: `daint`.
    System, check_part
}
word! {
    /// The microarchitecture of a node: `gh200`.
    Uarch, check_part
}
word! {
    /// The part of a registry: `deploy`.
    Namespace, check_part
}
word! {
    /// The name of a view; its grammar is that of a label's name.
    ViewName, check_part
}
