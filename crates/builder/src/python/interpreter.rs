// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Finding the interpreter that an environment is made for.
//!
//! The image does not hold it: it is a need of the image, so the one of the system
//! is better than one that only this user has.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cabane_label::{escape, shown};
use cabane_process::installation;
use cabane_recipe::InterpreterRequest;
use cabane_report::{Kind, Report};
use serde::Deserialize;

use crate::program::Version;
use crate::{BuildRequest, Result};

/// The oldest Python that packages are still made for.
const OLDEST: &str = "3.8";

/// Where every user has the same interpreters.
const SYSTEM: [&str; 2] = ["/usr/bin", "/usr/local/bin"];

/// Prints what is to be known. An interpreter in a virtual environment names the
/// one that the environment was made from.
const QUESTION: &str = "\
import json, os, sys
print(json.dumps({
    'version': '.'.join(map(str, sys.version_info[:3])),
    'path': os.path.realpath(getattr(sys, '_base_executable', None) or sys.executable),
    'prefix': os.path.realpath(sys.base_prefix),
}))";

/// An interpreter, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Interpreter {
    /// The program, without links.
    pub(crate) path: PathBuf,
    /// Its version: `3.11.2`.
    pub(crate) version: String,
    /// The directory of its library.
    pub(crate) prefix: PathBuf,
}

/// Finds an interpreter and asks it who it is.
pub(crate) fn find(request: &BuildRequest, wanted: &InterpreterRequest) -> Result<Interpreter> {
    match wanted {
        InterpreterRequest::Path(path) => {
            let directories = path.parent().map(Path::to_owned).into_iter().collect();
            let only = Candidates { directories, paths: vec![path.clone()] };
            look_at(&only, "at that path", |_| true)
        }
        InterpreterRequest::Version(version) => {
            let wanted = Version::parse(version);
            let names = names(version);
            look_at(&candidates(request, &names), version, |found| found.is(&wanted))
        }
        InterpreterRequest::Any => {
            let names = ["python3".to_owned(), "python".to_owned()];
            look_at(&candidates(request, &names), "3.8 or later", |_| true)
        }
    }
}

/// `python3.11`, `python3`, `python` for `3.11.2`.
fn names(version: &str) -> Vec<String> {
    let minor: Vec<_> = version.split('.').take(2).collect();
    let mut names =
        vec![format!("python{}", minor.join(".")), "python3".to_owned(), "python".to_owned()];
    names.dedup();
    names
}

/// What may be an interpreter, and the directories that were searched.
struct Candidates {
    directories: Vec<PathBuf>,
    paths: Vec<PathBuf>,
}

fn candidates(request: &BuildRequest, names: &[String]) -> Candidates {
    let home = request.effective_home();
    let is_hidden = |path: &Path| {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        home.iter().any(|home| path.starts_with(home) || real.starts_with(home))
    };
    let mut seen = HashSet::new();
    let directories: Vec<PathBuf> = SYSTEM
        .iter()
        .map(PathBuf::from)
        .chain(request.search_path.iter().cloned())
        .filter(|directory| directory.is_absolute() && !is_hidden(directory))
        .filter(|directory| seen.insert(directory.clone()))
        .collect();
    let inside = |one: &PathBuf| names.iter().map(|name| one.join(name)).collect::<Vec<_>>();
    let paths = directories.iter().flat_map(inside).filter(|path| path.is_file()).collect();
    Candidates { directories, paths }
}

fn look_at(
    candidates: &Candidates,
    wanted: &str,
    fits: impl Fn(&Version) -> bool,
) -> Result<Interpreter> {
    let mut found = Vec::new();
    for path in &candidates.paths {
        match ask(path) {
            Ok(answer) => {
                let version = Version::parse(&answer.version);
                if version >= Version::parse(OLDEST) && fits(&version) {
                    return Ok(answer);
                }
                found.push(format!("{} is {}", shown(path), escape(&answer.version)));
            }
            Err(reason) => found.push(format!("{} is {}", shown(path), escape(&reason))),
        }
    }
    let searched: Vec<_> = candidates.directories.iter().map(|one| shown(one)).collect();
    let installed = found.is_empty().then(|| installation::hint("python3")).flatten();
    let others = match found.as_slice() {
        [] => String::new(),
        found => format!(", only others: {}", found.join(", ")),
    };
    let hint = format!(
        "Cabane searched {}; to use another one, write `interpreter: /path/to/python3` under \
         `python:` in config.yaml",
        searched.join(", ")
    );
    let message = format!("no Python {wanted} was found{others}");
    Err(Report::new(Kind::Build, message).hinted(installed).hinted(hint).into())
}

fn ask(path: &Path) -> Result<Interpreter, String> {
    let output = Command::new(path)
        .args(["-I", "-c", QUESTION])
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("not usable ({error})"))?;
    serde_json::from_slice(&output.stdout).map_err(|_| "not a Python 3".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_with_three_numbers_is_looked_for_under_the_name_with_two() {
        assert_eq!(names("3.11.2"), ["python3.11", "python3", "python"]);
    }

    #[test]
    fn where_no_interpreter_is_the_places_and_the_package_are_named() {
        let directories = ["/usr/bin", "/opt/none"].map(PathBuf::from).to_vec();
        let none = Candidates { directories, paths: Vec::new() };
        let error = look_at(&none, "3.8 or later", |_| true).unwrap_err();
        let (text, hints) = Report::from(error).texts();
        let hints = hints.unwrap();
        assert_eq!(text, "no Python 3.8 or later was found");
        assert!(hints.starts_with("install"), "{hints}");
        assert!(hints.contains("Cabane searched /usr/bin, /opt/none; "), "{hints}");
    }

    #[test]
    fn a_program_that_is_not_python_is_no_interpreter() {
        assert_eq!(ask(Path::new("/bin/echo")), Err("not a Python 3".to_owned()));
    }
}
