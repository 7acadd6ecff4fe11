// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Keys as texts (RFC 7468): a first line, base64, a last line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What stood between the first line and the last.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block<'a> {
    /// What the first line calls it: `PUBLIC KEY`.
    pub(super) kind: &'a str,
    /// The content; nothing if it is not base64.
    pub(super) content: Option<Vec<u8>>,
}

/// The parameters that OpenSSL writes before some keys, which say it again.
const PARAMETERS: &str = "EC PARAMETERS";
const WIDTH: usize = 64;

/// Reads the first key in a text.
pub(super) fn read(text: &str) -> Option<Block<'_>> {
    let mut lines = text.lines().map(str::trim);
    loop {
        let kind = lines.find_map(|line| {
            let kind = line.strip_prefix("-----BEGIN ")?;
            kind.strip_suffix("-----")
        })?;
        let end = format!("-----END {kind}-----");
        let mut is_whole = false;
        let is_inside = |line: &&str| {
            is_whole = *line == end;
            !is_whole
        };
        let body: String = lines.by_ref().take_while(is_inside).collect();
        if kind != PARAMETERS {
            let content = STANDARD.decode(body).ok().filter(|_| is_whole);
            return Some(Block { kind, content });
        }
    }
}

/// Writes a key as a text.
pub(super) fn write(kind: &str, content: &[u8]) -> String {
    let encoded = STANDARD.encode(content);
    let lines = encoded.as_bytes().chunks(WIDTH).map(String::from_utf8_lossy);
    let body = lines.collect::<Vec<_>>().join("\n");
    format!("-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_again() {
        for length in [1, 47, 48, 49, 138] {
            let content = vec![7; length];
            let text = write("PUBLIC KEY", &content);
            assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
            let block = read(&text).unwrap();
            assert_eq!((block.kind, block.content), ("PUBLIC KEY", Some(content)));
        }
    }

    #[test]
    fn parameters_before_a_key_are_passed_over() {
        let text = write(PARAMETERS, b"abc") + &write("EC PRIVATE KEY", b"def");
        assert_eq!(read(&text).unwrap().kind, "EC PRIVATE KEY");
    }

    #[test]
    fn a_key_that_is_cut_off_has_no_content() {
        let text = write("PUBLIC KEY", &[7; 91]);
        let cut = text.rfind("-----END").unwrap();
        assert_eq!(read(&text[..cut]).unwrap().content, None);
    }

    #[test]
    fn other_texts_have_no_key() {
        assert_eq!(read("ssh-ed25519 AAAA\n"), None);
    }
}
