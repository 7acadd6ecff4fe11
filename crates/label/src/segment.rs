// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A label cut into its parts, each checked, before their meaning is known.

use crate::description::hint_about_scheme;
use crate::escape::escape;
use crate::part::part_problem;
use crate::text::check_length;
use crate::{Expected, ParseError, ParseErrorKind};

/// The characters that begin a part.
const SEPARATORS: [char; 4] = ['/', ':', '@', '%'];

/// One part of a label, without its separator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) part: Expected,
    pub(crate) text: &'a str,
    /// The byte where the text begins.
    start: usize,
}

impl Segment<'_> {
    /// The byte where the segment begins, with its separator.
    pub(crate) fn begin(&self) -> usize {
        let has_separator = !matches!(self.part, Expected::Namespace | Expected::Name);
        self.start - usize::from(has_separator)
    }

    fn separator(&self) -> &'static str {
        match self.part {
            Expected::Namespace | Expected::Name => "",
            part => &part.in_label()[..1],
        }
    }
}

/// Cuts a label or a pattern into its parts.
///
/// Every part is there at most once, in its order, and written as it must be;
/// the system may be `*`.
pub(crate) fn parse_segments(
    text: &str,
    expected: Expected,
) -> Result<Vec<Segment<'_>>, ParseError> {
    check_length(text, expected)?;
    if text.is_empty() {
        return Err(ParseError::new(expected, text, 0, ParseErrorKind::Empty));
    }
    let segments = cut(text);
    for (index, segment) in segments.iter().enumerate() {
        if let Some((offset, kind)) = problem(segment, &segments[..index]) {
            let hint = advice(text, &segments, &kind);
            return Err(ParseError::new(expected, text, offset, kind).with_hint(hint));
        }
    }
    Ok(segments)
}

/// Returns the text of one part, if it is there.
pub(crate) fn find<'a>(segments: &[Segment<'a>], part: Expected) -> Option<&'a str> {
    segments.iter().find(|segment| segment.part == part).map(|segment| segment.text)
}

/// Cuts without checking; every separator begins a segment, which may be empty.
fn cut(text: &str) -> Vec<Segment<'_>> {
    let mut segments = Vec::new();
    let mut start = 0;
    if let Some(end) = namespace_length(text) {
        segments.push(Segment { part: Expected::Namespace, text: &text[..end], start });
        start = end + 2;
    }
    let mut part = Expected::Name;
    loop {
        let rest = &text[start..];
        let end = rest.find(SEPARATORS).unwrap_or(rest.len());
        if part != Expected::Name || end > 0 {
            segments.push(Segment { part, text: &rest[..end], start });
        }
        let Some(separator) = rest[end..].chars().next() else {
            return segments;
        };
        part = match separator {
            '/' => Expected::Version,
            ':' => Expected::Tag,
            '@' => Expected::System,
            _ => Expected::Uarch,
        };
        start += end + 1;
    }
}

/// Returns the number of bytes before `::`, if a namespace begins the text.
pub(crate) fn namespace_length(text: &str) -> Option<usize> {
    let end = text.find("::")?;
    (!text[..end].contains(SEPARATORS)).then_some(end)
}

/// Returns what is wrong with a segment, given those before it.
fn problem(segment: &Segment<'_>, earlier: &[Segment<'_>]) -> Option<(usize, ParseErrorKind)> {
    let part = segment.part;
    if earlier.iter().any(|other| other.part == part) {
        return Some((segment.begin(), ParseErrorKind::Twice { part }));
    }
    if let Some(before) = earlier
        .iter()
        .map(|other| other.part)
        .find(|&other| other > part && !is_free_pair(part, other))
    {
        return Some((segment.begin(), ParseErrorKind::Order { part, before }));
    }
    if segment.text.is_empty() {
        let kind = match segment.separator().chars().next() {
            Some(separator) => ParseErrorKind::MissingAfter { part, separator },
            None => ParseErrorKind::MissingBefore { part, separator: "::" },
        };
        return Some((segment.start, kind));
    }
    if part == Expected::System && segment.text == "*" {
        return None;
    }
    part_problem(segment.text, part).map(|(offset, kind)| (segment.start + offset, kind))
}

/// System and microarchitecture may be in either order: users of other tools
/// write both. The form that is printed has one.
fn is_free_pair(part: Expected, before: Expected) -> bool {
    part == Expected::System && before == Expected::Uarch
}

/// Returns what the user may have meant.
fn advice(text: &str, segments: &[Segment<'_>], kind: &ParseErrorKind) -> Option<String> {
    if let Some(hint) = hint_about_scheme(text) {
        return Some(hint);
    }
    match kind {
        ParseErrorKind::Order { .. } => {
            in_order(segments).map(|corrected| format!("write `{}`", escape(&corrected)))
        }
        ParseErrorKind::Twice { part: Expected::Version }
        | ParseErrorKind::Character { character: '~' | '\\', .. } => {
            Some("a path begins with `.` or `/`, as in `./image.squashfs`".to_owned())
        }
        ParseErrorKind::Twice { part: Expected::Tag } => {
            Some("a mount point begins with `/`, as in `name:tag:/user-environment`".to_owned())
        }
        ParseErrorKind::MissingAfter { part: Expected::Tag, .. } if text.contains(":/") => {
            Some("a mount point comes last, and only where an image is used".to_owned())
        }
        ParseErrorKind::Character { character: '*', .. } => Some(
            "a part that is left out matches everything; only the system can be `@*`".to_owned(),
        ),
        ParseErrorKind::Character { character, .. } if character.is_whitespace() => {
            Some("several are separated by `,` without spaces".to_owned())
        }
        ParseErrorKind::TooLong { .. } if text.bytes().all(|b| b.is_ascii_hexdigit()) => {
            Some(format!("a digest has 64 digits, and this has {}", text.len()))
        }
        _ => None,
    }
}

/// Writes the parts in their order, if nothing else is wrong with them.
fn in_order(segments: &[Segment<'_>]) -> Option<String> {
    let mut sorted = segments.to_vec();
    sorted.sort_by_key(|segment| segment.part);
    let mut corrected = String::new();
    for (index, segment) in sorted.iter().enumerate() {
        if problem(segment, &sorted[..index]).is_some() {
            return None;
        }
        corrected.push_str(segment.separator());
        corrected.push_str(segment.text);
        if segment.part == Expected::Namespace {
            corrected.push_str("::");
        }
    }
    Some(corrected)
}
