// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The whole set: compiled at the same time, run in turns, those that are in doubt once more.
//!
//! All are run once before any is run again: a minute in which the machine is busy hits
//! all alike and not one of them twice.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::iter;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use serde::Serialize;

use super::floor;
use super::message::first_meaningful;
use super::node::throttled;
use super::runner::{Ended, Runner};
use super::settings::{Advice, OtherSettings};
use super::start::{Manner, command, ranks};
use super::strange_library::{library_of, other_library, with_strange_library};
use crate::benchmark::{BenchmarkOutput, NodeType, OTHER_SIZE, PROGRAM, TOO_LATE};
use crate::judge::{
    Class, Floor, Outcome, Reason, Reference, Verdict, Yardsticks, change, is_settled, judge,
    shared_processors,
};
use crate::{Installation, Origin};

/// How often all are run.
const ROUNDS: usize = 2;
/// How often those in doubt are run after that, at most.
const MORE_ROUNDS: usize = 2;
/// After how many runs one that is fast enough is not run again for its spread alone.
const ENOUGH_RUNS: usize = 3;

/// How often one with other settings is run, until its ranks were as far apart as without.
const OTHER_ROUNDS: usize = 3;

/// How many times as slow as others is slow without doubt.
const CERTAIN: f64 = 10.0;

/// How to try.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many ranks.
    pub ranks: u32,
    /// How long to measure in one run.
    pub measure: Duration,
    /// How ranks are started.
    pub manner: Manner,
    /// How many processors of its node a process may use.
    pub processors: usize,
    /// What latencies are compared with.
    pub reference: Option<Reference>,
    /// The type of this node, if the ranks run on it.
    pub node_type: Option<NodeType>,
    /// What latencies are compared with where there are too few healthy peers, by the type of node.
    pub kept: BTreeMap<NodeType, Reference>,
}

/// Whose program was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "name", rename_all = "kebab-case")]
pub enum Program {
    /// Its own wrapper has compiled it.
    Own,
    /// It has no compiler wrapper: run with the program of an installation with the same
    /// interface.
    OfPeer(String),
}

/// An installation after it was tried.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The installation.
    pub installation: Installation,
    /// Whose program was run; `None` without one.
    pub program: Option<Program>,
    /// The value of `srun --mpi=` with which the ranks found each other.
    pub pmi: Option<String>,
    /// What was seen.
    pub outcome: Outcome,
    /// How many runs there were, and why some of them failed although others did not.
    pub runs: usize,
    /// The first failure of one that worked at another time.
    pub once: Option<Reason>,
    /// The prefix of the other installation that the loaded library belongs to, if it works.
    pub library_of: Option<PathBuf>,
    /// Settings with which it was faster, if it is slow.
    pub advice: Option<Advice>,
    /// The class, with its reason.
    pub verdict: Verdict,
}

/// A run that is none: why, and what was heard.
type Failure = (Reason, Box<BenchmarkOutput>);

/// One installation while it is tried.
struct Trial<'a> {
    installation: &'a Installation,
    program: Result<(PathBuf, Program), Reason>,
    pmi: Option<String>,
    heard: Option<BenchmarkOutput>,
    failures: Vec<Failure>,
    runs: usize,
}

/// Tries installations and sorts them; returns also what the node did without MPI in the
/// meantime. `note` gets what is being done.
///
/// # Errors
///
/// Only those of the directory of the runner: what an installation does wrong is in its
/// verdict.
pub fn audit(
    installations: &[Installation],
    runner: &Runner,
    settings: &Settings,
    note: &dyn Fn(&str),
) -> io::Result<(Vec<Tried>, Floor)> {
    fs::write(runner.directory().join("program.c"), PROGRAM)?;
    let programs = compile_all(runner, installations, note);
    let trial = |(installation, program)| Trial {
        installation,
        program,
        pmi: None,
        heard: None,
        failures: Vec::new(),
        runs: 0,
    };
    let mut trials: Vec<_> = installations.iter().zip(programs).map(trial).collect();
    borrow_programs(&mut trials);
    let mut floor = Floor::default();
    for round in 0..ROUNDS + MORE_ROUNDS {
        let verdicts = if round < ROUNDS { Vec::new() } else { judged(&trials, settings, &floor) };
        for (number, trial) in trials.iter_mut().enumerate() {
            if trial.is_worth_another_run(verdicts.get(number), settings) {
                settings.add_floor(&mut floor, round + number);
                note(&format!("run {} of {}", trial.runs + 1, trial.installation.name));
                trial.run(runner, settings);
            }
        }
    }
    let verdicts = judged(&trials, settings, &floor);
    let mut all = Vec::new();
    for (trial, verdict) in trials.into_iter().zip(verdicts) {
        let advice = trial.advice(&verdict, runner, settings, note);
        all.push(trial.into_tried(verdict, advice));
    }
    Ok((all, floor))
}

