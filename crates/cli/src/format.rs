// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Output for programs: JSON, and templates such as `{name}/{version}`.

use cabane_report::{Kind, Report, Result};
use serde::Serialize;
use serde_json::{Map, Value};

/// Returns a value as JSON, with a newline at the end.
pub(crate) fn json(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// The values of the keys of a template.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// Takes the fields of a structure by their names in JSON.
    pub(crate) fn of(value: &impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(Value::Object(fields)) => Self(fields),
            _ => Self(Map::new()),
        }
    }

    /// Sets the value of a key; `None` is empty.
    pub(crate) fn set(&mut self, key: &str, text: Option<String>) {
        self.0.insert(key.to_owned(), text.into());
    }

    /// Returns the value of a key as text, empty if it is not known; `None` for an unknown key.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        Some(match self.0.get(key)? {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            value => value.to_string(),
        })
    }
}

/// What is typed for a letter that has a meaning, or cannot be typed.
const ESCAPES: [(&str, char); 4] = [("{{", '{'), ("}}", '}'), ("\\n", '\n'), ("\\t", '\t')];

/// Fills in `{key}` in a template. `{{` and `}}` are braces, `\n` and `\t` a new line and a tab.
///
/// # Errors
///
/// An unknown key, with all known ones as a hint; a brace that is not closed; no brace at all.
pub(crate) fn fill(template: &str, keys: &str, fields: &Fields) -> Result<String> {
    // Other programs have `--format json`; here that would be a text.
    if !template.contains('{') {
        let error = format!("the format `{template}` names nothing that could be filled in");
        return Err(Report::new(Kind::Usage, error).hinted(format!(
            "`--json` prints JSON; a format has fields in braces, as in `--format '{{{}}}'`: {}",
            keys.split(", ").next().unwrap_or("id"),
            keys
        )));
    }
    let mut text = String::new();
    let mut rest = template;
    while let Some(position) = rest.find(['{', '}', '\\']) {
        let (before, found) = rest.split_at(position);
        text.push_str(before);
        let escaped = |(typed, letter)| Some((found.strip_prefix(typed)?, letter));
        rest = if let Some((after, letter)) = ESCAPES.into_iter().find_map(escaped) {
            text.push(letter);
            after
        } else if let Some(after) = found.strip_prefix('{') {
            let (key, after) = after.split_once('}').ok_or_else(|| {
                let error = format!("the format `{template}` has a `{{` without its `}}`");
                Report::new(Kind::Usage, error)
            })?;
            text += &fields.text(key).ok_or_else(|| {
                let error =
                    format!("the format `{template}` names `{{{key}}}`, which does not exist");
                Report::new(Kind::Usage, error).hinted(format!("the keys are {keys}"))
            })?;
            after
        } else {
            let mut characters = found.chars();
            text.extend(characters.next());
            characters.as_str()
        };
    }
    text.push_str(rest);
    Ok(text)
}

/// As [`fill`], a line for each.
///
/// # Errors
///
/// The same.
pub(crate) fn fill_lines(
    template: &str,
    keys: &str,
    all: impl IntoIterator<Item = Fields>,
) -> Result<String> {
    all.into_iter().map(|fields| fill(template, keys, &fields).map(|line| line + "\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields {
        Fields::of(&serde_json::json!({"name": "app"}))
    }

    #[test]
    fn keys_braces_and_escapes_are_filled_in() {
        assert_eq!(fill(r"{name}/{{x}}\n", "name", &fields()).unwrap(), "app/{x}\n");
    }

    #[test]
    fn an_unknown_key_is_refused() {
        assert_eq!(fill("{nam}", "name", &fields()).unwrap_err().kind(), Kind::Usage);
    }

    #[test]
    fn the_name_of_a_format_is_refused() {
        let refused = fill("json", "name", &fields()).unwrap_err();
        assert_eq!(refused.kind(), Kind::Usage);
    }

    #[test]
    fn an_open_brace_is_refused() {
        assert_eq!(fill("{name", "name", &fields()).unwrap_err().kind(), Kind::Usage);
    }
}
