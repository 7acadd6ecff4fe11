// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Recipes for Spack: their keys are checked, nothing is kept of them yet.

use crate::ask::{Field, Section};
use crate::diagnostic::quote;
use crate::node::Value;
use crate::recipe::FormatVersion;
use crate::report::Report;

pub(super) const KEYS: &[&str] = &["repo", "commit", "packages"];

const PACKAGE_REPO_KEYS: &[&str] = &["repo", "commit", "path"];

const ADD_SECTION: &str = "add where Spack comes from:\nspack:\n  \
    repo: https://github.com/spack/spack.git\n  commit: releases/v1.1\n\
    or name another engine, such as `engine: python`";

const ADD_PACKAGES: &str = "add where the packages of Spack come from:\n  packages:\n    \
    repo: https://github.com/spack/spack-packages.git\n    commit: develop";

/// Checks everything that only recipes for Spack have.
pub(super) fn check(
    report: &mut Report<'_>,
    file: &Section<'_>,
    format: Option<FormatVersion>,
) -> Option<()> {
    if let Some(field) = file.get("modules") {
        report.truth(&field);
    }
    if let Some(field) = file.get("cleanup") {
        report.choice(&field, &[("none", ()), ("runtime", ()), ("build", ())]);
    }
    if let Some(field) = file.get("mirror") {
        check_mirror(report, &field, format);
    }
    let field = file.require(report, "spack", ADD_SECTION)?;
    let section = report.section(&field)?;
    section.refuse_unknown(report, KEYS, |key| {
        (key == "path").then(|| {
            (
                None,
                "only package repositories have it: remove it".to_owned(),
            )
        })
    });
    check_source(report, &section);
    match section.get("packages") {
        Some(field) => check_packages(report, &field),
        // Recipes of the second version exist that rely on Spack's default.
        None if format == Some(FormatVersion::V3) => {
            section.require(report, "packages", ADD_PACKAGES);
        }
        None => {}
    }
    Some(())
}

/// Checks where something comes from: `repo` and `commit`.
fn check_source(report: &mut Report<'_>, section: &Section<'_>) {
    let hint = "add the address of a Git repository: `repo: https://…`";
    if let Some(field) = section.require(report, "repo", hint) {
        report.text(&field);
    }
    if let Some(field) = section.given("commit") {
        report.text(&field);
    }
}

/// Checks `packages`, which is one package repository, or several with names.
fn check_packages(report: &mut Report<'_>, field: &Field<'_>) {
    let Some(section) = report.section(field) else {
        return;
    };
    let is_single = section.entries().iter().any(|entry| {
        PACKAGE_REPO_KEYS.contains(&entry.key.as_str())
            && !matches!(entry.value.value, Value::Section(_))
    });
    if is_single || section.entries().is_empty() {
        return check_package_repo(report, &section);
    }
    for entry in section.entries() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        if !entry.key.chars().all(is_word) || entry.key.starts_with('-') {
            let message = format!(
                "{} is not the name of a package repository",
                quote(&entry.key)
            );
            let hint = "such a name has letters, digits, `_` and `-`";
            report.problem_with_hint(entry.key_place, &message, hint);
        } else if matches!(entry.key.as_str(), "recipe" | "alps") {
            let message = format!(
                "the name `{}` is taken: it means the recipe's own packages or the system's",
                entry.key
            );
            report.problem_with_hint(entry.key_place, &message, "give it another name");
        }
        if let Some(section) = report.section(&Field::of(entry)) {
            check_package_repo(report, &section);
        }
    }
}

fn check_package_repo(report: &mut Report<'_>, section: &Section<'_>) {
    section.refuse_unknown(report, PACKAGE_REPO_KEYS, |_| None);
    check_source(report, section);
    if let Some(field) = section.get("path") {
        report.text(&field);
    }
}

/// Checks `mirror`, which only recipes of the first version have.
fn check_mirror(report: &mut Report<'_>, field: &Field<'_>, format: Option<FormatVersion>) {
    if format.is_some_and(|format| format > FormatVersion::V1) {
        let message = "only recipes of version 1 have the key `mirror`";
        let hint = "remove it; mirrors are described in mirrors.yaml of the system configuration";
        return report.problem_with_hint(field.key_place(), message, hint);
    }
    let Some(section) = report.section(field) else {
        return;
    };
    section.refuse_unknown(report, &["enable", "key"], |_| None);
    if let Some(field) = section.get("enable") {
        report.truth(&field);
    }
    if let Some(field) = section.given("key") {
        report.text(&field);
    }
}
