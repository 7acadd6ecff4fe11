// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `uv`, which installs Python packages. Two versions of it can make different files, so builds use one
//! version everywhere, unless the configuration names a program. What is not there is fetched from where
//! the packages come from.

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};

use super::Interpreter;
use crate::build_context::BuildContext;
use crate::cache::note_use;
use crate::layout::Inside;
use crate::sandbox::{Invocation, Sandbox};
use crate::{BuildError, BuildRequest, Result, disk, program};

/// The version that builds use; `scripts/tools.txt` has the same.
const VERSION: &str = "0.13.8";

/// For each kind of processor the sha256 of the wheel whose program runs on every Linux.
const WHEELS: [(&str, &str); 2] = [
    ("x86_64", "29451c60f5e8b07403e0a175d5229efc36b0289b34143ff4aaa499a5dd52553a"),
    ("aarch64", "0b3e8b1a4f5e405e31e2ff33de8af4744831e9f7338539671efbd8c3c94e791d"),
];

const FETCH: &str = include_str!("fetch_uv.py");

/// Where versions of `uv` are, below the cache.
pub(crate) const TOOLS: &str = "tools";

/// The `uv` of a build.
#[derive(Clone, Debug)]
pub(crate) struct Uv {
    /// Its version.
    pub(crate) version: String,
    program: Program,
}

#[derive(Clone, Debug)]
enum Program {
    /// On this machine.
    Here(PathBuf),
    /// In the cache, or not yet: the cache, and the sha256 of the wheel.
    Cached(PathBuf, &'static str),
}

impl Uv {
    /// Finds the program that the configuration names, or one of the right version.
    ///
    /// # Errors
    ///
    /// The named program is missing or does not tell its version. None is named, and there is no wheel
    /// for this kind of processor.
    pub(crate) fn find(request: &BuildRequest) -> Result<Self> {
        let here = |path: PathBuf, version| Self { version, program: Program::Here(path) };
        if let Some(named) = &request.programs.uv {
            let path = program::find("uv", Some(named))?;
            let version = program::ask_version(&path, "--version")?;
            return Ok(here(path, version));
        }
        let in_path = request.search_path.iter().map(|directory| directory.join("uv"));
        let found = in_path.filter_map(|path| program::find("uv", Some(&path)).ok()).find(|path| {
            program::ask_version(path, "--version").is_ok_and(|version| version == VERSION)
        });
        if let Some(path) = found {
            return Ok(here(path, VERSION.to_owned()));
        }
        let wheel = WHEELS.iter().find(|(processor, _)| *processor == ARCH);
        let (_, digest) = wheel.ok_or_else(|| BuildError::missing_program("uv"))?;
        let program = Program::Cached(request.cache_dir.clone(), digest);
        Ok(Self { version: VERSION.to_owned(), program })
    }

    /// Shows the program in a sandbox, where the cache is, and returns where it is there.
    pub(crate) fn show(&self, sandbox: &mut Sandbox) -> PathBuf {
        match &self.program {
            Program::Here(path) => sandbox.keep_program(path),
            Program::Cached(..) => Path::new(Inside::CACHE).join(self.place()),
        }
    }

    /// The program, if it must not disappear behind the mount point.
    pub(crate) fn needs_visible(&self) -> Option<PathBuf> {
        match &self.program {
            Program::Here(path) => Some(path.clone()),
            Program::Cached(..) => None,
        }
    }

    fn place(&self) -> PathBuf {
        Path::new(TOOLS).join(format!("uv-{}", self.version)).join("uv")
    }

    /// Makes sure that the program is there, and fetches it if needed.
    ///
    /// # Errors
    ///
    /// It cannot be fetched.
    pub(crate) fn provide(
        &self,
        bench: &mut BuildContext<'_>,
        sandbox: &Sandbox,
        interpreter: &Interpreter,
    ) -> Result<()> {
        let Program::Cached(cache, digest) = &self.program else {
            return Ok(());
        };
        let here = cache.join(self.place());
        if here.exists() {
            note_use(here.parent().unwrap_or(cache));
            return Ok(());
        }
        let script = bench.layout.work().join("fetch_uv.py");
        disk::put(&script, FETCH)?;
        let fetch = Invocation::new(&interpreter.path, "/")
            .with([Path::new("-I"), &Inside::work("fetch_uv.py")])
            .with([self.version.clone(), format!("musllinux_1_1_{ARCH}"), (*digest).to_owned()])
            .with([Path::new(Inside::CACHE).join(self.place())]);
        bench.run(sandbox, &fetch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_up_installs_the_same_version() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/tools.txt");
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(&format!("uv=={VERSION} ")), "{text}");
        for (_, digest) in WHEELS {
            assert!(text.contains(&format!("sha256:{digest}")), "{digest}");
        }
    }
}
