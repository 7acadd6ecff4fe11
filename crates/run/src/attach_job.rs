// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Finding the process of a job to which one attaches, on this node.
//!
//! Slurm tells each task in its variables to what it belongs. Only what the caller may look
//! into is seen: the jobs of others are as good as none. What a process says about itself it
//! may have made up, but then it is one of the caller's own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;

use cabane_report::{IoContext, Kind, Report};
use rustix::process::geteuid;

use crate::attach_target::has_environment;
use crate::process::Process;

/// How Slurm calls the step that a batch script is.
const BATCH: &str = "batch";

/// A job as it is typed: `JOB`, `JOB.STEP`, `ARRAY_TASK`, or `ARRAY_TASK.STEP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDescription {
    job: u32,
    task: Option<u32>,
    step: Option<String>,
}

/// A text that names no job.
#[derive(Debug, thiserror::Error)]
#[error("a job is named as JOB, JOB.STEP or ARRAY_TASK, such as 4711, 4711.0 or 4711_3")]
pub struct JobDescriptionError;

impl FromStr for JobDescription {
    type Err = JobDescriptionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |text: &str| text.parse::<u32>().map_err(|_| JobDescriptionError);
        let (job, step) = match text.split_once('.') {
            Some((job, BATCH)) => (job, Some(BATCH.to_owned())),
            Some((job, step)) => (job, Some(number(step)?.to_string())),
            None => (text, None),
        };
        let (job, task) = match job.split_once('_') {
            Some((job, task)) => (job, Some(number(task)?)),
            None => (job, None),
        };
        let job = number(job)?;
        Ok(Self { job, task, step })
    }
}

impl fmt::Display for JobDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.job)?;
        if let Some(task) = self.task {
            write!(f, "_{task}")?;
        }
        if let Some(step) = &self.step {
            write!(f, ".{step}")?;
        }
        Ok(())
    }
}

/// Why there is no process of a job to attach to.
#[derive(Debug)]
pub enum JobError {
    /// None of the caller's processes on this node belongs to the job, or there is no looking
    /// for them.
    NoTask(Report),
    /// The job runs here, with nothing loaded.
    NoImages(Report),
    /// Several steps have images.
    SeveralSteps(Report),
}

impl From<JobError> for Report {
    fn from(error: JobError) -> Self {
        let (JobError::NoTask(report)
        | JobError::NoImages(report)
        | JobError::SeveralSteps(report)) = error;
        report
    }
}

/// A process that Slurm has started for a step, or something that this has started.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    process: u32,
    /// The one that Slurm started is older than what it has started itself.
    start: u64,
    job: u32,
    step: String,
    has_images: bool,
}

impl JobDescription {
    /// Returns the process of the job on this node to which one attaches: the first one of
    /// the step that was named, or of the only one with images.
    ///
    /// # Errors
    ///
    /// That there is none, or that there are several steps to choose from.
    pub fn find(&self) -> Result<u32, JobError> {
        let members = members(|variables| self.has(variables))
            .or_failed(|| "list the processes of this node".to_owned())
            .map_err(|error| JobError::NoTask(error.with_kind(Kind::NotStarted)))?;
        self.choose(&members)
    }

    /// Returns the number, if it is nothing else.
    pub fn number(&self) -> Option<u32> {
        let is_plain = self.task.is_none() && self.step.is_none();
        is_plain.then_some(self.job)
    }

    /// Tells whether a process with these variables belongs to what was named.
    fn has(&self, variables: &BTreeMap<OsString, OsString>) -> bool {
        let number = |name| number(variables, name);
        match self.task {
            Some(task) => {
                number("SLURM_ARRAY_JOB_ID") == Some(self.job)
                    && number("SLURM_ARRAY_TASK_ID") == Some(task)
            }
            None => {
                number("SLURM_JOB_ID") == Some(self.job)
                    || number("SLURM_ARRAY_JOB_ID") == Some(self.job)
            }
        }
    }

