// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Trying what was found with the concretizer of a Spack, before it is written.
//!
//! One question is about everything. If Spack cannot answer it, because one entry is wrong, the
//! entries are halved until the wrong one is found. Spack runs in an empty environment, with its
//! files in a temporary directory, and writes nothing into its clone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cabane_process::output::{Limits, OutputError, output_within};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::files::SystemText;
use crate::found::{External, Found, Section};
use crate::machine::Note;

const SCRIPT: &str = include_str!("try.py");
/// The most that Spack may print, and that its answer may be, in bytes.
const MOST: usize = 16 << 20;
/// How long one answer may take. An answer takes half a minute, and more on a busy machine.
const PATIENCE: Duration = Duration::from_secs(1800);

/// The Spack that is asked.
#[derive(Clone, Debug)]
pub struct TryWith {
    /// A clone of Spack 1.0 or later, with its files.
    pub spack: PathBuf,
    /// A clone of its packages, or the directory of a package repository.
    pub packages: PathBuf,
    /// A Python that has the solver; if there is none, the one that Spack finds.
    pub python: Option<PathBuf>,
}

/// What was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The version of Spack.
    pub version: String,
    /// How many entries it takes.
    pub taken: usize,
    /// How many entries it does not take: they are left out.
    pub refused: usize,
}

/// Why nothing was tried.
#[derive(Debug, thiserror::Error)]
pub enum TryError {
    /// There is no Spack, or there are no packages.
    #[error("`{}` is not {what}", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
        /// What is missing in it.
        what: &'static str,
    },
    /// A file cannot be written or read.
    #[error("cannot use `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Spack does not run.
    #[error("cannot run Spack")]
    Run(#[from] OutputError),
    /// Its Python has no solver.
    #[error("the Python of Spack has no module `clingo`")]
    NoSolver,
    /// Spack cannot decide about anything.
    #[error("Spack cannot concretize: {0}")]
    Spack(String),
}

impl TryError {
    /// Returns what can be typed.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing { what, .. } if what.contains("packages") => {
                Some("`git clone https://github.com/spack/spack-packages` makes one")
            }
            Self::Missing { .. } => Some("`git clone https://github.com/spack/spack` makes one"),
            Self::NoSolver => Some(
                "name a Python that has it: `spack_python` in the section `[build]` of the \
                 configuration, or the variable CABANE_SPACK_PYTHON",
            ),
            Self::File { .. } | Self::Run(_) | Self::Spack(_) => None,
        }
    }
}

/// What the script is asked about an entry.
#[derive(Serialize)]
struct Wanted<'a> {
    ask: String,
    spec: String,
    prefix: &'a str,
}

/// What the script answers.
#[derive(Deserialize)]
struct Answer {
    version: String,
    solver: bool,
    error: Option<String>,
    refused: Vec<Refused>,
}

#[derive(Deserialize)]
struct Refused {
    number: usize,
    reason: String,
}

/// Asks Spack which of the entries it takes. Those that it does not take are removed, with a note
/// about each.
///
/// # Errors
///
/// There is no Spack, it does not run, or it cannot concretize anything.
pub fn try_out(found: &mut Found, with: &TryWith) -> Result<Tried, TryError> {
    let session = Session::new(with)?;
    let all: Vec<usize> = (0..found.externals.len()).collect();
    let mut reasons = Vec::new();
    let mut version = String::new();
    session.decide(found, &[], &all, &mut version, &mut reasons)?;
    reasons.sort();
    reasons.dedup_by_key(|(number, _)| *number);
    let tried = Tried { version, taken: all.len() - reasons.len(), refused: reasons.len() };
    // If nothing is taken, it is not the fault of the entries.
    if let ([(_, reason), ..], 0) = (reasons.as_slice(), tried.taken) {
        return Err(TryError::Spack(reason.clone()));
    }
    for (number, reason) in reasons.iter().rev() {
        let external = found.externals.remove(*number);
        let (spec, version) = (external.spec(), &tried.version);
        let text = format!("{spec} is left out, because Spack {version} rejects it: {reason}");
        found.notes.push(Note { subject: external.origin, text });
    }
    Ok(tried)
}

/// A Spack that can be asked.
struct Session<'w> {
    with: &'w TryWith,
    place: TempDir,
    repository: PathBuf,
}

impl<'w> Session<'w> {
    fn new(with: &'w TryWith) -> Result<Self, TryError> {
        let missing = |path: &Path, what| TryError::Missing { path: path.to_owned(), what };
        if !with.spack.join("bin/spack").is_file() {
            return Err(missing(&with.spack, "a clone of Spack"));
        }
        let inside = with.packages.join("repos/spack_repo/builtin");
        let repository = [inside, with.packages.clone()]
            .into_iter()
            .find(|directory| directory.join("repo.yaml").is_file())
            .ok_or_else(|| missing(&with.packages, "a clone of the packages of Spack"))?;
        let repository = repository.canonicalize().map_err(failed(&repository))?;
        let place = tempfile::Builder::new().prefix("cabane-probe-").tempdir();
        let place = place.map_err(failed(&std::env::temp_dir()))?;
        Ok(Self { with, place, repository })
    }

