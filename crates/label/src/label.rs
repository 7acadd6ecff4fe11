// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The full name of an image.

use std::fmt;
use std::str::FromStr;

use crate::segment::{Segment, find, parse_segments};
use crate::text::serde_as_string;
use crate::{Expected, Name, ParseError, ParseErrorKind, System, Tag, Uarch, Version};

/// The full name of an image: `name/version:tag@system%uarch`.
///
/// Labels are ordered by their parts, each as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    /// What it is.
    pub name: Name,
    /// Which version of it.
    pub version: Version,
    /// Which release of this version.
    pub tag: Tag,
    /// The system it was built for.
    pub system: System,
    /// The microarchitecture it was built for.
    pub uarch: Uarch,
}

/// The parts that a user may leave out of the name of a new image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelDefaults {
    /// Taken where there is no `:tag`.
    pub tag: Tag,
    /// Taken where there is no `@system`.
    pub system: System,
    /// Taken where there is no `%uarch`.
    pub uarch: Uarch,
}

impl FromStr for Label {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let segments = parse_segments(text, Expected::Label)?;
        if let Some((offset, kind)) = not_in_label(&segments) {
            return Err(ParseError::new(Expected::Label, text, offset, kind));
        }
        let get = |part| find(&segments, part).ok_or_else(|| incomplete(text, &segments, part));
        Ok(Self {
            name: Name::from_checked(get(Expected::Name)?),
            version: Version::from_checked(get(Expected::Version)?),
            tag: Tag::from_checked(get(Expected::Tag)?),
            system: System::from_checked(get(Expected::System)?),
            uarch: Uarch::from_checked(get(Expected::Uarch)?),
        })
    }
}

/// Returns the first segment that only a pattern may have.
fn not_in_label(segments: &[Segment<'_>]) -> Option<(usize, ParseErrorKind)> {
    segments.iter().find_map(|segment| {
        let problem = match (segment.part, segment.text) {
            (Expected::Namespace, _) => "a label has no namespace",
            (Expected::System, "*") => "`@*` means every system, but a label names one",
            _ => return None,
        };
        Some((segment.begin(), ParseErrorKind::Other(problem.to_owned())))
    })
}

/// Points at the place where the missing part would stand.
fn incomplete(text: &str, segments: &[Segment<'_>], part: Expected) -> ParseError {
    let after = segments.iter().find(|segment| segment.part > part);
    let offset = after.map_or(text.len(), Segment::begin);
    let hint = "a label has all five parts: `name/version:tag@system%uarch`".to_owned();
    let kind = ParseErrorKind::Other(format!("the {part} is missing"));
    ParseError::new(Expected::Label, text, offset, kind).with_hint(Some(hint))
}

impl Label {
    /// Returns the label of the image with the debug symbols of this one: `name-debug/version:tag@system%uarch`.
    ///
    /// # Errors
    ///
    /// The name would be too long.
    pub fn of_debug_symbols(&self) -> Result<Self, ParseError> {
        let name = format!("{}-debug", self.name).parse()?;
        Ok(Self { name, ..self.clone() })
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, version, tag, system, uarch } = self;
        write!(f, "{name}/{version}:{tag}@{system}%{uarch}")
    }
}

serde_as_string!(Label);
