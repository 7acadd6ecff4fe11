// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `${@VAR@}` in the values of a patch.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

const OPENING: &str = "${@";
const CLOSING: &str = "@}";

/// Replaces every `${@VAR@}` by the value of `VAR`, or by nothing if there is
/// no such variable.
///
/// What does not have exactly this form, with a name that shells accept, stays
/// as it is. The text that is put in is not looked at again.
pub(crate) fn expand(text: &str, calling: &BTreeMap<OsString, OsString>) -> Vec<u8> {
    let mut expanded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(OPENING) {
        expanded.extend_from_slice(&rest.as_bytes()[..start]);
        rest = &rest[start + OPENING.len()..];
        let name = &rest[..shell_name_length(rest)];
        match rest[name.len()..].strip_prefix(CLOSING) {
            Some(after) if !name.is_empty() => {
                let value = calling.get(OsStr::new(name));
                expanded.extend_from_slice(value.map_or(b"", |value| value.as_bytes()));
                rest = after;
            }
            _ => expanded.extend_from_slice(OPENING.as_bytes()),
        }
    }
    expanded.extend_from_slice(rest.as_bytes());
    expanded
}

/// Returns how many bytes at the beginning of a text are a name that shells
/// accept: `[A-Za-z_][A-Za-z0-9_]*`.
fn shell_name_length(text: &str) -> usize {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len())
}
