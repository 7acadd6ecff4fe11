// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! EasyBuild itself: the one of the site, or an environment of Python in the cache. Its version is that of the
//! recipe, since another version builds other files.

use std::path::{Path, PathBuf};

use cabane_label::{escape, shown};
use cabane_recipe::{EasyBuildConfig, InterpreterRequest};
use cabane_report::{Kind, Report};

use crate::build_context::BuildContext;
use crate::engine::{Kind as FileKind, RecipeDir};
use crate::python::{ToolEnvironment, Uv, find_interpreter};
use crate::sandbox::{Invocation, Sandbox};
use crate::{BuildError, BuildRequest, Result, disk, program};

/// The version whose packages are known with their hashes.
const KNOWN: &str = "5.4.1";
const REQUIREMENTS: &str = include_str!("requirements.txt");
/// The environments, below the cache.
const DIRECTORY: &str = "easybuild/python";
/// Prints the version of EasyBuild.
const QUESTION: &str = "from easybuild.tools.version import VERSION; print(VERSION)";
/// The most that is read of a list of packages, in bytes.
const MOST: u64 = 1 << 20;

/// A Python that has EasyBuild.
#[derive(Clone, Debug)]
pub(super) struct Tool {
    pub(super) version: String,
    /// What decides about it.
    pub(super) input: String,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    /// The Python that the site names.
    Named(PathBuf),
    /// An environment that is made.
    Made(Box<ToolEnvironment>),
}

impl Tool {
    /// Finds the EasyBuild of the recipe.
    pub(super) fn find(
        request: &BuildRequest,
        config: &EasyBuildConfig,
        directory: &RecipeDir,
    ) -> Result<Self> {
        let version = config.version.clone();
        if let Some(python) = &request.programs.easybuild_python {
            check_version(python, &version)?;
            let input = version.clone();
            return Ok(Self { version, input, place: Place::Named(python.clone()) });
        }
        let requirements = match &config.requirements {
            Some(path) => {
                own_requirements(&directory.find_inside(path, FileKind::File)?, &version)?
            }
            None if version == KNOWN => REQUIREMENTS.to_owned(),
            None => return Err(unknown(&version)),
        };
        let interpreter = find_interpreter(request, &InterpreterRequest::Any)?;
        let made = (Uv::find(request)?, request.cache_dir.clone(), interpreter);
        let environment = ToolEnvironment::new(DIRECTORY, made, &requirements).without_wheels();
        let input = format!("{version}, {}", environment.input());
        Ok(Self { version, input, place: Place::Made(Box::new(environment)) })
    }

    /// Whether it is there.
    pub(super) fn exists(&self) -> bool {
        match &self.place {
            Place::Named(python) => python.exists(),
            Place::Made(environment) => environment.exists(),
        }
    }

    /// Where it is in the sandbox: the directory with `bin/python3`, and with what EasyBuild brings.
    pub(super) fn prefix(&self) -> PathBuf {
        match &self.place {
            Place::Named(python) => prefix_of(python),
            Place::Made(environment) => environment.inside(),
        }
    }

    /// The interpreter in the sandbox.
    pub(super) fn python(&self) -> PathBuf {
        match &self.place {
            Place::Named(python) => python.clone(),
            Place::Made(environment) => environment.inside().join("bin/python3"),
        }
    }

    /// The same interpreter outside of the sandbox, perhaps without EasyBuild.
    pub(super) fn python_here(&self) -> PathBuf {
        match &self.place {
            Place::Named(python) => python.clone(),
            Place::Made(environment) => environment.interpreter.path.clone(),
        }
    }

    /// Shows it in a sandbox.
    pub(super) fn show(&self, sandbox: &mut Sandbox) {
        match &self.place {
            Place::Named(python) => sandbox.keep(&prefix_of(python)),
            Place::Made(environment) => {
                sandbox.keep(&environment.interpreter.prefix);
                if environment.exists() {
                    sandbox.bind(environment.here(), environment.inside(), true);
                }
            }
        }
    }

