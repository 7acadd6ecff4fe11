// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Texts in the variables of a job: bytes that could be taken for something else are escaped.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

pub(crate) fn escaped(text: &OsStr) -> String {
    let mut escaped = String::new();
    for byte in text.as_bytes() {
        match byte {
            b'!'..=b'~' if !b",:;=%".contains(byte) => escaped.push(char::from(*byte)),
            _ => escaped.push_str(&format!("%{byte:02x}")),
        }
    }
    escaped
}

pub(crate) fn plain(text: &str) -> Option<OsString> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let byte = match byte {
            b'%' => u8::try_from(digit()? * 16 + digit()?).ok()?,
            byte => byte,
        };
        if byte == 0 {
            return None;
        }
        bytes.push(byte);
    }
    Some(OsString::from_vec(bytes))
}

/// Reads what may be in a message that root writes.
pub(crate) fn printable(text: &str) -> Option<String> {
    let text = plain(text)?.into_string().ok()?;
    let is_printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    is_printable.then_some(text)
}
