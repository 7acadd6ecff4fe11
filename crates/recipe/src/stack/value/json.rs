// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From a value to JSON, for programs that ask what was understood.

use std::fmt::Write as _;

use super::Yaml;

impl Yaml {
    /// Returns the value as JSON, in one line.
    ///
    /// A number that JSON could not hold as it is written becomes a text.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = String::new();
        write(&mut json, self);
        json
    }
}

fn write(json: &mut String, value: &Yaml) {
    match value {
        Yaml::Null => json.push_str("null"),
        Yaml::Bool(value) => json.push_str(if *value { "true" } else { "false" }),
        Yaml::Number(number) if is_json_number(number) => json.push_str(number),
        Yaml::Number(text) | Yaml::Text(text) => write_text(json, text),
        Yaml::List(items) => {
            let items = items.iter().map(|item| (None, item));
            write_all(json, ['[', ']'], items);
        }
        Yaml::Map(map) => write_all(json, ['{', '}'], map.iter().map(|(k, v)| (Some(k), v))),
    }
}

fn write_all<'a>(
    json: &mut String,
    [open, close]: [char; 2],
    entries: impl Iterator<Item = (Option<&'a str>, &'a Yaml)>,
) {
    json.push(open);
    for (index, (key, value)) in entries.enumerate() {
        if index > 0 {
            json.push(',');
        }
        if let Some(key) = key {
            write_text(json, key);
            json.push(':');
        }
        write(json, value);
    }
    json.push(close);
}

fn write_text(json: &mut String, text: &str) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            // Writing to a string does not fail.
            c if c.is_control() => drop(write!(json, "\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json.push('"');
}

/// Tells whether JSON has a number that is written like this.
fn is_json_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text, None),
    };
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    is_digits(whole) && (whole == "0" || !whole.starts_with('0')) && fraction.is_none_or(is_digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_json() {
        let value = Yaml::map([
            ("a\"b", Yaml::List(vec![Yaml::Null, true.into(), "c\n".into()])),
            ("n", Yaml::Number("3.10".into())),
            ("o", Yaml::Number("010".into())),
            ("m", Yaml::map([])),
        ]);
        assert_eq!(value.to_json(), r#"{"a\"b":[null,true,"c\u000a"],"n":3.10,"o":"010","m":{}}"#);
    }
}
