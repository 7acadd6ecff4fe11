// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The languages of files.

/// The language of a file, for hints that say what to type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Yaml,
    Toml,
}

impl Language {
    /// Returns `key: value` as it is written in the language.
    pub(crate) fn assignment(self, key: &str, value: &str) -> String {
        match self {
            Self::Yaml => format!("{key}: {value}"),
            Self::Toml => format!("{key} = {value}"),
        }
    }
}
