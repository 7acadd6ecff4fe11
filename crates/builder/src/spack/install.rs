// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Concretizing and installing.
//!
//! Spack 1.2 and later have one environment for everything. For those before, there is a
//! chain: what is built with a compiler can be concretized when the compiler is there.
//! What was concretized is kept in the cache under everything that it depends on, so
//! that the same recipe costs nothing in the next build directory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cabane_label::{escape, shown};
use cabane_spack::{SpackEnvironment, compiler_externals};

use super::ask::{About, CONCRETIZE};
use super::keys::{self, Keys};
use super::session;
use super::shared_packages::SharedPackages;
use super::watch::{Unusable, Watch};
use super::{
    SpackEngine, compilers, fetch, guarded, hooks, index, inputs, lock, normalize, package_cache,
    solutions, unused, workers,
};
use crate::build_context::BuildContext;
use crate::fingerprint::{self, Inputs};
use crate::sandbox::Invocation;
use crate::{BuildError, Result, StepName, cache, disk, package_log, process};

/// Concretizations, below the cache.
const CONCRETIZED: &str = "spack/concretized";
/// What Spack writes when it cannot move a package: here its reasons begin.
const NOT_REPLACED: &str = "Cannot replace ";
/// What Spack writes when a package is to be moved to a longer path.
const SHORTER: &str = "the new prefix is longer";
/// The file of an environment that describes compilers.
const COMPILERS: &str = "packages.yaml";

/// Decides which packages are built, as far as that can be known before any is.
pub(super) fn concretize(engine: &SpackEngine, bench: &mut BuildContext<'_>) -> Result<()> {
    inputs::write(engine)?;
    package_cache::write_mirrors(engine)?;
    solutions::write(engine, &About::of(engine, bench)?)?;
    hooks::run(engine, hooks::PRE_INSTALL, bench)?;
    let first = engine.stack().environments.iter().filter(|one| one.needs.is_empty());
    first.into_iter().try_for_each(|one| concretize_one(engine, one, bench))
}

fn concretize_one(
    engine: &SpackEngine,
    environment: &SpackEnvironment,
    bench: &mut BuildContext<'_>,
) -> Result<()> {
    let name = environment.name.as_str();
    let lock = inputs::lock_file(&engine.layout, name);
    if lock.exists() {
        return Ok(());
    }
    let described = describe_compilers(engine, environment)?;
    if let Some(locked) = &engine.lock {
        locked.take(engine, name, &lock)?;
        return unused::warn(engine, &lock, bench);
    }
    // A script may change anything.
    let is_kept = !hooks::exists(engine, hooks::PRE_INSTALL);
    let kept = kept(engine, environment, &described)?;
    if is_kept && kept.exists() && !is_decided_again(engine) {
        cache::note_use(&kept);
        copy(&kept, &lock)?;
        return unused::warn(engine, &lock, bench);
    }
    let sandbox = session::sandbox(engine);
    if !environment.external_find.is_empty() {
        let find = session::in_environment(name).with(["external", "find", "--not-buildable"]);
        bench.run(&sandbox, &find.with(&environment.external_find))?;
    }
    index::take(engine)?;
    CONCRETIZE.prepare(engine)?;
    bench.run(&sandbox, &session::concretize(name))?;
    index::give(engine)?;
    lock::read(&lock)?;
    unused::warn(engine, &lock, bench)?;
    if is_kept { copy(&lock, &kept) } else { Ok(()) }
}

/// Whether the user asked that packages are decided on again, and not looked up.
pub(super) fn is_decided_again(engine: &SpackEngine) -> bool {
    matches!(engine.request.part.from.as_deref(), Some("sources" | "concretize"))
}

/// Writes which compilers an environment gets from others, and returns the text.
fn describe_compilers(engine: &SpackEngine, environment: &SpackEnvironment) -> Result<String> {
    let mut found = Vec::new();
    for need in &environment.compilers {
        found.extend(compilers::installed(engine, need.compiler)?);
    }
    let text = compiler_externals(&found);
    let path = inputs::environment(&engine.layout, &environment.name).join(COMPILERS);
    disk::put(&path, &text)?;
    Ok(text)
}

