// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Options whose value is one of some words.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A word, its help, and what it means.
pub(crate) type Choice<T> = (&'static str, &'static str, T);

/// Returns what reads one of the words.
pub(crate) fn one_of<T: Copy + Send + Sync>(
    choices: &'static [Choice<T>],
) -> impl TypedValueParser<Value = T> {
    let words = choices.iter().map(|(word, help, _)| PossibleValue::new(word).help(help));
    PossibleValuesParser::new(words).try_map(|typed| {
        let found = choices.iter().find(|(word, ..)| *word == typed);
        found.map(|(.., meaning)| *meaning).ok_or("unknown")
    })
}
