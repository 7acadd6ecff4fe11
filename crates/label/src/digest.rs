// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Digests: the names by which images are known to machines.
//!
//! This module reads and prints digests. It does not compute them.

use std::fmt::Write as _;

use crate::text::{check_length, word};
use crate::{Expected, ParseError, ParseErrorKind};

word! {
    /// The sha256 of an image: 64 lower-case hexadecimal digits.
    Digest, check_digits, Digest::LENGTH
}

word! {
    /// The first 16 digits of a digest, shown to people.
    ImageId, check_digits, ImageId::LENGTH
}

impl Digest {
    /// The number of digits in a digest.
    pub const LENGTH: usize = 64;

    /// Writes the 32 bytes of a sha256 as digits.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        let mut text = String::with_capacity(Self::LENGTH);
        for byte in bytes {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        Self(text.into())
    }

    /// Returns the short form.
    #[must_use]
    pub fn id(&self) -> ImageId {
        ImageId(self.0[..ImageId::LENGTH].into())
    }
}

impl ImageId {
    /// The number of digits in an id.
    pub const LENGTH: usize = 16;
}

/// Tells whether a text has as many lower-case digits as `length` says.
pub(crate) fn is_digits(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn check_digits(text: &str, part: Expected, length: usize) -> Result<(), ParseError> {
    check_length(text, part)?;
    if is_digits(text, length) {
        return Ok(());
    }
    let error = |offset, kind| Err(ParseError::new(part, text, offset, kind));
    if text.is_empty() {
        return error(0, ParseErrorKind::Empty);
    }
    if let Some((offset, character)) = text.char_indices().find(|(_, c)| !c.is_ascii_hexdigit()) {
        return error(offset, ParseErrorKind::Character { part, character });
    }
    if text.len() != length {
        let (digits, found) = (part.with_article(), text.len());
        let problem = format!("{digits} has {length} digits, but this has {found}");
        return error(found.min(length), ParseErrorKind::Other(problem));
    }
    // Upper case is refused and not converted: a digest is also the name of a
    // directory, and one image has one spelling.
    Err(upper_case(text, part))
}

/// Points at the first upper-case digit.
pub(crate) fn upper_case(text: &str, part: Expected) -> ParseError {
    let offset = text.find(|c: char| c.is_ascii_uppercase()).unwrap_or(0);
    let hint = format!("write `{}`", text.to_ascii_lowercase());
    let kind = ParseErrorKind::Other(format!("{} is written in lower case", part.with_article()));
    ParseError::new(part, text, offset, kind).with_hint(Some(hint))
}
