// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Words in files.

/// Whether a word is somewhere in a text.
pub(crate) fn has(text: &[u8], word: &[u8]) -> bool {
    let Some(&first) = word.first() else {
        return true;
    };
    let mut rest = text;
    while let Some(place) = rest.iter().position(|&byte| byte == first) {
        rest = rest.get(place..).unwrap_or_default();
        if rest.starts_with(word) {
            return true;
        }
        rest = rest.get(1..).unwrap_or_default();
    }
    false
}

/// The texts that end in a zero, if they may be words of a language.
pub(crate) fn texts(data: &[u8]) -> impl Iterator<Item = &str> {
    data.split(|&byte| byte == 0)
        .filter(|part| (3..=256).contains(&part.len()))
        .filter_map(|part| str::from_utf8(part).ok())
}
