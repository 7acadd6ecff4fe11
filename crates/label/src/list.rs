// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Lists as they are typed: elements separated by commas.

use std::str::FromStr;

use crate::text::check_length;
use crate::{Expected, ParseError, ParseErrorKind};

const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// Reads a list, and says of a wrong element where it is in the whole list.
///
/// # Errors
///
/// A list that is empty, or an element that is not what it should be.
pub fn parse_list<T: FromStr<Err = ParseError>>(
    text: &str,
    list: Expected,
    element: Expected,
) -> Result<Vec<T>, ParseError> {
    list_elements(text, list, element)?
        .into_iter()
        .map(|(start, element)| element.parse().map_err(|e: ParseError| e.within(text, start)))
        .collect()
}

/// Cuts a list at its commas; gives each element with the byte where it begins.
///
/// Blanks around the whole list and one comma at its end are tolerated, as
/// scripts that put lists together leave them there. An empty element in the
/// middle is refused: something was meant to be there.
fn list_elements(
    text: &str,
    list: Expected,
    element: Expected,
) -> Result<Vec<(usize, &str)>, ParseError> {
    check_length(text, list)?;
    let trimmed = text.trim_start_matches(BLANKS);
    let mut start = text.len() - trimmed.len();
    let trimmed = trimmed.trim_end_matches(BLANKS);
    // A path may end with a blank, but not the last of a list.
    let list_text = trimmed.strip_suffix(',').map_or(trimmed, |l| l.trim_end_matches(BLANKS));
    if trimmed.is_empty() {
        return Err(ParseError::new(list, text, 0, ParseErrorKind::Empty));
    }
    let mut elements = Vec::new();
    for element_text in list_text.split(',') {
        if element_text.is_empty() {
            let kind = ParseErrorKind::MissingBefore { part: element, separator: "," };
            return Err(ParseError::new(list, text, start, kind));
        }
        elements.push((start, element_text));
        start += element_text.len() + 1;
    }
    Ok(elements)
}
