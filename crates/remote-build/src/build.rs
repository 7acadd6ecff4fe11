// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A build elsewhere, from its start to the image in the repository of this machine.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cabane_builder::{Built, ImageFormat, Progress};
use cabane_image_build::{add_built, write_built};
use cabane_label::{Digest, ImageId, Label, LabelPattern, NameMatch, escape};
use cabane_report::{Kind, Report, Result};
use cabane_repository::Added;
use cabane_site::Context;
use jiff::Timestamp;

use crate::ended::{BuiltImage, Ended};
use crate::host::Host;
use crate::place::Place;
use crate::record::{DoneImage, Record, RecordDirectory, absolute, sweep};
use crate::request::BuildRequest;
use crate::slurm::Jobs;
use crate::ssh::Ssh;
use crate::worker::{Begun, Stopped, Worker};

/// How a place is reached.
#[derive(Clone, Debug, Default)]
pub struct ReachOptions {
    /// Options of `sbatch` that the place and other options override.
    pub sbatch_defaults: Vec<String>,
    /// More options of `sbatch`.
    pub sbatch: Vec<String>,
    /// The number of nodes of a job.
    pub nodes: Option<usize>,
    /// The program on a host, if it is not `cabane` in its `PATH`.
    pub program: Option<String>,
}

/// A build elsewhere.
pub struct RemoteBuild<'a> {
    /// Its name.
    pub id: ImageId,
    /// What is remembered of it.
    pub record: Record,
    /// Whether it was started by this command, or before.
    pub is_new: bool,
    context: &'a Context,
    directory: RecordDirectory,
    worker: Box<dyn Worker + 'a>,
    interrupt: &'a Arc<AtomicBool>,
}

/// An image that is here.
#[derive(Debug)]
pub struct Done {
    /// Its label, if it has one.
    pub label: Option<Label>,
    /// Its digest.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// What changed in the repository; nothing if the label means this image already.
    pub added: Option<Added>,
    /// How long the build took, in seconds; none if nothing was built.
    pub seconds: Option<f64>,
}

/// What there is of a build.
pub enum Found<'a> {
    /// It was brought back before, and its image is still here.
    Done(Box<Done>),
    /// It is elsewhere.
    Elsewhere(Box<RemoteBuild<'a>>),
}

/// Starts a build elsewhere, or finds the one of the same recipe, configuration, label, and place.
///
/// # Errors
///
/// The recipe cannot be read, the place cannot be reached, or it rejects the build.
pub fn start<'a>(
    context: &'a Context,
    request: &BuildRequest,
    output: Option<&Path>,
    options: &ReachOptions,
    interrupt: &'a Arc<AtomicBool>,
) -> Result<Found<'a>> {
    sweep(context);
    if request.label.is_some() {
        // What cannot be added later is found out now.
        context.repository_to_write()?;
    }
    let output = output.map(absolute).transpose()?;
    let packed = request.pack(context, output.as_deref())?;
    let id = packed.id.clone();
    let directory = RecordDirectory::of(context, &id)?;
    // One that brings the image back at this moment is waited for.
    let lock = directory.lock(interrupt)?;
    if packed.is_whole
        && let Some(done) = already(context, &directory)?
    {
        return Ok(Found::Done(Box::new(done)));
    }
    let mut worker = worker_of(context, &request.place, request.jobs, options, interrupt)?;
    let before = directory.read().filter(|record| record.done.is_none());
    let record = Record {
        place: request.place.clone(),
        label: packed.label.as_ref().map(ToString::to_string),
        output,
        recipe: absolute(&request.recipe)?,
        started: before.as_ref().map_or_else(Timestamp::now, |record| record.started),
        program: options.program.clone(),
        done: None,
    };
    // Before it is started: a command that is killed then leaves a build that can be found.
    directory.write(&record)?;
    drop(lock);
    let begun = match worker.begin(&id, Some(&packed)) {
        Err(_) if interrupt.load(Ordering::Relaxed) => return Err(interrupted(&id)),
        Err(report) => {
            if before.is_none() {
                directory.remove();
            }
            return Err(report);
        }
        Ok(begun) => begun,
    };
    let is_new = begun == Begun::Started;
    if is_new && let Some(done) = already(context, &directory)? {
        // Another command was faster, and the build there was removed a moment ago.
        let stopped = worker.cancel(&id).and_then(|_| worker.forget(&id));
        if let Err(report) = stopped {
            context.detail(format_args!("the second build is not removed: {report}"));
        }
        return Ok(Found::Done(Box::new(done)));
    }
    let build = RemoteBuild { id, record, is_new, context, directory, worker, interrupt };
    Ok(Found::Elsewhere(Box::new(build)))
}

fn interrupted(id: &ImageId) -> Report {
    Report::new(Kind::Interrupted, "interrupted before the build began")
        .hinted(
            "run the same command again: it starts the build, or follows it if it has started"
                .to_owned(),
        )
        .hinted(format!("`cabane build --cancel {id}` cancels it"))
}

