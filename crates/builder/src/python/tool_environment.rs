// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A Python environment in the cache that holds a tool of builds: one per interpreter and list of packages, for
//! all builds, made in the sandbox, where it has the same path as later.

use std::path::{Path, PathBuf};

use super::{Interpreter, Uv};
use crate::build_context::BuildContext;
use crate::fingerprint::{self, digest_of};
use crate::layout::Inside;
use crate::sandbox::{Invocation, Sandbox};
use crate::turn::Turn;
use crate::{Result, disk};

const REQUIREMENTS: &str = "requirements.txt";
const COMPLETE: &str = "complete";

/// The environment of one interpreter.
#[derive(Clone, Debug)]
pub(crate) struct ToolEnvironment {
    /// Where it is below the cache.
    place: PathBuf,
    pub(crate) uv: Uv,
    pub(crate) cache: PathBuf,
    pub(crate) interpreter: Interpreter,
    /// Exact versions with the hashes of their files.
    requirements: String,
    /// Whether the packages have no wheels. These are made with what the same list names.
    has_no_wheels: bool,
}

impl ToolEnvironment {
    /// Describes an environment in a directory of the cache.
    pub(crate) fn new(
        directory: &str,
        (uv, cache, interpreter): (Uv, PathBuf, Interpreter),
        requirements: &str,
    ) -> Self {
        let path = interpreter.path.to_string_lossy();
        let id = digest_of([requirements, &interpreter.version, &path]);
        Self {
            place: Path::new(directory).join(id.id().to_string()),
            uv,
            cache,
            interpreter,
            requirements: requirements.to_owned(),
            has_no_wheels: false,
        }
    }

    /// Returns the same for packages that have no wheels.
    pub(crate) fn without_wheels(self) -> Self {
        Self { has_no_wheels: true, ..self }
    }

    /// Returns where it is in the sandbox.
    pub(crate) fn inside(&self) -> PathBuf {
        Path::new(Inside::CACHE).join(&self.place)
    }

    /// Returns where it is in the cache.
    pub(crate) fn here(&self) -> PathBuf {
        self.cache.join(&self.place)
    }

    /// Says what decides about it.
    pub(crate) fn input(&self) -> String {
        let digest = fingerprint::of_bytes(self.requirements.as_bytes());
        format!("Python {} with {}", self.interpreter.version, digest.id())
    }

    /// Whether it is there.
    pub(crate) fn exists(&self) -> bool {
        self.here().join(COMPLETE).exists()
    }

    /// Returns the commands that make it.
    pub(crate) fn invocations(&self, uv: &Path) -> [Invocation; 2] {
        let environment = self.inside();
        let python = environment.join("bin/python3");
        let requirements = environment.join(REQUIREMENTS);
        let install = Invocation::new(uv, "/").with(["pip", "install", "--quiet"]);
        let install = if self.has_no_wheels {
            install.with([Path::new("--build-constraints"), &requirements])
        } else {
            install.with(["--only-binary=:all:"])
        };
        [
            Invocation::new(uv, "/")
                .with(["venv", "--quiet", "--clear", "--python"])
                .with([&self.interpreter.path, &environment]),
            install
                .with(["--require-hashes"])
                .with([Path::new("--python"), &python])
                .with([Path::new("--requirements"), &requirements]),
        ]
    }

    /// Makes it, unless it is there.
    pub(crate) fn execute(&self, mut sandbox: Sandbox, bench: &mut BuildContext<'_>) -> Result<()> {
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
        disk::put(&here.join(REQUIREMENTS), &self.requirements)?;
        bench.run(&sandbox, &install)?;
        disk::write(&here.join(COMPLETE), b"")
    }
}
