// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Paths in packages.

use super::ArchiveError;

/// The longest path.
const LONGEST: usize = 4096;

/// Returns a path of a package in its only spelling; the root is empty.
///
/// Packages write `./usr/bin`, and some tools `usr//bin`; nothing else is repaired.
pub(crate) fn checked(raw: &[u8]) -> Result<String, ArchiveError> {
    let refused = |what| Err(ArchiveError::refused(raw, what));
    let Ok(text) = str::from_utf8(raw) else {
        return refused("is not UTF-8");
    };
    if text.starts_with('/') {
        return refused("is an absolute path");
    }
    if text.len() > LONGEST {
        return refused("is too long");
    }
    if text.contains(char::is_control) {
        return refused("has a control character");
    }
    let mut parts = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => return refused("leads out of the package"),
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// Returns where a link leads, as a path in the package; `None` if it leads out of it.
pub(crate) fn resolve(link: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = link.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
