// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Paths of the configuration that are another directory for every user.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::diagnostic::quote;

/// A path that begins with `/`, `~` or a variable, and may contain variables:
/// `/apps/images`, `~/images`, `$SCRATCH/images`, `/dev/shm/${USER}/build`.
///
/// A site writes one file for all its users; which directory is meant is known
/// when the variables are, and this crate does not read them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathTemplate {
    /// As it was written.
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable(String),
}

/// Why a path of the configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PathTemplateError {
    message: String,
    hint: Option<String>,
}

impl PathTemplateError {
    /// Says what is wrong with a path, and what to type instead.
    fn new(text: &str, problem: &str, hint: Option<String>) -> Self {
        Self { message: format!("the path {} {problem}", quote(text)), hint }
    }

    /// Returns what can be typed instead, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

impl PathTemplate {
    /// Returns the path as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the path that is meant, with the values that `variable` gives.
    ///
    /// `~` is the value of `HOME`. A variable without a value, or with an empty
    /// one, is an error: half a path could be a directory of others.
    pub fn resolve(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<PathBuf, PathTemplateError> {
        let mut path = OsString::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => path.push(text),
                Part::Variable(name) => {
                    let value = variable(name).filter(|value| !value.is_empty());
                    path.push(value.ok_or_else(|| self.lacks(name))?);
                }
            }
        }
        let path = PathBuf::from(path);
        if path.is_absolute() {
            return Ok(path);
        }
        let problem = format!("is not absolute: it stands for {}", quote(&path.to_string_lossy()));
        let hint = "set its variables to absolute paths".to_owned();
        Err(PathTemplateError::new(&self.text, &problem, Some(hint)))
    }

    /// Says that a variable is not set, or empty.
    fn lacks(&self, variable: &str) -> PathTemplateError {
        let (name, path) = (quote(variable), quote(&self.text));
        PathTemplateError {
            message: format!("the variable {name} in the path {path} is not set"),
            hint: Some(format!("set it: `export {variable}=…`")),
        }
    }
}

impl FromStr for PathTemplate {
    type Err = PathTemplateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = |problem, hint| Err(PathTemplateError::new(text, problem, hint));
        if text.contains(char::is_control) {
            return refused("has a control character", None);
        }
        let mut parts = Vec::new();
        let mut rest = text;
        if let Some(behind) = text.strip_prefix('~') {
            if !behind.is_empty() && !behind.starts_with('/') {
                let problem = "begins with the home directory of another user";
                return refused(problem, Some("write the whole path".to_owned()));
            }
            parts.push(Part::Variable("HOME".to_owned()));
            rest = behind;
        } else if !text.starts_with(['$', '/']) {
            let meant = quote(&format!("~/{}", text.trim_start_matches("./")));
            let hint = format!("write the whole path, such as {meant}");
            return refused("does not begin with `/`, `~/` or a variable", Some(hint));
        }
        while let Some((before, behind)) = rest.split_once('$') {
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            let Some((name, behind)) = variable(behind) else {
                let hint = "write a variable as `$HOME` or `${HOME}`".to_owned();
                return refused("has a `$` without the name of a variable", Some(hint));
            };
            parts.push(Part::Variable(name.to_owned()));
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self { text: text.to_owned(), parts })
    }
}

/// Takes the name of a variable, with or without braces, off a text.
fn variable(text: &str) -> Option<(&str, &str)> {
    let (name, behind) = if let Some(braced) = text.strip_prefix('{') {
        braced.split_once('}')?
    } else {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = text.find(|c| !is_letter(c)).unwrap_or(text.len());
        text.split_at(end)
    };
    let is_name = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some((name, behind))
}

impl fmt::Display for PathTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn resolved(text: &str) -> Result<PathBuf, PathTemplateError> {
        text.parse::<PathTemplate>()?.resolve(|name| match name {
            "HOME" => Some("/home/ada".into()),
            "SCRATCH" => Some("/scratch".into()),
            "EMPTY" => Some(OsString::new()),
            "HERE" => Some("here".into()),
            _ => None,
        })
    }

    #[test]
    fn a_tilde_and_variables_are_replaced() {
        let paths = ["/a/b", "~/i", "~", "$SCRATCH/i", "/x/${HERE}y/$HERE"].map(resolved);
        let expected = ["/a/b", "/home/ada/i", "/home/ada", "/scratch/i", "/x/herey/here"];
        assert_eq!(paths, expected.map(|path| Ok(PathBuf::from(path))));
    }

    #[test]
    fn a_value_is_not_looked_at_again() {
        let path = "$A/b".parse::<PathTemplate>().unwrap();
        assert_eq!(path.resolve(|_| Some("/$A/~".into())), Ok(PathBuf::from("/$A/~/b")));
    }

    #[test]
    fn a_variable_that_is_not_set_is_an_error() {
        assert_eq!(
            resolved("$MISSING/i").unwrap_err().to_string(),
            "the variable `MISSING` in the path `$MISSING/i` is not set"
        );
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        assert_eq!(
            resolved("$EMPTY/i").unwrap_err().to_string(),
            "the variable `EMPTY` in the path `$EMPTY/i` is not set"
        );
    }

    #[test]
    fn a_path_that_stays_relative_is_an_error() {
        assert_eq!(
            resolved("$HERE/i").unwrap_err().to_string(),
            "the path `$HERE/i` is not absolute: it stands for `here/i`"
        );
    }

    #[test]
    fn a_dollar_needs_a_name() {
        let broken = ["/a/$", "/a/$/b", "/a/${}", "/a/${B", "$1/a", "/${A-B}"];
        let is_refused = |text: &str| {
            let error = resolved(text).unwrap_err().to_string();
            error == format!("the path `{text}` has a `$` without the name of a variable")
        };
        assert!(broken.into_iter().all(is_refused));
    }

    proptest! {
        #[test]
        fn what_is_accepted_resolves_to_an_absolute_path_or_says_why_not(text in "[~$/{}aA_1.]{0,12}") {
            if let Ok(path) = text.parse::<PathTemplate>() {
                prop_assert_eq!(path.to_string(), text);
                if let Ok(resolved) = path.resolve(|_| Some("/v".into())) {
                    prop_assert!(resolved.is_absolute());
                }
            }
        }
    }
}
