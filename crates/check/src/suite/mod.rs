// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Suites of `ReFrame`, run on an image.
//!
//! The configuration of `ReFrame` is made for the image: its environments are those of
//! `extra/reframe.yaml` in the metadata. Each script of a test enters the image first and makes a file
//! there. Without that file the test did not run in the image, whatever `ReFrame` says about it. Tests that
//! ask for the feature `host` run beside the image, where the suite allows it, and make the file there.

mod described;
mod installed;
mod judge;
mod revision;
mod seen;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_evidence::{Configuration, Outcome, ReframeReport, session_extras};
use cabane_label::{Digest, escape, shown};
use cabane_mpi_audit::run::{Ended, first_meaningful, launcher_variables};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::Context;
use serde_json::{Value, json};

use crate::bench::{Bench, LONGEST, find_program, read_start};
use crate::judge::short;
use crate::outcome::{CheckResult, Source};
use crate::request::{CheckRequest, Place};
use crate::subject::Subject;

const PROGRAM: &str = "reframe";
const NOTHING: &str = "no test of the suite fits the environments of the image";
/// The largest report that is read, in bytes.
const MAX_REPORT: u64 = 64 * 1024 * 1024;

/// How variables begin that are for the tests of a suite.
const OF_TESTS: &str = "CABANE_CHECK_";
/// Variables that say how the network is reached, in small letters.
const PASSED: [&str; 10] = [
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "ssl_cert_file",
    "ssl_cert_dir",
    "git_ssl_cainfo",
    "curl_ca_bundle",
    "requests_ca_bundle",
    "pip_cert",
];

/// How the options of `ReFrame` begin that select tests.
const SELECTING: [&str; 17] = [
    "-n",
    "--name",
    "-x",
    "--exclude",
    "-t",
    "--tag",
    "-T",
    "-E",
    "--filter-expr",
    "-p",
    "--prgenv",
    "--cpu-only",
    "--gpu-only",
    "--maintainer",
    "--skip",
    "--failed",
    "--mode",
];

/// Suites that are to be run, and by what.
#[derive(Clone, Debug)]
pub struct SuiteRequest {
    program: PathBuf,
    suites: Vec<Suite>,
}

/// A suite.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Its name.
    pub name: String,
    /// The directory of its tests.
    pub directory: PathBuf,
    /// More options of `ReFrame`.
    pub options: Vec<String>,
    /// The sum of its files and options, if the suite was declared in this form. The tests that its
    /// options leave out are no part of it then; otherwise they count as not tested.
    pub declared: Option<Digest>,
    /// Whether it was found by its name. No commit says what it consists of then.
    pub is_installed: bool,
}

impl Suite {
    /// Returns the suite in a directory, which has the name of the directory, or the installed suite of
    /// a name.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn find(context: &Context, typed: &Path, options: Vec<String>) -> Result<Self> {
        let is_name = typed.components().count() == 1 && !typed.is_absolute() && !typed.is_dir();
        let directory = if is_name { installed::find(context, typed)? } else { typed.to_owned() };
        let directory = fs::canonicalize(&directory)
            .or_failed(|| format!("find the suite {}", shown(typed)))?;
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, directory, options, declared: None, is_installed: is_name })
    }
}

impl SuiteRequest {
    /// Finds `ReFrame` for some suites; `None` if there are no suites.
    ///
    /// # Errors
    ///
    /// There is no `ReFrame`; a suite is not a directory; two suites have the same name.
    pub fn find(context: &Context, suites: Vec<Suite>) -> Result<Option<Self>> {
        for (index, suite) in suites.iter().enumerate() {
            if !suite.directory.is_dir() {
                let message = format!("the suite {} is not a directory", shown(&suite.directory));
                return Err(Report::new(Kind::Usage, message));
            }
            if suites[..index].iter().any(|known| known.name == suite.name) {
                let message = format!("two suites have the name `{}`", escape(&suite.name));
                let hint = "run one of them in another call of `cabane check`".to_owned();
                return Err(Report::new(Kind::Usage, message).hinted(hint));
            }
        }
        if suites.is_empty() {
            return Ok(None);
        }
        let named = context.settings.reframe.value.clone();
        let program = named.or_else(|| find_program(context, PROGRAM)).ok_or_else(|| {
            Report::new(Kind::NotFound, "there is no `reframe` in PATH, and `--suite` needs it")
                .hinted(
                "install the Python package `ReFrame-HPC`, or set `check.reframe` in config.toml"
                    .to_owned(),
            )
        })?;
        Ok(Some(Self { program, suites }))
    }

