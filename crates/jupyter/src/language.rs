// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which kernel the interpreter of an image has.

use std::ffi::OsString;
use std::path::{Component, Path};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use cabane_label::escape;
use cabane_process::output::{Limits, output_within};
use cabane_report::{Kind, Report, Result};
use cabane_resolve::ConcreteEnvironment;
use serde::Deserialize;
use serde_json::Value;

use crate::spec::KernelSpec;

/// How long an interpreter may take to load its kernel, on a slow file system.
const PATIENCE: Duration = Duration::from_secs(180);
/// The most bytes of an answer.
const MOST: usize = 1 << 20;
/// The exit codes of `cabane run` if the command does not exist, or if nothing was started.
const NO_COMMAND: i32 = 127;
const NOT_STARTED: i32 = 125;
/// The exit code of the script that looks for a command.
const NOT_FOUND: i32 = 44;

/// A language whose kernel is found by asking its interpreter.
struct Language {
    name: &'static str,
    interpreters: &'static [&'static str],
    /// The options behind which the question stands.
    options: &'static [&'static str],
    /// Prints an [`Answer`] as the last line.
    question: &'static str,
    package: &'static str,
    hint: &'static str,
}

const LANGUAGES: [Language; 2] = [
    Language {
        name: "python",
        interpreters: &["python", "python3"],
        options: &["-c"],
        question: r#"
import sys, json
print("\n" + json.dumps({"interpreter": sys.executable}))
import ipykernel.kernelapp
from ipykernel.kernelspec import get_kernel_dict
print("\n" + json.dumps({"interpreter": sys.executable, "package": ipykernel.__file__, "kernel": get_kernel_dict()}))
"#,
        package: "ipykernel",
        hint: "build the image with `ipykernel`: a line in its `requirements.txt`, or `py-ipykernel` in a recipe for Spack",
    },
    Language {
        name: "R",
        interpreters: &["R"],
        options: &["--no-save", "--no-restore", "--slave", "-e"],
        question: r#"
program <- file.path(R.home("bin"), "R")
answer <- function(rest) cat("\n{\"interpreter\":", deparse(program), rest, "}\n", sep = "")
answer("")
package <- system.file(package = "IRkernel", mustWork = TRUE)
library(IRkernel)
kernel <- readLines(file.path(package, "kernelspec", "kernel.json"))
answer(paste0(",\"package\":", deparse(package), ",\"kernel\":", paste(kernel, collapse = "")))
"#,
        package: "IRkernel",
        hint: "build the image with `IRkernel`: `r-irkernel` in a recipe for Spack, or `r-cran-irkernel` in a Debian image",
    },
];

/// What an interpreter says.
#[derive(Debug, Deserialize)]
struct Answer {
    /// Its file.
    interpreter: String,
    /// A file or directory of the package with the kernel.
    package: Option<String>,
    /// The kernel, as it describes itself. Nothing if the package is missing.
    kernel: Option<Value>,
}

/// A kernel that was found.
#[derive(Debug)]
pub(crate) struct Found {
    /// What is taken of its description, with the path of the interpreter.
    pub(crate) spec: KernelSpec,
    /// The package with the kernel, if it is in none of the images.
    pub(crate) package_elsewhere: Option<String>,
}

/// Starts commands in an environment.
pub(crate) struct Environment<'a> {
    /// The words before a command.
    pub(crate) run: Vec<OsString>,
    pub(crate) images: &'a ConcreteEnvironment,
}

/// Finds the kernel of a language, or of the first language that has one.
///
/// # Errors
///
/// There is no such language, no interpreter in the images, or no kernel for it.
pub(crate) fn find(environment: &Environment<'_>, wanted: Option<&str>) -> Result<Found> {
    let is_wanted =
        |language: &&Language| wanted.is_none_or(|name| name.eq_ignore_ascii_case(language.name));
    let languages: Vec<&Language> = LANGUAGES.iter().filter(is_wanted).collect();
    if let (Some(name), []) = (wanted, &languages[..]) {
        let message = format!("Cabane cannot find kernels for `{}` by itself", escape(name));
        return Err(Report::new(Kind::Usage, message).hinted(hint_about_command()));
    }
    let mut missing = None;
    for language in &languages {
        for interpreter in language.interpreters {
            match environment.ask(language, interpreter)? {
                Asked::Found(found) => return Ok(*found),
                Asked::NoKernel(error) => missing = missing.or(Some(error)),
                Asked::NoInterpreter => {}
            }
        }
    }
    Err(missing.unwrap_or_else(|| no_interpreter(&languages, environment.images)))
}

enum Asked {
    Found(Box<Found>),
    NoInterpreter,
    NoKernel(Report),
}

