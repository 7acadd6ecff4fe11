// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The checks of an image, one after the other.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cabane_evidence::{Configuration, Outcome};
use cabane_label::{enumerate, escape};
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;
use cabane_view::Check;
use jiff::Timestamp;

use crate::bench::{Bench, srun};
use crate::builtin::{Builtin, builtins};
use crate::host;
use crate::judge::{Judged, judge};
use crate::outcome::{CheckReport, CheckResult, Source};
use crate::subject::Subject;
use crate::suite::{self, SuiteRequest};

/// Where checks run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On this machine.
    Here,
    /// In steps of Slurm.
    Slurm {
        /// The program `srun`.
        srun: PathBuf,
        /// More options for it, such as `--partition=debug`.
        options: Vec<String>,
    },
}

impl Place {
    /// Returns the place of steps with some options.
    ///
    /// # Errors
    ///
    /// There is no `srun` in `PATH`.
    pub fn slurm(context: &Context, options: Vec<String>) -> Result<Self> {
        Ok(Self::Slurm { srun: srun(context)?, options })
    }
}

/// What is checked, and how.
#[derive(Clone, Debug)]
pub struct CheckRequest {
    /// Only these checks, by name; all if none is named.
    pub only: Vec<String>,
    /// Where they run.
    pub place: Place,
    /// How long a check may take that has no limit of its own.
    pub limit: Duration,
    /// The directory below which they run, instead of that for temporary files.
    pub work_directory: Option<PathBuf>,
    /// The suites of `ReFrame` that are run beside the checks.
    pub suites: Option<SuiteRequest>,
}

impl CheckRequest {
    /// Returns the request that repeats what measured something in a run; `None` if nothing did. The
    /// others are left out, so that such a run never counts as a success.
    #[must_use]
    pub fn repeated(&self, report: &CheckReport) -> Option<Self> {
        let name_of = |one: &CheckResult| {
            let suites = report.suites.iter().map(|suite| &suite.name);
            let mut suites = suites.filter(|name| {
                one.name.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('/'))
            });
            let suite = suites.next().filter(|_| one.source == Source::Suite);
            suite.unwrap_or(&one.name).clone()
        };
        let measures = report.checks.iter().filter(|one| !one.figures.is_empty());
        let mut only: Vec<String> = measures.map(name_of).collect();
        only.dedup();
        (!only.is_empty()).then(|| Self { only, ..self.clone() })
    }
}

/// A check that is to be run.
enum Planned<'a> {
    Recipe(&'a Check),
    Builtin(Builtin),
    Suite(&'a str),
}

impl Planned<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Recipe(check) => &check.name,
            Self::Builtin(builtin) => builtin.name(),
            Self::Suite(name) => name,
        }
    }
}

/// Runs the checks of an image. Each result is passed to `done` when it is there.
///
/// # Errors
///
/// There is no place to run them, or a check that was named does not exist.
pub fn check(
    context: &Context,
    subject: &Subject,
    request: &CheckRequest,
    done: &mut dyn FnMut(&CheckResult),
) -> Result<CheckReport> {
    let (planned, mut left_out) = plan(subject, request)?;
    let host = host::here(context);
    let system = host.system.clone().unwrap_or_default();
    let mut bench = Bench::new(context, subject, request)?;
    let started = Timestamp::now();
    let mut checks: Vec<CheckResult> = Vec::new();
    let mut suites: Vec<Configuration> = Vec::new();
    for one in planned {
        context.detail(format_args!("checking {}", one.name()));
        let begin = Instant::now();
        let (source, judged) = match &one {
            Planned::Recipe(check) => (Source::Recipe, run(&mut bench, check, &system)),
            Planned::Builtin(builtin) => {
                (Source::Builtin, builtin.run(context, &mut bench, subject, request))
            }
            Planned::Suite(name) => {
                let result = suite::run(context, &mut bench, (subject, request), name);
                result.checks.iter().for_each(&mut *done);
                checks.extend(result.checks);
                suites.push(result.configuration);
                continue;
            }
        };
        let result = CheckResult {
            name: one.name().to_owned(),
            source,
            outcome: judged.outcome,
            reason: judged.reason,
            seconds: begin.elapsed().as_secs_f64(),
            figures: judged.figures,
            unmeasured: Vec::new(),
        };
        done(&result);
        let is_closed = source == Source::Builtin
            && result.name == Builtin::Starts.name()
            && result.outcome != Outcome::Passed;
        checks.push(result);
        if is_closed {
            // Nothing else can run either.
            break;
        }
    }
    let declared = request.suites.iter().flat_map(SuiteRequest::declared);
    let untested = declared.filter(|name| !has_run(name, &checks));
    left_out.extend(untested.map(|name| format!("the suite {name}, of which no test ran")));
    Ok(CheckReport {
        image: subject.typed.clone(),
        label: subject.label.clone(),
        digest: subject.digest.clone(),
        size: subject.size,
        outcome: Outcome::of_all(checks.iter().map(|one| one.outcome)),
        checks,
        left_out,
        suites,
        started,
        finished: Timestamp::now(),
        host,
    })
}

