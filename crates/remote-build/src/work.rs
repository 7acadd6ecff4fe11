// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The process that builds, where the build runs.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use cabane_builder::{BuildError, Built, State as StepState, execute};
use cabane_image_build::{BuildOptions, plan_build, write_built};
use cabane_label::{Label, shown};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::{Context, Site, env_vars};

use crate::directory::{BEAT, Lock, Process, WorkDirectory, host};
use crate::ended::{BuiltImage, Ended, Failed};
use crate::event::Recorder;
use crate::nodes::workers_of_job;
use crate::parcel::Packer;
use crate::request::Order;

/// How long to wait for the lock: a process that only looks holds it for a moment.
const FOR_THE_LOCK: Duration = Duration::from_secs(5);
/// How long the signal that ends a job may take to reach all of its processes.
const FOR_THE_SIGNAL: Duration = Duration::from_secs(1);

/// How a process builds.
#[derive(Clone, Copy, Debug)]
pub struct WorkOptions {
    /// The number of parallel processes, instead of that of the settings.
    pub jobs: Option<usize>,
    /// The number of nodes of the job in which this runs.
    pub nodes: usize,
    /// Whether it gets a session of its own first, so that the end of a connection does not end it.
    pub detach: bool,
}

/// Builds what is in a directory of a build, and writes what came of it there.
///
/// Does nothing if another process does that, or has done it.
///
/// # Errors
///
/// The directory cannot be read or written. A build that fails is a result.
pub fn work(
    context: &Context,
    directory: &Path,
    work_options: WorkOptions,
    interrupt: &Arc<AtomicBool>,
) -> Result<()> {
    if work_options.detach {
        let alone = rustix::process::setsid().map_err(std::io::Error::from);
        alone.or_failed(|| "leave the session of the connection".to_owned())?;
    }
    let directory = WorkDirectory::at(directory);
    let begin = Instant::now();
    let lock = loop {
        match directory.lock("lock")? {
            Lock::Taken if begin.elapsed() > FOR_THE_LOCK => return Ok(()),
            Lock::Taken => sleep(Duration::from_millis(50)),
            Lock::Unsupported if directory.is_alive(false) => return Ok(()),
            lock => break lock,
        }
    };
    let is_requeued = context.calling.contains_key(OsStr::new(env_vars::SLURM_RESTART_COUNT));
    match directory.result() {
        // Slurm has stopped the job and starts it again.
        Some(Ended::Interrupted) if is_requeued => directory.forget_result()?,
        Some(_) => return Ok(()),
        None => {}
    }
    let order: Order = directory.json("request.json").ok_or_else(|| {
        let message = format!("{} contains no build", shown(directory.path()));
        Report::new(Kind::BadInput, message)
    })?;
    let events = directory.file("events");
    // A lost build starts again, with new events.
    let file = File::create(&events).or_failed(|| format!("write {}", shown(&events)))?;
    let recorder = Recorder::new(file);
    let beat = Beat::start(&directory, Arc::clone(interrupt));
    let context = &Context::new(Site::clone(context), Arc::new(recorder.clone()));
    let outcome = build(context, &directory, &order, work_options, (recorder, interrupt));
    let is_cancelled = directory.file("cancel").exists();
    let ended = match outcome {
        Ok(built) => Ended::Built(built),
        Err(_) if is_cancelled => Ended::Cancelled,
        Err(_) if is_stopped(&directory, interrupt) => Ended::Interrupted,
        Err(report) => Ended::Failed(Failed::new(&report)),
    };
    drop(beat);
    directory.write("result.json", &ended)?;
    drop(lock);
    Ok(())
}

/// Whether a signal has stopped the build. Slurm sends it to all processes of a job, and the tool of a step may
/// end before this process has it.
fn is_stopped(directory: &WorkDirectory, interrupt: &AtomicBool) -> bool {
    let begin = Instant::now();
    let is_job = directory.file("job.json").exists();
    while is_job && !interrupt.load(Ordering::Relaxed) && begin.elapsed() < FOR_THE_SIGNAL {
        sleep(Duration::from_millis(50));
    }
    interrupt.load(Ordering::Relaxed)
}

fn build(
    context: &Context,
    directory: &WorkDirectory,
    order: &Order,
    WorkOptions { jobs, nodes, .. }: WorkOptions,
    (mut recorder, interrupt): (Recorder, &AtomicBool),
) -> Result<BuiltImage> {
    let started = Instant::now();
    let workers = workers_of_job(context, nodes, jobs)?;
    let options = BuildOptions { workers, ..order.options(directory, jobs) };
    let planned = plan_build(context, &options)?;
    let is_done = |step: &cabane_builder::Step| step.state == StepState::Done;
    let is_unchanged = planned.plan.steps.iter().all(is_done);
    let built = execute(&planned.plan, &mut recorder, interrupt)?;
    let built = built.ok_or_else(|| Report::new(Kind::Build, "the recipe builds no image"))?;
    if interrupt.load(Ordering::Relaxed) {
        return Err(BuildError::Interrupted.into());
    }
    deliver(directory, &built)?;
    Ok(of_built(&built, planned.label, started, is_unchanged))
}

/// Puts the image and its metadata where they are fetched from.
fn deliver(directory: &WorkDirectory, built: &Built) -> Result<()> {
    let image = directory.file("image");
    match fs::hard_link(&built.image, &image) {
        Ok(()) => {}
        Err(_) => write_built(built, &image)?,
    }
    let meta = directory.file("meta");
    let file = File::create(&meta).or_failed(|| format!("write {}", shown(&meta)))?;
    let mut packer = Packer::new(BufWriter::new(file));
    packer.directory(&built.meta, Path::new("meta"))?;
    packer.end().map(drop)
}

fn of_built(
    built: &Built,
    label: Option<Label>,
    started: Instant,
    is_unchanged: bool,
) -> BuiltImage {
    BuiltImage {
        label: label.map(|label| label.to_string()),
        digest: built.digest.clone(),
        size: built.size,
        format: built.format.name().to_owned(),
        seconds: started.elapsed().as_secs_f64(),
        is_unchanged,
    }
}

/// Shows other hosts that the build is alive, and looks whether the user has cancelled it.
struct Beat {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Beat {
    fn start(directory: &WorkDirectory, interrupt: Arc<AtomicBool>) -> Self {
        let (end, ended) = mpsc::channel::<()>();
        let directory = directory.clone();
        let thread = std::thread::spawn(move || {
            let mut process = Process { host: host(), beat: 0 };
            loop {
                process.beat += 1;
                // Without it, only other hosts take the build for lost.
                let _ = directory.write("process.json", &process);
                if directory.file("cancel").exists() {
                    interrupt.store(true, Ordering::Relaxed);
                }
                if !matches!(ended.recv_timeout(BEAT), Err(RecvTimeoutError::Timeout)) {
                    return;
                }
            }
        });
        Self { end: Some(end), thread: Some(thread) }
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
