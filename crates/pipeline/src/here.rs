// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Stages as processes on this machine, each with its log.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use cabane_evidence::Outcome;
use cabane_process::child::prepare_child;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::Context;
use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use crate::cell::Cell;
use crate::directory::RunDirectory;
use crate::pipeline::Pipeline;
use crate::plan::PlannedCell;
use crate::registry::Publishing;
use crate::stage::{Stage, StageResult};
use crate::step::StepOptions;

/// How often it is looked whether a stage has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Something that a run reports.
#[derive(Clone, Copy, Debug)]
pub enum Event<'e> {
    /// A stage of a cell begins.
    Started(&'e Cell, Stage),
    /// A stage has ended.
    Finished(&'e Cell, &'e StageResult),
    /// Jobs were submitted.
    Submitted(&'e str),
}

/// Carries out stages as processes of this program.
pub(crate) struct Processes<'a> {
    pub(crate) context: &'a Context,
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) run: &'a RunDirectory,
    pub(crate) options: &'a StepOptions,
    pub(crate) interrupt: &'a AtomicBool,
}

impl Processes<'_> {
    /// Carries out what is planned, several cells at once.
    pub(crate) fn all(
        &self,
        planned: &[PlannedCell<'_>],
        at_once: usize,
        report: &mut (dyn FnMut(Event<'_>) + Send),
    ) -> Result<()> {
        let left = Mutex::new(planned.iter());
        let report = Mutex::new(report);
        let failed = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..at_once.max(1) {
                scope.spawn(|| {
                    while !self.interrupt.load(Ordering::Relaxed) {
                        let next = left.lock().ok().and_then(|mut left| left.next());
                        let Some(next) = next else { break };
                        let told = &mut |event: Event<'_>| {
                            if let Ok(mut report) = report.lock() {
                                report(event);
                            }
                        };
                        if let Err(error) = self.cell(next.cell, &next.stages, told)
                            && let Ok(mut failed) = failed.lock()
                        {
                            failed.get_or_insert(error);
                            break;
                        }
                    }
                });
            }
        });
        match failed.into_inner() {
            Ok(Some(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Carries out stages of a cell one after the other, until one leaves nothing for the next.
    pub(crate) fn cell(
        &self,
        cell: &Cell,
        stages: &[Stage],
        report: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        for stage in stages {
            if self.interrupt.load(Ordering::Relaxed) || !self.can_begin(cell, *stage) {
                return Ok(());
            }
            report(Event::Started(cell, *stage));
            let result = self.stage(cell, *stage)?;
            report(Event::Finished(cell, &result));
        }
        Ok(())
    }

    /// Whether what came of earlier stages leaves something to do for this one. An image that failed
    /// its checks is published with the results, and never promoted.
    pub(crate) fn can_begin(&self, cell: &Cell, stage: Stage) -> bool {
        let outcome = |stage| self.run.result(cell, stage).map(|result| result.outcome);
        let passed = |stage| outcome(stage) == Some(Outcome::Passed);
        match stage {
            Stage::Build => true,
            Stage::Check => passed(Stage::Build),
            Stage::Publish => passed(Stage::Build) && outcome(Stage::Check).is_some(),
            // Where only this is left, the registry has the evidence, and the gate asks for it.
            Stage::Promote => match outcome(Stage::Build) {
                None => true,
                Some(_) => passed(Stage::Check) && passed(Stage::Publish),
            },
        }
    }

    fn stage(&self, cell: &Cell, stage: Stage) -> Result<StageResult> {
        let log = self.run.new_log(&cell.name, stage)?;
        let started = Timestamp::now();
        let other = log.try_clone().or_failed(|| "share a log".to_owned())?;
        let words = self.words(cell, stage)?;
        let (program, arguments) = words.split_first().ok_or_else(no_program)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(log).stderr(other);
        // A run that is killed leaves no stage that the next one has to wait for.
        prepare_child(&mut command, || Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
        let status = command.spawn().and_then(|child| self.wait(child));
        let status = status.or_failed(|| format!("start {}", program.display()))?;
        let result = self.run.result(cell, stage);
        if let Some(result) = result.filter(|result| result.started >= started) {
            return Ok(result);
        }
        let end = self.run.end_of_log(&cell.name, stage, 2000).unwrap_or_default();
        let message = format!("it ended without a result ({status})");
        let report = Report::new(Kind::Failure, message).detailed(end);
        let result = StageResult::of_failure(stage, cell, started, &report);
        if !self.interrupt.load(Ordering::Relaxed) {
            self.run.keep(&cell.name, &result)?;
        }
        Ok(result)
    }

    /// Waits for a stage. When this run is interrupted, the stage is too, and may clean up.
    fn wait(&self, mut child: Child) -> io::Result<ExitStatus> {
        let mut is_asked = false;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if self.interrupt.load(Ordering::Relaxed) && !is_asked {
                is_asked = true;
                // From a terminal it has got a signal already, and ends all the same.
                let _ = kill_process(Pid::from_child(&child), Signal::TERM);
            }
            sleep(LOOK_AGAIN);
        }
    }

    /// Returns the command that carries out a stage.
    pub(crate) fn words(&self, cell: &Cell, stage: Stage) -> Result<Vec<OsString>> {
        let mut words = self.beginning(&cell.name.system)?;
        words.extend([stage.as_str().into(), cell.name.to_string().into()]);
        words.extend(self.file_and_options()?);
        Ok(words)
    }

    /// Returns the first words of a step for a system.
    pub(crate) fn beginning(&self, system: &cabane_label::System) -> Result<Vec<OsString>> {
        let mut words = self.context.own_program()?;
        let typed = self.context.typed_options().into_iter();
        words.extend(typed.filter(|word| !word.to_string_lossy().starts_with("--system=")));
        words.push(format!("--system={system}").into());
        words.extend(["pipeline", "step"].map(OsString::from));
        Ok(words)
    }

    /// Returns the options of a step on a node, which needs neither the registry nor a key.
    pub(crate) fn options_of_job(&self) -> Result<Vec<OsString>> {
        let publishing = Publishing { offline: true, ..Publishing::default() };
        let (key, channel_key) = (None, None);
        let options = StepOptions { publishing, key, channel_key, ..self.options.clone() };
        Processes { options: &options, ..*self }.file_and_options()
    }

    /// Returns the options of a step, and the file of the pipeline.
    fn file_and_options(&self) -> Result<Vec<OsString>> {
        let file = std::path::absolute(&self.pipeline.file)
            .or_failed(|| "find the current directory".to_owned())?;
        let mut words = Vec::new();
        let mut option = |name: &str, value: OsString| {
            words.push(OsString::from(name));
            words.push(value);
        };
        option("--file", file.into());
        option("--run", self.run.root().into());
        let publishing = &self.options.publishing;
        let registry = &publishing.registry;
        if let Some(url) = &registry.registry {
            option("--registry", url.into());
        }
        if let Some(token) = &registry.token {
            option("--token", absolute(token)?.into());
        }
        if let Some(username) = &registry.username {
            option("--username", username.into());
        }
        if let Some(key) = &self.options.key {
            option("--key", absolute(key)?.into());
        }
        if let Some(key) = &self.options.channel_key {
            option("--channel-key", absolute(key)?.into());
        }
        if let Some(jobs) = self.options.jobs {
            option("--build-jobs", jobs.to_string().into());
        }
        option("--limit", format!("{}s", self.options.limit.as_secs()).into());
        if publishing.offline {
            words.push("--offline".into());
        }
        Ok(words)
    }
}

fn absolute(path: &std::path::Path) -> Result<PathBuf> {
    std::path::absolute(path).or_failed(|| "find the current directory".to_owned())
}

pub(crate) fn no_program() -> Report {
    Report::new(Kind::Failure, "cannot find the file of this program")
}
