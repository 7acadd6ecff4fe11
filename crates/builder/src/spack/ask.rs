// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What Spack is asked: scripts that `spack python` runs, each with an answer in JSON.
//!
//! The scripts in `scripts/` state their answers. `SpackVersion::TESTED` lists the versions that
//! they were tested with.
//!
//! ```text
//! <build>/work/spack/asked/<script>.py     the script
//! <build>/work/spack/asked/<script>.json   the answer
//! <cache>/spack/about/<id>.json            what one commit of Spack says about itself
//! ```

use std::path::PathBuf;

use cabane_label::escape;
use cabane_recipe::SpackVersion;
use cabane_report::{Kind, Report};
use cabane_spack::{DATABASE_VERSIONS, LOCK_VERSIONS};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::session::{self, INPUTS};
use super::{SpackEngine, inputs};
use crate::build_context::BuildContext;
use crate::fingerprint::digest_of;
use crate::layout::Inside;
use crate::sandbox::Invocation;
use crate::{BuildError, Result, disk};

/// Scripts and answers, below what Spack is handed.
const DIRECTORY: &str = "asked";
/// What each commit of Spack says about itself, below the cache.
const ABOUT: &str = "spack/about";
/// The most that an answer may be, in bytes.
const LIMIT: u64 = 64 << 20;

/// Reports a Spack that is too new.
pub(super) fn too_new(message: String) -> BuildError {
    let (oldest, newest) = (SpackVersion::OLDEST, SpackVersion::NEWEST);
    let hint =
        format!("name a commit of Spack {oldest} to {newest} in config.yaml, or update cabane");
    Report::new(Kind::Build, message).hinted(Some(hint)).into()
}

/// A script.
pub(super) struct Script {
    name: &'static str,
    pub(super) text: &'static str,
}

const ABOUT_SCRIPT: Script = Script { name: "about", text: include_str!("scripts/about.py") };
/// Which variables views set.
pub(super) const VIEWS: Script = Script { name: "views", text: include_str!("scripts/views.py") };

/// Concretizes an environment, and answers nothing: Spack writes its lock file.
pub(super) const CONCRETIZE: Script =
    Script { name: "concretize", text: include_str!("scripts/concretize.py") };

/// Ports the packages of a recipe to the package API 2.
pub(super) const PORT: Script = Script { name: "port", text: include_str!("scripts/port.py") };

/// What Spack says about itself.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct About {
    /// Its version.
    version: String,
    /// The newest version of lock files that it writes.
    lock: Option<u32>,
    /// The version of its database.
    database: String,
    /// Whether its cache of solutions holds the answers of the solver alone, and package
    /// hashes are computed each time.
    pub(super) solutions: bool,
}

impl About {
    /// Asks Spack, once for each commit. A version that Cabane was not tested with causes a
    /// warning.
    ///
    /// # Errors
    ///
    /// Spack writes lock files or databases in a version that is not known here, or has no
    /// groups of specs although the recipe was planned with them.
    pub(super) fn of(engine: &SpackEngine, bench: &mut BuildContext<'_>) -> Result<Self> {
        let commit = engine.commits().remove("spack").unwrap_or_default();
        let id = digest_of([ABOUT_SCRIPT.text, &commit, &engine.solver.input]).id().to_string();
        let directory = engine.request.cache_dir.join(ABOUT);
        let kept = directory.join(format!("{id}.json"));
        let about = if let Some(about) = disk::read_json(&kept, LIMIT) {
            about
        } else {
            let about: Self = ABOUT_SCRIPT.run(engine, bench, &[])?;
            disk::make_directory(&directory)?;
            disk::write_json(&kept, &about)?;
            about
        };
        about.check(engine.stack().version)?;
        if SpackVersion::in_name(&about.version).is_some_and(|found| found > SpackVersion::NEWEST) {
            bench.progress.warning(&format!(
                "Spack {} is newer than {}, the newest that this version of cabane was tested with",
                escape(&about.version),
                SpackVersion::NEWEST
            ));
        }
        Ok(about)
    }

    fn check(&self, planned: SpackVersion) -> Result<()> {
        let found = SpackVersion::in_name(&self.version);
        let has_groups = |version: SpackVersion| version >= SpackVersion::SPEC_GROUPS;
        if has_groups(planned) && !found.is_none_or(has_groups) {
            let message = format!(
                "the commit of Spack in config.yaml is version {}, but the build was planned for {planned}",
                escape(&self.version)
            );
            let hint = "name a tag or branch as `commit` in config.yaml, such as `v1.1.0`, so that \
                        the version is known";
            return Err(BuildError::refused(message, hint));
        }
        let refused = |what: &str, written: &str, known: &str| {
            let message = format!(
                "Spack {} writes {what} of version {}, but this version of cabane reads only {known}",
                escape(&self.version),
                escape(written),
            );
            Err(too_new(message))
        };
        if !self.lock.is_some_and(|lock| LOCK_VERSIONS.contains(&lock)) {
            let written = self.lock.map_or_else(|| "unknown".to_owned(), |lock| lock.to_string());
            let known = format!("{} to {}", LOCK_VERSIONS.start(), LOCK_VERSIONS.end());
            return refused("lock files", &written, &known);
        }
        if !DATABASE_VERSIONS.contains(&self.database.as_str()) {
            return refused("databases", &self.database, &DATABASE_VERSIONS.join(", "));
        }
        Ok(())
    }
}

impl Script {
    /// Returns the command, as it could be typed.
    pub(super) fn invocation(&self, arguments: &[String]) -> Invocation {
        let answer = super::text_of(&self.inside("json"));
        self.called_by(session::spack()).with([answer]).with(arguments)
    }

    /// Returns the command in an environment of Spack, for a script without an answer.
    pub(super) fn in_environment(&self, name: &str) -> Invocation {
        self.called_by(session::in_environment(name))
    }

    fn called_by(&self, spack: Invocation) -> Invocation {
        spack.with(["python".to_owned(), super::text_of(&self.inside("py"))])
    }

    fn inside(&self, end: &str) -> PathBuf {
        Inside::work(INPUTS).join(DIRECTORY).join(format!("{}.{end}", self.name))
    }

    /// Writes the script, and removes an answer that is there.
    pub(super) fn prepare(&self, engine: &SpackEngine) -> Result<()> {
        disk::put(&self.here(engine, "py"), self.text)?;
        disk::remove(&self.here(engine, "json"))
    }

    /// Returns where the answer is.
    pub(super) fn answer(&self, engine: &SpackEngine) -> PathBuf {
        self.here(engine, "json")
    }

    /// Reads the answer.
    pub(super) fn read<T: DeserializeOwned>(&self, engine: &SpackEngine) -> Result<T> {
        let answer = self.answer(engine);
        let text = disk::read_start(&answer, LIMIT).map_err(BuildError::file("read", &answer))?;
        serde_json::from_slice(&text).map_err(BuildError::file("read", &answer))
    }

    /// Runs the script, and reads the answer.
    pub(super) fn run<T: DeserializeOwned>(
        &self,
        engine: &SpackEngine,
        bench: &mut BuildContext<'_>,
        arguments: &[String],
    ) -> Result<T> {
        self.prepare(engine)?;
        bench.run(&session::sandbox(engine), &self.invocation(arguments))?;
        self.read(engine)
    }

    fn here(&self, engine: &SpackEngine, end: &str) -> PathBuf {
        let name = format!("{}.{end}", self.name);
        inputs::directory(&engine.layout).join(DIRECTORY).join(name)
    }
}
