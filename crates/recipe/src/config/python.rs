// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The section `python:`.

use std::path::PathBuf;

use super::path::{Reach, path};
use crate::ask::{Field, Section, each};
use crate::diagnostic::quote;
use crate::node::Value;
use crate::recipe::{InterpreterRequest, PythonConfig, PythonSource};

pub(super) const KEYS: &[&str] = &["interpreter", "requirements", "project", "wheels", "bytecode"];

const ADD_SECTION: &str = "add what is to be installed:\npython:\n  requirements: requirements.txt";

pub(super) fn read(file: &Section<'_>) -> Option<PythonConfig> {
    let field = file.require("python", ADD_SECTION)?;
    let section = field.section_with(KEYS)?;

    let interpreter = section.given_or("interpreter", InterpreterRequest::Any, interpreter);
    let source = source(&section);
    let wheels = section.given_or("wheels", Vec::new(), wheels);
    let bytecode = section.get("bytecode").map_or(Some(true), |field| field.truth());
    Some(PythonConfig {
        interpreter: interpreter?,
        source: source?,
        wheels: wheels?,
        bytecode: bytecode?,
    })
}

fn interpreter(field: &Field<'_>) -> Option<InterpreterRequest> {
    let text = field.text()?;
    if text.starts_with('/') {
        return path(field, Reach::Anywhere).map(InterpreterRequest::Path);
    }
    if is_version(text) {
        return Some(InterpreterRequest::Version(text.to_owned()));
    }
    let message = format!(
        "{} must be a version of Python 3 or an absolute path, not {}",
        field.name,
        quote(text)
    );
    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let meant = if is_version(digits) { digits } else { "3.11" };
    let hint = if text.contains('/') {
        "write the whole path, such as `interpreter: /usr/bin/python3`".to_owned()
    } else {
        format!("write `interpreter: \"{meant}\"`")
    };
    field.refuse(&message, hint.as_str())
}

/// Tells whether a text is `3`, `3.11`, or `3.11.2`.
fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_number = |part: &&str| {
        (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    parts[0] == "3" && parts.len() <= 3 && parts.iter().all(is_number)
}

/// Returns what is installed: exactly one of two keys must say it.
fn source(section: &Section<'_>) -> Option<PythonSource> {
    match (section.get("requirements"), section.get("project")) {
        (Some(field), None) => requirements(&field),
        (None, Some(field)) => path(&field, Reach::Anywhere).map(PythonSource::Project),
        (Some(_), Some(project)) => {
            let message = "`requirements` and `project` cannot both be given";
            let hint = "remove one of them; a project lists its requirements itself";
            section.report.refuse(project.key_place, message, hint)
        }
        (None, None) => {
            let message = "`python` does not say what to install";
            let hint = "add `requirements: requirements.txt` or `project: .` to the section";
            section.report.refuse(section.place, message, hint)
        }
    }
}

fn requirements(field: &Field<'_>) -> Option<PythonSource> {
    if matches!(field.node.value, Value::List(_)) {
        let hint = "write the packages into a file, one a line, \
                    and here `requirements: requirements.txt`";
        return field.wrong_type("the path of a file", Some(hint));
    }
    path(field, Reach::Recipe).map(PythonSource::Requirements)
}

fn wheels(field: &Field<'_>) -> Option<Vec<PathBuf>> {
    each(field.items("a wheel")?, |item| wheel(&item))
}

fn wheel(field: &Field<'_>) -> Option<PathBuf> {
    let path = path(field, Reach::Recipe)?;
    if path.extension().is_some_and(|extension| extension == "whl") {
        return Some(path);
    }
    let message = "the name of a wheel ends with `.whl`";
    let hint = "packages with other names belong in the requirements";
    field.refuse(message, hint)
}

#[cfg(test)]
mod tests {
    use super::is_version;

    #[test]
    fn versions_have_one_to_three_numbers() {
        let versions = ["3", "3.11", "3.11.2", "3.11.2.1", "3.", "", "2.7", "3.x", "311"];
        assert_eq!(
            versions.map(is_version),
            [true, true, true, false, false, false, false, false, false]
        );
    }
}
