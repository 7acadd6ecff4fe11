// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Carrying out a plan.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use cabane_label::Digest;
use cabane_mount::ImageFormat;

use crate::layout::Layout;
use crate::marker::{ImageMark, Marker};
use crate::plan::Job;
use crate::turn::Turn;
use crate::workbench::Workbench;
use crate::{BuildError, Plan, Progress, State, Step, StepName, disk, metadata, pack, plan};

/// A finished image.
#[derive(Clone, Debug)]
pub struct Built {
    /// The image.
    pub image: PathBuf,
    /// The directory with its metadata.
    pub meta: PathBuf,
    /// Its format.
    pub format: ImageFormat,
    /// Its digest.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
}

/// Does what is left of a plan.
///
/// Another build in the same directory is waited for; what it did is not done
/// again. When `interrupt` becomes true, the build stops within a moment. However a
/// build ends, the next one goes on after the last step that was finished. There is no
/// image if the plan ends before.
///
/// # Errors
///
/// Whatever made a step fail. What had been done is kept.
pub fn carry_out(
    plan: &Plan,
    progress: &mut dyn Progress,
    interrupt: &AtomicBool,
) -> Result<Option<Built>, BuildError> {
    let layout = &plan.job.layout;
    disk::make_directory(&layout.root)?;
    let turn = Turn::take(&layout.lock(), progress, interrupt)?;
    if turn.waited {
        // The world may have changed since the plan was made.
        let fresh = self::plan(&plan.job.request)?;
        return work(&fresh, progress, interrupt);
    }
    work(plan, progress, interrupt)
}

fn work(
    plan: &Plan,
    progress: &mut dyn Progress,
    interrupt: &AtomicBool,
) -> Result<Option<Built>, BuildError> {
    let job = &plan.job;
    // Not those of the plan: what has been done is certain only now.
    let mut steps = job.steps()?;
    let again = job.index_of_from(&steps)?;
    if again < steps.len() {
        forget(&job.layout, &steps[again..])?;
        steps = job.steps()?;
    }
    if steps.iter().any(|step| step.state != State::Done) {
        prepare_directories(job)?;
    }
    for warning in &plan.warnings {
        progress.warning(warning);
    }
    let mut index = 0;
    while let Some(step) = steps.get(index) {
        if step.state == State::Done {
            progress.skipped(step);
            index += 1;
            continue;
        }
        forget(&job.layout, &steps[index..])?;
        progress.started(step, index, steps.len());
        let start = Instant::now();
        let image = do_step(job, step, progress, interrupt)?;
        Marker::new(step.fingerprint.clone(), step.inputs.clone(), image)
            .write(&job.layout, step.name)?;
        progress.finished(step, start.elapsed());
        index += 1;
        // What comes later may depend on what this one found out.
        steps = job.steps()?;
    }
    let is_whole = steps.last().is_some_and(|step| step.name == StepName::Pack);
    is_whole.then(|| built(job)).transpose()
}

fn prepare_directories(job: &Job) -> Result<(), BuildError> {
    let layout = &job.layout;
    for kept in [layout.markers(), layout.logs(), layout.work()] {
        disk::make_directory(&kept)?;
    }
    disk::make_directory(&job.request.cache_dir)?;
    for private in [layout.tmp(), layout.home()] {
        disk::make_empty(&private)?;
    }
    Ok(())
}

/// Removes the markers of steps that are about to be done: what is half done must
/// not look whole.
fn forget(layout: &Layout, steps: &[Step]) -> Result<(), BuildError> {
    steps
        .iter()
        .rev()
        .try_for_each(|step| Marker::remove(layout, step.name))
}

fn do_step(
    job: &Job,
    step: &Step,
    progress: &mut dyn Progress,
    interrupt: &AtomicBool,
) -> Result<Option<ImageMark>, BuildError> {
    disk::remove(&job.layout.log(step.name))?;
    let mut bench = Workbench {
        request: &job.request,
        layout: &job.layout,
        recipe: &job.recipe,
        step,
        progress,
        interrupt,
    };
    bench.check_interrupt()?;
    match step.name {
        StepName::Metadata => metadata::write(job).map(|()| None),
        StepName::Pack => pack::pack(&mut bench, &job.tool, &job.engine.tree()).map(Some),
        name => job.engine.carry_out(name, &mut bench).map(|()| None),
    }
}

fn built(job: &Job) -> Result<Built, BuildError> {
    let image = job.layout.image(job.tool.format);
    let gone = |path: &Path| BuildError::file("find", path)(std::io::ErrorKind::NotFound.into());
    let made = Marker::read(&job.layout, StepName::Pack)
        .and_then(|marker| marker.image)
        .ok_or_else(|| gone(&image))?;
    Ok(Built {
        image,
        meta: job.layout.meta(),
        format: job.tool.format,
        digest: made.digest,
        size: made.size,
    })
}