    fn choose(&self, members: &[Member]) -> Result<u32, JobError> {
        let is_wanted =
            |member: &&Member| self.step.as_ref().is_none_or(|step| *step == member.step);
        let members: Vec<&Member> = members.iter().filter(is_wanted).collect();
        if members.is_empty() {
            return Err(JobError::NoTask(not_chosen(
                format!("you have no task of job {self} on this node"),
                format!("`squeue --me --jobs={}` shows the nodes it runs on", self.job),
            )));
        }
        let mut steps: BTreeMap<(u32, &str), &Member> = BTreeMap::new();
        for member in members.into_iter().filter(|member| member.has_images) {
            let step = (member.job, member.step.as_str());
            let first = steps.entry(step).or_insert(member);
            if (member.start, member.process) < (first.start, first.process) {
                *first = member;
            }
        }
        // A script that runs a step waits for it.
        if steps.keys().any(|(_, step)| *step != BATCH) && self.step.is_none() {
            steps.retain(|(_, step), _| *step != BATCH);
        }
        let mut found = steps.values();
        let job = JobDescription { step: None, ..self.clone() };
        match (found.next(), found.next()) {
            (None, _) => Err(JobError::NoImages(not_chosen(
                format!("job {self} has no images on this node"),
                format!("`srun --jobid={job} --overlap --pty bash` starts a shell beside it"),
            ))),
            (Some(member), None) => Ok(member.process),
            _ => {
                let typed = |(job, step): &(u32, &str)| format!("`cabane attach {job}.{step}`");
                Err(JobError::SeveralSteps(not_chosen(
                    format!("job {self} has several steps on this node"),
                    steps.keys().map(typed).collect::<Vec<_>>().join(", "),
                )))
            }
        }
    }
}

fn not_chosen(message: String, hint: String) -> Report {
    Report::new(Kind::NotStarted, message).hinted(hint)
}

fn number(variables: &BTreeMap<OsString, OsString>, name: &str) -> Option<u32> {
    variables.get(OsStr::new(name))?.to_str()?.parse().ok()
}

/// Looks at all processes into which the caller may look.
fn members(is_wanted: impl Fn(&BTreeMap<OsString, OsString>) -> bool) -> io::Result<Vec<Member>> {
    let mut members = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Many end meanwhile.
        if let Some(member) = member(id, &is_wanted) {
            members.push(member);
        }
    }
    Ok(members)
}

fn member(id: u32, is_wanted: impl Fn(&BTreeMap<OsString, OsString>) -> bool) -> Option<Member> {
    let process = Process::open(id).ok()?;
    let (owner, user) = (process.owner().ok()?, geteuid());
    if owner != user.as_raw() && !user.is_root() {
        return None;
    }
    let variables = process.variables().ok()?;
    // A shell that waits for its job has the variables of the job, too, but no rank.
    number(&variables, "SLURM_PROCID").filter(|_| is_wanted(&variables))?;
    Some(Member {
        process: id,
        start: process.status().ok()?.start,
        job: number(&variables, "SLURM_JOB_ID")?,
        step: number(&variables, "SLURM_STEP_ID").map_or(BATCH.to_owned(), |step| step.to_string()),
        has_images: has_environment(&variables),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(process: u32, start: u64, step: &str, has_images: bool) -> Member {
        let step = step.to_owned();
        Member { process, start, job: 7, step, has_images }
    }

    fn chosen(text: &str, members: &[Member]) -> Result<u32, String> {
        let job: JobDescription = text.parse().unwrap();
        job.choose(members).map_err(|error| Report::from(error).to_string())
    }

    #[test]
    fn a_job_is_written_as_it_is_read() {
        let texts = ["4711", "4711.0", "4711.batch", "4711_3", "4711_3.2"];
        let again = texts.map(|text| text.parse::<JobDescription>().unwrap().to_string());
        assert_eq!(again, texts);
    }

    #[test]
    fn what_names_no_job_is_refused() {
        let texts = ["", "a", "1.", "1.a", "_1", "1_", "1_2_3", "-1", "1.2.3"];
        assert!(texts.iter().all(|text| text.parse::<JobDescription>().is_err()));
    }

    #[test]
    fn the_first_process_of_the_step_in_the_images_is_chosen() {
        let members = [
            member(40, 9, "batch", true),
            member(90, 20, "0", true),
            member(80, 21, "0", true),
            member(70, 5, "1", false),
        ];
        assert_eq!(chosen("7", &members), Ok(90));
        assert_eq!(chosen("7.batch", &members), Ok(40));
    }

    #[test]
    fn a_step_must_be_named_where_there_are_several() {
        let members = [member(90, 20, "0", true), member(80, 21, "1", true)];
        assert_eq!(chosen("7", &members), Err("job 7 has several steps on this node".to_owned()));
        assert_eq!(chosen("7.1", &members), Ok(80));
    }
}