/// Finds a build elsewhere by its name.
///
/// # Errors
///
/// No build of this name was started from this machine, or it has ended and was forgotten, or its place
/// cannot be reached.
pub fn find<'a>(
    context: &'a Context,
    id: &ImageId,
    interrupt: &'a Arc<AtomicBool>,
) -> Result<Found<'a>> {
    let (directory, record) = remembered(context, id)?;
    if let Some(done) = already(context, &directory)? {
        return Ok(Found::Done(Box::new(done)));
    }
    let options = ReachOptions { program: record.program.clone(), ..ReachOptions::default() };
    let mut worker = worker_of(context, &record.place, None, &options, interrupt)?;
    if worker.begin(id, None)? == Begun::Absent {
        // Another command may have brought it back a moment ago.
        if let Some(done) = already(context, &directory)? {
            return Ok(Found::Done(Box::new(done)));
        }
        directory.remove();
        return Err(gone(id, &record));
    }
    let id = id.clone();
    let build = RemoteBuild { id, record, is_new: false, context, directory, worker, interrupt };
    Ok(Found::Elsewhere(Box::new(build)))
}

/// What became of a build that is cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It has stopped; where it was, as in `on eiger` or `in job 7`.
    Stopped(String),
    /// It did not run; it is removed from where it was.
    Idle(String),
    /// Its image was brought back before, and the next command builds again.
    Done,
}

/// Cancels a build elsewhere by its name.
///
/// # Errors
///
/// No build of this name was started from this machine, or it is no longer at its place; its place cannot
/// be reached; it does not stop.
pub fn cancel(context: &Context, id: &ImageId, interrupt: &Arc<AtomicBool>) -> Result<Cancelled> {
    let (directory, record) = remembered(context, id)?;
    if record.done.is_some() {
        directory.remove();
        return Ok(Cancelled::Done);
    }
    let options = ReachOptions { program: record.program.clone(), ..ReachOptions::default() };
    let mut worker = worker_of(context, &record.place, None, &options, interrupt)?;
    let stopped = worker.cancel(id)?;
    directory.remove();
    match stopped {
        Stopped::Now => Ok(Cancelled::Stopped(worker.place())),
        Stopped::Before => Ok(Cancelled::Idle(worker.place())),
        Stopped::Absent => Err(gone(id, &record)),
    }
}

/// Returns what is remembered of a build.
fn remembered(context: &Context, id: &ImageId) -> Result<(RecordDirectory, Record)> {
    let directory = RecordDirectory::of(context, id)?;
    let record = directory.read().ok_or_else(|| {
        let message = format!("no build `{}` was started on this machine", id.as_str());
        Report::new(Kind::NotFound, message)
            .hinted("`cabane build --list` shows the builds elsewhere".to_owned())
    })?;
    Ok((directory, record))
}

fn gone(id: &ImageId, record: &Record) -> Report {
    let message = format!("the build `{}` is no longer on {}", id.as_str(), record.place);
    Report::new(Kind::NotFound, message).hinted(format!("`{}` starts it again", record.command()))
}

/// Returns the image that an earlier command brought back, if the repository still has it.
fn already(context: &Context, directory: &RecordDirectory) -> Result<Option<Done>> {
    let Some(image) = directory.read().and_then(|record| record.done) else { return Ok(None) };
    let Some(label) = image.label() else { return Ok(None) };
    here(context, label, &image.digest)
}

/// Returns an image if the repository has it under its label.
fn here(context: &Context, label: Label, digest: &Digest) -> Result<Option<Done>> {
    let record = context.repository_to_write()?.repository.by_label(&label)?;
    let record = record.filter(|record| record.digest == *digest);
    Ok(record.map(|record| Done {
        label: Some(label),
        digest: record.digest,
        size: record.size,
        added: None,
        seconds: None,
    }))
}

fn worker_of<'a>(
    context: &'a Context,
    place: &Place,
    jobs: Option<usize>,
    options: &ReachOptions,
    interrupt: &'a Arc<AtomicBool>,
) -> Result<Box<dyn Worker + 'a>> {
    Ok(match place {
        Place::Slurm(partition) => {
            let partition = partition.iter().map(|name| format!("--partition={name}"));
            let mut sbatch = options.sbatch_defaults.clone();
            sbatch.extend(partition.chain(options.sbatch.iter().cloned()));
            let nodes = options.nodes.unwrap_or(1);
            Box::new(Jobs::new(context, sbatch, (nodes, jobs), interrupt)?)
        }
        Place::Host(host) => {
            let ssh = Ssh::new(context, host, options.program.as_deref())?;
            Box::new(Host::new(context, ssh, jobs, interrupt))
        }
    })
}

