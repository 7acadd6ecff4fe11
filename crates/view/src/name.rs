// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The names of views, and how users ask for them.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use cabane_label::{Expected, Name, ParseError, ParseErrorKind, check_part, list_elements};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The name of a view; its grammar is that of a label's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewName(String);

impl ViewName {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ViewName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        check_part(text, Expected::ViewName)?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ViewName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<str> for ViewName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ViewName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for ViewName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ViewName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// A view as a user asks for it: `default` or `prgenv-gnu:default`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ViewDescription {
    /// The name of the image that has the view; needed where several images
    /// have a view of this name.
    pub uenv: Option<String>,
    /// The view.
    pub view: ViewName,
}

impl FromStr for ViewDescription {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((uenv, view)) = text.split_once(':') else {
            return Ok(Self {
                uenv: None,
                view: text.parse()?,
            });
        };
        let error = |offset, kind| Err(ParseError::new(Expected::View, text, offset, kind));
        if uenv.is_empty() {
            let kind = ParseErrorKind::MissingBefore {
                part: Expected::Uenv,
                separator: ":",
            };
            return error(0, kind);
        }
        if view.is_empty() {
            let kind = ParseErrorKind::MissingAfter {
                part: Expected::View,
                separator: ':',
            };
            return error(text.len(), kind);
        }
        let uenv: Name = uenv.parse().map_err(|e: ParseError| e.within(text, 0))?;
        let view = view
            .parse()
            .map_err(|e: ParseError| e.within(text, uenv.as_str().len() + 1))?;
        Ok(Self {
            uenv: Some(uenv.to_string()),
            view,
        })
    }
}

impl fmt::Display for ViewDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.uenv {
            None => self.view.fmt(f),
            Some(uenv) => write!(f, "{uenv}:{}", self.view),
        }
    }
}

/// Reads a list as `--view` takes it: `prgenv-gnu:default,modules`.
pub fn parse_view_list(text: &str) -> Result<Vec<ViewDescription>, ParseError> {
    list_elements(text, Expected::ViewList, Expected::View)?
        .into_iter()
        .map(|(start, element)| {
            element
                .parse()
                .map_err(|e: ParseError| e.within(text, start))
        })
        .collect()
}
