// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Builds in jobs of Slurm. Nodes and this machine see the same files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Instant;

use cabane_batch::{ASK_SLURM, Absence, LOOK_FOR_RESULTS, Slurm, Submission};
use cabane_builder::Progress;
use cabane_label::{ImageId, escape, shown};
use cabane_registry::sum;
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;

use crate::directory::{self, Job, WorkDirectory};
use crate::ended::{BuiltImage, Ended};
use crate::event::{escape_lines, replay};
use crate::host::unpack_meta;
use crate::request::{Order, Packed, words_of_run};
use crate::worker::{Begun, Stopped, TO_STOP, Worker, still_runs};

/// The most bytes of events that are read at once.
const PART: u64 = 1 << 20;
/// What to do when Slurm rejects a job.
const HINT: &str = "change the options: `--on slurm:PARTITION`, `--sbatch=--time=2:00:00`";

/// Builds in jobs.
pub(crate) struct Jobs<'a> {
    context: &'a Context,
    slurm: Slurm,
    /// Options of `sbatch`.
    options: Vec<String>,
    nodes: usize,
    /// On each node.
    processes: Option<usize>,
    interrupt: &'a AtomicBool,
    job: Option<u64>,
}

impl<'a> Jobs<'a> {
    pub(crate) fn new(
        context: &'a Context,
        options: Vec<String>,
        (nodes, processes): (usize, Option<usize>),
        interrupt: &'a AtomicBool,
    ) -> Result<Self> {
        let slurm = Slurm::find(context, "without `--on` the build runs on this machine")?;
        Ok(Self { context, slurm, options, nodes, processes, interrupt, job: None })
    }

    /// Returns the job of a build that is in the queue.
    fn active(&self, id: &ImageId, directory: &WorkDirectory) -> Result<Option<u64>> {
        let job = match directory.json::<Job>("job.json") {
            Some(job) => Some(job.id),
            // A command that was killed may have submitted it.
            None => self.slurm.named(self.context, &name(id))?.first().copied(),
        };
        let Some(job) = job else { return Ok(None) };
        let state = self.slurm.state(self.context, job)?;
        if state.is_some() && directory.json::<Job>("job.json").is_none() {
            directory.write("job.json", &Job { id: job })?;
        }
        Ok(state.map(|_| job))
    }

    fn submit(&self, id: &ImageId, directory: &WorkDirectory) -> Result<u64> {
        let order: Order = directory.json("request.json").ok_or_else(|| lost(directory, None))?;
        directory.reset();
        let mut options = vec![format!("--job-name={}", name(id))];
        options.extend(self.options.iter().cloned());
        options.push(format!("--nodes={}", self.nodes));
        if self.nodes > 1 {
            // The build goes on when a node fails, unless it is the first one.
            options.extend(["--ntasks-per-node=1", "--no-kill"].map(str::to_owned));
        }
        options.push(format!("--output={}", directory.file("output").display()));
        let mut variables: BTreeMap<String, String> = order.variables().into_iter().collect();
        variables.insert("LC_ALL".to_owned(), "C.UTF-8".to_owned());
        let mut words = words_of_run(self.context, directory.path(), self.processes)?;
        if self.nodes > 1 {
            words.push(format!("--nodes={}", self.nodes).into());
        }
        let submission = Submission {
            what: "the build".to_owned(),
            hint: HINT,
            options,
            words: &words,
            variables: &variables,
        };
        let job = self.slurm.submit(self.context, &submission)?;
        directory.write("job.json", &Job { id: job })?;
        Ok(job)
    }

    /// Notes what became of the job, if that has changed.
    fn look(&self, job: u64, seen: &mut String) -> Result<bool> {
        let state = self.slurm.state(self.context, job)?;
        let Some((state, reason)) = state else { return Ok(false) };
        let text = match (state.as_str(), reason.as_str()) {
            ("PENDING", "" | "None") => format!("job {job} is waiting"),
            ("PENDING", reason) => format!("job {job} is waiting ({})", escape(reason)),
            ("RUNNING", _) => format!("job {job} is running"),
            _ => String::new(),
        };
        if !text.is_empty() && text != *seen {
            self.context.note(&text);
            *seen = text;
        }
        Ok(true)
    }
}

/// Takes the lock under which builds are submitted.
fn submission_lock(directory: &WorkDirectory) -> Result<File> {
    directory::submission_lock(directory.path().parent().unwrap_or(Path::new("/")))
}

/// The name of the job of a build.
fn name(id: &ImageId) -> String {
    format!("cabane-build-{}", id.as_str())
}

fn lost(directory: &WorkDirectory, job: Option<u64>) -> Report {
    let job = job.map_or_else(|| "the job".to_owned(), |job| format!("job {job}"));
    let printed = directory.part("output", 0, 4096).unwrap_or_default();
    let report = Report::new(Kind::Failure, format!("{job} ended without a result"));
    report.detailed(escape_lines(&String::from_utf8_lossy(&printed))).hinted(format!(
        "it was cancelled, its node failed, or the nodes cannot access {}; the same command submits it \
         again",
        shown(directory.path())
    ))
}