    /// Returns what must not disappear behind the mount point.
    pub(super) fn needs_visible(&self) -> Vec<PathBuf> {
        match &self.place {
            Place::Named(python) => vec![prefix_of(python)],
            Place::Made(environment) => {
                let interpreter = &environment.interpreter;
                vec![interpreter.path.clone(), interpreter.prefix.clone()]
            }
        }
    }

    /// Returns the commands that make it.
    pub(super) fn invocations(&self) -> Vec<Invocation> {
        match &self.place {
            Place::Named(_) => Vec::new(),
            Place::Made(environment) => environment.invocations(Path::new("uv")).to_vec(),
        }
    }

    /// Makes it, unless it is there.
    pub(super) fn make(&self, sandbox: Sandbox, bench: &mut BuildContext<'_>) -> Result<()> {
        match &self.place {
            Place::Named(_) => Ok(()),
            Place::Made(environment) => environment.execute(sandbox, bench),
        }
    }

    /// Whether EasyBuild brings an easyconfig of this name; `None` if it is not there yet.
    pub(super) fn brings(&self, name: &Path) -> Option<bool> {
        let prefix = match &self.place {
            Place::Named(python) => prefix_of(python),
            Place::Made(environment) if environment.exists() => environment.here(),
            Place::Made(_) => return None,
        };
        let all = prefix.join(super::session::EASYCONFIGS);
        Some(has_file(&all, name, 4))
    }
}

/// The directory of an environment, or of an installation.
fn prefix_of(python: &Path) -> PathBuf {
    python.parent().and_then(Path::parent).unwrap_or(python).to_owned()
}

fn has_file(directory: &Path, name: &Path, depth: usize) -> bool {
    if directory.join(name).is_file() {
        return true;
    }
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    depth > 1 && directories.into_iter().any(|entry| has_file(&entry.path(), name, depth - 1))
}

fn check_version(python: &Path, wanted: &str) -> Result<()> {
    let found = program::ask_line(python, Path::new("/"), &["-I", "-c", QUESTION]);
    let found = found.map_err(|error| {
        let message = format!("{} has no EasyBuild: {}", shown(python), escape(&error));
        BuildError::refused(message, "name another Python in CABANE_EASYBUILD_PYTHON")
    })?;
    if found == wanted {
        return Ok(());
    }
    let (python, found) = (shown(python), escape(&found));
    let message = format!("the recipe needs EasyBuild {wanted}, but {python} has {found}");
    let hint =
        format!("write `version: {found}`, or name another Python in CABANE_EASYBUILD_PYTHON");
    Err(Report::new(Kind::Build, message).hinted(hint).into())
}

/// Reads the list of packages of the recipe. It must name the version and hashes.
fn own_requirements(path: &Path, version: &str) -> Result<String> {
    let text = disk::read_start(path, MOST).map_err(BuildError::file("read", path))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let wanted = format!("easybuild-framework=={version}");
    let names_it = |line: &str| {
        let end = line.find([' ', ';', '\\']).unwrap_or(line.len());
        line.get(..end) == Some(wanted.as_str())
    };
    if !text.lines().any(names_it) {
        let message = format!("{} does not name `{wanted}`", shown(path));
        let hint = "make the list again for the version of the recipe, with `uv pip compile --generate-hashes`";
        return Err(BuildError::refused(message, hint));
    }
    Ok(text)
}

fn unknown(version: &str) -> BuildError {
    let message = format!("Cabane does not know the hashes of EasyBuild {version}");
    let hint = format!(
        "write `version: {KNOWN}`, or `requirements: easybuild.txt`, a list that `uv pip compile \
         --generate-hashes` makes of easybuild-framework, easybuild-easyblocks, easybuild-easyconfigs, and setuptools"
    );
    Report::new(Kind::Build, message).hinted(hint).into()
}
