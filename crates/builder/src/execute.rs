// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Carrying out a plan.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use cabane_label::Digest;
use cabane_mount::ImageFormat;

use crate::build_context::BuildContext;
use crate::cache::InUse;
use crate::deliver::deliver;
use crate::job::Job;
use crate::layout::Layout;
use crate::marker::{ImageMark, Marker};
use crate::memory::{self, Gauge};
use crate::own::make_own_directory;
use crate::pack::{self, Packed, Tree};
use crate::spack::PortedPackages;
use crate::turn::Turn;
use crate::{
    BuildError, Plan, Progress, Result, State, Step, StepName, debug_symbols, disk, leftovers,
    metadata, place, plan,
};

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
    /// The container image from which it was made, if it was and that is known here.
    pub source: Option<String>,
    /// The image with its debug symbols, if one was requested and there are some.
    pub debug_symbols: Option<Box<Self>>,
}

/// Does what is left of a plan.
///
/// Another build in the same directory is waited for; what it did is not done
/// again. When `interrupt` becomes true, the build stops within a moment. However a
/// build ends, the next one goes on after the last step that was finished. There is no
/// image if the plan ends before, or the tree goes into a directory.
///
/// # Errors
///
/// Whatever made a step fail. What had been done is kept.
pub fn execute(
    plan: &Plan,
    progress: &mut dyn Progress,
    interrupt: &AtomicBool,
) -> Result<Option<Built>> {
    let layout = &plan.job.layout;
    make_own_directory(&layout.root)?;
    let turn = Turn::take(&layout.lock(), progress, interrupt)?;
    if turn.waited {
        // The world may have changed since the plan was made.
        let fresh = self::plan(&plan.job.request)?;
        return work(&fresh, progress, interrupt);
    }
    work(plan, progress, interrupt)
}

fn work(plan: &Plan, progress: &mut dyn Progress, interrupt: &AtomicBool) -> Result<Option<Built>> {
    let job = &plan.job;
    // Not those of the plan: what has been done is certain only now.
    let mut steps = job.steps()?;
    let again = job.index_of_from(&steps)?;
    if again < steps.len() {
        forget(&job.layout, &steps[again..])?;
        steps = job.steps()?;
    }
    let mut gauge = None;
    let was_open = steps.iter().any(|step| step.state != State::Done);
    let mut in_use = None;
    if was_open {
        let claim = prepare_directories(job)?;
        let shared = job.request.shared_cache.as_deref().filter(|shared| shared.is_dir());
        let own = InUse::share(&job.request.cache_dir, progress, interrupt)?;
        let of_others = shared.map(|cache| InUse::share_of_others(cache, progress, interrupt));
        in_use = Some((claim, own, of_others.transpose()?));
        // What it was about to use may have been removed meanwhile.
        steps = job.steps()?;
        if let Some(remark) = &job.place {
            progress.remark(remark);
        }
        gauge = job.layout.memory.as_deref().map(Gauge::new);
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
        let image = do_step(job, step, progress, interrupt, gauge.as_mut())
            .map_err(|error| judge(job, error, gauge.as_mut()))?;
        Marker::new(step.fingerprint.clone(), step.inputs.clone(), image)
            .write(&job.layout, step.name)?;
        progress.finished(step, start.elapsed());
        index += 1;
        // What comes later may depend on what this one found out.
        steps = job.steps()?;
    }
    drop(in_use);
    let is_last = |name| matches!(name, StepName::Pack | StepName::Symbols);
    let is_whole = steps.last().is_some_and(|step| is_last(step.name));
    if !is_whole {
        return Ok(None);
    }
    if was_open {
        remember(job, gauge.as_mut());
    }
    // Nothing but the result is needed from here on.
    if !job.request.keep {
        disk::remove(&job.layout.split())?;
        disk::remove(&job.layout.symbols())?;
    }
    place::release(&job.layout)?;
    if job.target.is_some() {
        return Ok(None);
    }
    built(job).map(Some)
}

/// Ports the packages of the recipe itself to the package API of its Spack, after the step
/// `sources` of a plan; `None` if the recipe is not for Spack. The recipe stays as it is.
///
/// # Errors
///
/// Spack could not be run.
pub fn port_packages(
    plan: &Plan,
    progress: &mut dyn Progress,
    interrupt: &AtomicBool,
) -> Result<Option<PortedPackages>> {
    let job = &plan.job;
    let _turn = Turn::take(&job.layout.lock(), progress, interrupt)?;
    let _in_use = InUse::share(&job.request.cache_dir, progress, interrupt)?;
    let _claim = prepare_directories(job)?;
    let Some(step) = plan.steps.last() else { return Ok(None) };
    let mut bench = context(job, step, progress, interrupt, None);
    job.engine.port_packages(&mut bench)
}

/// Remembers what the build used, for the decision where the next one takes place.
fn remember(job: &Job, gauge: Option<&mut Gauge>) {
    let name = job.recipe.name.as_str();
    let used = match gauge {
        Some(gauge) => gauge.look(),
        // On the disk no one looked: what is there now, and half of it for what went.
        None if job.request.memory.is_some() => {
            let used = leftovers::size_of(&job.layout.store());
            used + used / 2
        }
        None => return,
    };
    memory::remember(&job.request.cache_dir, name, used);
}

