// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Lines of YAML with comments for people.

/// The width that comments keep to.
const WIDTH: usize = 90;

/// A file that is being written.
#[derive(Debug, Default)]
pub(super) struct Lines {
    text: String,
}

impl Lines {
    pub(super) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// Writes a comment, in as many lines as it takes.
    pub(super) fn comment(&mut self, indent: usize, text: &str) {
        let mut line = String::new();
        for word in text.split_whitespace() {
            if !line.is_empty() && indent + 3 + line.len() + word.len() > WIDTH {
                self.line(indent, &format!("# {line}"));
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.line(indent, format!("# {line}").trim_end());
    }

    /// Writes a key with what is below it in the lines that follow.
    pub(super) fn key(&mut self, indent: usize, key: &str) {
        self.line(indent, &format!("{key}:"));
    }

    /// Writes a key with its value.
    pub(super) fn entry(&mut self, indent: usize, key: &str, value: &str) {
        self.line(indent, &format!("{key}: {}", scalar(value)));
    }

    /// Writes an item of a list.
    pub(super) fn item(&mut self, indent: usize, value: &str) {
        self.line(indent, &format!("- {}", scalar(value)));
    }

    /// Writes the first entry of an item of a list.
    pub(super) fn item_entry(&mut self, indent: usize, key: &str, value: &str) {
        self.line(indent, &format!("- {key}: {}", scalar(value)));
    }

    pub(super) fn line(&mut self, indent: usize, text: &str) {
        self.text.extend(std::iter::repeat_n(' ', indent));
        self.text.push_str(text);
        self.text.push('\n');
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// Writes a text so that every reader of YAML takes it for that text.
///
/// Without quotes where that is beyond doubt, since people read and change it.
fn scalar(text: &str) -> String {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '/';
    let is_inner = |c: char| c.is_ascii_alphanumeric() || " _/.-+~=@,:'".contains(c);
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = text.starts_with(is_start)
        && text.chars().all(is_inner)
        && !text.contains(": ")
        && !text.ends_with([':', ' '])
        && !words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_plain || matches!(text, "true" | "false") {
        return text.to_owned();
    }
    // Whatever cannot be in one line has no business in a system configuration.
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_and_paths_stand_as_people_write_them() {
        let texts = ["gcc@12.2.0 languages:='c,c++'", "/usr", "+cuda", "8", "a: b", "it's #1"];
        let written = texts.map(scalar);
        let expected =
            ["gcc@12.2.0 languages:='c,c++'", "/usr", "'+cuda'", "'8'", "'a: b'", "'it''s #1'"];
        assert_eq!(written, expected);
    }

    #[test]
    fn a_long_comment_has_several_lines() {
        let mut lines = Lines::default();
        lines.comment(2, &"word ".repeat(30));
        assert!(
            lines.finish().lines().all(|line| line.starts_with("  # word") && line.len() <= WIDTH)
        );
    }
}
