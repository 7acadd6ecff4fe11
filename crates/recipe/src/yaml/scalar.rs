// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Scalars: what YAML 1.2 takes a word for.

use crate::node::{Kind, Scalar, Value};

/// Returns a scalar as a value; without quotes it may be nothing.
pub(super) fn value_of(text: &str, quoted: bool) -> Value {
    let is_null = !quoted && matches!(text, "" | "~" | "null" | "Null" | "NULL");
    if is_null {
        return Value::Null;
    }
    let kind = if quoted { Kind::Quoted } else { kind_of(text) };
    Value::Scalar(Scalar { text: text.to_owned(), kind })
}

/// Says what a scalar without quotes would be for YAML 1.2.
///
/// This is for messages, and for keys that want a number or a truth value;
/// the caller that wants text takes the text.
fn kind_of(text: &str) -> Kind {
    if matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE") {
        return Kind::Boolean;
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        Kind::Integer
    } else if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.parse::<f64>().is_ok()
    {
        Kind::Float
    } else {
        Kind::Bare
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_distinguished_from_numbers_and_truth_values() {
        let kinds = ["3", "-3", "3.10", "1e3", "3.11.2", "True", "yes", "v1", "."].map(kind_of);
        let (bare, integer, float) = (Kind::Bare, Kind::Integer, Kind::Float);
        assert_eq!(kinds, [integer, integer, float, float, bare, Kind::Boolean, bare, bare, bare]);
    }
}
