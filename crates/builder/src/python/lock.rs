// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The step `lock`: from what is requested to exact versions with hashes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cabane_label::{escape, shown_word};
use cabane_recipe::{PythonConfig, PythonSource};
use cabane_report::{Kind as FailureKind, Report};

use crate::build_context::BuildContext;
use crate::engine::{Kind, RecipeDir};
use crate::fingerprint::{self, Inputs};
use crate::layout::{Inside, Layout};
use crate::python::requirements::Requirements;
use crate::python::written_lock::{self, Origin};
use crate::python::{PythonEngine, Tools};
use crate::sandbox::{Invocation, Sandbox};
use crate::{BuildError, Result, disk};

/// Where a project outside of the recipe appears in the sandbox.
pub(super) const PROJECT: &str = "/cabane/project";

/// The settings of `uv` that a project may have for itself.
const PYPROJECT: &str = "pyproject.toml";
pub(super) const UV_LOCK: &str = "uv.lock";

/// What is to be locked.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) how: How,
    /// The lock file beside the requirements, by its path in the recipe, if `cabane lock` has written one.
    pub(super) lock: Option<PathBuf>,
    /// What the requirements say.
    lines: BTreeSet<String>,
    /// Wheels that are installed as well, by their path in the recipe.
    wheels: BTreeMap<PathBuf, PathBuf>,
    /// What decides about the result, by the name that the user knows.
    files: BTreeMap<String, PathBuf>,
    /// What the recipe names.
    named: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The requirements have all their hashes.
    Copy(PathBuf),
    /// Requirements in the recipe.
    Compile(PathBuf),
    /// A project, with its lock file.
    Export(PathBuf),
    /// A project without one.
    CompileProject(PathBuf),
}

impl Source {
    /// Finds the files, and looks into them as far as needed.
    pub(super) fn find(recipe: &RecipeDir, config: &PythonConfig) -> Result<Self> {
        let mut files = BTreeMap::new();
        let mut lines = BTreeSet::new();
        let mut lock = None;
        let how = match &config.source {
            PythonSource::Requirements(path) => {
                let requirements = Requirements::read(recipe, path)?;
                for (relative, real) in requirements.files {
                    files.insert(relative.to_string_lossy().into_owned(), real);
                }
                lines = requirements.lines;
                if requirements.locked {
                    How::Copy(requirements.path)
                } else {
                    let beside = written_lock::path_for(path);
                    let is_one = written_lock::is_one(&recipe.path.join(&beside));
                    lock = is_one.then_some(beside);
                    How::Compile(requirements.path)
                }
            }
            PythonSource::Project(path) => find_project(recipe, path, &mut files)?,
        };
        let mut named: Vec<PathBuf> = files.values().cloned().collect();
        if let Some(lock) = &lock {
            // From what it was made is compared before the build.
            let real = recipe.find_inside(lock, Kind::File)?;
            files = BTreeMap::from([(lock.to_string_lossy().into_owned(), real.clone())]);
            named.push(real);
        }
        let mut wheels = BTreeMap::new();
        for path in &config.wheels {
            let real = recipe.find_inside(path, Kind::File)?;
            files.insert(path.to_string_lossy().into_owned(), real.clone());
            named.push(real.clone());
            wheels.insert(path.clone(), real);
        }
        Ok(Self { how, lock, lines, wheels, files, named })
    }

    /// From what the lock file of the requirements is made.
    pub(super) fn origin<'a>(&'a self, requirements: &'a Path, python: &'a str) -> Origin<'a> {
        Origin { requirements, lines: &self.lines, wheels: &self.wheels, python }
    }

    /// The directory of the project, if that is what is installed.
    pub(super) fn project(&self) -> Option<&Path> {
        match &self.how {
            How::Export(directory) | How::CompileProject(directory) => Some(directory),
            How::Copy(_) | How::Compile(_) => None,
        }
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.named.iter()
    }

    /// Returns the digest of every file that decides about the result.
    pub(super) fn inputs(&self) -> Result<Inputs> {
        let digest = |(name, path): (&String, &PathBuf)| {
            let digest = fingerprint::of_file(path).map_err(BuildError::file("read", path))?;
            Ok((name.clone(), digest.to_string()))
        };
        self.files.iter().map(digest).collect()
    }

    pub(super) fn what(&self) -> &'static str {
        match self.how {
            _ if self.lock.is_some() => "take over the lock file of the requirements",
            How::Copy(_) => "take over the locked requirements",
            How::Export(_) => "take over the lock file of the project",
            How::Compile(_) | How::CompileProject(_) => {
                "resolve the requirements and record their hashes"
            }
        }
    }

    /// Prepares the command of the step, if one is needed.
    pub(super) fn invocation(&self, tools: &Tools) -> Option<Invocation> {
        if self.lock.is_some() { None } else { self.resolution(tools) }
    }

    /// Prepares the command that resolves the packages, whether there is a lock file or not.
    pub(super) fn resolution(&self, tools: &Tools) -> Option<Invocation> {
        let output = Inside::work(NEW);
        let mut invocation = match &self.how {
            How::Copy(_) => return None,
            How::Compile(path) => tools
                .uv(Inside::RECIPE)
                .with(["pip", "compile", "--quiet"])
                .with([Path::new(&format!("./{}", path.display()))]),
            How::CompileProject(_) => {
                tools.uv(PROJECT).with(["pip", "compile", "--quiet", PYPROJECT])
            }
            How::Export(_) => {
                // A lock file that no longer fits its project is an error.
                let options = ["--locked", "--no-dev", "--no-emit-project", "--no-header"];
                tools
                    .uv(PROJECT)
                    .with(["export", "--quiet", "--format", "requirements.txt"])
                    .with(options)
            }
        };
        if self.resolves_wheels() {
            if !self.wheels.is_empty() {
                invocation = invocation.with([Inside::work(WHEELS)]);
            }
            invocation = invocation.with(["--generate-hashes", "--no-header"]);
        }
        Some(
            invocation
                .with(["--python".as_ref(), tools.interpreter.as_os_str()])
                .with(["--output-file".as_ref(), output.as_os_str()]),
        )
    }

    /// Whether the wheels are resolved together with the requirements. Otherwise
    /// the lock file is complete but for the wheels themselves.
    /// They are in a lock file, too.
    fn resolves_wheels(&self) -> bool {
        matches!(self.how, How::Compile(_) | How::CompileProject(_))
    }
}

