// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The lock file of a recipe: resolving its packages, and writing what was decided beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use cabane_recipe::EngineConfig;
use cabane_report::{Kind, Report};
use serde::Serialize;

use crate::cache::InUse;
use crate::execute::{context, prepare_directories};
use crate::job::Job;
use crate::own::make_own_directory;
use crate::plan::read_recipe;
use crate::turn::Turn;
use crate::{BuildError, BuildRequest, Progress, Result, Step, StepName, disk};

/// What is wanted of a lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockWish {
    /// Only find out whether it matches the recipe.
    Check,
    /// Resolve what the recipe has now; versions that are still allowed stay.
    Keep,
    /// Resolve to the newest versions: of these packages, or of all if none is named.
    Newest(Vec<String>),
}

/// A lock file after it was resolved or checked.
#[derive(Clone, Debug, Serialize)]
pub struct Locked {
    /// The lock file.
    pub file: PathBuf,
    /// How many packages it has.
    pub packages: usize,
    /// What is different from before, by name.
    pub changes: Vec<VersionChange>,
    /// Whether the file is not the one that was there before.
    pub is_changed: bool,
    /// Why it does not match the recipe, if that was checked and is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mismatch: Option<String>,
    /// Its new text, unless it was only checked.
    #[serde(skip)]
    pub(crate) text: Option<String>,
    /// What is beside it: the path and the content of each file.
    #[serde(skip)]
    pub(crate) more: Vec<(PathBuf, Vec<u8>)>,
    /// What was beside it, and is not needed any more.
    #[serde(skip)]
    pub(crate) gone: Vec<PathBuf>,
}

impl Locked {
    /// A lock file that stays as it is.
    pub(crate) fn unchanged(file: PathBuf, packages: usize) -> Self {
        Self {
            file,
            packages,
            changes: Vec::new(),
            is_changed: false,
            mismatch: None,
            text: None,
            more: Vec::new(),
            gone: Vec::new(),
        }
    }

    fn write(&self, text: &str) -> Result<()> {
        for (path, content) in &self.more {
            disk::make_directory(path.parent().unwrap_or(path))?;
            disk::write(path, content)?;
        }
        if self.file.exists() {
            disk::replace(&self.file, text.as_bytes())?;
        } else {
            disk::write(&self.file, text.as_bytes())?;
        }
        self.gone.iter().try_for_each(|path| disk::remove(path))
    }
}

/// A package with another version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VersionChange {
    /// Its name.
    pub package: String,
    /// The version before; `None` if it was not there.
    pub from: Option<String>,
    /// The version now; `None` if it is not there any more.
    pub to: Option<String>,
}

/// The versions of packages by their names; a package can have several, for different machines.
pub(crate) type Versions = BTreeMap<String, String>;

/// Compares versions before and after.
pub(crate) fn changes(before: &Versions, now: &Versions) -> Vec<VersionChange> {
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let change = |name: &String| VersionChange {
        package: name.clone(),
        from: before.get(name).cloned(),
        to: now.get(name).cloned(),
    };
    names.into_iter().map(change).filter(|change| change.from != change.to).collect()
}

/// Says that recipes with an engine have no lock file.
pub(crate) fn no_lock(engine: &str) -> BuildError {
    let message = format!("recipes with the engine `{engine}` have no lock file");
    let hint = match engine {
        "container" => "`cabane build --from lock` looks up the tag of the container image again",
        "easybuild" => {
            "the version of EasyBuild and the checksums in easyconfigs pin everything: `cabane build`"
        }
        _ => "build it again: `cabane build`",
    };
    Report::new(Kind::Usage, message).hinted(hint.to_owned()).into()
}

/// Resolves the packages of a recipe and writes its lock file, unless `wish` is to check only, or
/// `dry_run`. The request names a build directory of its own, which is removed in the end; if a program
/// fails, it stays with the log.
///
/// # Errors
///
/// The recipe is malformed or has no lock file; its packages cannot be resolved; the file cannot be
/// written.
pub fn lock_packages(
    request: &BuildRequest,
    wish: &LockWish,
    dry_run: bool,
    progress: &mut dyn Progress,
    interrupt: &AtomicBool,
) -> Result<Locked> {
    let locked = choose_packages(request, wish, dry_run, progress, interrupt);
    locked.map_err(|error| match error {
        BuildError::Interrupted => {
            let message =
                "the choice of package versions was interrupted; no lock file was changed";
            let hint = "run the same command again".to_owned();
            Report::new(Kind::Interrupted, message).hinted(hint).into()
        }
        error => error,
    })
}

/// Does this; an interrupt is that of a build.
fn choose_packages(
    request: &BuildRequest,
    wish: &LockWish,
    dry_run: bool,
    progress: &mut dyn Progress,
    interrupt: &AtomicBool,
) -> Result<Locked> {
    let recipe = read_recipe(&request.recipe_dir)?;
    if !matches!(recipe.engine, EngineConfig::Python(_) | EngineConfig::Spack(_)) {
        return Err(no_lock(recipe.engine.name()));
    }
    let job = &Job::prepare(&BuildRequest { memory: None, ..request.clone() })?;
    let layout = &job.layout;
    make_own_directory(&layout.root)?;
    let _turn = Turn::take(&layout.lock(), progress, interrupt)?;
    let in_use = InUse::share(&job.request.cache_dir, progress, interrupt)?;
    let _claim = prepare_directories(job)?;
    disk::remove(&layout.log(StepName::Lock))?;
    let step = Step::named(StepName::Lock);
    let start = Instant::now();
    if *wish != LockWish::Check {
        progress.started(&step, 0, 1);
    }
    let locked = job.engine.lock(&mut context(job, &step, progress, interrupt, None), wish);
    drop(in_use);
    if !matches!(locked, Err(BuildError::StepFailed(_))) {
        disk::remove(&layout.root)?;
    }
    let locked = locked?;
    if let Some(text) = locked.text.as_ref().filter(|_| locked.is_changed && !dry_run) {
        locked.write(text)?;
    }
    if *wish != LockWish::Check {
        progress.finished(&step, start.elapsed());
    }
    Ok(locked)
}
