// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Jobs of Slurm: submitted, looked up, and cancelled.
//!
//! Without accounting, Slurm forgets a job some minutes after its end. So a job writes its result to a
//! file, and [`Absence`] decides when a job without a result has ended.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use cabane_label::escape;
use cabane_report::{IoContext, Kind, Report, Result, shell_word};
use cabane_site::settings::find_program;
use cabane_site::{Context, env_vars};

/// How often to look for the results of jobs.
pub const LOOK_FOR_RESULTS: Duration = Duration::from_millis(300);
/// How often to ask Slurm which jobs exist.
pub const ASK_SLURM: Duration = Duration::from_secs(5);

/// How often in a row a job must be missing: its result may be on its way over the network.
const MISSING: u32 = 3;

/// The programs of Slurm.
#[derive(Clone, Debug)]
pub struct Slurm {
    sbatch: PathBuf,
    squeue: PathBuf,
    scancel: PathBuf,
}

/// A job, or an array of jobs, to submit.
#[derive(Debug)]
pub struct Submission<'s> {
    /// What it is, for an error: `the build of app/1.0`.
    pub what: String,
    /// What to do if Slurm rejects it.
    pub hint: &'static str,
    /// The options of `sbatch`.
    pub options: Vec<String>,
    /// The command that the job runs.
    pub words: &'s [OsString],
    /// Variables to add to those of the caller. The variables of Slurm are not passed on, because they
    /// may come from the job in which this runs.
    pub variables: &'s BTreeMap<String, String>,
}

impl Slurm {
    /// Finds the programs in `PATH`.
    ///
    /// # Errors
    ///
    /// One is missing; `hint` is then shown.
    pub fn find(context: &Context, hint: &str) -> Result<Self> {
        let path = context.calling.get(OsStr::new(env_vars::PATH)).map(AsRef::as_ref);
        let find = |name: &str| {
            find_program(name, path).ok_or_else(|| {
                Report::new(Kind::NotFound, format!("`{name}` is not in PATH"))
                    .hinted(hint.to_owned())
            })
        };
        Ok(Self { sbatch: find("sbatch")?, squeue: find("squeue")?, scancel: find("scancel")? })
    }

    /// Submits a job. Returns its number.
    ///
    /// # Errors
    ///
    /// Slurm rejects it.
    pub fn submit(&self, context: &Context, submission: &Submission<'_>) -> Result<u64> {
        let script = submission.words.iter().map(|word| word.to_string_lossy());
        let script =
            script.map(|word| shell_word(&word).into_owned()).collect::<Vec<_>>().join(" ");
        let is_of_slurm = |name: &str| name.starts_with("SLURM_") || name.starts_with("SBATCH_");
        let mut command = Command::new(&self.sbatch);
        command.arg("--parsable").args(&submission.options);
        for name in context.calling.keys() {
            let name = name.to_string_lossy();
            if is_of_slurm(&name) {
                command.env_remove(&*name);
            }
        }
        let variables = submission.variables.iter();
        command.envs(variables.filter(|(name, _)| !is_of_slurm(name)));
        command.arg(format!("--wrap=exec {script}"));
        let output = command.output().or_failed(|| "run sbatch".to_owned())?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let id = printed.trim().split(';').next().and_then(|id| id.parse().ok());
        id.filter(|_| output.status.success()).ok_or_else(|| {
            let message = format!("Slurm does not accept {}", submission.what);
            Report::new(Kind::Failure, message)
                .detailed(errors_of(&output))
                .hinted(submission.hint.to_owned())
        })
    }

