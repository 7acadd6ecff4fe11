// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A Python that has Spack's solver, so that Spack never tries to get one itself.
//!
//! The one that the site names, or an environment in the cache.

use std::path::{Path, PathBuf};

use crate::Result;
use crate::build_context::BuildContext;
use crate::python::{Interpreter, ToolEnvironment, Uv};
use crate::sandbox::{Invocation, Sandbox};

/// What is installed: exact versions with the hashes of their files.
pub(super) const REQUIREMENTS: &str = include_str!("requirements.txt");

/// The same, and what Spack needs for S3.
const REQUIREMENTS_S3: &str = include_str!("requirements-s3.txt");

/// The environments, below the cache.
const DIRECTORY: &str = "spack/python";

/// A Python that has the solver.
#[derive(Clone, Debug)]
pub(super) struct Solver {
    /// Where the interpreter is in the sandbox.
    pub(super) program: PathBuf,
    /// What decides about it.
    pub(super) input: String,
    /// What must be visible for it.
    pub(super) prefix: PathBuf,
    /// How it is made, unless the site names it.
    environment: Option<ToolEnvironment>,
}

impl Solver {
    /// The one that the site names.
    pub(super) fn named(path: &Path) -> Self {
        Self {
            program: path.to_owned(),
            input: path.display().to_string(),
            // The directory of an environment, or of an installation.
            prefix: path.parent().and_then(Path::parent).unwrap_or(path).to_owned(),
            environment: None,
        }
    }

    /// One that is made.
    pub(super) fn made(
        uv: Uv,
        cache: PathBuf,
        interpreter: Interpreter,
        requirements: &'static str,
    ) -> Self {
        let prefix = interpreter.prefix.clone();
        let environment = ToolEnvironment::new(DIRECTORY, (uv, cache, interpreter), requirements);
        Self {
            program: environment.inside().join("bin/python3"),
            input: environment.input(),
            prefix,
            environment: Some(environment),
        }
    }

    /// One that knows S3 as well. Who names one sees to that.
    pub(super) fn with_s3(&self) -> Self {
        let Some(ToolEnvironment { uv, cache, interpreter, .. }) = self.environment.clone() else {
            return self.clone();
        };
        Self::made(uv, cache, interpreter, REQUIREMENTS_S3)
    }

    /// Whether it is there.
    pub(super) fn exists(&self) -> bool {
        match &self.environment {
            None => self.program.exists(),
            Some(environment) => environment.exists(),
        }
    }

    /// Returns the commands that make it.
    pub(super) fn invocations(&self) -> Vec<Invocation> {
        let environment = self.environment.iter();
        environment.flat_map(|one| one.invocations(Path::new("uv"))).collect()
    }

    /// Makes it, unless it is there.
    pub(super) fn execute(&self, sandbox: Sandbox, bench: &mut BuildContext<'_>) -> Result<()> {
        self.environment.as_ref().map_or(Ok(()), |one| one.execute(sandbox, bench))
    }
}
