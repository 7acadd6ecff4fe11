// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Packages that are built on several nodes, before the installation takes them from the cache.
//!
//! A worker is a process on a node. The build tells it over a pipe which packages to build, and reads there
//! what happens. So no file is a lock, and no clocks are compared. The end of a worker is the end of its pipe.
//! Only the cache directory must be on a file system that all nodes see.

mod bases;
mod queue;
mod shared;
mod team;
mod wire;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cabane_spack::SpackEnvironment;
use queue::Queue;
use shared::Shared;
use team::{Listener, Team};
pub use wire::WorkerTask;
pub use worker::work_on_packages;

use super::session::INPUTS;
use super::sources::RECORD;
use super::watch::Watch;
use super::{SpackEngine, fetch, hooks, lock};
use crate::build_context::BuildContext;
use crate::{BuildError, Failure, PackageChange, Result, metadata};

/// The build directory of a worker, in its directory.
const BUILD: &str = "build";
/// How long a package may take to be seen by another node. Network file systems remember for up to a minute
/// that a file is missing.
const UNTIL_VISIBLE: Duration = Duration::from_secs(70);
/// Builds the missing packages of an environment with the workers of the build. Afterwards they are in the
/// cache. If no worker is left, the rest is missing, and the installation builds it.
pub(super) fn build(
    engine: &SpackEngine,
    environment: &SpackEnvironment,
    watch: &mut Watch<'_>,
    bench: &mut BuildContext<'_>,
) -> Result<()> {
    if engine.request.workers.is_empty() {
        return Ok(());
    }
    if let Some(reason) = obstacle(engine, environment) {
        bench.progress.remark(&format!("all packages are built on one node: {reason}"));
        return Ok(());
    }
    let missing = fetch::missing(engine, &environment.name, watch)?;
    if missing.len() < 2 {
        return Ok(());
    }
    let needs = needs(engine, environment, &missing)?;
    let queue = Queue::new(needs, &|hash| watch.expected(hash));
    let shared = Shared::prepare(engine, bench)?;
    let mut team = Team::new(queue);
    let mut site = Site { watch, bench };
    for (number, command) in engine.request.workers.iter().enumerate() {
        let task = task(engine, environment, &shared, number);
        team.start(command, &shared.worker(number), task, &mut site)?;
    }
    let built = team.work(&mut site);
    team.end();
    shared.keep_logs(&team, bench);
    built?;
    watch.wait_for(&team.built, UNTIL_VISIBLE, bench.interrupt);
    bench.check_interrupt()
}

/// The build, as its workers see it.
struct Site<'a, 'w, 'b> {
    watch: &'a mut Watch<'w>,
    bench: &'a mut BuildContext<'b>,
}

impl Listener for Site<'_, '_, '_> {
    fn package(&mut self, hash: &str, change: PackageChange<'_>, node: &str) {
        self.watch.note(hash, change, node, self.bench.progress);
    }

    fn lost(&mut self, hash: &str) -> String {
        self.watch.forget(hash)
    }

    fn warning(&mut self, text: &str) {
        self.bench.progress.warning(text);
    }

    fn remark(&mut self, text: &str) {
        self.bench.progress.remark(text);
    }

    fn check_interrupt(&self) -> Result<()> {
        self.bench.check_interrupt()
    }

    /// The log of the package is copied to those of the build.
    fn failed(&self, mut failure: Failure) -> BuildError {
        let kept = self.bench.layout.logs().join(failure.log.file_name().unwrap_or_default());
        if fs::copy(&failure.log, &kept).is_ok() {
            failure.log = kept;
        }
        BuildError::StepFailed(Box::new(failure))
    }
}

/// Why packages cannot be built on several nodes, if so.
fn obstacle(engine: &SpackEngine, environment: &SpackEnvironment) -> Option<&'static str> {
    if hooks::exists(engine, hooks::PRE_INSTALL) {
        return Some("the recipe has a script `pre-install`");
    }
    if engine.guarded.has_packages() {
        return Some("packages come from a mirror with secrets");
    }
    let is_chained = !environment.needs.is_empty();
    is_chained.then_some("their compiler is in an environment of its own")
}

/// Returns for each missing package the other ones that must be built before.
fn needs(
    engine: &SpackEngine,
    environment: &SpackEnvironment,
    missing: &BTreeSet<String>,
) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let packages = lock::read(&super::inputs::lock_file(&engine.layout, &environment.name))?;
    let of = |hash: &String| {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut open = vec![hash.as_str()];
        while let Some(next) = open.pop() {
            let Some(package) = packages.get(next).filter(|_| seen.insert(next)) else { continue };
            let is_first = next == hash;
            for need in &package.dependencies {
                if missing.contains(&need.hash) {
                    found.insert(need.hash.clone());
                } else if is_first || fetch::is_run_time(need) {
                    // It is in a cache, and needs less.
                    open.push(&need.hash);
                }
            }
        }
        found.remove(hash);
        (hash.clone(), found)
    };
    Ok(missing.iter().map(of).collect())
}

/// Copies what was concretized from one work directory to another.
fn copy_inputs(from: &Path, to: &Path) -> Result<()> {
    metadata::copy_all(&from.join(INPUTS), &to.join(INPUTS))?;
    metadata::copy_file(&from.join(RECORD), &to.join(RECORD))
}

/// A worker on another host is in another directory.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn task(
    engine: &SpackEngine,
    environment: &SpackEnvironment,
    shared: &Shared,
    number: usize,
) -> WorkerTask {
    WorkerTask {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        recipe: engine.recipe_dir.path.clone(),
        own_packages: engine.packages_digest.clone(),
        system: engine.request.system_dir.as_deref().map(absolute),
        mirrors: engine.request.mirrors.as_deref().map(absolute),
        cache: engine.request.cache_dir.clone(),
        shared_cache: engine.request.shared_cache.clone(),
        epoch: engine.request.epoch,
        mount_point: engine.store.to_string_lossy().into_owned(),
        bases: engine.bases.iter().cloned().collect(),
        inputs: shared.inputs(),
        directory: shared.worker(number).join(BUILD),
        environment: environment.name.clone(),
        machine: engine.host.clone(),
        python: engine.solver.program.clone(),
    }
}