    /// Finds which of some entries Spack does not take, while the others that are named are there
    /// as well.
    fn decide(
        &self,
        found: &Found,
        known: &[usize],
        entries: &[usize],
        version: &mut String,
        reasons: &mut Vec<(usize, String)>,
    ) -> Result<(), TryError> {
        if entries.is_empty() {
            return Ok(());
        }
        let answer = self.ask(found, known, entries)?;
        let Some(error) = answer.error else {
            let refused = answer.refused.into_iter();
            let refused = refused.filter_map(|one| Some((*entries.get(one.number)?, one.reason)));
            reasons.extend(refused);
            *version = answer.version;
            return Ok(());
        };
        if let [one] = entries {
            reasons.push((*one, error));
            *version = answer.version;
            return Ok(());
        }
        let mut known = known.to_vec();
        for part in parts(found, entries, &error, known.is_empty()) {
            self.decide(found, &known, &part, version, reasons)?;
            let is_taken = |one: &&usize| reasons.iter().all(|(other, _)| other != *one);
            let compilers = part.iter().filter(is_taken).filter(is_compiler_of(found)).copied();
            known.extend(compilers.collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Asks about some entries. What Spack knows of the machine are these and those that are
    /// `known`.
    fn ask(&self, found: &Found, known: &[usize], entries: &[usize]) -> Result<Answer, TryError> {
        let mut here = found.clone();
        let numbers =
            (0..found.externals.len()).filter(|one| known.contains(one) || entries.contains(one));
        here.externals = numbers.map(|one| found.externals[one].clone()).collect();
        self.write_configuration(&SystemText::of(&here))?;
        let wanted: Vec<Wanted<'_>> =
            entries.iter().map(|one| wanted(&here, &found.externals[*one])).collect();
        let question = serde_json::to_string(&wanted).unwrap_or_default();
        let question = self.put("question.json", &question)?;
        let script = self.put("try.py", SCRIPT)?;
        let path = self.place.path().join("answer.json");
        let _ = fs::remove_file(&path);
        let mut command = self.command();
        command.arg("python").args([&script, &path, &question]);
        // Spack belongs to the terminal of the user, who may want to stop it.
        let end = Instant::now() + PATIENCE;
        let output =
            output_within(&mut command, b"", Limits { end, bytes: MOST, has_group: false })?;
        let Ok(text) = fs::read(&path) else {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rev().find(|line| !line.trim().is_empty());
            let last = last.unwrap_or("it gave no answer").trim();
            return Err(TryError::Spack(last.trim_start_matches("==> Error: ").to_owned()));
        };
        let answer: Answer =
            serde_json::from_slice(&text).map_err(|error| failed(&path)(io::Error::from(error)))?;
        if answer.solver { Ok(answer) } else { Err(TryError::NoSolver) }
    }

    /// Writes what Spack gets: what is in the files of a system, and nothing of the user.
    fn write_configuration(&self, text: &SystemText) -> Result<(), TryError> {
        self.put("system/packages.yaml", &text.packages)?;
        // The packages of the network come before those of the system.
        let network = text.network.split_once("\npackages:").map_or("", |(_, packages)| packages);
        let network = if network.trim().is_empty() { " {}\n" } else { network };
        self.put("user/packages.yaml", &format!("packages:{network}"))?;
        let repository = serde_json::to_string(&self.repository).unwrap_or_default();
        self.put("system/repos.yaml", &format!("repos: {{builtin: {repository}}}\n"))?;
        self.put("system/bootstrap.yaml", "bootstrap: {enable: true, sources: []}\n")?;
        self.put("system/concretizer.yaml", "concretizer: {reuse: false}\n")?;
        Ok(())
    }

    fn put(&self, name: &str, text: &str) -> Result<PathBuf, TryError> {
        let path = self.place.path().join(name);
        let directory = path.parent().unwrap_or(&path);
        fs::create_dir_all(directory).map_err(failed(directory))?;
        fs::write(&path, text).map_err(failed(&path))?;
        Ok(path)
    }

    fn command(&self) -> Command {
        let place = |name: &str| self.place.path().join(name);
        let mut command = Command::new(self.with.spack.join("bin/spack"));
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", place("home"))
            .env("LANG", "C.UTF-8")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("SPACK_SYSTEM_CONFIG_PATH", place("system"))
            .env("SPACK_USER_CONFIG_PATH", place("user"))
            .env("SPACK_USER_CACHE_PATH", place("cache"));
        command.envs(self.with.python.as_ref().map(|python| ("SPACK_PYTHON", python)));
        command
    }
}

/// Splits entries about which Spack could not decide: those that its error names are asked about for
/// themselves, after the others. Nothing can be decided without a compiler, so compilers come first.
fn parts(found: &Found, entries: &[usize], error: &str, is_first: bool) -> [Vec<usize>; 2] {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let words: Vec<&str> = error.split(|c| !is_name(c)).collect();
    let external = |one: &usize| &found.externals[*one];
    let (named, others): (Vec<usize>, Vec<usize>) =
        entries.iter().partition(|one| words.contains(&external(one).package));
    if !named.is_empty() && !others.is_empty() {
        return [others, named];
    }
    let is_compiler = |one: &&usize| is_first && external(one).section == Section::Compiler;
    let (compilers, others): (Vec<usize>, Vec<usize>) = entries.iter().partition(is_compiler);
    if !compilers.is_empty() && !others.is_empty() {
        return [compilers, others];
    }
    let (first, second) = entries.split_at(entries.len() / 2);
    [first.to_vec(), second.to_vec()]
}

/// Returns a filter for compilers.
fn is_compiler_of(found: &Found) -> impl Fn(&&usize) -> bool {
    |one| found.externals[**one].section == Section::Compiler
}

/// What is asked about an entry: its version, as a recipe does. If several entries have it, all
/// that is known about the entry.
fn wanted<'e>(here: &Found, external: &'e External) -> Wanted<'e> {
    let is_same =
        |other: &&External| other.package == external.package && other.version == external.version;
    let spec = external.spec();
    let ask = if here.externals.iter().filter(is_same).count() > 1 {
        spec.clone()
    } else {
        format!("{}@{}", external.package, external.version)
    };
    Wanted { ask, spec, prefix: &external.prefix }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> TryError {
    let path = path.to_owned();
    move |source| TryError::File { path, source }
}