impl Settings {
    /// The results of earlier audits on nodes of the same type.
    fn kept_for(&self, trials: &[Trial<'_>]) -> Option<&Reference> {
        let heard = || trials.iter().find_map(|trial| trial.heard.as_ref()?.node_type.as_ref());
        self.kept.get(self.node_type.as_ref().or_else(heard)?)
    }

    /// Measures what the node does right now, if the ranks run on it.
    fn add_floor(&self, floor: &mut Floor, turn: usize) {
        if self.manner == Manner::Launcher {
            floor.add(floor::measure(turn));
        }
    }
}

fn judged(trials: &[Trial<'_>], settings: &Settings, floor: &Floor) -> Vec<Verdict> {
    let outcomes: Vec<_> = trials.iter().map(Trial::outcome).collect();
    let yardsticks = Yardsticks {
        reference: settings.reference.as_ref(),
        kept: settings.kept_for(trials),
        floor,
        processors: settings.processors,
    };
    judge(&outcomes, &yardsticks)
}

/// Compiles for all of them, as many at once as there are processors: nothing is measured yet.
fn compile_all(
    runner: &Runner,
    installations: &[Installation],
    note: &dyn Fn(&str),
) -> Vec<Result<(PathBuf, Program), Reason>> {
    // With a quota there are fewer than a process may use, and compilers would take too long.
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let left = Mutex::new(installations.iter().enumerate());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let (begun, names) = mpsc::channel();
    let compile_some = |begun: mpsc::Sender<String>| {
        let one = |(number, installation): (usize, &Installation)| {
            // Someone listens until all have ended.
            let _ = begun.send(installation.name.clone());
            (number, compile(runner, installation, number))
        };
        iter::from_fn(next).map(one).collect::<Vec<_>>()
    };
    let mut programs = thread::scope(|scope| {
        let start = |_| {
            let begun = begun.clone();
            scope.spawn(|| compile_some(begun))
        };
        let threads: Vec<_> = (0..processors.min(installations.len())).map(start).collect();
        drop(begun);
        for name in names {
            note(&format!("compiling for {name}"));
        }
        let ended = threads.into_iter().map(ScopedJoinHandle::join);
        ended.flat_map(|all| all.unwrap_or_else(|panic| resume_unwind(panic))).collect::<Vec<_>>()
    });
    programs.sort_unstable_by_key(|(number, _)| *number);
    programs.into_iter().map(|(_, program)| program).collect()
}

fn compile(
    runner: &Runner,
    one: &Installation,
    number: usize,
) -> Result<(PathBuf, Program), Reason> {
    let wrapper = one.wrapper.as_deref().ok_or(Reason::NoCompiler)?;
    let program = runner.directory().join(format!("program-{number}"));
    let mut command = command(one, wrapper);
    let source = runner.directory().join("program.c");
    let ended =
        runner.run(command.args(["-O2", "-Wl,--export-dynamic", "-o"]).arg(&program).arg(source));
    if ended.code == Some(0) && program.exists() {
        return Ok((program, Program::Own));
    }
    let silent = if ended.is_late { "it took too long" } else { "no message" };
    Err(Reason::NotCompiled { message: message(&ended, silent, runner) })
}

/// The line that says what went wrong. Names of files of ours mean nothing to anyone else.
fn message(ended: &Ended, silent: &str, runner: &Runner) -> String {
    let line = first_meaningful(&format!("{}\n{}", ended.messages, ended.output));
    let directory = format!("{}/", runner.directory().display());
    line.as_deref().unwrap_or(silent).replace(&directory, "")
}

/// Gives those without a compiler the program of one with the same interface.
fn borrow_programs(trials: &mut [Trial<'_>]) {
    let can_lend = |trial: &Trial<'_>| {
        let (path, program) = trial.program.as_ref().ok()?;
        let soname = soname(trial.installation)?;
        let is_own = *program == Program::Own && trial.installation.enter.is_empty();
        is_own.then(|| (soname, path.clone(), trial.installation.name.clone()))
    };
    let lenders: Vec<_> = trials.iter().filter_map(can_lend).collect();
    for trial in trials {
        if trial.program != Err(Reason::NoCompiler) || trial.installation.soname.is_none() {
            continue;
        }
        let lender =
            lenders.iter().find(|(soname, ..)| Some(soname) == trial.installation.soname.as_ref());
        if let Some((_, path, name)) = lender {
            trial.program = Ok((path.clone(), Program::OfPeer(name.clone())));
        }
    }
}

/// The name of the library, of those that were found by a prefix.
fn soname(one: &Installation) -> Option<String> {
    one.soname.clone().filter(|_| matches!(one.origin, Origin::Prefix(_) | Origin::Spack(_)))
}

impl Trial<'_> {
    fn is_worth_another_run(&self, verdict: Option<&Verdict>, settings: &Settings) -> bool {
        if self.program.is_err() {
            return false;
        }
        let Some(verdict) = verdict else {
            // In the first rounds: a cause that does not go away was seen already.
            return self.failures.iter().all(|(reason, output)| {
                let is_certain = matches!(
                    reason,
                    Reason::WrongData { .. } | Reason::NoLauncher | Reason::OtherSize { .. }
                );
                !is_certain && shared_processors(&output.places, settings.processors).is_none()
            });
        };
        match (verdict.class, &verdict.reason) {
            // No noise makes anything so slow.
            (Class::NonPerformant, Reason::Slow(worst)) => worst.factor() < CERTAIN,
            (_, Reason::OverTcp { .. } | Reason::OneCore { .. }) => false,
            (Class::Suboptimal, _) => !self.is_settled() || self.runs < ENOUGH_RUNS + 1,
            (Class::Inconclusive, _) if self.heard.is_none() => self.runs < ROUNDS + 1,
            (Class::Inconclusive, Reason::Load { .. } | Reason::Throttled { .. }) => true,
            (Class::Nonfunctional, Reason::TooLate { .. }) => self.runs < ROUNDS + 1,
            (Class::Working, _) if !verdict.is_incomplete => {
                !self.is_settled() && self.runs < ENOUGH_RUNS
            }
            _ => verdict.is_incomplete,
        }
    }

    fn is_settled(&self) -> bool {
        self.heard.as_ref().is_some_and(is_settled)
    }

    fn run(&mut self, runner: &Runner, settings: &Settings) {
        self.runs += 1;
        let kinds = match (&settings.manner, &self.pmi) {
            (Manner::Slurm { types, .. }, None) => types.for_installation(self.installation),
            _ => Vec::new(),
        };
        let mut kinds: Vec<_> = kinds.into_iter().map(Some).collect();
        if kinds.is_empty() {
            kinds.push(self.pmi.clone());
        }
        let mut first_failure = None;
        for pmi in kinds {
            match self.run_with(runner, settings, pmi.as_deref(), &OtherSettings::default()) {
                Ok(output) => {
                    self.pmi = pmi;
                    match &mut self.heard {
                        Some(heard) => heard.add(&output),
                        None => self.heard = Some(output),
                    }
                    return;
                }
                Err(failure) => first_failure = first_failure.or(Some(failure)),
            }
        }
        self.failures.extend(first_failure);
    }

    fn run_with(
        &self,
        runner: &Runner,
        settings: &Settings,
        pmi: Option<&str>,
        other: &OtherSettings,
    ) -> Result<BenchmarkOutput, Failure> {
        let without_output = |reason: &Reason| (reason.clone(), Box::default());
        let (program, whose) = self.program.as_ref().map_err(without_output)?;
        let ranks_wanted = settings.ranks;
        let command = ranks(self.installation, &settings.manner, pmi, ranks_wanted, program);
        let mut command = command.ok_or_else(|| without_output(&Reason::NoLauncher))?;
        command.args([
            ranks_wanted.to_string(),
            format!("{:.3}", settings.measure.as_secs_f64()),
            // Its own clock ends it first, and then it can say so.
            runner.limit.as_secs().saturating_sub(2).max(1).to_string(),
        ]);
        let library = self.installation.library.as_deref().filter(|_| *whose != Program::Own);
        if let Some(directory) = library {
            command.env("LD_LIBRARY_PATH", library_path(directory, self.installation));
        }
        other.apply(&mut command);
        let before = throttled();
        let ended = runner.run(&mut command);
        let stopped = throttled().saturating_sub(before).as_millis();
        let output = BenchmarkOutput {
            throttled: u64::try_from(stopped).unwrap_or(u64::MAX),
            ..BenchmarkOutput::from_output(&ended.output)
        };
        match failure(&ended, &output, ranks_wanted, library, runner) {
            None => Ok(output),
            Some(reason) => {
                let reason = with_strange_library(reason, self.installation, &output);
                Err((reason, Box::new(output)))
            }
        }
    }

    /// Looks for settings with which one that is slow is faster, by running it with them.
    fn advice(
        &self,
        verdict: &Verdict,
        runner: &Runner,
        settings: &Settings,
        note: &dyn Fn(&str),
    ) -> Option<Advice> {
        let Reason::Slow(worst) = verdict.reason else {
            return None;
        };
        let (before, way) = (self.heard.as_ref()?, worst.way?);
        let all = OtherSettings::worth_trying(self.installation, before, &way);
        all.into_iter().find_map(|other| {
            let mut after = BenchmarkOutput::default();
            for _ in 0..OTHER_ROUNDS {
                note(&format!("run of {} with other settings", self.installation.name));
                after.add(&self.run_with(runner, settings, self.pmi.as_deref(), &other).ok()?);
                if let Some(change) = change(worst.bytes, before, &after) {
                    let settings = other;
                    return Some(Advice { settings, change });
                }
            }
            None
        })
    }

    fn outcome(&self) -> Outcome {
        let is_data = |reason: &Reason| matches!(reason, Reason::WrongData { .. });
        // Data that was wrong once is wrong.
        let wrong = self.failures.iter().find(|(reason, _)| is_data(reason));
        let failed = wrong.or_else(|| self.failures.last().filter(|_| self.heard.is_none()));
        match (failed, &self.heard, &self.program) {
            (Some((reason, output)), ..) => {
                Outcome::Failed { reason: reason.clone(), output: output.clone() }
            }
            (None, Some(heard), _) => Outcome::Ran(Box::new(heard.clone())),
            (None, None, program) => Outcome::Failed {
                reason: program.as_ref().err().cloned().unwrap_or(Reason::NoLauncher),
                output: Box::default(),
            },
        }
    }

    fn into_tried(self, verdict: Verdict, advice: Option<Advice>) -> Tried {
        let outcome = self.outcome();
        let worked = matches!(outcome, Outcome::Ran(_));
        let once = self.failures.into_iter().map(|(reason, _)| reason).next();
        Tried {
            installation: self.installation.clone(),
            program: self.program.ok().map(|(_, whose)| whose),
            pmi: self.pmi,
            library_of: library_of(self.installation, outcome.output()).filter(|_| worked),
            outcome,
            runs: self.runs,
            once: once.filter(|_| worked),
            advice,
            verdict,
        }
    }
}

fn library_path(directory: &Path, one: &Installation) -> String {
    let own = directory.display().to_string();
    match one.variables.get("LD_LIBRARY_PATH") {
        Some(others) => format!("{own}:{others}"),
        None => own,
    }
}

/// Why a run is none; `None` if it is one.
fn failure(
    ended: &Ended,
    output: &BenchmarkOutput,
    wanted: u32,
    library: Option<&Path>,
    runner: &Runner,
) -> Option<Reason> {
    if let Some(what) = &output.wrong {
        return Some(Reason::WrongData { what: what.clone() });
    }
    if let Some(found) = output.sizes.iter().find(|found| **found != wanted) {
        return Some(Reason::OtherSize {
            found: *found,
            wanted,
            groups: u32::try_from(output.sizes.len()).unwrap_or(u32::MAX),
        });
    }
    if ended.is_late || output.is_late || ended.code == Some(TOO_LATE) {
        return Some(Reason::TooLate { seconds: runner.limit.as_secs(), stage: stage(output) });
    }
    if let Some(other) = library.and_then(|directory| other_library(output, directory)) {
        return Some(Reason::OtherLibrary { loaded: other });
    }
    if ended.code == Some(0) && output.is_done {
        return None;
    }
    let silent = match ended.code {
        Some(OTHER_SIZE) => "another number of ranks",
        Some(0) => "it ended before it was done",
        _ => "no message",
    };
    let code = ended.code.unwrap_or_default();
    Some(Reason::NotStarted { code, message: message(ended, silent, runner) })
}

/// What was done last.
fn stage(output: &BenchmarkOutput) -> String {
    match output.figures.last() {
        Some(figure) => {
            format!("after measuring {:?} of {} bytes", figure.kind, figure.bytes).to_lowercase()
        }
        None if output.is_summed => "while sending messages".to_owned(),
        None if !output.sizes.is_empty() => "while computing a first sum".to_owned(),
        None => "while starting".to_owned(),
    }
}
