// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How users ask for views.

use std::fmt;
use std::str::FromStr;

use cabane_label::{
    Expected, LabelPattern, MountPoint, Name, ParseError, ParseErrorKind, ViewName, parse_list,
};

/// Which image is meant by what precedes a view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ViewOwner {
    /// An image with this name, or with a label like this: `prgenv-gnu`,
    /// `prgenv-gnu/24.11:v1`.
    Label(Box<LabelPattern>),
    /// The image that is mounted there.
    MountPoint(MountPoint),
}

impl ViewOwner {
    /// Returns the name, if a name is all that was typed.
    ///
    /// An image that has no label has a name, too.
    #[must_use]
    pub fn name(&self) -> Option<&Name> {
        let Self::Label(pattern) = self else {
            return None;
        };
        let name = pattern.name.as_ref()?;
        let alone = LabelPattern { name: Some(name.clone()), ..LabelPattern::default() };
        (**pattern == alone).then_some(name)
    }
}

impl FromStr for ViewOwner {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A pattern may begin with the version, `/24.11`; a view is not named like that.
        if text.starts_with('/') {
            return text.parse().map(Self::MountPoint);
        }
        text.parse().map(Box::new).map(Self::Label)
    }
}

impl fmt::Display for ViewOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(pattern) => pattern.fmt(f),
            Self::MountPoint(mount_point) => mount_point.fmt(f),
        }
    }
}

/// A view as a user asks for it: `default`, `prgenv-gnu:default`,
/// `prgenv-gnu/24.11:default` or `/user-environment:default`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ViewDescription {
    /// The image that has the view; needed where several images have a view of
    /// this name.
    pub uenv: Option<ViewOwner>,
    /// The view.
    pub view: ViewName,
}

impl FromStr for ViewDescription {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A label has colons of its own; the name of a view has none.
        let Some((uenv, view)) = text.rsplit_once(':') else {
            return Ok(Self { uenv: None, view: text.parse()? });
        };
        let error = |offset, kind| Err(ParseError::new(Expected::View, text, offset, kind));
        if uenv.is_empty() {
            let kind = ParseErrorKind::MissingBefore { part: Expected::Uenv, separator: ":" };
            return error(0, kind);
        }
        if view.is_empty() {
            let kind = ParseErrorKind::MissingAfter { part: Expected::View, separator: ':' };
            return error(text.len(), kind);
        }
        let start = uenv.len() + 1;
        let uenv = uenv.parse().map_err(|e: ParseError| e.within(text, 0))?;
        let view = view.parse().map_err(|e: ParseError| e.within(text, start))?;
        Ok(Self { uenv: Some(uenv), view })
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
    parse_list(text, Expected::ViewList, Expected::View)
}