/// Where a concretization is kept: its name changes with all that it depends on.
fn kept(engine: &SpackEngine, environment: &SpackEnvironment, described: &str) -> Result<PathBuf> {
    let mut inputs = engine.inputs_anywhere()?;
    // Nothing that is there already is used again: mirrors decide nothing.
    inputs.retain(|name, _| !name.ends_with("mirrors.yaml"));
    let own = [environment.name.as_str(), described, CONCRETIZE.text];
    let digest = fingerprint::digest_of(fingerprint::texts_of(&inputs).chain(own));
    let name = format!("{digest}.lock");
    Ok(engine.request.cache_dir.join(CONCRETIZED).join(name))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let content = disk::read(from)?;
    disk::make_directory(to.parent().unwrap_or(to))?;
    disk::write(to, &content)
}

/// What the installation depends on beside the steps before it.
pub(super) fn inputs(engine: &SpackEngine) -> Result<Inputs> {
    let cleanup = engine.stack().cleanup.as_str().to_owned();
    let mut inputs = Inputs::from([("cleanup".to_owned(), cleanup)]);
    for environment in engine.stack().environments.iter().filter(|one| one.needs.is_empty()) {
        let lock = inputs::lock_file(&engine.layout, &environment.name);
        let digest = match fingerprint::of_file(&lock) {
            Ok(digest) => digest.to_string(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                "not there yet".to_owned()
            }
            Err(error) => return Err(BuildError::file("read", &lock)(error)),
        };
        inputs.insert(format!("spack.lock of {}", environment.name), digest);
    }
    Ok(inputs)
}

/// Returns the commands, as they could be typed.
pub(super) fn invocations(engine: &SpackEngine) -> Vec<Invocation> {
    let environments = engine.stack().environments.iter();
    let commands = environments.flat_map(|one| {
        let push = keys::push(engine, &one.name);
        guarded::invocations(engine, &one.name)
            .into_iter()
            .chain([fetch::invocation(&one.name), session::install(engine, &one.name)])
            .chain(push)
    });
    commands.chain(keys::publish(engine)).chain(session::clean_up(engine)).collect()
}

/// Builds the packages, or takes them from caches.
pub(super) fn install(engine: &SpackEngine, bench: &mut BuildContext<'_>) -> Result<()> {
    let keys = Keys::open(engine)?;
    let mut shared = SharedPackages::open(engine)?;
    let mut watch = Watch::new(engine);
    engine.guarded.write(engine, &engine.recipe)?;
    engine.commits().values().for_each(|commit| cache::note_use(&engine.sources.tree(commit)));
    if !hooks::exists(engine, hooks::PRE_INSTALL) {
        // The script may have changed it.
        package_cache::write_mirrors(engine)?;
    }
    for environment in &engine.stack().environments {
        concretize_one(engine, environment, bench)?;
        let lock = inputs::lock_file(&engine.layout, &environment.name);
        shared.admit(engine, &lock)?;
        watch.expect(&lock)?;
        shared.report(engine, &watch, bench.progress);
        fetch_guarded(engine, &environment.name, &keys, &mut watch, bench)?;
        fetch::sources(engine, &environment.name, &watch, bench)?;
        workers::build(engine, environment, &mut watch, bench)?;
        install_one(engine, (&environment.name, &[]), &keys, &mut watch, bench)?;
        keys.run_to_cache(engine, keys::push(engine, &environment.name), bench)?;
    }
    keys.run_to_cache(engine, keys::publish(engine), bench)?;
    drop(keys);
    if let Some(clean_up) = session::clean_up(engine) {
        bench.run(&session::sandbox(engine), &clean_up)?;
    }
    normalize::packages(&engine.store_here, &engine.store, engine.request.epoch)
}

