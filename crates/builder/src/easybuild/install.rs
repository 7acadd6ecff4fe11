// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The steps `fetch` and `install`: sources from directories and from the network, then packages, without a
//! network.

use std::fs;
use std::path::{Path, PathBuf};

use super::installed::{self, Installed};
use super::order::Planned;
use super::watch::{Watch, Work};
use super::{EasyBuildEngine, order, session};
use crate::build_context::BuildContext;
use crate::sandbox::Invocation;
use crate::{BuildError, Result, disk};

/// Says that all sources were there.
const FETCHED: &str = "fetched";
/// What EasyBuild keeps of an installation.
const NOTES: &str = "easybuild";
/// The directories of the store with software and with module files.
pub(super) const SOFTWARE: &str = "software";
pub(super) const MODULES: &str = "modules/all";

/// The command that downloads sources.
pub(super) fn fetch_invocation(engine: &EasyBuildEngine) -> Invocation {
    session::eb(engine, &["--fetch"])
}

/// The command that builds.
pub(super) fn invocation(engine: &EasyBuildEngine) -> Invocation {
    session::eb(engine, &[])
}

/// Whether the sources were there, and what was downloaded still is.
pub(super) fn is_fetched(engine: &EasyBuildEngine) -> bool {
    fetched(engine).exists() && engine.downloads().is_dir()
}

fn fetched(engine: &EasyBuildEngine) -> PathBuf {
    engine.layout.work().join(session::WORK).join(FETCHED)
}

/// Prepares a step. If the user wants it anew, so are all packages.
pub(super) fn begin(engine: &EasyBuildEngine) -> Result<()> {
    if engine.request.part.from.is_some() {
        installed::forget(&engine.layout.work().join(session::WORK))?;
        disk::make_empty(&engine.store_here)?;
    }
    session::prepare(engine)
}

/// Prepares a step that uses the store: it keeps the packages that are finished and have not changed.
fn begin_with(engine: &EasyBuildEngine, planned: &[Planned]) -> Result<Installed> {
    begin(engine)?;
    let work = engine.layout.work().join(session::WORK);
    Installed::keep_unchanged(&work, &engine.store_here, planned, &engine.inputs_of_all())
}

/// Downloads the sources that no directory has.
pub(super) fn fetch(engine: &EasyBuildEngine, bench: &mut BuildContext<'_>) -> Result<()> {
    let planned = order::read(&engine.layout).unwrap_or_default();
    // EasyBuild leaves out the sources of packages that are there.
    begin_with(engine, &planned)?;
    let has_network = engine.request.command_network;
    let mut sandbox = session::sandbox(engine);
    if !has_network {
        sandbox.without_network();
    }
    let mut watch = Watch::new(&engine.layout, &planned, Work::Fetch { has_network });
    bench.run_heard(&sandbox, &fetch_invocation(engine), &mut watch)?;
    disk::put(&fetched(engine), "")
}

/// Builds the packages that are not there.
pub(super) fn install(engine: &EasyBuildEngine, bench: &mut BuildContext<'_>) -> Result<()> {
    let planned = order::read(&engine.layout).unwrap_or_default();
    let mut installed = begin_with(engine, &planned)?;
    let mut sandbox = session::sandbox(engine);
    sandbox.without_network();
    let mut watch = Watch::new(&engine.layout, &planned, Work::Install);
    watch.take_installed(&engine.store_here.join(MODULES), bench.progress);
    watch.note_in(&mut installed, engine.own_code.has_hooks());
    bench.run_heard(&sandbox, &invocation(engine), &mut watch)?;
    installed.finish_all()?;
    normalize(engine)
}

/// Whether the packages are there.
pub(super) fn is_installed(engine: &EasyBuildEngine) -> bool {
    engine.store_here.join(SOFTWARE).is_dir()
}

/// Takes out of the tree what differs between two builds: logs, reports with times and loads of the machine, and
/// scripts with variables of the build. Logs are kept beside those of the steps.
fn normalize(engine: &EasyBuildEngine) -> Result<()> {
    let software = engine.store_here.join(SOFTWARE);
    disk::remove(&software.join(".locks"))?;
    for name in directories(&software)? {
        for installation in directories(&name)? {
            let notes = installation.join(NOTES);
            if !notes.is_dir() {
                continue;
            }
            for entry in disk::entries("list", &notes)? {
                clean(engine, &entry.path())?;
            }
            for entry in disk::entries("list", &notes.join("reprod")).unwrap_or_default() {
                if entry.path().extension().is_some_and(|end| end == "env") {
                    disk::remove(&entry.path())?;
                }
            }
        }
    }
    Ok(())
}

fn clean(engine: &EasyBuildEngine, path: &Path) -> Result<()> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
    if !is_file || !name.starts_with("easybuild-") {
        return Ok(());
    }
    if name.contains(".log") {
        let kept = engine.layout.logs().join(name);
        fs::copy(path, &kept).map_err(BuildError::file("copy", path))?;
    } else if !name.ends_with("_test_report.md") {
        return Ok(());
    }
    disk::remove(path)
}

/// Returns the directories in one; none if it is not there.
fn directories(directory: &Path) -> Result<Vec<PathBuf>> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let entries = disk::entries("list", directory)?;
    let is_one = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    Ok(entries.into_iter().map(|entry| entry.path()).filter(is_one).collect())
}