/// Whether a test of a suite came to a result about the image.
fn has_run(suite: &str, checks: &[CheckResult]) -> bool {
    let of_suite = checks.iter().filter(|one| {
        let rest = one.name.strip_prefix(suite);
        one.source == Source::Suite && rest.is_some_and(|rest| rest.starts_with('/'))
    });
    let mut outcomes = of_suite.map(|one| one.outcome);
    outcomes.any(|outcome| matches!(outcome, Outcome::Passed | Outcome::Failed))
}

/// The built-in checks come first: what does not start fails everywhere.
///
/// Returns also the names of those that are left out.
fn plan<'a>(
    subject: &'a Subject,
    request: &'a CheckRequest,
) -> Result<(Vec<Planned<'a>>, Vec<String>)> {
    let builtins = builtins().into_iter().map(Planned::Builtin);
    let of_recipe = subject.checks.commands.iter().map(Planned::Recipe);
    let of_suites = request.suites.iter().flat_map(SuiteRequest::names).map(Planned::Suite);
    let mut planned: Vec<_> = builtins.chain(of_recipe).chain(of_suites).collect();
    let mut names: Vec<&str> = planned.iter().map(Planned::name).collect();
    names.sort_unstable();
    let suites: Vec<&str> = request.suites.iter().flat_map(SuiteRequest::names).collect();
    let is_double = |two: &&[&str]| two[0] == two[1] && suites.contains(&two[0]);
    if let Some(two) = names.windows(2).find(is_double) {
        let message = format!("a suite has the name of the check `{}`", escape(two[0]));
        return Err(Report::new(Kind::Usage, message));
    }
    let options = request.suites.iter().flat_map(SuiteRequest::selecting);
    let mut left_out: Vec<String> =
        options.map(|option| format!("tests of suites that {option} leaves out")).collect();
    if request.only.is_empty() {
        return Ok((planned, left_out));
    }
    let known: Vec<&str> = planned.iter().map(Planned::name).collect();
    if let Some(unknown) = request.only.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(no_such_check(unknown, &known));
    }
    let is_wanted = |one: &Planned<'_>| request.only.iter().any(|name| name == one.name());
    let others = planned.iter().filter(|one| !is_wanted(one)).map(|one| one.name().to_owned());
    left_out.extend(others);
    planned.retain(is_wanted);
    Ok((planned, left_out))
}

fn no_such_check(name: &str, known: &[&str]) -> Report {
    let message = format!("the image has no check `{}`", escape(name));
    let hint = format!("its checks are {}", enumerate(known, "and"));
    Report::new(Kind::NotFound, message).hinted(hint)
}

fn run(bench: &mut Bench<'_>, check: &Check, system: &str) -> Judged {
    let limit = check.limit.map(Duration::from_secs);
    let run = bench.run(&check.command, check.view.as_ref(), check.ranks, limit);
    if run.has_begun && !run.has_launcher {
        let ranks = check.ranks;
        let reason = format!("no `mpiexec` in the image starts its {ranks} ranks; Slurm can");
        return Judged::new(Outcome::NotTested, reason);
    }
    judge(check, &run, system)
}
