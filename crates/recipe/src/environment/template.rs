// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `${VAR}` and `${VAR:-default}` in the texts of an environment file.
//!
//! There is nothing else: no commands, no arithmetic, no variable without braces. `$$`
//! stands for a `$`. What is put in is not looked at again.

use std::ffi::OsString;

use crate::report::Problem;

/// How deep defaults may be in defaults.
const MAX_DEPTH: usize = 8;

const UNCLOSED: &str = "this `${` has no `}`";

/// Replaces every variable of a text.
pub(super) fn expand(
    text: &str,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<String, Problem> {
    let mut reader = Reader { text, position: 0, variable };
    reader.read(0, true)
}

/// Writes a text so that it stands for itself.
pub(super) fn protect(text: &str) -> String {
    text.replace('$', "$$")
}

/// Cuts a text at every `:` that stands outside of `${…}`; gives each part with the
/// byte where it begins.
pub(super) fn parts(text: &str) -> Vec<(usize, &str)> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    let mut previous = ' ';
    for (offset, character) in text.char_indices() {
        match character {
            '{' if previous == '$' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => {
                parts.push((start, &text[start..offset]));
                start = offset + 1;
            }
            _ => {}
        }
        // The second of two is no beginning of a variable.
        let is_escaped = character == '$' && previous == '$';
        previous = if is_escaped { ' ' } else { character };
    }
    parts.push((start, &text[start..]));
    parts
}

struct Reader<'a> {
    text: &'a str,
    position: usize,
    variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.position..]
    }

    /// Reads to the end of the text, or of the default: its `}` is left. Where the
    /// result `is_used`, every variable in it must be set.
    fn read(&mut self, depth: usize, is_used: bool) -> Result<String, Problem> {
        let mut result = String::new();
        while let Some(character) = self.rest().chars().next() {
            if depth > 0 && character == '}' {
                break;
            }
            if character != '$' {
                self.position += character.len_utf8();
                result.push(character);
                continue;
            }
            match self.rest()[1..].chars().next() {
                Some('$') => {
                    self.position += 2;
                    result.push('$');
                }
                Some('{') => result += &self.variable(depth, is_used)?,
                Some(next) if next.is_alphanumeric() || "_(".contains(next) => {
                    return Err(self.bare());
                }
                _ => {
                    self.position += 1;
                    result.push('$');
                }
            }
        }
        Ok(result)
    }

    /// Reads `${VAR}` or `${VAR:-default}`.
    fn variable(&mut self, depth: usize, is_used: bool) -> Result<String, Problem> {
        let start = self.position;
        let inside = &self.rest()[2..];
        let length =
            inside.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(inside.len());
        let name = inside[..length].to_owned();
        let after = inside[length..].to_owned();
        let is_name = !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit());
        if !is_name || !(after.starts_with('}') || after.starts_with(":-")) {
            return Err(malformed(start, !is_name, &after));
        }
        self.position += 2 + length;
        let value = match (self.variable)(&name) {
            None => None,
            Some(value) => Some(value.into_string().map_err(|_| {
                Problem::new(start..start, format!("the variable `{name}` is not UTF-8"))
            })?),
        };
        if after.starts_with('}') {
            self.position += 1;
            return match value {
                Some(value) => Ok(value),
                None if !is_used => Ok(String::new()),
                None => {
                    Err(Problem::new(start..start, format!("the variable `{name}` is not set"))
                        .hint(format!(
                            "set it, or write what stands for it then: `${{{name}:-…}}`"
                        )))
                }
            };
        }
        self.position += 2;
        if depth == MAX_DEPTH {
            return Err(Problem::new(start..start, "defaults are nested too deeply"));
        }
        let value = value.filter(|value| !value.is_empty());
        let default = self.read(depth + 1, is_used && value.is_none())?;
        if self.rest().is_empty() {
            return Err(Problem::new(start..start, UNCLOSED));
        }
        self.position += 1;
        Ok(value.unwrap_or(default))
    }

    /// A `$` that a shell would understand, and that means nothing here.
    fn bare(&self) -> Problem {
        let after = &self.rest()[1..];
        let length =
            after.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(after.len());
        let name: String = after[..length].chars().take(40).collect();
        let (message, hint) = if after.starts_with('(') {
            (
                "no command is run for an environment file".to_owned(),
                "write `$$(` if these characters are meant".to_owned(),
            )
        } else {
            (
                format!("a variable is written `${{{name}}}`"),
                format!("write `${{{name}}}`, or `$${name}` if these characters are meant"),
            )
        };
        Problem::new(self.position..self.position, message).hint(hint)
    }
}

