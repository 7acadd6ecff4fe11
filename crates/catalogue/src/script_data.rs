// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Data for the script of the search.
//!
//! From a file, a browser loads scripts and no other data. So data are scripts that call one function
//! with a value. They are ASCII, so that no character set changes them, and nothing in them ends a
//! script.

use cabane_web_page::base64;
use serde::Serialize;

/// Writes a script that hands a value over under a name.
pub(crate) fn script(name: &str, value: &impl Serialize) -> Vec<u8> {
    // Maps with keys that are text, lists, texts, and numbers are always JSON.
    let name = serde_json::to_string(name).unwrap_or_default();
    let value = serde_json::to_string(value).unwrap_or_default();
    format!("catalogue({},{});\n", plain(&name), plain(&value)).into_bytes()
}

/// Escapes what is special in a script or a page, and what is not ASCII. In JSON it is in texts only.
fn plain(json: &str) -> String {
    let mut safe = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if character.is_ascii() && !matches!(character, '<' | '>' | '&' | '\u{7f}') {
            safe.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            safe.push_str(&format!("\\u{unit:04x}"));
        }
    }
    safe
}

/// Writes ascending numbers: the distance to the one before in bytes of seven bits, the lowest first,
/// of which all but the last have the eighth; in Base64.
pub(crate) fn numbers(ascending: impl IntoIterator<Item = usize>) -> String {
    let mut bytes = Vec::new();
    let mut before = 0;
    for number in ascending {
        let mut rest = number - before;
        before = number;
        loop {
            let low = u8::try_from(rest & 0x7f).unwrap_or_default();
            rest >>= 7;
            bytes.push(if rest > 0 { low | 0x80 } else { low });
            if rest == 0 {
                break;
            }
        }
    }
    base64(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_a_text() {
        let hostile = "</script><!-- \u{2028}\u{2029} ä 😀 \" \\ \n \u{7f}";
        let script = String::from_utf8(script("x", &hostile)).unwrap();
        assert!(script.is_ascii() && !script.contains(['<', '>', '&', '\u{7f}']), "{script}");
        let value = script.strip_prefix("catalogue(\"x\",").unwrap().strip_suffix(");\n").unwrap();
        assert_eq!(serde_json::from_str::<String>(value).unwrap(), hostile);
    }

    #[test]
    fn numbers_are_distances() {
        assert_eq!(numbers([0, 1, 129, 20_000]), base64(&[0, 1, 0x80, 1, 0x9f, 0x9b, 1]));
        assert_eq!(numbers([]), "");
    }
}