/// A build that does not fit into memory is another error than a full disk, and the next
/// one must know.
fn judge(job: &Job, error: BuildError, gauge: Option<&mut Gauge>) -> BuildError {
    let error = match (error, &job.layout.memory) {
        (BuildError::DiskFull { path, failure }, Some(memory)) if path.starts_with(memory) => {
            BuildError::MemoryFull { path, failure }
        }
        (error, _) => error,
    };
    if let (BuildError::MemoryFull { .. }, Some(gauge)) = (&error, gauge) {
        let used = gauge.look();
        let name = job.recipe.name.as_str();
        memory::remember(&job.request.cache_dir, name, used + used / 2);
    }
    error
}

pub(crate) fn prepare_directories(job: &Job) -> Result<place::Claim> {
    let layout = &job.layout;
    let claim = place::claim(&job.request, layout)?;
    for kept in [layout.markers(), layout.logs(), layout.work()] {
        make_own_directory(&kept)?;
    }
    disk::make_directory(&job.request.cache_dir)?;
    for private in [layout.tmp(), layout.home()] {
        disk::make_empty(&private)?;
    }
    Ok(claim)
}

/// Removes the markers of steps that are about to be done: what is half done must
/// not look whole.
fn forget(layout: &Layout, steps: &[Step]) -> Result<()> {
    steps.iter().rev().try_for_each(|step| Marker::remove(layout, step.name))
}

/// What a step has at hand.
pub(crate) fn context<'a>(
    job: &'a Job,
    step: &'a Step,
    progress: &'a mut dyn Progress,
    interrupt: &'a AtomicBool,
    gauge: Option<&'a mut Gauge>,
) -> BuildContext<'a> {
    let Job { request, layout, recipe, .. } = job;
    BuildContext { request, layout, recipe, step, progress, interrupt, gauge }
}

fn do_step(
    job: &Job,
    step: &Step,
    progress: &mut dyn Progress,
    interrupt: &AtomicBool,
    gauge: Option<&mut Gauge>,
) -> Result<Option<ImageMark>> {
    disk::remove(&job.layout.log(step.name))?;
    let mut bench = context(job, step, progress, interrupt, gauge);
    bench.check_interrupt()?;
    let tree = || job.tree();
    match (step.name, &job.target) {
        (StepName::Metadata, _) => metadata::write(job).map(|()| None),
        (StepName::Split, _) => split(job, &mut bench).map(|()| None),
        (StepName::Symbols, _) => pack_symbols(job, &mut bench),
        (StepName::Pack, None) if job.separated.is_some() => {
            let packed = Packed::image(&job.layout, &job.recipe, &tree());
            pack::pack(&mut bench, &job.tool, &packed).map(Some)
        }
        (StepName::Pack, None) => job.engine.make_image(&mut bench, &job.tool).map(Some),
        (StepName::Pack, Some(target)) => deliver(&mut bench, target, &tree()).map(|()| None),
        (name, _) => job.engine.execute(name, &mut bench).map(|()| None),
    }
}

fn split(job: &Job, bench: &mut BuildContext<'_>) -> Result<()> {
    let Some(separated) = &job.separated else { return Ok(()) };
    debug_symbols::split(bench, &separated.objcopy, &job.engine.tree())
}

/// Packs the debug symbols; there is no image if there are none.
fn pack_symbols(job: &Job, bench: &mut BuildContext<'_>) -> Result<Option<ImageMark>> {
    let mount_point = job.separated.as_ref().and_then(|separated| separated.mount_point.as_ref());
    let Some(mount_point) = mount_point.filter(|_| debug_symbols::has_any(job)) else {
        return Ok(None);
    };
    debug_symbols::write(job, mount_point)?;
    let path = job.layout.symbols();
    let packed = Packed {
        tree: Tree { path: &path, ours: true },
        meta: job.layout.symbols_meta(),
        store: mount_point.as_path(),
        image: Layout::symbols_image,
    };
    pack::pack(bench, &job.tool, &packed).map(Some)
}

fn built(job: &Job) -> Result<Built> {
    let image = job.layout.image(job.tool.format);
    let made = Marker::read(&job.layout, StepName::Pack)
        .and_then(|marker| marker.image)
        .ok_or_else(|| BuildError::gone(&image))?;
    let symbols = Marker::read(&job.layout, StepName::Symbols).and_then(|marker| marker.image);
    let symbols = symbols.filter(|_| job.request.debug_symbols).map(|made| Built {
        image: job.layout.symbols_image(job.tool.format),
        meta: job.layout.symbols_meta(),
        format: job.tool.format,
        digest: made.digest,
        size: made.size,
        source: None,
        debug_symbols: None,
    });
    Ok(Built {
        image,
        meta: job.layout.meta(),
        format: job.tool.format,
        digest: made.digest,
        size: made.size,
        source: job.engine.source(),
        debug_symbols: symbols.map(Box::new),
    })
}
