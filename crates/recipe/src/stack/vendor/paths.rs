// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Paths in a manifest: in the packages, and in the tarball.

use super::Placed;
use crate::ask::Field;
use crate::diagnostic::quote;

/// Returns a path in the packages, with wildcards or without. A leading `/` does not
/// matter: it is the root of the packages.
pub(super) fn source(field: &Field<'_>) -> Option<Placed<String>> {
    let text = field.text()?;
    let path = text.trim_start_matches("./").trim_start_matches('/');
    if path.ends_with('/') {
        let hint = format!("write {} for everything in it", quote(&format!("{path}**")));
        let message = format!("{} is a directory, and files are taken", quote(text));
        return field.refuse(&message, hint.as_str());
    }
    check(field, text, path)?;
    Some(placed(field, path))
}

/// Returns a path in the tarball; a directory ends with `/`, and nothing or `.` is the
/// tarball itself.
pub(super) fn target(field: &Field<'_>) -> Option<Placed<String>> {
    let text = field.text()?;
    if matches!(text, "" | "." | "./") {
        return Some(placed(field, ""));
    }
    if text.starts_with('/') {
        let message = format!("{} is absolute, and the tarball can lie anywhere", quote(text));
        let hint = "write where in the tarball it goes, such as `lib/`";
        return field.refuse(&message, hint);
    }
    let path = text.trim_start_matches("./");
    check(field, text, path.strip_suffix('/').unwrap_or(path))?;
    Some(placed(field, path))
}

/// Returns the path of one file in the tarball.
pub(super) fn target_file(field: &Field<'_>) -> Option<Placed<String>> {
    let path = target(field)?;
    if !path.value.is_empty() && !path.value.ends_with('/') {
        return Some(path);
    }
    let message = format!("{} is not the path of a file in the tarball", quote(&path.value));
    field.refuse(&message, "write one such as `lib/pkgconfig/mpich.pc`")
}

pub(super) fn placed(field: &Field<'_>, text: &str) -> Placed<String> {
    Placed { value: text.to_owned(), place: field.place().into() }
}

fn check(field: &Field<'_>, text: &str, path: &str) -> Option<()> {
    let has = |what: &str| path.split('/').any(|part| part == what);
    let message = if path.is_empty() {
        "an empty path names nothing".to_owned()
    } else if path.contains(char::is_control) || path.contains('\\') {
        format!("{} has a character that no path here has", quote(text))
    } else if has("") || has(".") || has("..") {
        format!("{} is not a plain path", quote(text))
    } else {
        return Some(());
    };
    field.refuse(&message, "write it without `.`, `..`, and `//`")
}
