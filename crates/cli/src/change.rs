// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Lines about what changed: `-`, `+`, and `~`, as in a changelog.

use cabane_label::escape;
use cabane_run::difference::PackageDifference;

/// Returns one line: what was removed, added, or changed.
pub(crate) fn change_line(
    indent: &str,
    name: &str,
    from: Option<&str>,
    to: Option<&str>,
) -> String {
    let (sign, what) = match (from, to) {
        (Some(from), Some(to)) => ("~", format!("{from} -> {to}")),
        (Some(from), None) => ("-", from.to_owned()),
        (None, to) => ("+", to.unwrap_or_default().to_owned()),
    };
    let line = format!("{sign} {} {}", escape(name), escape(&what));
    format!("{indent}{}\n", line.trim_end())
}

/// Returns the line of a package.
pub(crate) fn package_line(package: &PackageDifference) -> String {
    let describe = |versions: &[String]| (!versions.is_empty()).then(|| versions.join(", "));
    let (from, to) = (describe(&package.from), describe(&package.to));
    change_line("  ", &package.name, from.as_deref(), to.as_deref())
}
