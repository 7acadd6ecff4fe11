// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Writing the lock file of a recipe: `requirements.lock`, or the `uv.lock` of a project.

use std::path::{Path, PathBuf};

use cabane_label::{escape, shown, shown_word};
use cabane_recipe::{nearest, python_name};
use cabane_report::{Kind, Report};

use super::PythonEngine;
use super::lock::{How, NEW, PROJECT, UV_LOCK, is_outdated, prepare};
use super::written_lock::{self, Origin};
use crate::build_context::BuildContext;
use crate::layout::Inside;
use crate::lock_packages::{LockWish, Locked, Versions, changes};
use crate::sandbox::{Invocation, Sandbox};
use crate::{BuildError, Result, disk};

/// Resolves the packages of a recipe, or checks its lock file. Nothing in the recipe changes.
pub(super) fn lock(
    engine: &PythonEngine,
    bench: &mut BuildContext<'_>,
    wish: &LockWish,
) -> Result<Locked> {
    match &engine.source.how {
        How::Copy(path) => has_hashes(engine, path, wish),
        How::Compile(path) => Requirements::new(engine, path).lock(bench, wish),
        How::Export(directory) | How::CompileProject(directory) => {
            lock_project(engine, bench, directory, wish)
        }
    }
}

/// Requirements that have all their hashes are a lock file.
fn has_hashes(engine: &PythonEngine, path: &Path, wish: &LockWish) -> Result<Locked> {
    let file = engine.recipe_dir.path.join(path);
    let versions = written_lock::versions(&disk::read_text(&file)?)?;
    if *wish == LockWish::Check {
        return Ok(unchanged(file, &versions));
    }
    let name = escape(&path.to_string_lossy()).to_string();
    let (message, hint) = if versions.is_empty() {
        (format!("{name} lists no packages"), "`cabane add numpy` adds one")
    } else {
        (
            format!("{name} is a lock file: it has the hash of each package"),
            "list the packages in a file without hashes, and name it in config.yaml",
        )
    };
    Err(Report::new(Kind::Build, message).hinted(hint.to_owned()).into())
}

fn unchanged(file: PathBuf, versions: &Versions) -> Locked {
    Locked::unchanged(file, versions.len())
}

/// Requirements and the lock file beside them.
struct Requirements<'a> {
    engine: &'a PythonEngine,
    origin: Origin<'a>,
    file: PathBuf,
}

impl<'a> Requirements<'a> {
    fn new(engine: &'a PythonEngine, path: &'a Path) -> Self {
        let file = engine.recipe_dir.path.join(written_lock::path_for(path));
        let origin = engine.source.origin(path, &engine.interpreter.version);
        Self { engine, origin, file }
    }

    fn lock(&self, bench: &mut BuildContext<'_>, wish: &LockWish) -> Result<Locked> {
        let before = self.before()?;
        let versions = written_lock::versions(before.as_deref().unwrap_or_default())?;
        let options = options(wish, before.as_ref().map(|_| &versions), &self.file)?;
        if *wish == LockWish::Check {
            let mismatch = match &before {
                Some(text) => self.origin.mismatch(text)?,
                None => Some(format!("there is no {}", file_name(&self.file))),
            };
            return Ok(Locked { mismatch, ..unchanged(self.file.clone(), &versions) });
        }
        let text = self.origin.text(&self.resolve(bench, before.as_deref(), &options)?);
        let now = written_lock::versions(&text)?;
        Ok(Locked {
            packages: now.len(),
            changes: changes(&versions, &now),
            is_changed: before.as_ref() != Some(&text),
            text: Some(text),
            ..Locked::unchanged(self.file.clone(), 0)
        })
    }

    /// Returns the text of the lock file that is there.
    fn before(&self) -> Result<Option<String>> {
        if self.file.symlink_metadata().is_err() {
            return Ok(None);
        }
        if written_lock::is_one(&self.file) {
            return disk::read_text(&self.file).map(Some);
        }
        let message = format!("{} was not written by `cabane lock`", shown(&self.file));
        let hint = "rename or remove it; builds do not read it".to_owned();
        Err(Report::new(Kind::Build, message).hinted(hint).into())
    }

    /// Returns the packages with their hashes.
    fn resolve(
        &self,
        bench: &mut BuildContext<'_>,
        before: Option<&str>,
        options: &[String],
    ) -> Result<String> {
        let (sandbox, tools) = prepare(self.engine, bench)?;
        let new = bench.layout.work().join(NEW);
        if let Some(before) = before {
            // `uv` keeps what stands there.
            disk::put(&new, written_lock::packages(before))?;
        }
        self.engine.uv.provide(bench, &sandbox, &self.engine.interpreter)?;
        if let Some(command) = self.engine.source.resolution(&tools) {
            bench.run(&sandbox, &command.with(options))?;
        }
        let text = disk::read_text(&new)?;
        Ok(text.replace(&format!("{}/lock/", Inside::WORK), ""))
    }
}

