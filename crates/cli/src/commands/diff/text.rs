// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What `cabane diff` prints for people: `-`, `+`, and `~`, as in a changelog.

use std::fmt::Write as _;

use cabane_label::{Digest, escape};
use cabane_report::size;
use cabane_run::difference::{
    EnvironmentDifference, Field, FileDifference, FileState, MountDifference, VariableDifference,
    ViewDifference,
};

use crate::change::{change_line, package_line};
use crate::commands::diff::Difference;
use crate::printer::style;

/// The head of the part about files.
pub(crate) const FILES: &str = "files\n";

/// Names both sides.
pub(crate) fn head(from: &str, to: &str) -> String {
    let bold = style::HEAD;
    format!("{bold}--- {}\n+++ {}{bold:#}\n", escape(from), escape(to))
}

/// Returns a heading and the lines of what differs; nothing where nothing does.
fn section<T>(heading: &str, differences: &[T], lines: impl Fn(&T) -> String) -> String {
    let heading = if differences.is_empty() { String::new() } else { format!("{heading}\n") };
    heading + &differences.iter().map(lines).collect::<String>()
}

/// Shows what differs between two images; nothing if they are the same.
pub(crate) fn images(difference: &Difference) -> String {
    let mut text =
        section("image", &difference.metadata, |field| field_line("  ", &with_short_values(field)));
    text += &section("packages", &difference.packages, package_line);
    text += &section("views", &difference.views, view_lines);
    text
}

/// Shows what differs between two environments; nothing if they are the same.
pub(crate) fn environments(difference: &EnvironmentDifference) -> String {
    let line = |one: &MountDifference| {
        change_line("  ", &one.name, one.from.as_deref(), one.to.as_deref())
    };
    let mut text = section("images", &difference.images, line);
    text += &section("mounts", &difference.mounts, line);
    for field in &difference.settings {
        text += &field_line("", field);
    }
    if !difference.views_from.is_empty() || !difference.views_to.is_empty() {
        let describe = |views: &[String]| {
            if views.is_empty() { "none".to_owned() } else { views.join(", ") }
        };
        let (from, to) = (describe(&difference.views_from), describe(&difference.views_to));
        text += &change_line("", "views", Some(&from), Some(&to));
    }
    text += &section("variables", &difference.variables, |one| variable_lines("  ", one));
    text
}

/// Shows how one file differs.
pub(crate) fn file(difference: &FileDifference) -> String {
    let describe = |state: &FileState| match state.kind.as_str() {
        "directory" => format!("{}, {}", files(state.files), size(state.size)),
        "link" => format!("link to {}", state.target.as_deref().unwrap_or_default()),
        "file" if state.is_executable => format!("{}, executable", size(state.size)),
        "file" => size(state.size),
        kind => kind.to_owned(),
    };
    let (sign, state, what) = match (&difference.from, &difference.to) {
        (Some(from), Some(to)) if describe(from) == describe(to) => {
            ('~', to, format!("{}, other content", describe(to)))
        }
        (Some(from), Some(to)) => ('~', to, format!("{} -> {}", describe(from), describe(to))),
        (Some(from), None) => ('-', from, describe(from)),
        (None, Some(to)) => ('+', to, describe(to)),
        (None, None) => return String::new(),
    };
    let slash = if state.kind == "directory" { "/" } else { "" };
    let line = format!("{sign} {}{slash} ({what})", difference.path);
    format!("  {}\n", escape(&line))
}

fn files(number: u64) -> String {
    if number == 1 { "1 file".to_owned() } else { format!("{number} files") }
}

fn field_line(indent: &str, field: &Field) -> String {
    change_line(indent, field.name, field.from.as_deref(), field.to.as_deref())
}

/// Shows digests by their short form and sizes as people read them.
fn with_short_values(field: &Field) -> Field {
    let short = |value: &String| match field.name {
        "digest" => {
            value.parse().map_or_else(|_| value.clone(), |digest: Digest| digest.id().to_string())
        }
        "size" => value.parse().map_or_else(|_| value.clone(), size),
        _ => value.clone(),
    };
    let (from, to) = (field.from.as_ref().map(short), field.to.as_ref().map(short));
    if from == to {
        // What differs must be seen.
        return field.clone();
    }
    Field { name: field.name, from, to }
}

fn view_lines(view: &ViewDifference) -> String {
    let mut text = match (&view.from, &view.to) {
        (Some(from), Some(to)) if from == to => format!("  ~ {to}\n"),
        (Some(from), Some(to)) => format!("  ~ {from} -> {to}\n"),
        (Some(from), None) => format!("  - {from}\n"),
        (None, to) => format!("  + {}\n", to.as_ref().map_or("", |name| name.as_str())),
    };
    if view.from.is_some() && view.to.is_some() {
        for field in &view.fields {
            text += &field_line("      ", field);
        }
    }
    for variable in &view.variables {
        text += &variable_lines("      ", variable);
    }
    text
}

fn variable_lines(indent: &str, difference: &VariableDifference) -> String {
    let VariableDifference { variable, removed, added } = difference;
    // One value in place of another reads best in one line.
    if let ([from], [to]) = (removed.as_slice(), added.as_slice())
        && let (Some(from), Some(to)) = (from.strip_prefix("set "), to.strip_prefix("set "))
    {
        return change_line(indent, variable, Some(from), Some(to));
    }
    let mut text = String::new();
    for (sign, items) in [('-', removed), ('+', added)] {
        for item in items {
            let line = format!("{sign} {variable}: {item}");
            let _ = writeln!(text, "{indent}{}", escape(&line));
        }
    }
    text
}
