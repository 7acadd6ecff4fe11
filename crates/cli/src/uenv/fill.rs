// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Texts made of a template, as uenv makes them: `{name:<20} {size}`.

use cabane_report::{Kind, Report, Result};

/// The values of the keys, in any order.
pub(super) type Fields = Vec<(&'static str, String)>;

/// Fills in a template. `{{` and `}}` are braces; a key may be followed by `:`, a letter and one of
/// `<^>`, and a width. A date has the long form, or with `:s` only the day.
///
/// # Errors
///
/// A key that does not exist, a brace without the other one.
pub(super) fn fill(template: &str, fields: &Fields) -> Result<String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some(position) = rest.find(['{', '}']) {
        let (before, found) = rest.split_at(position);
        text += before;
        if let Some(after) = found.strip_prefix("{{") {
            text.push('{');
            rest = after;
        } else if let Some(after) = found.strip_prefix("}}") {
            text.push('}');
            rest = after;
        } else {
            let inner = found.strip_prefix('{').and_then(|after| after.split_once('}'));
            let (inner, after) =
                inner.ok_or_else(|| refused(template, "a brace is alone", fields))?;
            let (key, how) = inner.split_once(':').unwrap_or((inner, ""));
            let value = fields.iter().find(|(name, _)| *name == key);
            let problem = || refused(template, &format!("there is no `{{{key}}}`"), fields);
            text += &laid_out(&value.ok_or_else(problem)?.1, how);
            rest = after;
        }
    }
    Ok(text + rest)
}

fn refused(template: &str, problem: &str, fields: &Fields) -> Report {
    let keys: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
    let error = format!("unable to format output with `{template}`: {problem}");
    Report::new(Kind::Usage, error).hinted(format!("the keys are {}", keys.join(", ")))
}

/// The width of the widest field.
const WIDEST: usize = 1000;

/// Puts a value into a field: `<20`, `^20`, `>20`, each with a letter to fill it before.
fn laid_out(value: &str, how: &str) -> String {
    let how = how.strip_suffix('l').unwrap_or(how);
    if let Some(rest) = how.strip_suffix('s') {
        let is_date = value.get(10..11) == Some(" ");
        return laid_out(if is_date { &value[..10] } else { value }, rest);
    }
    let width = how.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let (before, width) =
        (&how[..how.len() - width.len()], width.parse().unwrap_or(0_usize).min(WIDEST));
    let side = before.chars().rfind(|letter| "<^>".contains(*letter)).unwrap_or('<');
    let letter = before.chars().next().filter(|letter| *letter != side).unwrap_or(' ');
    let missing = width.saturating_sub(value.chars().count());
    let left = match side {
        '>' => missing,
        '^' => missing / 2,
        _ => 0,
    };
    let filled = |count| letter.to_string().repeat(count);
    filled(left) + value + &filled(missing - left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str) -> String {
        let fields = vec![("name", "app".to_owned()), ("date", "2024-03-11 17:08:35".to_owned())];
        fill(template, &fields).unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn any_text_is_a_template() {
        assert_eq!(filled("hello {{world}}"), "hello {world}");
    }

    #[test]
    fn values_are_laid_out() {
        assert_eq!(filled("[{name:<5}][{name:>5}][{name:*^5}]"), "[app  ][  app][*app*]");
    }

    #[test]
    fn dates_are_long_or_short() {
        assert_eq!(filled("{date} {date:s}"), "2024-03-11 17:08:35 2024-03-11");
    }

    #[test]
    fn a_key_that_does_not_exist_is_refused() {
        assert_eq!(filled("{x}"), "unable to format output with `{x}`: there is no `{x}`");
    }
}
