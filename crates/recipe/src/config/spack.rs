// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What `config.yaml` says to Spack: where Spack and packages come from.

use cabane_label::{ImageDescription, shown_word};

use crate::ask::{Field, Section, each};
use crate::diagnostic::quote;
use crate::node::{Entry, Value};
use crate::recipe::{Cleanup, FormatVersion, GitSource, PackageRepository, SpackConfig};
use crate::report::Report;

pub(super) const KEYS: &[&str] = &["repo", "commit", "packages"];

const PACKAGE_REPO_KEYS: &[&str] = &["repo", "commit", "path"];

const ADD_SECTION: &str = "add where Spack comes from:\nspack:\n  \
    repo: https://github.com/spack/spack.git\n  commit: releases/v1.1\n\
    or name another engine, such as `engine: python`";

const ADD_PACKAGES: &str = "add where the packages of Spack come from:\n  packages:\n    \
    repo: https://github.com/spack/spack-packages.git\n    commit: develop";

/// Reads everything that only recipes for Spack have.
pub(super) fn read(file: &Section<'_>, format: Option<FormatVersion>) -> Option<SpackConfig> {
    let modules = file.get("modules").map(|field| field.truth());
    let cleanup = file.get("cleanup");
    let cleanup = cleanup.map_or(Some(Cleanup::None), |field| field.choice(CLEANUPS));
    let base = file.optional("base", base);
    if let Some(field) = file.get("mirror") {
        check_mirror(&field, format);
    }
    let field = file.require("spack", ADD_SECTION)?;
    let section = field.section()?;
    section.refuse_unknown(KEYS, |key| {
        (key == "path").then(|| (None, "only package repositories have it: remove it".to_owned()))
    });
    let source = git_source(&section);
    let package_repositories = match section.get("packages") {
        Some(field) => packages(&field),
        // Recipes of the second version exist that rely on Spack's default.
        None if format == Some(FormatVersion::V3) => {
            section.require("packages", ADD_PACKAGES).map(|_| Vec::new())
        }
        None => Some(Vec::new()),
    };
    Some(SpackConfig {
        source: source?,
        package_repositories: package_repositories?,
        cleanup: cleanup?,
        modules: modules.flatten(),
        base: base?,
    })
}

/// Reads which image the recipe builds on.
fn base(field: &Field<'_>) -> Option<String> {
    const HINT: &str = "write a label such as `base: prgenv-gnu/26.1`, or a digest";
    let written = field.text()?;
    let text = written.strip_prefix("sha256:").unwrap_or(written);
    match text.parse::<ImageDescription>() {
        Ok(ImageDescription::Path(_)) => {
            let message = "`base` must name an image in a repository, not a file";
            let hint =
                format!("`cabane image add {} LABEL` adds it; then {HINT}", shown_word(text));
            field.refuse(message, hint.as_str())
        }
        Ok(ImageDescription::Container(_)) => {
            let message = "`base` must name a stack in a repository, not a container image";
            field.refuse(message, HINT)
        }
        Ok(ImageDescription::Pattern(_)) if text != written => {
            let message = format!("{} is not a digest", quote(written));
            field.refuse(&message, "a digest has 64 lower-case digits after `sha256:`")
        }
        Ok(image) => Some(image.to_string()),
        Err(error) => {
            let error =
                if error.hint().is_some() { error } else { error.with_hint(Some(HINT.to_owned())) };
            field.parse_error(text, &error);
            None
        }
    }
}

const CLEANUPS: &[(&str, Cleanup)] =
    &[("none", Cleanup::None), ("runtime", Cleanup::Runtime), ("build", Cleanup::Build)];

/// Reads where something comes from: `repo` and `commit`.
fn git_source(section: &Section<'_>) -> Option<GitSource> {
    let hint = "add the address of a Git repository: `repo: https://…`";
    let repo = section.needed("repo", hint, git_word);
    let commit = section.optional("commit", git_word);
    Some(GitSource { repo: repo?, commit: commit? })
}

/// Reads an address or a commit, which is given to Git as it is.
fn git_word(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let message = if text.is_empty() {
        format!("{} is empty", field.name)
    } else if text.starts_with('-') {
        format!("{} cannot begin with `-`", field.name)
    } else if text.contains(|c: char| c.is_control() || c.is_whitespace()) {
        format!("{} cannot contain spaces", field.name)
    } else {
        return Some(text.to_owned());
    };
    field.refuse(&message, None)
}

/// Reads `packages`, which is one package repository, or several with names.
fn packages(field: &Field<'_>) -> Option<Vec<PackageRepository>> {
    let section = field.section()?;
    let is_single = section.entries.iter().any(|entry| {
        PACKAGE_REPO_KEYS.contains(&entry.key.as_str())
            && !matches!(entry.value.value, Value::Section(_))
    });
    if is_single || section.entries.is_empty() {
        return package_repository(&section, "builtin").map(|one| vec![one]);
    }
    each(section.entries, |entry| {
        check_repository_name(field.report, entry);
        let section = Field::of(field.report, entry).section()?;
        package_repository(&section, &entry.key)
    })
}

fn check_repository_name(report: &Report<'_>, entry: &Entry) {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    if !entry.key.chars().all(is_word) || entry.key.starts_with('-') {
        let message = format!("{} is not the name of a package repository", quote(&entry.key));
        let hint = "such a name has letters, digits, `_` and `-`";
        report.problem_with_hint(entry.key_place, &message, hint);
    } else if matches!(entry.key.as_str(), "recipe" | "alps") {
        let message = format!(
            "the name `{}` is taken: it means the recipe's own packages or the system's",
            entry.key
        );
        report.problem_with_hint(entry.key_place, &message, "give it another name");
    }
}

fn package_repository(section: &Section<'_>, name: &str) -> Option<PackageRepository> {
    section.refuse_unknown(PACKAGE_REPO_KEYS, |_| None);
    let source = git_source(section);
    let path = match section.get("path") {
        Some(field) => path_inside(&field),
        None => Some(format!("repos/spack_repo/{name}")),
    };
    Some(PackageRepository { name: name.to_owned(), source: source?, path: path? })
}

/// Reads where in its Git repository a package repository lies.
fn path_inside(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    if text.is_empty() || text.starts_with('/') || text.split('/').any(|part| part == "..") {
        let message = "`path` must lead to a directory of the Git repository";
        let hint = "write it without `/` at the beginning: `path: repos/spack_repo/builtin`";
        return field.refuse(message, hint);
    }
    Some(text.to_owned())
}

/// Checks `mirror`, which only recipes of the first version have.
fn check_mirror(field: &Field<'_>, format: Option<FormatVersion>) {
    if format.is_some_and(|format| format > FormatVersion::V1) {
        let message = "only recipes of version 1 have the key `mirror`";
        let hint = "remove it; mirrors are described in mirrors.yaml of the system configuration";
        return field.report.problem_with_hint(field.key_place, message, hint);
    }
    let Some(section) = field.section() else {
        return;
    };
    section.refuse_unknown(&["enable", "key"], |_| None);
    if let Some(field) = section.get("enable") {
        field.truth();
    }
    if let Some(field) = section.given("key") {
        field.text();
    }
}