    /// Returns the names of the suites.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.suites.iter().map(|suite| suite.name.as_str())
    }

    /// Returns the names of the suites that were declared: all of them have to be run.
    pub(crate) fn declared(&self) -> impl Iterator<Item = &str> {
        let declared = self.suites.iter().filter(|suite| suite.declared.is_some());
        declared.map(|suite| suite.name.as_str())
    }

    /// Returns the options that select tests of the suites. What they leave out was not tested.
    pub(crate) fn selecting(&self) -> impl Iterator<Item = &str> {
        let typed = self.suites.iter().filter(|suite| suite.declared.is_none());
        let options = typed.flat_map(|suite| &suite.options).map(String::as_str);
        options.filter(|option| SELECTING.iter().any(|one| option.starts_with(one)))
    }
}

/// What came of a suite.
pub(crate) struct SuiteResult {
    pub(crate) checks: Vec<CheckResult>,
    pub(crate) configuration: Configuration,
}

/// Runs the suite of a name. What keeps it from running is its result as well.
pub(crate) fn run(
    context: &Context,
    bench: &mut Bench<'_>,
    (subject, request): (&Subject, &CheckRequest),
    name: &str,
) -> SuiteResult {
    let mut configuration = Configuration { name: name.to_owned(), ..Configuration::default() };
    let run = request.suites.as_ref().and_then(|suites| {
        let suite = suites.suites.iter().find(|suite| suite.name == name)?;
        Some(SuiteRun { context, bench, subject, request, suites, suite })
    });
    let checks = match run.map(|run| run.run(&mut configuration)) {
        Some(Ok(checks)) => checks,
        Some(Err(error)) => vec![whole(name, Outcome::Error, &error.to_string())],
        None => Vec::new(),
    };
    SuiteResult { checks, configuration }
}

/// A result for the suite as a whole.
fn whole(name: &str, outcome: Outcome, reason: &str) -> CheckResult {
    CheckResult {
        name: name.to_owned(),
        source: Source::Suite,
        outcome,
        reason: Some(short(reason)),
        seconds: 0.0,
        figures: Vec::new(),
        unmeasured: Vec::new(),
    }
}

struct SuiteRun<'a, 'b> {
    context: &'a Context,
    bench: &'a mut Bench<'b>,
    subject: &'a Subject,
    request: &'a CheckRequest,
    suites: &'a SuiteRequest,
    suite: &'a Suite,
}

