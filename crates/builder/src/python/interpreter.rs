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
            look_at(std::slice::from_ref(path), "at that path", |_| true)
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

fn candidates(request: &BuildRequest, names: &[String]) -> Vec<PathBuf> {
    let home = request.effective_home();
    let is_hidden = |path: &Path| {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        home.iter().any(|home| path.starts_with(home) || real.starts_with(home))
    };
    let mut seen = HashSet::new();
    SYSTEM
        .iter()
        .map(PathBuf::from)
        .chain(request.search_path.iter().cloned())
        .filter(|directory| directory.is_absolute() && !is_hidden(directory))
        .filter(|directory| seen.insert(directory.clone()))
        .flat_map(|directory| names.iter().map(move |name| directory.join(name)))
        .filter(|path| path.is_file())
        .collect()
}

fn look_at(
    candidates: &[PathBuf],
    wanted: &str,
    fits: impl Fn(&Version) -> bool,
) -> Result<Interpreter> {
    let mut found = Vec::new();
    for path in candidates {
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
    let mut searched: Vec<_> = candidates.iter().filter_map(|path| path.parent()).collect();
    searched.dedup();
    let searched: Vec<_> = searched.into_iter().map(shown).collect();
    let others = match found.as_slice() {
        [] => String::new(),
        found => format!(", only others: {}", found.join(", ")),
    };
    let hint = format!(
        "it was looked for in {}; `interpreter: /path/to/python3` in config.yaml takes one from \
         anywhere",
        searched.join(", ")
    );
    let message = format!("no Python {wanted} was found{others}");
    Err(Report::new(Kind::Build, message).hinted(hint).into())
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
    fn a_program_that_is_not_python_is_no_interpreter() {
        assert_eq!(ask(Path::new("/bin/echo")), Err("not a Python 3".to_owned()));
    }
}
