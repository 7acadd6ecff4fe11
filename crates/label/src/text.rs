// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What all words have in common: they are strings outside, types inside.

use crate::{Expected, ParseError, ParseErrorKind};

/// The longest text that is read at all, in bytes: 64 KiB.
///
/// What a person types is far shorter. A longer text is refused before it is
/// looked at.
pub const MAX_TEXT_LENGTH: usize = 64 * 1024;

/// Refuses a text that is too long to be looked at.
pub(crate) fn check_length(text: &str, expected: Expected) -> Result<(), ParseError> {
    if text.len() <= MAX_TEXT_LENGTH {
        return Ok(());
    }
    let kind = ParseErrorKind::TextTooLong { bytes: text.len(), limit: MAX_TEXT_LENGTH };
    Err(ParseError::new(expected, text, MAX_TEXT_LENGTH, kind))
}

/// Implements serde for types that are printed by `Display` and read by
/// `FromStr`.
macro_rules! serde_as_string {
    ($($type:ty),+ $(,)?) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}
pub(crate) use serde_as_string;