impl Environment<'_> {
    /// Asks an interpreter. One of the machine does not count: the kernel is to be that of the images.
    fn ask(&self, language: &Language, interpreter: &str) -> Result<Asked> {
        let arguments = [language.options, &[language.question]].concat();
        let output = self.output(interpreter, &arguments)?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let answers = String::from_utf8_lossy(&output.stdout);
        let read = |line| serde_json::from_str::<Answer>(line).ok();
        let answer = answers.lines().rev().find_map(read);
        let Some(answer) = answer else {
            return match output.status.code() {
                Some(NO_COMMAND) => Ok(Asked::NoInterpreter),
                Some(NOT_STARTED) => Err(not_started(&errors)),
                _ => Ok(Asked::NoKernel(no_kernel(language, interpreter, &errors))),
            };
        };
        if !self.has(&answer.interpreter) {
            return Ok(Asked::NoInterpreter);
        }
        let described = answer.kernel.filter(|_| output.status.success());
        let spec = described.and_then(|value| KernelSpec::described(value, language.name));
        let Some(mut spec) = spec else {
            return Ok(Asked::NoKernel(no_kernel(language, &answer.interpreter, &errors)));
        };
        if let Some(first) = spec.argv.first_mut() {
            *first = answer.interpreter;
        }
        let package_elsewhere = answer.package.filter(|package| !self.has(package));
        Ok(Asked::Found(Box::new(Found { spec, package_elsewhere })))
    }

    /// Checks that a command can be found in the environment, be it one of the machine.
    ///
    /// # Errors
    ///
    /// There is no such command, or nothing can be started in the environment.
    pub(crate) fn check_command(&self, typed: &str) -> Result<()> {
        // An environment without a shell says nothing about the command.
        let script = format!("command -v \"$0\" >/dev/null || exit {NOT_FOUND}");
        let output = self.output("sh", &["-c", &script, typed])?;
        match output.status.code() {
            Some(NOT_FOUND) => Err(no_command(typed, self.images)),
            Some(NOT_STARTED) => Err(not_started(&String::from_utf8_lossy(&output.stderr))),
            _ => Ok(()),
        }
    }

    /// Runs a command in the environment, and returns what it prints.
    fn output(&self, program: &str, arguments: &[&str]) -> Result<Output> {
        let failed = |error| {
            Report::caused(Kind::Failure, format!("cannot run `{program}` in the images"), error)
        };
        let (own, words) = self.run.split_first().ok_or_else(|| failed("no program".into()))?;
        let mut command = Command::new(own);
        command.args(words).arg("--").arg(program).args(arguments);
        let limits = Limits { end: Instant::now() + PATIENCE, bytes: MOST, has_group: false };
        output_within(&mut command, b"", limits).map_err(|error| failed(error.to_string()))
    }

    /// Whether a file is in one of the images.
    fn has(&self, file: &str) -> bool {
        let images = &self.images.images;
        let file = Path::new(file);
        let leads_up = file.components().any(|part| part == Component::ParentDir);
        !leads_up && images.iter().any(|image| file.starts_with(image.mount_point.as_path()))
    }
}

fn no_kernel(language: &Language, interpreter: &str, errors: &str) -> Report {
    let message = format!(
        "there is no kernel for {}: {} cannot load `{}`",
        language.name,
        escape(interpreter),
        language.package
    );
    let last = errors.lines().rev().find(|line| !line.trim().is_empty());
    let report = Report::new(Kind::NotFound, message).hinted(language.hint.to_owned());
    match last {
        Some(line) => report.detailed(format!("{}\n", escape(line.trim()))),
        None => report,
    }
}

fn no_interpreter(languages: &[&Language], images: &ConcreteEnvironment) -> Report {
    let names: Vec<&str> =
        languages.iter().flat_map(|language| language.interpreters).copied().collect();
    let names = cabane_label::enumerate(&names, "or");
    let message = format!("cannot find a kernel: the images have no {names}");
    Report::new(Kind::NotFound, message)
        .hinted(hint_about_view(images))
        .hinted(hint_about_command())
}

fn no_command(typed: &str, images: &ConcreteEnvironment) -> Report {
    let message = format!("cannot find the command `{}` in the images", escape(typed));
    let hint =
        "name the program of the kernel by its path inside, as in `-- /opt/julia/bin/julia …`";
    Report::new(Kind::NotFound, message).hinted(hint_about_view(images)).hinted(hint.to_owned())
}

fn hint_about_view(images: &ConcreteEnvironment) -> Option<String> {
    let hint = || "load a view with `--view`; `cabane image inspect` lists them".to_owned();
    images.views.is_empty().then(hint)
}

fn not_started(errors: &str) -> Report {
    let lines: Vec<String> = errors.lines().map(|line| escape(line).into_owned()).collect();
    Report::new(Kind::NotStarted, "cannot start a command in these images")
        .detailed(format!("{}\n", lines.join("\n")))
}

fn hint_about_command() -> String {
    "name the command of the kernel after `--`, with `{connection_file}` where the kernel wants that file".to_owned()
}
