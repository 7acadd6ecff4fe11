// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The steps `install` and `bytecode`: from the lock file to an environment.

use std::fs;
use std::path::{Path, PathBuf};

use crate::build_context::BuildContext;
use crate::layout::Inside;
use crate::pack::META;
use crate::python::watch::Watch;
use crate::python::{PythonEngine, Tools, lock};
use crate::sandbox::Invocation;
use crate::{BuildError, Result, disk};

/// Compiles modules; runs with the interpreter of the image.
pub(super) const COMPILE: &str = include_str!("compile.py");
const COMPILER: &str = "compile.py";

/// What `uv` remembers about a local wheel: among others, when it was made.
const UV_CACHE: &str = "uv_cache.json";
const OF_UV_CACHE: &str = ".dist-info/uv_cache.json,";

/// The commands that make the environment and fill it.
pub(super) fn invocations(engine: &PythonEngine, tools: &Tools) -> [Invocation; 2] {
    let create = tools
        .uv(Inside::RECIPE)
        .with(["venv", "--no-project", "--prompt", &engine.name])
        .with(["--python".as_ref(), tools.interpreter.as_os_str()])
        .with([&engine.environment]);
    let fill = tools
        .uv(Inside::RECIPE)
        .with(["pip", "install", "--require-hashes", "--python"])
        .with([engine.environment.join("bin/python")])
        .with(["--requirements".into(), Inside::work(lock::LOCK)]);
    [create, fill]
}

/// Makes the environment anew.
pub(super) fn execute(engine: &PythonEngine, bench: &mut BuildContext<'_>) -> Result<()> {
    disk::make_empty(&engine.store_here)?;
    // Where the metadata appears when the tree is packed.
    disk::make_directory(&engine.store_here.join(META))?;
    let (mut sandbox, tools) = engine.sandbox(bench.request);
    sandbox.bind(&engine.store_here, &engine.store, false);
    let [create, fill] = invocations(engine, &tools);
    engine.uv.provide(bench, &sandbox, &engine.interpreter)?;
    bench.run(&sandbox, &create)?;
    let lock = disk::read_text(&lock::path(bench.layout))?;
    if has_requirements(&lock) {
        bench.run_heard(&sandbox, &fill, &mut Watch::new(&lock))?;
    }
    clean(&engine.environment_here())
}

fn has_requirements(text: &str) -> bool {
    let is_empty = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    !text.lines().all(is_empty)
}

/// Compiles the modules. What an attempt that was killed left behind goes first.
pub(super) fn compile(engine: &PythonEngine, bench: &mut BuildContext<'_>) -> Result<()> {
    let library = engine.environment_here().join("lib");
    for directory in directories_below(&library)? {
        if directory.ends_with("__pycache__") {
            disk::remove(&directory)?;
        }
    }
    let script = bench.layout.work().join(COMPILER);
    disk::put(&script, COMPILE)?;
    let (mut sandbox, _) = engine.sandbox(bench.request);
    sandbox.bind(&engine.store_here, &engine.store, false);
    bench.run(&sandbox, &compiler(engine))
}

/// The command that compiles the modules.
pub(super) fn compiler(engine: &PythonEngine) -> Invocation {
    let mut invocation = Invocation::new(engine.environment.join("bin/python"), "/")
        .with(["-I", "-S"])
        .with([Inside::work(COMPILER), engine.environment.join("lib")]);
    invocation.speed = vec![engine.request.jobs.to_string().into()];
    invocation
}

/// Removes what differs from one installation, or one version of `uv`, to the next.
fn clean(environment: &Path) -> Result<()> {
    disk::remove(&environment.join(".lock"))?;
    keep_lines(&environment.join("pyvenv.cfg"), |line| !line.starts_with("uv = "))?;
    for directory in directories_below(&environment.join("lib"))? {
        let cache = directory.join(UV_CACHE);
        if directory.extension().is_some_and(|name| name == "dist-info") && cache.exists() {
            disk::remove(&cache)?;
            keep_lines(&directory.join("RECORD"), |line| !line.contains(OF_UV_CACHE))?;
        }
    }
    Ok(())
}

/// Removes the other lines of a file.
fn keep_lines(path: &Path, is_kept: impl Fn(&str) -> bool) -> Result<()> {
    let failed = || BuildError::file("change", path);
    let text = fs::read_to_string(path).map_err(failed())?;
    let kept: Vec<_> = text.split_inclusive('\n').filter(|line| is_kept(line)).collect();
    fs::write(path, kept.concat()).map_err(failed())
}

/// Lists all directories below one, deepest last; links are not followed.
fn directories_below(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![root.to_owned()];
    let mut next = 0;
    while let Some(directory) = found.get(next).cloned() {
        next += 1;
        for entry in disk::entries("list", &directory)? {
            let kind = entry.file_type().map_err(BuildError::file("list", &directory))?;
            if kind.is_dir() {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}
