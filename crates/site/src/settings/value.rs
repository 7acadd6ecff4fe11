// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Values that know where they come from, and the variables of the caller.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use cabane_recipe::PathTemplate;
use cabane_report::{Kind, Report, Result};

use crate::env_vars;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// A configuration file.
    File(PathBuf),
    /// An environment variable.
    Variable(&'static str),
    /// An option on the command line.
    Option(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::Option(name) => write!(f, "option {name}"),
        }
    }
}

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub origin: Origin,
}

impl<T> Value<T> {
    pub(super) fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }

    pub(super) fn some(self) -> Value<Option<T>> {
        Value::new(Some(self.value), self.origin)
    }
}

impl Value<Option<PathBuf>> {
    /// Returns the directory.
    ///
    /// # Errors
    ///
    /// There is none, because the home directory is unknown.
    pub fn directory(&self) -> Result<&Path> {
        let none = || Report::new(Kind::Failure, NO_HOME);
        self.value.as_deref().ok_or_else(none)
    }
}

/// Why there is no directory below the home directory.
pub(super) const NO_HOME: &str = "the variable HOME is not set";

/// Says that a value is none, and where it comes from.
pub(super) fn bad(origin: &Origin, value: &str, reason: impl fmt::Display) -> Report {
    Report::new(Kind::Usage, format!("invalid value `{value}` for {origin}: {reason}"))
}

/// The variables of the caller, read as text.
pub(super) struct Variables<'a>(pub(super) &'a BTreeMap<OsString, OsString>);

impl Variables<'_> {
    /// Returns the value; a variable that is set to nothing counts as not set.
    pub(super) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    pub(super) fn text(&self, name: &'static str) -> Option<(String, Origin)> {
        Some((self.get(name)?.to_string_lossy().into_owned(), Origin::Variable(name)))
    }

    pub(super) fn directory(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// Fills in a path of a configuration file.
    pub(super) fn resolve(&self, path: &PathTemplate, origin: &Origin) -> Result<PathBuf> {
        path.resolve(|name| self.get(name).map(OsStr::to_owned)).map_err(|error| {
            let hint = error.hint();
            bad(origin, path.as_str(), error).hinted(hint)
        })
    }

    pub(super) fn below_home(&self, variable: &str, relative: &str) -> Option<PathBuf> {
        self.directory(variable).or_else(|| Some(self.directory(env_vars::HOME)?.join(relative)))
    }
}
