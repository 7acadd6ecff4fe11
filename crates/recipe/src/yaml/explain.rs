// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Broken YAML, explained.
//!
//! The parser knows what it cannot go on with and where. What the author of a
//! recipe did is a few frequent mistakes: a tab, a missing quote or bracket, a
//! colon inside a text, a line that begins in the wrong column. This module
//! goes from the one to the other; what it does not recognize it calls invalid
//! YAML and shows the place.

use granit_parser::ErrorKind;

use super::MAX_DEPTH;
use super::mistakes::{Scene, TEMPLATE, Text};
use crate::node::Place;
use crate::report::{Problem, Report};

pub(super) const TOO_LARGE: &str = "no recipe needs so much; is this the right file?";

/// Reading ends here; the reason is in the report.
#[derive(Debug)]
pub(super) struct Stop;

/// Says why reading ends.
pub(super) fn stop(report: &Report<'_>, place: Place, message: &str, hint: &str) -> Stop {
    report.problem_with_hint(place, message, hint);
    Stop
}

/// Says that lists and sections are nested too deep.
pub(super) fn too_deep(report: &Report<'_>, place: Place) -> Stop {
    let message = format!("lists and sections are nested more than {MAX_DEPTH} deep");
    stop(report, place, &message, TOO_LARGE)
}

/// Says that a list or a section is where a key is expected.
pub(super) fn no_word_as_key(report: &Report<'_>, place: Place) -> Stop {
    let before = place.start.saturating_sub(1);
    let around = report.source.text.get(before..).unwrap_or_default();
    if around.starts_with("{{") {
        let place = Place { start: before, end: before + 2 };
        return stop(report, place, TEMPLATE.0, TEMPLATE.1);
    }
    let hint = "put text that begins with `{` or `[` in quotes";
    stop(report, place, "a list or a section cannot be a key", hint)
}

/// Notes why the parser gave up.
pub(super) fn explain(report: &Report<'_>, kind: &ErrorKind, scene: Scene) {
    let problem = explained(kind, Text { text: report.source.text, scene });
    report.note(Some(problem.place), &problem.message, problem.hint.as_deref());
}

fn explained(kind: &ErrorKind, text: Text<'_>) -> Problem {
    use ErrorKind as K;
    match kind {
        K::TabNotAllowed
        | K::TabInBlockIndentation
        | K::TabInIndentation
        | K::TabInPlainScalar
        | K::TabAtBlockScalarStart
        | K::InvalidBlockEntryWhitespace => text.tab(),
        K::UnclosedQuotedScalar
        | K::InvalidQuotedScalarIndent
        | K::DocumentIndicatorInQuotedScalar => text.open_quote(),
        K::InvalidTrailingSingleQuotedScalar | K::InvalidTrailingDoubleQuotedScalar => {
            Problem::new(text.here(), "the text ended with the quote before this")
                .hint(text.quoting_hint("put the whole text in quotes"))
        }
        K::UnknownQuotedScalarEscape
        | K::InvalidQuotedScalarHexEscape
        | K::InvalidUnicodeEscape
        | K::InvalidLowSurrogateHexEscape
        | K::InvalidLowSurrogate
        | K::MissingLowSurrogate
        | K::UnpairedLowSurrogate => text.escape(),
        K::UnclosedFlowCollection { .. }
        | K::UnexpectedEofFlowSequence
        | K::UnexpectedEofFlowMapping
        | K::UnexpectedEofImplicitFlowMapping
        | K::ExpectedFlowMappingSeparator
        | K::ExpectedFlowSequenceSeparator
        | K::InvalidColonPlacement
        | K::InvalidFlowScalarIndent => text.open_bracket(),
        K::BlockEntryInFlowCollection => {
            Problem::new(text.here(), "a list of lines with `- ` is not allowed inside brackets")
                .hint("write it between brackets as well: `[one, other]`")
        }
        K::MismatchedFlowCollectionEnd { open, close } => {
            Problem::new(text.here(), format!("`{close}` cannot close `{open}`"))
                .hint(format!("write `{}`", if *open == '[' { ']' } else { '}' }))
        }

        K::MisplacedFlowCollectionEnd => text.closing_bracket(),
        K::MappingValueNotAllowed | K::MappingKeyNotAllowed => text.colon(),
        K::SimpleKeyExpected | K::InvalidSimpleKey => text.no_key(),
        K::ExpectedBlockMappingKey | K::ExpectedDocumentStart | K::InvalidIndentation => {
            text.column()
        }
        K::ExpectedBlockSequenceEntry => Problem::new(
            text.whole_line(text.scene.offset),
            "the lines above are a list, but this is no item",
        )
        .hint("begin it with `- `, or in another column if it belongs to a section"),
        K::BlockSequenceEntryNotAllowed => text.list_behind_key(),
        K::UnknownAnchor => text.alias(),
        K::UnexpectedCharacter { .. }
        | K::UnexpectedEofBlockMapping
        | K::UnexpectedEofBlockSequence
        | K::ExpectedNodeContent
        | K::InvalidBlockScalarHeader
        | K::MissingAnchorOrAliasName
        | K::PlainScalarStartsWithDashFlowIndicator => text.first_character(),
        K::CommentNotSeparated | K::CommentInterceptedScalar => {
            Problem::new(text.here(), "a comment begins with a space before its `#`")
                .hint(text.quoting_hint("add the space, or put the text in quotes"))
        }
        K::FlowMappingValueAdjacentCollection | K::InvalidMappingValueWhitespace => {
            Problem::new(text.here(), "a space is missing after the `:`")
        }
        K::RecursionLimitExceeded => Problem::new(
            text.here(),
            format!("lists and sections are nested more than {MAX_DEPTH} deep"),
        )
        .hint("no recipe needs so much; is this the right file?"),
        _ => Problem::new(text.here(), "this is not valid YAML")
            .hint("text with other characters than letters and digits may need quotes"),
    }
}
