// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where an image is mounted.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::text::{check_length, serde_as_string};
use crate::{Expected, ParseError, ParseErrorKind};

/// The directory at which an image is mounted.
///
/// An absolute path in one spelling: without `.`, `..`, doubled or trailing
/// slashes, and without a blank at its end. It holds no control characters, and
/// no `:` or `,`, which separate it from other elements. Two mount points are the
/// same directory if they are equal, as far as symbolic links do not say
/// otherwise. `/` is the place of images with a root file system of their own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MountPoint(String);

impl MountPoint {
    /// The largest number of bytes, one less than the kernel's limit, which
    /// counts a closing NUL.
    pub const MAX_LENGTH: usize = 4095;

    /// Returns `/`.
    #[must_use]
    pub fn root() -> Self {
        Self("/".to_owned())
    }

    /// Tells whether it is `/`.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0 == "/"
    }

    /// Reads a mount point as [`FromStr`] does, but not `/`: the place of whatever is
    /// no whole root file system.
    ///
    /// # Errors
    ///
    /// A text that is no such place.
    pub fn below_root(text: &str) -> Result<Self, ParseError> {
        let place: Self = text.parse()?;
        if place.is_root() {
            let part = Expected::MountPoint;
            let kind = ParseErrorKind::Other("nothing can be mounted at `/`".to_owned());
            return Err(ParseError::new(part, text, 0, kind));
        }
        Ok(place)
    }

    /// Returns the path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// Returns the path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for MountPoint {
    type Err = ParseError;

    /// Reads a mount point; `//`, `/./` and a `/` at the end, which mean
    /// nothing, are left out.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let part = Expected::MountPoint;
        check_length(text, part)?;
        if let Some((offset, kind)) = mount_point_problem(text) {
            return Err(ParseError::new(part, text, offset, kind));
        }
        let mut path = String::with_capacity(text.len());
        for component in text.split('/').filter(|c| !matches!(*c, "" | ".")) {
            path.push('/');
            path.push_str(component);
        }
        if path.ends_with(' ') {
            // Where elements are read from a list, blanks at its end are dropped.
            let offset = text.rfind(' ').unwrap_or_default();
            let kind = ParseErrorKind::Other("a mount point cannot end with ` `".to_owned());
            return Err(ParseError::new(part, text, offset, kind));
        }
        if path.is_empty() {
            path.push('/');
        }
        Ok(Self(path))
    }
}

/// Returns the first thing that is wrong, and the byte where it is.
fn mount_point_problem(text: &str) -> Option<(usize, ParseErrorKind)> {
    if text.is_empty() {
        return Some((0, ParseErrorKind::Empty));
    }
    if !text.starts_with('/') {
        return Some((0, ParseErrorKind::Other("a mount point begins with `/`".to_owned())));
    }
    if let Some(problem) = path_problem(text, Expected::MountPoint) {
        return Some(problem);
    }
    let mut offset = 0;
    for component in text.split('/') {
        if component == ".." {
            let problem = "a mount point cannot contain `..`".to_owned();
            return Some((offset, ParseErrorKind::Other(problem)));
        }
        offset += component.len() + 1;
    }
    None
}

/// Returns the first thing that no path in a description may have.
pub(crate) fn path_problem(text: &str, part: Expected) -> Option<(usize, ParseErrorKind)> {
    let is_wrong = |c: char| c.is_control() || matches!(c, ':' | ',');
    if let Some((offset, character)) = text.char_indices().find(|&(_, c)| is_wrong(c)) {
        return Some((offset, ParseErrorKind::Character { part, character }));
    }
    let limit = MountPoint::MAX_LENGTH;
    let length = text.chars().count();
    (text.len() > limit).then_some((limit, ParseErrorKind::TooLong { part, length, limit }))
}

impl fmt::Display for MountPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<Path> for MountPoint {
    fn as_ref(&self) -> &Path {
        self.as_path()
    }
}

serde_as_string!(MountPoint);