    /// Returns which of these jobs are in the queue: `7`, or `7_0` for a task of an array. If Slurm does
    /// not answer, it may be restarting: all of them, and a warning.
    ///
    /// # Errors
    ///
    /// `squeue` cannot be started.
    pub fn active<'n>(
        &self,
        context: &Context,
        names: impl Iterator<Item = &'n String> + Clone,
    ) -> Result<BTreeSet<String>> {
        let jobs: BTreeSet<&str> =
            names.clone().filter_map(|name| name.split('_').next()).collect();
        let jobs: Vec<&str> = jobs.into_iter().collect();
        let arguments =
            ["--array".to_owned(), "--format=%i".into(), "--jobs".into(), jobs.join(",")];
        let lines = self.queue(context, &arguments)?;
        let Some(lines) = lines else { return Ok(names.cloned().collect()) };
        Ok(lines.into_iter().collect())
    }

    /// Returns the state of a job and why it waits, as in `PENDING` and `Resources`; `None` if it is not
    /// in the queue. If Slurm does not answer, both are empty.
    ///
    /// # Errors
    ///
    /// `squeue` cannot be started.
    pub fn state(&self, context: &Context, job: u64) -> Result<Option<(String, String)>> {
        let arguments = ["--format=%T %r".to_owned(), "--jobs".into(), job.to_string()];
        let Some(lines) = self.queue(context, &arguments)? else {
            return Ok(Some((String::new(), String::new())));
        };
        let first = lines.first();
        let words = first.map(|line| line.split_once(' ').unwrap_or((line, "")));
        Ok(words.map(|(state, reason)| (state.to_owned(), reason.to_owned())))
    }

    /// Returns the jobs with this name of this user.
    ///
    /// # Errors
    ///
    /// `squeue` cannot be started, or Slurm does not answer: there may be such jobs.
    pub fn named(&self, context: &Context, name: &str) -> Result<Vec<u64>> {
        let user = format!("--user={}", rustix::process::getuid().as_raw());
        // `%F` is the job of all tasks of an array.
        let arguments = ["--format=%F".to_owned(), user, format!("--name={name}")];
        let lines = self.queue(context, &arguments)?.ok_or_else(|| {
            let message = format!("Slurm does not say whether there is a job `{name}`");
            Report::new(Kind::Failure, message)
                .hinted("run the same command again when `squeue` works".to_owned())
        })?;
        let jobs: BTreeSet<u64> = lines.iter().filter_map(|line| line.parse().ok()).collect();
        Ok(jobs.into_iter().collect())
    }

    /// Returns the lines of `squeue`; `None` if it fails.
    fn queue(&self, context: &Context, arguments: &[String]) -> Result<Option<Vec<String>>> {
        let mut command = Command::new(&self.squeue);
        let output = command.arg("--noheader").args(arguments).output();
        let output = output.or_failed(|| "run squeue".to_owned())?;
        let errors = errors_of(&output);
        if !output.status.success() && !errors.contains("Invalid job id") {
            context.warning(format_args!("squeue: {errors}"));
            return Ok(None);
        }
        let lines = String::from_utf8_lossy(&output.stdout);
        Ok(Some(lines.lines().map(|line| line.trim().to_owned()).collect()))
    }

    /// Cancels jobs. Those that have ended are ignored.
    ///
    /// # Errors
    ///
    /// Slurm does not answer.
    pub fn cancel(&self, jobs: &[String]) -> Result<()> {
        let mut command = Command::new(&self.scancel);
        let output = command.arg("--quiet").args(jobs).output();
        let output = output.or_failed(|| "run scancel".to_owned())?;
        if output.status.success() {
            return Ok(());
        }
        Err(Report::new(Kind::Failure, "scancel fails").detailed(errors_of(&output)))
    }
}

/// How often in a row a job was missing from the queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Absence(u32);

impl Absence {
    /// Notes whether the job was in the queue.
    pub fn note(&mut self, is_active: bool) {
        self.0 = if is_active { 0 } else { self.0 + 1 };
    }

    /// Whether the job has ended, and its result would have arrived.
    pub fn is_certain(self) -> bool {
        self.0 >= MISSING
    }
}

fn errors_of(output: &Output) -> String {
    escape(String::from_utf8_lossy(&output.stderr).trim()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_comes_back_was_not_absent() {
        let mut absence = Absence::default();
        for is_active in [false, false, true, false, false] {
            absence.note(is_active);
        }
        assert!(!absence.is_certain());
        absence.note(false);
        assert!(absence.is_certain());
    }
}