impl SuiteRun<'_, '_> {
    fn run(mut self, configuration: &mut Configuration) -> Result<Vec<CheckResult>> {
        let name = &self.suite.name;
        if self.suite.is_installed {
            installed::describe(&self.suite.directory, configuration)?;
        } else {
            revision::describe(self.context, &self.suite.directory, configuration);
        }
        if let Some(content) = &self.suite.declared {
            configuration.set_content(content);
        }
        let options = &self.suite.options;
        if !options.is_empty() {
            configuration.annotations.insert("options".to_owned(), json!(options));
        }
        let described = described::read(&self.suite.directory)?;
        if let Some(note) = &described.note {
            self.context.note(format_args!("{}: {}", escape(name), escape(note)));
        }
        let directory = self.prepare(described.host)?;
        let ended = self.start(&directory);
        let path = directory.join("report.json");
        let Some(bytes) = read_start(&path, MAX_REPORT) else {
            return Ok(self.without_report(&ended));
        };
        let report = match ReframeReport::from_bytes(&bytes) {
            Ok(report) => report,
            Err(error) => return Ok(vec![whole(name, Outcome::Error, &error.to_string())]),
        };
        if report.image() != Some(self.subject.digest.as_str()) {
            let reason = "the report of ReFrame is about another image";
            return Ok(vec![whole(name, Outcome::Error, reason)]);
        }
        let version = report.session.version.clone().unwrap_or_default();
        let annotations = &mut configuration.annotations;
        annotations.insert("runner".to_owned(), json!(format!("reframe {version}")));
        annotations.insert("runs".to_owned(), json!(report.runs.len()));
        let is_repeated = options.iter().any(|one| {
            // Each run has all tests then, and one that passes excuses none that fails.
            one.starts_with("--rer") || one.starts_with("--du")
        });
        let evidence = seen::Marks::new(&directory);
        let mut checks = judge::results(name, &report, is_repeated, &evidence);
        checks.extend(unreadable(name, &ended));
        let has_passed = |one: &CheckResult| one.outcome != Outcome::Failed;
        if checks.is_empty() {
            checks.push(whole(name, Outcome::NotTested, NOTHING));
        } else if ended.code != Some(0)
            && checks.iter().all(|one| has_passed(one) && one.outcome != Outcome::Error)
        {
            let reason = format!("ReFrame failed: {}", said(&ended));
            checks.push(whole(name, Outcome::Error, &reason));
        }
        self.shorten(&directory, &mut checks);
        Ok(checks)
    }

    /// `ReFrame` writes no report if there is no test to run.
    fn without_report(&self, ended: &Ended) -> Vec<CheckResult> {
        let name = &self.suite.name;
        let mut checks = unreadable(name, ended);
        if ended.code == Some(0) && checks.is_empty() {
            checks.push(whole(name, Outcome::NotTested, NOTHING));
        } else if ended.code != Some(0) {
            let reason = format!("ReFrame wrote no report: {}", said(ended));
            checks.push(whole(name, Outcome::Error, &reason));
        }
        self.shorten(Path::new(""), &mut checks);
        checks
    }

    /// Removes directories of this machine from reasons: the names of users can be in them.
    fn shorten(&self, directory: &Path, checks: &mut [CheckResult]) {
        let begins = [directory, &self.suite.directory].map(|path| format!("{}/", path.display()));
        for reason in checks.iter_mut().filter_map(|check| check.reason.as_mut()) {
            for begin in begins.iter().filter(|begin| begin.len() > 1) {
                *reason = reason.replace(begin, "");
            }
        }
    }