impl RemoteBuild<'_> {
    /// Says where the build is, as in `on eiger` or `in job 7`.
    pub fn place(&self) -> String {
        self.worker.place()
    }

    /// Follows the build to its end, and brings the image back.
    ///
    /// # Errors
    ///
    /// Those of the build; the place cannot be reached; the image is not what was built; the user has
    /// interrupted the command, and the build goes on.
    pub fn finish(&mut self, progress: &mut dyn Progress) -> Result<Done> {
        let ended = match self.worker.follow(&self.id, progress) {
            Ok(ended) => ended,
            Err(report) => return self.otherwise(report, "the build", "continues"),
        };
        let Ended::Built(built) = ended else {
            let report = self.not_built(&ended);
            self.drop_result();
            return Err(report);
        };
        let done = match self.bring(&built) {
            Ok(done) => done,
            Err(report) => return self.otherwise(report, "the image of the build", "stays"),
        };
        if let Err(report) = self.worker.forget(&self.id) {
            self.context.detail(format_args!("the build is not removed: {report}"));
        }
        Ok(done)
    }

    /// Returns what holds after an error: the user has interrupted the command, or another command has
    /// brought the image back in the meantime, or it is the error.
    fn otherwise(&self, report: Report, what: &str, does: &str) -> Result<Done> {
        if !self.interrupt.load(Ordering::Relaxed) {
            let done = already(self.context, &self.directory).ok().flatten();
            return done.ok_or(report);
        }
        let (id, place) = (self.id.as_str(), self.place());
        Err(Report::new(Kind::Build, format!("{what} {id} {does} {place}"))
            .hinted(format!("`cabane build --attach {id}` follows it, as does the same command"))
            .hinted(format!("`cabane build --cancel {id}` cancels it")))
    }

    fn not_built(&self, ended: &Ended) -> Report {
        let again = "run the same command to continue after the last finished step";
        match ended {
            Ended::Failed(failed) => failed.report(self.worker.host()),
            Ended::Cancelled => {
                Report::new(Kind::Build, "the build was cancelled").hinted(again.to_owned())
            }
            Ended::Interrupted | Ended::Built(_) => {
                let message = format!("the build {} was terminated by a signal", self.place());
                let report = Report::new(Kind::Failure, message);
                match self.record.place {
                    Place::Slurm(_) => report.hinted(format!(
                        "the job was cancelled or reached its time limit (`--sbatch=--time=TIME`); {again}"
                    )),
                    Place::Host(_) => report.hinted(again.to_owned()),
                }
            }
        }
    }

    fn drop_result(&mut self) {
        if let Err(report) = self.worker.reset(&self.id) {
            self.context.detail(format_args!("the result is not removed: {report}"));
        }
        self.directory.remove();
    }

    /// Brings the image into the repository, or to its file.
    fn bring(&mut self, built: &BuiltImage) -> Result<Done> {
        let label = self.label_of(built)?;
        let _lock = self.directory.lock(self.interrupt)?;
        if let Some(done) = already(self.context, &self.directory)? {
            return Ok(done);
        }
        let seconds = Some(built.seconds).filter(|_| !built.is_unchanged);
        if let Some(label) = &label
            && let Some(done) = here(self.context, label.clone(), &built.digest)?
        {
            // Nothing has changed since an earlier build.
            self.keep(DoneImage { label: label.to_string(), digest: done.digest.clone() })?;
            return Ok(Done { seconds, ..done });
        }
        let formats = [ImageFormat::Squashfs, ImageFormat::Erofs];
        let format = formats.into_iter().find(|format| format.name() == built.format);
        let format = format.ok_or_else(|| {
            let message = format!("unknown image format `{}`", escape(&built.format));
            Report::new(Kind::Failure, message).hinted(self.same_version())
        })?;
        let (image, meta) = self.worker.fetch(&self.id, built, &self.directory.path)?;
        let (digest, size) = (built.digest.clone(), built.size);
        let image = Built {
            image,
            meta,
            format,
            digest: digest.clone(),
            size,
            source: None,
            debug_symbols: None,
        };
        let mut added = None;
        if let Some(output) = &self.record.output {
            write_built(&image, output)?;
        } else if let Some(label) = &label {
            added = add_built(self.context, label, &image)?;
            self.keep(DoneImage { label: label.to_string(), digest: digest.clone() })?;
        }
        if self.record.done.is_none() {
            self.directory.remove();
        }
        Ok(Done { label, digest, size, added, seconds })
    }

    /// Remembers the image that is here, and removes what has arrived.
    fn keep(&mut self, image: DoneImage) -> Result<()> {
        self.record.done = Some(image);
        self.directory.clear();
        self.directory.write(&self.record)
    }

    /// Returns the label that the place has completed. It must be the one that was typed: another machine
    /// does not choose which image is replaced here.
    fn label_of(&self, built: &BuiltImage) -> Result<Option<Label>> {
        let Some(typed) = &self.record.label else { return Ok(None) };
        let typed: LabelPattern = typed.parse()?;
        let label = built.label.as_deref().and_then(|label| label.parse::<Label>().ok());
        let label = label.filter(|label| typed.matches(label, NameMatch::Exact));
        label.map(Some).ok_or_else(|| {
            let message =
                format!("the image from {} does not have the label `{typed}`", self.record.place);
            Report::new(Kind::Failure, message).hinted(self.same_version())
        })
    }

    /// What to do if the place sends what this version does not expect.
    fn same_version(&self) -> String {
        let (ours, place) = (env!("CARGO_PKG_VERSION"), &self.record.place);
        format!("install cabane {ours} on {place}, and run the same command again")
    }
}
