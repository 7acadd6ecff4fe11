// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Running EasyBuild: its sandbox, its variables, its commands.

use std::path::{Path, PathBuf};

use cabane_view::ProcessorNeed;

use super::EasyBuildEngine;
use crate::layout::Inside;
use crate::sandbox::{Invocation, Sandbox};
use crate::{Result, disk};

/// What the steps leave, in the work directory.
pub(super) const WORK: &str = "easybuild";
/// The easyconfigs that EasyBuild brings, below its prefix.
pub(super) const EASYCONFIGS: &str = "easybuild/easyconfigs";
/// What was downloaded, below the cache.
pub(super) const DOWNLOADS: &str = "easybuild/sources";
/// Where directories with sources are in the sandbox.
const SOURCES: &str = "/cabane/sources";
/// Where packages are built: object files may contain the path.
const BUILD: &str = "/tmp/easybuild";
pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
/// The file of Lmod behind `module`.
const LMOD: &str = "lmod";

/// Makes the sandbox in which EasyBuild is installed.
pub(super) fn sandbox_of_tool(engine: &EasyBuildEngine) -> Sandbox {
    let mut sandbox = Sandbox::new(&engine.request, &engine.layout);
    engine.tool.show(&mut sandbox);
    sandbox.bind(engine.layout.work(), Inside::WORK, false);
    sandbox.bind(&engine.request.cache_dir, Inside::CACHE, false);
    let settings = [
        ("UV_CACHE_DIR", Inside::UV_CACHE),
        ("UV_NO_CONFIG", "1"),
        ("UV_NO_PROGRESS", "1"),
        ("UV_PYTHON_DOWNLOADS", "never"),
        ("UV_SYSTEM_CERTS", "1"),
    ];
    for (variable, value) in settings {
        sandbox.set(variable, value);
    }
    sandbox
}

/// Makes the sandbox in which EasyBuild works. The tree is at the mount point.
pub(super) fn sandbox(engine: &EasyBuildEngine) -> Sandbox {
    sandbox_with(engine, &engine.store_here)
}

/// Makes this sandbox with another directory at the mount point.
pub(super) fn sandbox_with(engine: &EasyBuildEngine, store: &Path) -> Sandbox {
    let mut sandbox = Sandbox::new(&engine.request, &engine.layout);
    engine.tool.show(&mut sandbox);
    // Both kinds of module commands read files that are beside their programs.
    if let Some(beside) = engine.command.parent().and_then(Path::parent) {
        sandbox.keep(beside);
    }
    sandbox.bind(&engine.recipe_dir.path, Inside::RECIPE, true);
    sandbox.bind(engine.layout.work(), Inside::WORK, false);
    sandbox.bind(engine.downloads(), Path::new(Inside::CACHE).join(DOWNLOADS), false);
    for (index, directory) in engine.sources.iter().enumerate() {
        sandbox.bind(directory, source(index), true);
    }
    sandbox.bind(store, &engine.store, false);
    let work = Inside::work(WORK);
    let variable = if is_lmod(engine) { "LMOD_CMD" } else { "MODULES_CMD" };
    sandbox.set(variable, &engine.command);
    sandbox.set("PATH", format!("{}:{PATH}", work.join("bin").display()));
    sandbox.set("USER", "builder");
    sandbox.set("LOGNAME", "builder");
    // Settings of the machine and of the user decide nothing.
    sandbox.set("XDG_CONFIG_DIRS", work.join("none"));
    sandbox
}

fn is_lmod(engine: &EasyBuildEngine) -> bool {
    engine.command.file_name().is_some_and(|name| name == LMOD)
}

/// What EasyBuild calls the module command.
pub(super) fn modules_tool(engine: &EasyBuildEngine) -> &'static str {
    if is_lmod(engine) { "Lmod" } else { "EnvironmentModules" }
}

fn source(index: usize) -> PathBuf {
    Path::new(SOURCES).join(index.to_string())
}

/// Writes what commands find in the work directory: `eb` looks for its own files beside itself.
pub(super) fn prepare(engine: &EasyBuildEngine) -> Result<()> {
    let work = engine.layout.work().join(WORK);
    let python = engine.tool.python();
    let script = format!("#!/bin/sh\nexec '{}' -u -I -m easybuild.main \"$@\"\n", python.display());
    disk::make_directory(&work.join("bin"))?;
    disk::put_executable(&work.join("bin/eb"), &script)?;
    let own = work.join("easybuild");
    disk::remove(&own)?;
    std::os::unix::fs::symlink(engine.tool.prefix().join("easybuild"), &own)
        .map_err(crate::BuildError::file("make", &own))?;
    disk::make_directory(&engine.store_here)?;
    disk::make_directory(&engine.downloads())
}

/// A command of EasyBuild for all easyconfigs of the recipe.
pub(super) fn eb(engine: &EasyBuildEngine, mode: &[&str]) -> Invocation {
    let work = Inside::work(WORK);
    let own = engine.tool.prefix().join(EASYCONFIGS);
    let downloads = Path::new(Inside::CACHE).join(DOWNLOADS);
    let sources = (0..engine.sources.len()).map(source);
    let sources: Vec<_> = std::iter::once(downloads).chain(sources).map(text).collect();
    let mut settings = vec![
        "--allow-use-as-root-and-accept-consequences".to_owned(),
        "--color=never".to_owned(),
        "--enforce-checksums".to_owned(),
        "--ignore-locks".to_owned(),
        format!("--prefix={}", text(work.join("prefix"))),
        format!("--installpath={}", text(&engine.store)),
        format!("--buildpath={BUILD}"),
        format!("--sourcepath={}", sources.join(":")),
        format!("--robot-paths={}:{}", Inside::RECIPE, text(own)),
        format!("--modules-tool={}", modules_tool(engine)),
        // What both module commands read.
        "--module-syntax=Tcl".to_owned(),
        "--disable-module-depends-on".to_owned(),
        // It contains variables of the build.
        "--disable-generate-devel-module".to_owned(),
    ];
    if engine.optimization != ProcessorNeed::NATIVE {
        settings.push(format!("--optarch={}", engine.optimization));
    }
    settings.extend(engine.own_code.options());
    let requested = engine.requested.iter().map(|one| {
        if one.is_of_recipe { Path::new(Inside::RECIPE).join(&one.path) } else { one.path.clone() }
    });
    let program = work.join("bin/eb");
    let mut invocation =
        Invocation::new(program, &work).with(mode).with(requested).with(["--robot"]);
    // They are the same in all builds.
    invocation.speed = settings.into_iter().map(Into::into).collect();
    invocation.speed.push(format!("--parallel={}", engine.request.jobs).into());
    invocation
}

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().to_string_lossy().into_owned()
}