/// Returns the options with which `uv` resolves anew. `versions` are those of the lock file, if there is one.
fn options(wish: &LockWish, versions: Option<&Versions>, file: &Path) -> Result<Vec<String>> {
    let LockWish::Newest(packages) = wish else { return Ok(Vec::new()) };
    let Some(versions) = versions else {
        let message = format!("there is no {} to update", file_name(file));
        let hint = "`cabane lock` writes one; without it, each build takes the newest versions";
        return Err(Report::new(Kind::NotFound, message).hinted(hint.to_owned()).into());
    };
    if packages.is_empty() {
        return Ok(vec!["--upgrade".to_owned()]);
    }
    let mut options = Vec::new();
    for package in packages {
        let name = python_name(package);
        if !versions.contains_key(&name) {
            return Err(not_locked(package, versions, file));
        }
        options.extend(["--upgrade-package".to_owned(), name]);
    }
    Ok(options)
}

fn not_locked(package: &str, versions: &Versions, file: &Path) -> BuildError {
    let names: Vec<&str> = versions.keys().map(String::as_str).collect();
    let message = format!("{} has no package `{}`", file_name(file), escape(package));
    let hint = match nearest(package, &names) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("`cabane add {}` adds it to the recipe", shown_word(package)),
    };
    Report::new(Kind::NotFound, message).hinted(hint).into()
}

fn file_name(path: &Path) -> String {
    escape(&path.file_name().unwrap_or_default().to_string_lossy()).to_string()
}

/// Lets `uv` lock a copy of a project.
fn lock_project(
    engine: &PythonEngine,
    bench: &mut BuildContext<'_>,
    directory: &Path,
    wish: &LockWish,
) -> Result<Locked> {
    let file = directory.join(UV_LOCK);
    let before = file.exists().then(|| disk::read_text(&file)).transpose()?;
    let versions = before.as_deref().map(written_lock::versions_of_uv_lock);
    let more = options(wish, versions.as_ref(), &file)?;
    let versions = versions.unwrap_or_default();
    if *wish == LockWish::Check && before.is_none() {
        let mismatch = Some(format!("there is no {UV_LOCK}"));
        return Ok(Locked { mismatch, ..unchanged(file, &versions) });
    }
    let (mut sandbox, tools) = prepare(engine, bench)?;
    let copy = bench.layout.work().join("project");
    show_project(&mut sandbox, directory, &copy)?;
    if let Some(text) = &before {
        disk::put(&copy.join(UV_LOCK), text)?;
    }
    engine.uv.provide(bench, &sandbox, &engine.interpreter)?;
    let check: &[&str] = if *wish == LockWish::Check { &["--check"] } else { &[] };
    let command: Invocation = tools
        .uv(PROJECT)
        .with(["lock", "--quiet", "--python"])
        .with([&tools.interpreter])
        .with(check)
        .with(more);
    match bench.run(&sandbox, &command) {
        Err(error) if *wish == LockWish::Check && is_outdated(&error) => {
            let mismatch = Some("it no longer matches pyproject.toml".to_owned());
            return Ok(Locked { mismatch, ..unchanged(file, &versions) });
        }
        ran => ran?,
    }
    let text = disk::read_text(&copy.join(UV_LOCK))?;
    let now = written_lock::versions_of_uv_lock(&text);
    Ok(Locked {
        packages: now.len(),
        changes: changes(&versions, &now),
        is_changed: before.as_ref() != Some(&text),
        text: Some(text),
        ..Locked::unchanged(file, 0)
    })
}

/// Shows what is in a project, read-only, in a directory that can be written to: `uv` writes the lock file
/// under another name and renames it.
fn show_project(sandbox: &mut Sandbox, project: &Path, copy: &Path) -> Result<()> {
    disk::make_empty(copy)?;
    sandbox.bind(copy, PROJECT, false);
    for entry in disk::entries("list", project)? {
        let (name, path) = (entry.file_name(), entry.path());
        // What is no file and no directory, such as a link to nothing, is of no use there.
        if name == UV_LOCK || !path.is_dir() && !path.is_file() {
            continue;
        }
        if path.is_dir() {
            disk::make_directory(&copy.join(&name))?;
        } else {
            disk::put(&copy.join(&name), "")?;
        }
        sandbox.bind(path, Path::new(PROJECT).join(name), true);
    }
    Ok(())
}
