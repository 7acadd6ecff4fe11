// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! JSON that remembers where each value stands.
//!
//! A value is first kept as the text it was written with. That this text is a
//! part of the document gives the line and the column of everything that can
//! be wrong with its meaning, and of each key that comes twice.

use std::collections::HashSet;
use std::fmt;

use cabane_label::escape;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::Meta;

/// Metadata that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct MetaError {
    /// The reason, safe to show.
    pub reason: String,
    /// The line of the file, from 1.
    pub line: usize,
    /// The character in this line, from 1.
    pub column: usize,
}

/// How deep objects and arrays may be inside of each other.
const MAX_DEPTH: usize = 128;

/// A whole document.
#[derive(Clone, Copy)]
pub(crate) struct Document<'a> {
    text: &'a str,
}

/// One key of an object and its value.
pub(crate) struct Member<'a> {
    pub(crate) key: String,
    /// The key as it is written.
    pub(crate) written_key: &'a RawValue,
    pub(crate) value: &'a RawValue,
}

impl<'a> Document<'a> {
    /// Checks that a text is JSON of bounded size and depth; returns its root.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<(Self, &'a RawValue), MetaError> {
        if u64::try_from(bytes.len()).is_ok_and(|length| length > Meta::MAX_SIZE) {
            let (bytes, limit) = (bytes.len(), Meta::MAX_SIZE);
            let reason = format!("the file has {bytes} bytes, and at most {limit} are read");
            return Err(MetaError { reason, line: 1, column: 1 });
        }
        let text = str::from_utf8(bytes).map_err(|error| {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            error_at(&valid, valid.len(), "the file is not UTF-8")
        })?;
        if let Some(offset) = too_deep(text) {
            let reason = format!("values are nested more than {MAX_DEPTH} deep");
            return Err(error_at(text, offset, reason));
        }
        let root = serde_json::from_str(text)
            .map_err(|error| error_at(text, offset_of(text, &error), not_json(&error)))?;
        Ok((Self { text }, root))
    }

    /// Makes an error that points to the beginning of a value or a key.
    pub(crate) fn error(self, place: &RawValue, reason: impl Into<String>) -> MetaError {
        let offset = place.get().as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        error_at(self.text, offset, reason)
    }

    /// Reads an object, which has each key only once.
    pub(crate) fn object(
        self,
        value: &'a RawValue,
        what: &dyn fmt::Display,
    ) -> Result<Vec<Member<'a>>, MetaError> {
        let entries: Entries<'a> = self.read(value, what, "an object")?;
        let mut keys = HashSet::with_capacity(entries.0.len());
        let mut members = Vec::with_capacity(entries.0.len());
        for (written_key, value) in entries.0 {
            let key: String = self.read(written_key, &"a key", "a text")?;
            if !keys.insert(key.clone()) {
                let what = what.to_string();
                let reason = format!("{} has `{}` twice", escape(&what), escape(&key));
                return Err(self.error(written_key, reason));
            }
            members.push(Member { key, written_key, value });
        }
        Ok(members)
    }

    /// Reads a value of a type that `serde_json` knows.
    pub(crate) fn read<T: Deserialize<'a>>(
        self,
        value: &'a RawValue,
        what: &dyn fmt::Display,
        expected: &'static str,
    ) -> Result<T, MetaError> {
        serde_json::from_str(value.get()).map_err(|error| {
            match error.classify() {
                Category::Data => self.wrong_type(value, what, expected),
                // Such as half of a surrogate pair, which only shows now.
                _ => self.error(value, not_json(&error)),
            }
        })
    }

    /// Makes an error about a value that is something else than it must be.
    pub(crate) fn wrong_type(
        self,
        value: &RawValue,
        what: &dyn fmt::Display,
        expected: &str,
    ) -> MetaError {
        self.error(value, format!("{} must be {expected}", escape(&what.to_string())))
    }
}

/// Tells whether a value is `null`.
pub(crate) fn is_null(value: &RawValue) -> bool {
    value.get() == "null"
}

/// Returns the byte at which the parser stopped; it counts columns in bytes.
fn offset_of(text: &str, error: &serde_json::Error) -> usize {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1)
}

fn error_at(text: &str, offset: usize, reason: impl Into<String>) -> MetaError {
    let is_before = |&(index, _): &(usize, char)| index < offset;
    let before = text.char_indices().take_while(is_before).last();
    let before = before.map_or("", |(index, last)| &text[..index + last.len_utf8()]);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let reason = reason.into();
    MetaError { reason, line, column: before[line_start..].chars().count() + 1 }
}

/// Takes the message without the place, which the error tells by itself.
fn not_json(error: &serde_json::Error) -> String {
    let mut message = error.to_string();
    if let Some(end) = message.rfind(" at line ") {
        message.truncate(end);
    }
    format!("the file is not JSON: {}", escape(&message))
}

/// Returns the place of the first bracket that opens too deep.
///
/// The parser does not count the depth of what it skips; but whatever else
/// reads the file may, and a file must not be good for one and bad for another.
fn too_deep(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let (mut in_string, mut escaped) = (false, false);
    for (offset, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Some(offset);
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// The keys and values of an object as they are written.
struct Entries<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor)
    }
}
