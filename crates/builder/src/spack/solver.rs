// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A Python that has Spack's solver, so that Spack never tries to get one itself.
//!
//! The one that the site names, or an environment in the cache: one per interpreter, for
//! all builds, made in the sandbox, where it has the same path as later.

use std::fs;
use std::path::{Path, PathBuf};

use crate::build_context::BuildContext;
use crate::fingerprint::{self, Hash};
use crate::layout::Inside;
use crate::python::Interpreter;
use crate::sandbox::{Invocation, Sandbox};
use crate::turn::Turn;
use crate::{BuildError, Result, disk};

/// What is installed: exact versions with the hashes of their files.
const REQUIREMENTS: &str = include_str!("requirements.txt");

/// The same, and what Spack needs for S3.
const REQUIREMENTS_S3: &str = include_str!("requirements-s3.txt");

/// The environments, below the cache.
const DIRECTORY: &str = "spack/python";

/// A Python that has the solver.
#[derive(Clone, Debug)]
pub(super) enum Solver {
    /// The one that the site names.
    Named(PathBuf),
    /// One that is made.
    Made(Environment),
}

impl Solver {
    /// One that knows S3 as well. Its author sees to that.
    pub(super) fn with_s3(&self) -> Self {
        match self {
            Self::Named(path) => Self::Named(path.clone()),
            Self::Made(one) => Self::Made(one.holding(REQUIREMENTS_S3)),
        }
    }

    /// What decides about it.
    pub(super) fn input(&self) -> String {
        match self {
            Self::Named(path) => path.display().to_string(),
            Self::Made(environment) => environment.input(),
        }
    }

    /// Returns where the interpreter is in the sandbox.
    pub(super) fn program(&self) -> PathBuf {
        match self {
            Self::Named(path) => path.clone(),
            Self::Made(environment) => environment.program(),
        }
    }

    /// Makes what it needs visible.
    pub(super) fn show_in(&self, sandbox: &mut Sandbox) {
        match self {
            Self::Named(path) => {
                // The directory of an environment, or of an installation.
                let prefix = path.parent().and_then(Path::parent).unwrap_or(path);
                sandbox.keep(prefix);
            }
            Self::Made(environment) => {
                sandbox.keep(&environment.interpreter.prefix);
            }
        }
    }

    /// Whether it is there.
    pub(super) fn exists(&self) -> bool {
        match self {
            Self::Named(path) => path.exists(),
            Self::Made(environment) => environment.exists(),
        }
    }

    /// Returns the commands that make it.
    pub(super) fn invocations(&self) -> Vec<Invocation> {
        match self {
            Self::Named(_) => Vec::new(),
            Self::Made(environment) => environment.invocations(&environment.uv).into(),
        }
    }

    /// Makes it, unless it is there.
    pub(super) fn execute(&self, sandbox: Sandbox, bench: &mut BuildContext<'_>) -> Result<()> {
        match self {
            Self::Named(_) => Ok(()),
            Self::Made(environment) => environment.execute(sandbox, bench),
        }
    }
}

/// The environment of one interpreter.
#[derive(Clone, Debug)]
pub(super) struct Environment {
    id: String,
    uv: PathBuf,
    cache: PathBuf,
    interpreter: Interpreter,
    requirements: &'static str,
}

impl Environment {
    pub(super) fn new(uv: PathBuf, cache: &Path, interpreter: Interpreter) -> Self {
        let environment = Self {
            id: String::new(),
            uv,
            cache: cache.to_owned(),
            interpreter,
            requirements: REQUIREMENTS,
        };
        environment.holding(REQUIREMENTS)
    }

    fn holding(&self, requirements: &'static str) -> Self {
        let mut hash = Hash::new();
        for text in [requirements, &self.interpreter.version] {
            hash.text(text);
        }
        hash.text(&self.interpreter.path.to_string_lossy());
        Self { id: hash.finish().id().to_string(), requirements, ..self.clone() }
    }

    fn input(&self) -> String {
        let digest = fingerprint::of_bytes(self.requirements.as_bytes());
        format!("Python {} with {}", self.interpreter.version, digest.id())
    }

    fn program(&self) -> PathBuf {
        self.inside().join("bin/python3")
    }

    fn inside(&self) -> PathBuf {
        Path::new(Inside::CACHE).join(DIRECTORY).join(&self.id)
    }

    fn here(&self) -> PathBuf {
        self.cache.join(DIRECTORY).join(&self.id)
    }

    fn exists(&self) -> bool {
        self.here().join("complete").exists()
    }

    fn invocations(&self, uv: &Path) -> [Invocation; 2] {
        let environment = self.inside();
        let python = self.program();
        [
            Invocation::new(uv, "/").with([
                "venv".as_ref(),
                "--quiet".as_ref(),
                "--clear".as_ref(),
                "--python".as_ref(),
                self.interpreter.path.as_os_str(),
                environment.as_os_str(),
            ]),
            Invocation::new(uv, "/").with([
                "pip".as_ref(),
                "install".as_ref(),
                "--quiet".as_ref(),
                "--only-binary=:all:".as_ref(),
                "--require-hashes".as_ref(),
                "--python".as_ref(),
                python.as_os_str(),
                "--requirements".as_ref(),
                environment.join("requirements.txt").as_os_str(),
            ]),
        ]
    }

    fn execute(&self, mut sandbox: Sandbox, bench: &mut BuildContext<'_>) -> Result<()> {
        let here = self.here();
        disk::make_directory(here.parent().unwrap_or(&self.cache))?;
        let _turn = Turn::take(&here.with_extension("lock"), bench.progress, bench.interrupt)?;
        if self.exists() {
            return Ok(());
        }
        let uv = sandbox.keep_program(&self.uv);
        let [make, install] = self.invocations(&uv);
        bench.run(&sandbox, &make)?;
        let requirements = here.join("requirements.txt");
        fs::write(&requirements, self.requirements)
            .map_err(BuildError::file("write", &requirements))?;
        bench.run(&sandbox, &install)?;
        disk::write(&here.join("complete"), b"")
    }
}