impl Worker for Jobs<'_> {
    fn begin(&mut self, id: &ImageId, packed: Option<&Packed>) -> Result<Begun> {
        let directory = WorkDirectory::of(self.context, id)?;
        let _lock = submission_lock(&directory)?;
        let result = directory.result();
        let is_cancelled = matches!(result, Some(Ended::Cancelled)) && packed.is_some();
        if result.is_some() && !is_cancelled {
            self.job = directory.json::<Job>("job.json").map(|job| job.id);
            return Ok(Begun::Found);
        }
        let is_carried = directory.file("request.json").exists();
        if is_carried
            && !is_cancelled
            && let Some(job) = self.active(id, &directory)?
        {
            self.job = Some(job);
            return Ok(Begun::Found);
        }
        // Its result may have arrived since.
        if directory.result().is_some() && !is_cancelled {
            return Ok(Begun::Found);
        }
        match packed {
            None => return Ok(Begun::Absent),
            Some(_) if is_carried => {}
            Some(packed) => directory.receive(&mut packed.open()?)?,
        }
        self.job = Some(self.submit(id, &directory)?);
        Ok(Begun::Started)
    }

    fn follow(&mut self, id: &ImageId, progress: &mut dyn Progress) -> Result<Ended> {
        let directory = WorkDirectory::of(self.context, id)?;
        let (mut offset, mut seen, mut absence) = (0, String::new(), Absence::default());
        let mut asked: Option<Instant> = None;
        loop {
            // First the result: what is read then is all.
            let result = directory.result();
            let length = fs::metadata(directory.file("events")).map_or(0, |found| found.len());
            if length < offset {
                // Slurm has started the job again.
                offset = 0;
            }
            let events = directory.events(offset, PART)?;
            let used = replay(&events, self.context, progress);
            offset += used as u64;
            let result = result.filter(|_| used == 0);
            let may_go_on = matches!(result, Some(Ended::Interrupted)) && self.job.is_some();
            if let Some(result) = result.filter(|_| !may_go_on) {
                return Ok(result);
            }
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(Report::new(Kind::Interrupted, "interrupted"));
            }
            if let Some(job) = self.job
                && asked.is_none_or(|asked| asked.elapsed() > ASK_SLURM)
            {
                asked = Some(Instant::now());
                // Slurm may start a job again that it has stopped, and shows none for a moment.
                absence.note(self.look(job, &mut seen)?);
            }
            if absence.is_certain() {
                if may_go_on {
                    return Ok(Ended::Interrupted);
                }
                if directory.result().is_some() {
                    continue;
                }
                if directory.file("cancel").exists() {
                    return Ok(Ended::Cancelled);
                }
                return Err(lost(&directory, self.job));
            }
            if used == 0 {
                sleep(LOOK_FOR_RESULTS);
            }
        }
    }

    fn fetch(
        &mut self,
        id: &ImageId,
        built: &BuiltImage,
        place: &Path,
    ) -> Result<(PathBuf, PathBuf)> {
        let directory = WorkDirectory::of(self.context, id)?;
        let (image, meta) = (directory.file("image"), place.join("meta"));
        if sum::file(&image, &mut |_, _| ())? != built.digest {
            let message = format!("{} does not have the digest of the build", shown(&image));
            return Err(Report::new(Kind::Failure, message));
        }
        unpack_meta(&directory.file("meta"), &meta)?;
        Ok((image, meta))
    }

    fn cancel(&mut self, id: &ImageId) -> Result<Stopped> {
        let directory = WorkDirectory::of(self.context, id)?;
        if !directory.file("request.json").exists() {
            return Ok(Stopped::Absent);
        }
        let Some(job) = self.active(id, &directory)? else {
            self.forget(id)?;
            return Ok(Stopped::Before);
        };
        self.job = Some(job);
        directory.cancel()?;
        self.slurm.cancel(&[job.to_string()])?;
        // The same command then begins another one.
        let begin = Instant::now();
        while self.slurm.state(self.context, job)?.is_some() {
            if begin.elapsed() > TO_STOP {
                return Err(still_runs(id, &self.place()));
            }
            sleep(LOOK_FOR_RESULTS);
        }
        Ok(Stopped::Now)
    }

    fn reset(&mut self, id: &ImageId) -> Result<()> {
        let directory = WorkDirectory::of(self.context, id)?;
        let _lock = submission_lock(&directory)?;
        directory.reset();
        Ok(())
    }

    fn forget(&mut self, id: &ImageId) -> Result<()> {
        let directory = WorkDirectory::of(self.context, id)?;
        let _lock = submission_lock(&directory)?;
        directory.remove()
    }

    fn place(&self) -> String {
        self.job.map_or_else(|| "in a job".to_owned(), |job| format!("in job {job}"))
    }

    fn host(&self) -> Option<&str> {
        None
    }
}
