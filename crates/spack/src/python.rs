// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The words of a Python file: enough of the language to find calls and their texts.

/// A piece of a Python file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    /// A name, a keyword, or a number.
    Word(&'t str),
    /// A text between quotes, as it is written; `None` if its value is computed: `f"…"`.
    Text(Option<&'t str>),
    /// Anything else, one character each.
    Sign(char),
    /// The end of a line that ends a statement.
    End,
}

/// Splits a file into its words. Any text can be split; what is no Python gives some words.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let mut tokens = Vec::with_capacity(text.len() / 8);
    while let Some(token) = reader.next() {
        if token != Token::End || tokens.last() != Some(&Token::End) {
            tokens.push(token);
        }
    }
    tokens
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// How many brackets are open.
    depth: usize,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Option<Token<'t>> {
        loop {
            let rest = &self.text[self.at..];
            let character = rest.chars().next()?;
            match character {
                '#' => self.at += rest.find('\n').unwrap_or(rest.len()),
                '\\' if rest[1..].starts_with('\n') => self.at += 2,
                '\n' => {
                    self.at += 1;
                    if self.depth == 0 {
                        return Some(Token::End);
                    }
                }
                c if c.is_whitespace() => self.at += c.len_utf8(),
                '\'' | '"' => return Some(Token::Text(Some(self.quoted(character)))),
                c if is_word(c) => return Some(self.word()),
                c => {
                    self.at += c.len_utf8();
                    match c {
                        '(' | '[' | '{' => self.depth += 1,
                        ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
                        _ => {}
                    }
                    return Some(Token::Sign(c));
                }
            }
        }
    }

    /// A word, or a text with letters before its quote.
    fn word(&mut self) -> Token<'t> {
        let rest = &self.text[self.at..];
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = &rest[..length];
        self.at += length;
        let quote = rest[length..].chars().next().filter(|c| matches!(c, '\'' | '"'));
        let is_prefix = word.len() <= 2 && word.chars().all(|c| "rRbBuUfF".contains(c));
        match quote {
            Some(quote) if is_prefix => {
                let text = self.quoted(quote);
                Token::Text(Some(text).filter(|_| !word.contains(['f', 'F'])))
            }
            _ => Token::Word(word),
        }
    }

    /// Takes a text with its quotes, and returns it without them.
    fn quoted(&mut self, quote: char) -> &'t str {
        let rest = &self.text[self.at..];
        let three = match quote {
            '"' => "\"\"\"",
            _ => "'''",
        };
        let mark = if rest.starts_with(three) { three } else { &three[..1] };
        let mut at = mark.len();
        let bytes = rest.as_bytes();
        loop {
            match bytes.get(at) {
                None => break,
                Some(b'\\') => at += 2,
                Some(b'\n') if mark.len() == 1 => break,
                Some(_) if bytes[at..].starts_with(mark.as_bytes()) => {
                    let text = rest.get(mark.len()..at).unwrap_or_default();
                    self.at += at + mark.len();
                    return text;
                }
                Some(_) => at += 1,
            }
        }
        // Never closed: goes on behind it.
        while !rest.is_char_boundary(at.min(rest.len())) {
            at += 1;
        }
        let at = at.min(rest.len());
        self.at += at;
        rest.get(mark.len()..at).unwrap_or_default()
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_and_comments_hide_what_is_in_them() {
        let text =
            "a(\"x # 'y'\", # b(\n 'it\\'s', f\"{z}\", r'\\d')\nc = \"\"\"d(\n\"\"\" \\\n e\n\n\n";
        let all = tokens(text);
        let expected = [
            Token::Word("a"),
            Token::Sign('('),
            Token::Text(Some("x # 'y'")),
            Token::Sign(','),
            Token::Text(Some("it\\'s")),
            Token::Sign(','),
            Token::Text(None),
            Token::Sign(','),
            Token::Text(Some("\\d")),
            Token::Sign(')'),
            Token::End,
            Token::Word("c"),
            Token::Sign('='),
            Token::Text(Some("d(\n")),
            Token::Word("e"),
            Token::End,
        ];
        assert_eq!(all, expected);
    }

    proptest! {
        #[test]
        fn any_text_can_be_split(text in "[a-c('\"\\\\\n#é \\[\\])]{0,40}") {
            tokens(&text);
        }
    }
}
