// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The steps `fetch` and `install`: sources from directories and from the network, then packages, without a
//! network.

use std::fs;
use std::path::{Path, PathBuf};

use super::watch::{Watch, Work};
use super::{EasyBuildEngine, order, session};
use crate::build_context::BuildContext;
use crate::sandbox::Invocation;
use crate::{BuildError, Result, disk, fingerprint};

/// Which inputs the packages in the store were built from.
const ATTEMPT: &str = "attempt";
/// Says that all sources were there.
const FETCHED: &str = "fetched";
/// What EasyBuild keeps of an installation.
const NOTES: &str = "easybuild";
const SOFTWARE: &str = "software";
const MODULES: &str = "modules/all";

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

/// Prepares a step. Packages of a build that was killed stay, unless something else is built now, or the user
/// wants it anew: EasyBuild takes what is installed for done.
pub(super) fn begin(engine: &EasyBuildEngine) -> Result<()> {
    let attempt = engine.layout.work().join(session::WORK).join(ATTEMPT);
    let mut inputs = engine.inputs();
    inputs.insert("easybuild".to_owned(), engine.tool.input.clone());
    let now = fingerprint::digest_of(fingerprint::texts_of(&inputs)).to_string();
    let is_same = fs::read_to_string(&attempt).is_ok_and(|before| before == now);
    if engine.request.part.from.is_some() || !is_same {
        disk::make_empty(&engine.store_here)?;
    }
    session::prepare(engine)?;
    disk::put(&attempt, &now)
}

/// Downloads the sources that no directory has.
pub(super) fn fetch(engine: &EasyBuildEngine, bench: &mut BuildContext<'_>) -> Result<()> {
    begin(engine)?;
    let has_network = engine.request.command_network;
    let mut sandbox = session::sandbox(engine);
    if !has_network {
        sandbox.without_network();
    }
    let planned = order::read(&engine.layout).unwrap_or_default();
    let mut watch = Watch::new(&engine.layout, &planned, Work::Fetch { has_network });
    bench.run_heard(&sandbox, &fetch_invocation(engine), &mut watch)?;
    disk::put(&fetched(engine), "")
}

/// Builds the packages. What a build has finished that was killed stays.
pub(super) fn install(engine: &EasyBuildEngine, bench: &mut BuildContext<'_>) -> Result<()> {
    begin(engine)?;
    let mut sandbox = session::sandbox(engine);
    sandbox.without_network();
    let planned = order::read(&engine.layout).unwrap_or_default();
    let mut watch = Watch::new(&engine.layout, &planned, Work::Install);
    watch.take_installed(&engine.store_here.join(MODULES), bench.progress);
    bench.run_heard(&sandbox, &invocation(engine), &mut watch)?;
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
