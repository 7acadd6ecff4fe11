// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What all names have in common: they are strings outside, types inside.

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

/// Makes a type of a text that a function accepts as it is.
macro_rules! word {
    ($(#[$doc:meta])* $type:ident, $check:ident $(, $more:expr)?) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(smol_str::SmolStr);

        impl $type {
            /// Takes a text that was checked before.
            pub(crate) fn from_checked(text: &str) -> Self {
                debug_assert_eq!($check(text, crate::Expected::$type $(, $more)?), Ok(()));
                Self(smol_str::SmolStr::new(text))
            }

            /// Returns the text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $type {
            type Err = crate::ParseError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $check(text, crate::Expected::$type $(, $more)?)?;
                Ok(Self::from_checked(text))
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        crate::text::serde_as_string!($type);
    };
}
pub(crate) use word;