fn malformed(offset: usize, is_nameless: bool, after: &str) -> Problem {
    if !is_nameless && after.is_empty() {
        return Problem::new(offset..offset, UNCLOSED);
    }
    let message = if is_nameless {
        "the name of a variable is expected between `${` and `}`"
    } else {
        "only `:-` and a default may follow the name of a variable"
    };
    Problem::new(offset..offset, message)
        .hint("the forms are `${HOME}` and `${SCRATCH:-/tmp}`; `$$` is a `$`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expanded(text: &str) -> Result<String, String> {
        let variable = |name: &str| match name {
            "HOME" => Some("/home/ada".into()),
            "EMPTY" => Some(OsString::new()),
            "ODD" => Some("${HOME}$x".into()),
            _ => None,
        };
        expand(text, &variable)
            .map_err(|problem| format!("{}: {}", problem.place.start, problem.message))
    }

    #[test]
    fn variables_and_defaults_are_filled_in() {
        let texts = [
            "${HOME}/x",
            "${NO:-d}/${HOME:-e}",
            "a${NO:-}b${EMPTY}",
            "${EMPTY:-${NO:-${HOME}/deep}}",
            "${HOME:-${NO}}",
            "$${HOME} costs 5$ or $$5",
            "${ODD}",
        ];
        let expected = [
            "/home/ada/x",
            "d//home/ada",
            "ab",
            "/home/ada/deep",
            "/home/ada",
            "${HOME} costs 5$ or $5",
            "${HOME}$x",
        ];
        assert_eq!(texts.map(expanded), expected.map(|text| Ok(text.to_owned())));
    }

    #[test]
    fn what_cannot_be_filled_in_is_refused_at_its_place() {
        let texts = ["a${NO}", "a$HOME", "$(id)", "${}", "${HOME", "${NO:-a", "${HOME:=a}", "${1}"];
        let expected = [
            "1: the variable `NO` is not set",
            "1: a variable is written `${HOME}`",
            "0: no command is run for an environment file",
            "0: the name of a variable is expected between `${` and `}`",
            "0: this `${` has no `}`",
            "0: this `${` has no `}`",
            "0: only `:-` and a default may follow the name of a variable",
            "0: the name of a variable is expected between `${` and `}`",
        ];
        assert_eq!(texts.map(expanded), expected.map(|text| Err(text.to_owned())));
    }

    #[test]
    fn defaults_in_defaults_have_an_end() {
        let deep = "${NO:-".repeat(100_000);
        assert!(expanded(&deep).unwrap_err().ends_with("defaults are nested too deeply"));
    }

    #[test]
    fn a_colon_in_a_variable_separates_nothing() {
        let texts: Vec<&str> = parts("${A:-/x}:/b:$${c:d").into_iter().map(|(_, t)| t).collect();
        assert_eq!(texts, ["${A:-/x}", "/b", "$${c", "d"]);
    }

    proptest! {
        #[test]
        fn a_protected_text_stands_for_itself(text in "[${}a:é()\\-]{0,20}") {
            prop_assert_eq!(expanded(&protect(&text)), Ok(text));
        }

        #[test]
        fn any_text_is_filled_in_or_refused_at_a_place_of_it(text in "[${}A:é()\\-]{0,30}") {
            let variable = |_: &str| Some("v".into());
            if let Err(problem) = expand(&text, &variable) {
                prop_assert!(text.is_char_boundary(problem.place.start));
            }
        }
    }
}