    /// Makes the directory of the suite with the configuration of `ReFrame`.
    fn prepare(&self, host: bool) -> Result<PathBuf> {
        let parent = self.bench.directory();
        let parent = fs::canonicalize(parent).or_failed(|| format!("find {}", shown(parent)))?;
        let number = self.suites.suites.iter().take_while(|one| one.name != self.suite.name);
        let directory = parent.join(format!("suite-{}", number.count()));
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            fs::write(&path, text).or_failed(|| format!("write {}", shown(&path)))
        };
        fs::create_dir_all(directory.join("begun"))
            .or_failed(|| format!("make {}", shown(&directory)))?;
        write("config.py", include_str!("../scripts/reframe.py"))?;
        write("enter.sh", include_str!("../scripts/enter.sh"))?;
        write("beside.sh", include_str!("../scripts/beside.sh"))?;
        write("suite.json", &self.values(host)?.to_string())?;
        Ok(directory)
    }

    /// What the configuration of `ReFrame` is made from.
    fn values(&self, host: bool) -> Result<Value> {
        let system = self.context.system();
        let system = system.map_or_else(|| "here".to_owned(), |system| system.to_string());
        let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let system = system.replace(|c| !is_usual(c), "_");
        let environments = self.subject.reframe.as_deref().map(str::from_utf8).transpose();
        let environments = environments.map_err(|error| {
            let message = "extra/reframe.yaml in the image is not UTF-8".to_owned();
            Report::caused(Kind::BadInput, message, error)
        })?;
        let mpi: &[&str] = if self.subject.pmi.is_empty() { &[] } else { &["mpi"] };
        let (scheduler, launcher, partition) = match &self.request.place {
            Place::Here => ("local", "cabane-here", "here"),
            Place::Slurm { .. } if has_accounting(self.context) => {
                ("slurm", "cabane-slurm", "slurm")
            }
            Place::Slurm { .. } => ("squeue", "cabane-slurm", "slurm"),
        };
        Ok(json!({
            "system": system,
            "partition": partition,
            "scheduler": scheduler,
            "launcher": launcher,
            "pmi": self.bench.pmi(),
            "access": self.bench.options_of_job(),
            "time_limit": format!("{}s", self.request.limit.as_secs().max(1)),
            "enter": self.bench.enter(),
            "features": mpi,
            "environments": environments,
            "host": host,
            "access_beside": self.bench.options_of_job_beside(),
            "program": self.bench.own_program(),
            "image": self.subject.path.to_string_lossy(),
        }))
    }

    fn start(&mut self, directory: &Path) -> Ended {
        let mut command = Command::new(&self.suites.program);
        command.args(&self.suite.options).arg("-C").arg(directory.join("config.py"));
        command.arg("--checkpath").arg(&self.suite.directory).arg("--recursive");
        command.arg(joined("--prefix=", directory));
        command.arg(joined("--report-file=", &directory.join("report.json")));
        command.arg(session_extras(&self.subject.digest)).args(["--nocolor", "--run"]);
        // The directory of a suite may belong to others, and what is in it may be compared.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        // Tests beside the image may build something, which needs the network of the site.
        let is_passed = |name: &OsStr| {
            let name = name.to_string_lossy();
            PASSED.contains(&&*name.to_ascii_lowercase()) || name.starts_with(OF_TESTS)
        };
        command.envs(self.context.calling.iter().filter(|(name, _)| is_passed(name)));
        // More ranks than processors, and ranks of root.
        command.envs(launcher_variables(u32::MAX));
        self.bench.run_outside(&mut command, LONGEST)
    }
}

fn joined(option: &str, path: &Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from(option);
    option.push(path);
    option
}

/// The line with which `ReFrame` ended.
fn said(ended: &Ended) -> String {
    if ended.is_late {
        return "it did not end in time, or printed too much".to_owned();
    }
    let both = [ended.messages.as_str(), ended.output.as_str()];
    let error = both.iter().flat_map(|text| text.lines()).find(|line| line.contains("ERROR: "));
    let said = error.map(str::to_owned).or_else(|| both.into_iter().find_map(first_meaningful));
    said.unwrap_or_else(|| "it printed nothing".to_owned())
}

/// The results for files of tests that `ReFrame` cannot read and leaves out.
fn unreadable(name: &str, ended: &Ended) -> Vec<CheckResult> {
    const BEGIN: &str = "skipping test file ";
    let lines = ended.output.lines().chain(ended.messages.lines());
    let left_out = lines.filter_map(|line| line.split_once(BEGIN)).map(|(_, rest)| rest);
    let mut files: Vec<&str> = left_out.map(|rest| rest.trim_end_matches(':')).collect();
    files.sort_unstable();
    files.dedup();
    let reason = |rest: &&str| whole(name, Outcome::Error, &format!("{BEGIN}{rest}"));
    files.iter().map(reason).collect()
}

/// Whether Slurm keeps accounts. Without them only the queue says how jobs end.
fn has_accounting(context: &Context) -> bool {
    let Some(sacct) = find_program(context, "sacct") else {
        return false;
    };
    let asked = Command::new(sacct).args(["--noheader", "--allocations"]).output();
    asked.is_ok_and(|output| output.status.success())
}
