// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! One requirement of Python, as it is typed: `pandas[excel]>=2; python_version >= "3.11"`.
//!
//! Only what is in every requirement is checked. Whether the package exists is for the index to say.

use cabane_label::escape;
use cabane_report::{Kind, Report, Result};

/// What can come before a version.
const COMPARISONS: [&str; 8] = ["===", "==", "~=", "!=", "<=", ">=", "<", ">"];

/// Returns the name of a package as it is compared: lower case, with `-` for `_` and `.`.
#[must_use]
pub fn python_name(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_lowercase()
}

/// Returns the name that a requirement begins with, as it is typed.
pub(super) fn name_of(text: &str) -> Option<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let name = &text[..end];
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    (is_end(name.chars().next()) && is_end(name.chars().next_back())).then_some(name)
}

/// Fails if a text is no requirement.
pub(super) fn check(text: &str) -> Result<()> {
    let Some(name) = name_of(text) else {
        return Err(refused(text, "it does not begin with the name of a package", None));
    };
    let mut rest = text[name.len()..].trim();
    if let Some(extras) = rest.strip_prefix('[') {
        let Some((_, behind)) = extras.split_once(']') else {
            return Err(refused(text, "`]` is missing", None));
        };
        rest = behind.trim();
    }
    if let Some(address) = rest.strip_prefix('@') {
        let is_address = address.contains("://") || address.trim_start().starts_with("file:");
        let meant = format!("type `{name}=={}`", address.trim());
        let why = "what follows `@` is an address; a version follows `==`";
        return if is_address { Ok(()) } else { Err(refused(text, why, Some(meant))) };
    }
    let versions = rest.split_once(';').map_or(rest, |(versions, _)| versions).trim();
    let versions = versions.trim_start_matches('(').trim_end_matches(')');
    if versions.is_empty() {
        return Ok(());
    }
    versions.split(',').try_for_each(|one| check_version(text, name, one.trim()))
}

fn check_version(text: &str, name: &str, version: &str) -> Result<()> {
    let is_version = |version: &str| {
        !version.is_empty()
            && version.chars().all(|c| c.is_ascii_alphanumeric() || ".*+!-_".contains(c))
    };
    let comparison = COMPARISONS.iter().find_map(|mark| version.strip_prefix(mark));
    if comparison.is_some_and(|version| is_version(version.trim())) {
        return Ok(());
    }
    let bare = version.trim_start_matches(['=', ' ']);
    let meant = is_version(bare).then(|| format!("type `{name}=={bare}`"));
    Err(refused(text, "a version follows `==`, `>=`, `<=`, `~=`, `!=`, `<`, or `>`", meant))
}

fn refused(text: &str, why: &str, hint: Option<String>) -> Report {
    let message = format!("`{}` is not a requirement of Python: {why}", escape(text));
    let usual = || "examples: `numpy`, `'pandas>=2'`, `'dask[array]==2026.1'`".to_owned();
    Report::new(Kind::BadInput, message).hinted(hint.unwrap_or_else(usual))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_as_indexes_compare_them() {
        let names = ["Ruamel.yaml", "ruamel_yaml", "RUAMEL-_-yaml"];
        assert_eq!(names.map(python_name), ["ruamel-yaml"; 3].map(str::to_owned));
    }

    #[test]
    fn requirements_are_told_from_other_texts() {
        let right = [
            "numpy",
            "pandas>=2,<3",
            "pandas >= 2 ; python_version < '3.12'",
            "dask[array, distributed]~=2026.1",
            "demo @ https://example.org/demo-1.0.whl",
            "tool (>=1.0)",
            "torch==2.9.*",
        ];
        assert!(right.iter().all(|text| check(text).is_ok()));
        let hint = |text: &str| check(text).unwrap_err().hints().join("");
        assert_eq!(
            ["numpy=2.0", "numpy@2.0", "numpy 2"].map(hint),
            ["type `numpy==2.0`", "type `numpy==2.0`", "type `numpy==2`"]
        );
        assert!(
            ["", "-r x.txt", ">=2", "numpy>=", "numpy[x", "a b c"]
                .iter()
                .all(|t| check(t).is_err())
        );
    }
}
