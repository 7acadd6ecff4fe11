// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From bytes to text: size, encoding, and characters that do not belong.
//!
//! This is checked before any parser sees the file, so that no parser has to
//! be trusted with a file of any size or with characters no one can see.

use std::path::Path;

use crate::diagnostic::{Diagnostic, quote};

/// The largest recipe or configuration file that is read, in bytes.
pub const MAX_FILE_SIZE: u64 = 4 * 1024 * 1024;

/// Returns the text of a file, or says why it is not one.
pub(crate) fn check<'a>(file: &Path, bytes: &'a [u8]) -> Result<&'a str, Diagnostic> {
    // A caller need not read further than one byte beyond, so the size is not known.
    if bytes.len() as u64 > MAX_FILE_SIZE {
        let message = format!("the file has more than {MAX_FILE_SIZE} bytes (4 MiB)");
        return Err(Diagnostic::about_file(file, &message)
            .with_hint("no recipe needs so much; is this the right file?"));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(Diagnostic::about_file(file, "the file is written in UTF-16")
            .with_hint("save it as UTF-8 without changing the text"));
    }
    let text = str::from_utf8(bytes).map_err(|error| not_utf8(file, bytes, error.valid_up_to()))?;
    match text.char_indices().find(|&(offset, c)| is_refused(offset, c)) {
        None => Ok(text),
        Some((offset, character)) => Err(unwanted(file, text, offset, character)),
    }
}

/// Tells whether a character has no place in a file that people write.
///
/// A byte order mark at the very beginning is what some editors write.
fn is_refused(offset: usize, character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => false,
        '\u{feff}' => offset > 0,
        _ => character.is_control(),
    }
}

fn unwanted(file: &Path, text: &str, offset: usize, character: char) -> Diagnostic {
    let place = offset..offset + character.len_utf8();
    let message = match character {
        '\0' => "the file contains a NUL character".to_owned(),
        '\u{feff}' => "the file contains a byte order mark in the middle".to_owned(),
        _ => format!("the file contains the control character {}", quote(&character.to_string())),
    };
    let hint = if text.contains('\0') {
        "the file is not a text; copy or write it again"
    } else {
        "remove it; inside double quotes it can be written as an escape"
    };
    Diagnostic::new(file, text, place, &message).with_hint(hint)
}

/// Points at the first byte that is not UTF-8, in a line of which the rest can
/// be shown.
fn not_utf8(file: &Path, bytes: &[u8], offset: usize) -> Diagnostic {
    // The byte order of the line does not matter: what cannot be read is one
    // character in the shown text, and as many lines come before it.
    let end = bytes.len().min(offset + 1_000);
    let text = String::from_utf8_lossy(&bytes[..end]);
    let message = format!(
        "the file is not UTF-8: the byte 0x{:02x} is not part of a character",
        bytes[offset]
    );
    Diagnostic::new(file, &text, offset..offset + '\u{fffd}'.len_utf8(), &message)
        .with_hint("save the file as UTF-8; many editors call it the encoding of the file")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(bytes: &[u8]) -> String {
        check(Path::new("config.yaml"), bytes).unwrap_err().to_string()
    }

    #[test]
    fn a_file_of_latin_1_is_refused_where_it_stops_being_utf_8() {
        assert_eq!(
            refusal(b"name: a\ndescription: Z\xfcrich\n").lines().take(3).collect::<Vec<_>>(),
            [
                "config.yaml:2:15: the file is not UTF-8: the byte 0xfc is not part of a character",
                "  | description: Z\u{fffd}rich",
                "  |               ^",
            ]
        );
    }

    #[test]
    fn a_file_of_utf_16_is_recognised() {
        assert!(refusal(b"\xff\xfen\0a\0").contains("written in UTF-16"));
    }

    #[test]
    fn a_nul_character_is_refused_with_its_place() {
        assert!(refusal(b"name: a\0b\n").starts_with("config.yaml:1:8: the file contains a NUL"));
    }

    #[test]
    fn a_byte_order_mark_at_the_beginning_is_accepted() {
        assert!(check(Path::new("f"), "\u{feff}name: a\n".as_bytes()).is_ok());
    }

    #[test]
    fn a_byte_order_mark_at_the_end_is_refused() {
        let message = refusal("name\u{feff}".as_bytes());
        assert!(
            message.starts_with("config.yaml:1:5: the file contains a byte order mark"),
            "{message}"
        );
    }

    #[test]
    fn a_file_of_the_largest_size_is_accepted() {
        let bytes = vec![b' '; usize::try_from(MAX_FILE_SIZE).unwrap()];
        assert!(check(Path::new("f"), &bytes).is_ok());
    }

    #[test]
    fn one_byte_more_is_refused() {
        let bytes = vec![b' '; usize::try_from(MAX_FILE_SIZE).unwrap() + 1];
        assert!(refusal(&bytes).contains("more than 4194304 bytes"));
    }
}
