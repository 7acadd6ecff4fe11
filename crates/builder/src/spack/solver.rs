// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A Python that has Spack's solver, so that Spack never tries to get one itself.
//!
//! The one that the site names, or an environment in the cache: one per interpreter, for
//! all builds, made in the sandbox, where it has the same path as later.

use std::path::{Path, PathBuf};

use crate::build_context::BuildContext;
use crate::fingerprint::{self, digest_of};
use crate::layout::Inside;
use crate::python::{Interpreter, Uv};
use crate::sandbox::{Invocation, Sandbox};
use crate::turn::Turn;
use crate::{Result, disk};

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
    environment: Option<Environment>,
}

/// The environment of one interpreter.
#[derive(Clone, Debug)]
struct Environment {
    /// Where it is below the cache.
    place: PathBuf,
    uv: Uv,
    cache: PathBuf,
    interpreter: Interpreter,
    requirements: &'static str,
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
        let path = interpreter.path.to_string_lossy();
        let id = digest_of([requirements, &interpreter.version, &path]);
        let place = Path::new(DIRECTORY).join(id.id().to_string());
        let digest = fingerprint::of_bytes(requirements.as_bytes());
        Self {
            program: Path::new(Inside::CACHE).join(&place).join("bin/python3"),
            input: format!("Python {} with {}", interpreter.version, digest.id()),
            prefix: interpreter.prefix.clone(),
            environment: Some(Environment { place, uv, cache, interpreter, requirements }),
        }
    }

    /// One that knows S3 as well. Who names one sees to that.
    pub(super) fn with_s3(&self) -> Self {
        let Some(Environment { uv, cache, interpreter, .. }) = self.environment.clone() else {
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

impl Environment {
    fn here(&self) -> PathBuf {
        self.cache.join(&self.place)
    }

    fn exists(&self) -> bool {
        self.here().join("complete").exists()
    }

    fn invocations(&self, uv: &Path) -> [Invocation; 2] {
        let environment = Path::new(Inside::CACHE).join(&self.place);
        let python = environment.join("bin/python3");
        [
            Invocation::new(uv, "/")
                .with(["venv", "--quiet", "--clear", "--python"])
                .with([&self.interpreter.path, &environment]),
            Invocation::new(uv, "/")
                .with(["pip", "install", "--quiet", "--only-binary=:all:", "--require-hashes"])
                .with([Path::new("--python"), &python])
                .with([Path::new("--requirements"), &environment.join("requirements.txt")]),
        ]
    }

    fn execute(&self, mut sandbox: Sandbox, bench: &mut BuildContext<'_>) -> Result<()> {
        let here = self.here();
        disk::make_directory(here.parent().unwrap_or(&self.cache))?;
        let _turn = Turn::take(&here.with_extension("lock"), bench.progress, bench.interrupt)?;
        if self.exists() {
            return Ok(());
        }
        let uv = self.uv.show(&mut sandbox);
        self.uv.provide(bench, &sandbox, &self.interpreter)?;
        let [make, install] = self.invocations(&uv);
        bench.run(&sandbox, &make)?;
        let requirements = here.join("requirements.txt");
        disk::put(&requirements, self.requirements)?;
        bench.run(&sandbox, &install)?;
        disk::write(&here.join("complete"), b"")
    }
}
