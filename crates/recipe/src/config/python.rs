// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The section `python:`.

use std::path::PathBuf;

use super::path::{Reach, path};
use crate::ask::{Field, Section, each};
use crate::diagnostic::quote;
use crate::node::{Node, Value};
use crate::recipe::{InterpreterRequest, PythonConfig, PythonSource};
use crate::report::Report;

pub(super) const KEYS: &[&str] = &["interpreter", "requirements", "project", "wheels", "bytecode"];

const ADD_SECTION: &str = "add what is to be installed:\npython:\n  requirements: requirements.txt";

pub(super) fn read(report: &mut Report<'_>, file: &Section<'_>) -> Option<PythonConfig> {
    let field = file.require(report, "python", ADD_SECTION)?;
    let section = report.section_with(&field, KEYS)?;

    let interpreter = section.given_or(report, "interpreter", InterpreterRequest::Any, interpreter);
    let source = source(report, &section);
    let wheels = section.get_or(report, "wheels", Vec::new(), wheels);
    let bytecode = section.get_or(report, "bytecode", true, Report::truth);
    Some(PythonConfig {
        interpreter: interpreter?,
        source: source?,
        wheels: wheels?,
        bytecode: bytecode?,
    })
}

fn interpreter(report: &mut Report<'_>, field: &Field<'_>) -> Option<InterpreterRequest> {
    let text = report.text(field)?;
    if text.starts_with('/') {
        return path(report, field, Reach::Anywhere).map(InterpreterRequest::Path);
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
    report.refuse(field.place(), &message, hint.as_str())
}

/// Tells whether a text is `3`, `3.11` or `3.11.2`.
fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_number = |part: &&str| {
        (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    parts[0] == "3" && parts.len() <= 3 && parts.iter().all(is_number)
}

/// Returns what is installed: exactly one of two keys must say it.
fn source(report: &mut Report<'_>, section: &Section<'_>) -> Option<PythonSource> {
    match (section.get("requirements"), section.get("project")) {
        (Some(field), None) => requirements(report, &field),
        (None, Some(field)) => path(report, &field, Reach::Anywhere).map(PythonSource::Project),
        (Some(_), Some(project)) => {
            let message = "`requirements` and `project` cannot both be given";
            let hint = "remove one of them; a project lists its requirements itself";
            report.refuse(project.key_place, message, hint)
        }
        (None, None) => {
            let message = "`python` does not say what to install";
            let hint = "add `requirements: requirements.txt` or `project: .` to the section";
            report.refuse(section.place, message, hint)
        }
    }
}

fn requirements(report: &mut Report<'_>, field: &Field<'_>) -> Option<PythonSource> {
    if matches!(field.node.value, Value::List(_)) {
        let hint = "write the packages into a file, one a line, \
                    and here `requirements: requirements.txt`";
        return report.wrong_type(field, "the path of a file", Some(hint));
    }
    path(report, field, Reach::Recipe).map(PythonSource::Requirements)
}

fn wheels(report: &mut Report<'_>, field: &Field<'_>) -> Option<Vec<PathBuf>> {
    each(report.list(field)?, |item| wheel(report, item))
}

fn wheel(report: &mut Report<'_>, item: &Node) -> Option<PathBuf> {
    let field = Field::item("a wheel", item);
    let path = path(report, &field, Reach::Recipe)?;
    if path.extension().is_some_and(|extension| extension == "whl") {
        return Some(path);
    }
    let message = "the name of a wheel ends with `.whl`";
    let hint = "packages with other names belong in the requirements";
    report.refuse(field.place(), message, hint)
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