fn find_project(
    recipe: &RecipeDir,
    path: &Path,
    files: &mut BTreeMap<String, PathBuf>,
) -> Result<How> {
    let directory = recipe.find(path, Kind::Directory)?;
    let pyproject = recipe.find(&path.join(PYPROJECT), Kind::File)?;
    files.insert(PYPROJECT.to_owned(), pyproject);
    match recipe.find(&path.join(UV_LOCK), Kind::File) {
        Ok(lock) => {
            files.insert(UV_LOCK.to_owned(), lock);
            Ok(How::Export(directory))
        }
        Err(_) => Ok(How::CompileProject(directory)),
    }
}

/// The lock file, and the files from which it comes, in the work directory.
pub(super) const LOCK: &str = "lock/requirements.txt";
pub(super) const NEW: &str = "lock/requirements.new";
const WHEELS: &str = "lock/wheels.in";

/// Returns where the lock file is.
pub(super) fn path(layout: &Layout) -> PathBuf {
    layout.work().join(LOCK)
}

/// Writes the lock file.
pub(super) fn execute(engine: &PythonEngine, bench: &mut BuildContext<'_>) -> Result<()> {
    let source = &engine.source;
    let (sandbox, tools) = prepare(engine, bench)?;
    let work = bench.layout.work();
    if let Some(invocation) = source.invocation(&tools) {
        engine.uv.provide(bench, &sandbox, &engine.interpreter)?;
        let ran = bench.run(&sandbox, &invocation);
        ran.map_err(|error| match &source.how {
            How::Export(_) if is_outdated(&error) => no_match(engine, UV_LOCK, PYPROJECT, None),
            _ => error,
        })?;
    }
    let written = match (&source.how, &source.lock) {
        (_, Some(lock)) | (How::Copy(lock), _) => engine.recipe_dir.path.join(lock),
        _ => work.join(NEW),
    };
    let mut text = disk::read_text(&written)?;
    if !source.resolves_wheels() {
        text = add_wheels(text, &source.wheels)?;
    }
    disk::write(&path(bench.layout), text.as_bytes())
}

/// Prepares the directory of the lock file, and the sandbox in which packages are resolved.
pub(super) fn prepare(engine: &PythonEngine, bench: &BuildContext<'_>) -> Result<(Sandbox, Tools)> {
    let source = &engine.source;
    let work = bench.layout.work();
    disk::make_empty(&work.join("lock"))?;
    let wheels: Vec<_> = source.wheels.keys().map(|path| in_recipe(path)).collect();
    disk::put(&work.join(WHEELS), wheels.join("\n") + "\n")?;
    let (mut sandbox, tools) = engine.sandbox(bench.request);
    if let Some(project) = source.project() {
        sandbox.bind(project, PROJECT, true);
        // The project says for itself where its packages come from.
        sandbox.unset("UV_NO_CONFIG");
        sandbox.hide("/etc/uv");
    }
    Ok((sandbox, tools))
}

/// Whether `uv` says that the lock file of a project does not match the project.
pub(super) fn is_outdated(error: &BuildError) -> bool {
    let BuildError::StepFailed(failure) = error else { return false };
    failure.tail.iter().any(|line| line.contains("needs to be updated"))
}

/// Fails if the lock file beside the requirements does not match them.
pub(super) fn check(engine: &PythonEngine) -> Result<()> {
    let source = &engine.source;
    let (Some(lock), How::Compile(requirements)) = (&source.lock, &source.how) else {
        return Ok(());
    };
    let text = disk::read_text(&engine.recipe_dir.path.join(lock))?;
    let origin = source.origin(requirements, &engine.interpreter.version);
    let (lock, requirements) = (lock.to_string_lossy(), requirements.to_string_lossy());
    match origin.mismatch(&text)? {
        None => Ok(()),
        Some(why) => Err(no_match(engine, &lock, &requirements, Some(&why))),
    }
}

fn no_match(engine: &PythonEngine, lock: &str, source: &str, why: Option<&str>) -> BuildError {
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    let message = format!("{} no longer matches {}{why}", escape(lock), escape(source));
    let hint =
        format!("`cabane lock --recipe {}` writes it again", shown_word(&engine.recipe_dir.path));
    Report::new(FailureKind::Build, message).hinted(hint).into()
}

/// Adds the wheels with the hashes that they have now.
fn add_wheels(mut text: String, wheels: &BTreeMap<PathBuf, PathBuf>) -> Result<String> {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for (relative, path) in wheels {
        let digest = fingerprint::of_file(path).map_err(BuildError::file("read", path))?;
        let line = format!("{} \\\n    --hash=sha256:{digest}\n", in_recipe(relative));
        text.push_str(&line);
    }
    Ok(text)
}

/// A path in the recipe as requirements name it.
fn in_recipe(relative: &Path) -> String {
    format!("./{}", relative.display())
}
