// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! One requirement of Python, as it is typed: `pandas[excel]>=2; python_version >= "3.11"`.
//!
//! It is checked against PEP 508, and its versions against PEP 440. Whether the package exists is for the
//! index to say.

use cabane_label::escape;
use cabane_report::{Kind, Report, Result};

use super::{markers, versions};

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

/// Fails if a text is no requirement by PEP 508.
pub(super) fn check(text: &str) -> Result<()> {
    let Some(name) = name_of(text) else {
        return Err(refused(text, "it does not begin with the name of a package", None));
    };
    let mut rest = text[name.len()..].trim();
    if let Some(extras) = rest.strip_prefix('[') {
        let Some((extras, behind)) = extras.split_once(']') else {
            return Err(refused(text, "`]` is missing", None));
        };
        let is_name = |extra: &str| name_of(extra) == Some(extra);
        if !extras.trim().is_empty() && !extras.split(',').map(str::trim).all(is_name) {
            return Err(refused(text, "extras are names, separated by commas", None));
        }
        rest = behind.trim();
    }
    if let Some(address) = rest.strip_prefix('@') {
        let is_address = address.contains("://") || address.trim_start().starts_with("file:");
        let why = "what follows `@` is an address; a version follows `==`";
        return if is_address { Ok(()) } else { Err(refused_version(text, name, address, why)) };
    }
    let (versions, marker) = match rest.split_once(';') {
        Some((versions, marker)) => (versions.trim(), Some(marker)),
        None => (rest, None),
    };
    if marker.is_some_and(|marker| !markers::is_marker(marker)) {
        let why = "a condition follows `;`, such as `python_version < '3.12'`";
        return Err(refused(text, why, None));
    }
    let inner = versions.strip_prefix('(').map(|inner| inner.strip_suffix(')'));
    let Some(versions) = inner.unwrap_or(Some(versions)).map(str::trim) else {
        return Err(refused(text, "`)` is missing", None));
    };
    if versions.is_empty() {
        return Ok(());
    }
    versions.split(',').try_for_each(|one| check_version(text, name, one.trim()))
}

fn check_version(text: &str, name: &str, version: &str) -> Result<()> {
    let comparison = COMPARISONS
        .iter()
        .find_map(|mark| version.strip_prefix(mark).map(|version| (*mark, version.trim())));
    match comparison {
        Some((mark, version)) if versions::fits(mark, version) => Ok(()),
        Some((mark, version)) if !version.is_empty() && !is_spec(text, name) => {
            let why = format!("`{}` is not a version that can follow `{mark}`", escape(version));
            Err(refused(text, &why, None))
        }
        _ => {
            let why = "a version follows `==`, `>=`, `<=`, `~=`, `!=`, `<`, or `>`";
            Err(refused_version(text, name, version, why))
        }
    }
}

/// Refuses what follows a name, and says what was probably meant.
fn refused_version(text: &str, name: &str, version: &str, why: &str) -> Report {
    let bare = version.trim_start_matches(['=', ' ']).trim_end();
    if versions::fits("==", bare) {
        return refused(text, why, Some(format!("type `{name}=={bare}`")));
    }
    if is_spec(text, name) {
        let why = "it is a spec of Spack, and this recipe is for Python";
        let hint = "`cabane init spack DIRECTORY` starts a recipe for Spack";
        return refused(text, why, Some(hint.to_owned()));
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.iter().all(|word| name_of(word) == Some(word)) {
        let hint = format!(
            "to add several packages, leave out the quotes: `cabane add {}`",
            words.join(" ")
        );
        return refused(text, why, Some(hint));
    }
    refused(text, why, None)
}

/// Tells whether what follows a name is how Spack writes variants, compilers, versions, and dependencies.
fn is_spec(text: &str, name: &str) -> bool {
    let rest = text[name.len()..].trim_start();
    let sigil = |c: char| matches!(c, '+' | '~' | '%' | '^');
    let is_compatible = rest.starts_with("~=");
    rest.starts_with(sigil) && !is_compatible || rest.starts_with('@') && rest.contains(sigil)
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
            "torch==2.9.0+cpu",
            "a===whatever",
            "b[]>=1!2.0.post1.dev3",
            "c; (os_name == 'nt' or 'x' in platform_machine) and extra not in \"a b\"",
        ];
        assert!(right.iter().all(|text| check(text).is_ok()));
        let hint = |text: &str| check(text).unwrap_err().hints().join("");
        assert_eq!(
            ["numpy=2.0", "numpy@2.0", "numpy 2", "a b"].map(hint),
            [
                "type `numpy==2.0`",
                "type `numpy==2.0`",
                "type `numpy==2`",
                "to add several packages, leave out the quotes: `cabane add a b`"
            ]
        );
        let wrong = [
            "",
            "-r x.txt",
            ">=2",
            "numpy>=",
            "numpy[x",
            "numpy[x y]",
            "a b c",
            "hdf5==+mpi",
            "a==b",
            "a>=2.*",
            "a~=2",
            "a>=1+local",
            "a==1.0-",
            "a (>=1",
            "a>=1,",
            "a; python_version",
            "a; os_name == nt",
            "a; (os_name == 'nt'",
        ];
        for text in wrong {
            assert!(check(text).is_err(), "{text}");
        }
    }

    #[test]
    fn specs_of_spack_are_recognized() {
        for text in
            ["hdf5+mpi", "hdf5 ~mpi", "hdf5%gcc", "hdf5 ^mpich@4", "hdf5@1.14 +mpi", "hdf5@1:2%gcc"]
        {
            let report = check(text).unwrap_err();
            assert!(report.to_string().contains("a spec of Spack"), "{text}: {report}");
            assert_eq!(report.hints(), ["`cabane init spack DIRECTORY` starts a recipe for Spack"]);
        }
    }
}