/// Installs an environment, or some packages of it, by their hashes. What is in a cache and
/// cannot be used here is built, and nothing else; the rest goes on after that.
pub(super) fn install_one(
    engine: &SpackEngine,
    (environment, some): (&str, &[String]),
    keys: &Keys,
    watch: &mut Watch<'_>,
    bench: &mut BuildContext<'_>,
) -> Result<()> {
    let mut known = BTreeSet::new();
    // What is built before the rest, the last first: what a package needs comes later.
    let mut detours: Vec<Vec<String>> = Vec::new();
    loop {
        let command = match detours.last() {
            Some(hashes) => session::build(engine, environment, hashes),
            None if !some.is_empty() => session::install_some(engine, environment, some),
            None if known.is_empty() => session::install(engine, environment),
            // What else cannot be used is found at once.
            None => session::install_all_it_can(engine, environment),
        };
        let mut sandbox = session::sandbox(engine);
        let command = keys.trusting(engine, &mut sandbox, command);
        match bench.run_heard(&sandbox, &command, watch) {
            Ok(()) if detours.pop().is_none() => return Ok(()),
            Ok(()) => {}
            Err(error @ BuildError::StepFailed(_)) => {
                let mut unusable = watch.take_unusable();
                unusable.retain(|one| known.insert(one.hash.clone()));
                if unusable.is_empty() {
                    return Err(error);
                }
                say_unusable(engine, &unusable, bench);
                detours.push(unusable.into_iter().map(|one| one.hash).collect());
            }
            Err(error) => return Err(error),
        }
    }
}

/// Says which packages are built although a cache has them, and why.
fn say_unusable(engine: &SpackEngine, unusable: &[Unusable], bench: &mut BuildContext<'_>) {
    let place = shown(&engine.store);
    for one in unusable {
        let kept = bench.layout.logs().join(format!("{}-from-cache.log", one.hash));
        let log = one.log.as_deref();
        let log_is_missing = log.is_none();
        let log = log.and_then(|log| package_log::keep(bench.layout, log, &kept).ok());
        let lines = log.map(|()| process::tail(&kept)).unwrap_or_default();
        let says = |text: &str| lines.iter().any(|line| line.contains(text));
        // Older Spacks name such a package without a log.
        let is_moved = log_is_missing || says(NOT_REPLACED);
        let why = if says(SHORTER) {
            format!("cannot be moved to {place}, since it was built for a shorter path")
        } else if is_moved {
            format!("cannot be moved to {place}")
        } else {
            "cannot be used; `cabane cache verify` says whether it is damaged".to_owned()
        };
        let id = escape(&one.id);
        bench
            .progress
            .remark(&format!("{id} is built from source: the package in the cache {why}"));
    }
}

/// Whether everything has been concretized that a step needs.
pub(super) fn is_concretized(engine: &SpackEngine, step: StepName) -> bool {
    let all = engine.stack().environments.iter();
    let mut needed = all.filter(|one| step != StepName::Concretize || one.needs.is_empty());
    needed.all(|one| inputs::lock_file(&engine.layout, &one.name).exists())
}

/// Takes from guarded mirrors what they have. What they do not have is no failure.
fn fetch_guarded(
    engine: &SpackEngine,
    environment: &str,
    keys: &Keys,
    watch: &mut Watch<'_>,
    bench: &mut BuildContext<'_>,
) -> Result<()> {
    for command in guarded::invocations(engine, environment) {
        let mut sandbox = session::sandbox(engine);
        engine.guarded.admit(&mut sandbox);
        let command = keys.trusting_guarded(&mut sandbox, command);
        let mut ear = guarded::Ear { watch: Some(watch), refusals: Vec::new() };
        let ended = bench.run_heard(&sandbox, &command, &mut ear);
        if !ear.refusals.is_empty() {
            engine.guarded.warn(&ear.refusals, false, bench.progress);
        }
        match ended {
            // Everything is there.
            Ok(()) => break,
            Err(BuildError::StepFailed(_)) => say_unusable(engine, &watch.take_unusable(), bench),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
