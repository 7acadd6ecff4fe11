// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The step `lock`: from what is requested to exact versions with hashes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cabane_recipe::{PythonConfig, PythonSource};

use crate::build_context::BuildContext;
use crate::engine::{Kind, RecipeDir};
use crate::fingerprint::{self, Inputs};
use crate::layout::{Inside, Layout};
use crate::python::requirements::Requirements;
use crate::python::{PythonEngine, Tools};
use crate::sandbox::Invocation;
use crate::{BuildError, Result, disk};

/// Where a project outside of the recipe appears in the sandbox.
pub(super) const PROJECT: &str = "/cabane/project";

/// The settings of `uv` that a project may have for itself.
const PYPROJECT: &str = "pyproject.toml";
const UV_LOCK: &str = "uv.lock";

/// What is to be locked.
#[derive(Clone, Debug)]
pub(super) struct Source {
    how: How,
    /// Wheels that are installed as well, by their path in the recipe.
    wheels: BTreeMap<PathBuf, PathBuf>,
    /// What decides about the result, by the name that the user knows.
    files: BTreeMap<String, PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum How {
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
        let how = match &config.source {
            PythonSource::Requirements(path) => {
                let requirements = Requirements::read(recipe, path)?;
                for (relative, real) in requirements.files {
                    files.insert(relative.to_string_lossy().into_owned(), real);
                }
                if requirements.locked {
                    How::Copy(requirements.path)
                } else {
                    How::Compile(requirements.path)
                }
            }
            PythonSource::Project(path) => find_project(recipe, path, &mut files)?,
        };
        let mut wheels = BTreeMap::new();
        for path in &config.wheels {
            let real = recipe.find_inside(path, Kind::File)?;
            files.insert(path.to_string_lossy().into_owned(), real.clone());
            wheels.insert(path.clone(), real);
        }
        Ok(Self { how, wheels, files })
    }

    /// The directory of the project, if that is what is installed.
    pub(super) fn project(&self) -> Option<&Path> {
        match &self.how {
            How::Export(directory) | How::CompileProject(directory) => Some(directory),
            How::Copy(_) | How::Compile(_) => None,
        }
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.values()
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
            How::Copy(_) => "take over the locked requirements",
            How::Export(_) => "take over the lock file of the project",
            How::Compile(_) | How::CompileProject(_) => {
                "resolve the requirements and record their hashes"
            }
        }
    }

    /// Prepares the command that writes the lock file, if one is needed.
    pub(super) fn invocation(&self, tools: &Tools) -> Option<Invocation> {
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
const NEW: &str = "lock/requirements.new";
const WHEELS: &str = "lock/wheels.in";

/// Returns where the lock file is.
pub(super) fn path(layout: &Layout) -> PathBuf {
    layout.work().join(LOCK)
}

/// Writes the lock file.
pub(super) fn execute(engine: &PythonEngine, bench: &mut BuildContext<'_>) -> Result<()> {
    let source = &engine.source;
    let work = bench.layout.work();
    disk::make_empty(&work.join("lock"))?;
    let wheels: Vec<_> = source.wheels.keys().map(|path| in_recipe(path)).collect();
    let list = wheels.join("\n") + "\n";
    disk::put(&work.join(WHEELS), list)?;

    let (mut sandbox, tools) = engine.sandbox(bench.request);
    if let Some(project) = source.project() {
        sandbox.bind(project, PROJECT, true);
        // The project says for itself where its packages come from.
        sandbox.unset("UV_NO_CONFIG");
        sandbox.hide("/etc/uv");
    }
    if let Some(invocation) = source.invocation(&tools) {
        engine.uv.provide(bench, &sandbox, &engine.interpreter)?;
        bench.run(&sandbox, &invocation)?;
    }
    let written = match &source.how {
        How::Copy(path) => engine.recipe_dir.path.join(path),
        _ => work.join(NEW),
    };
    let mut text = disk::read_text(&written)?;
    if !source.resolves_wheels() {
        text = add_wheels(text, &source.wheels)?;
    }
    disk::write(&path(bench.layout), text.as_bytes())
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
