// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Making the lock file of a recipe, and checking it.

use std::path::Path;

use cabane_label::{escape, shown};
use cabane_report::{Kind, Report};

use super::lock_file::{LockFile, LockedSources, NewLock, check_place, head_in};
use super::{SpackEngine, install, names};
use crate::build_context::BuildContext;
use crate::engine::Engine;
use crate::lock_packages::{LockWish, Locked, changes};
use crate::{BuildError, Result, StepName};

/// Decides about the packages of a recipe, or checks its lock file. Nothing in the recipe changes.
pub(super) fn lock(
    engine: &SpackEngine,
    bench: &mut BuildContext<'_>,
    wish: &LockWish,
) -> Result<Locked> {
    let recipe = &engine.recipe_dir.path;
    let system = engine.request.system_dir.as_deref().unwrap_or(Path::new("."));
    let place = LockFile::place(recipe, system);
    check_place(recipe, &place)?;
    let file = head_in(&place);
    let name = shown(file.strip_prefix(recipe).unwrap_or(&file));
    // One that was found by what is in it has another name.
    let before = engine.lock.as_ref().filter(|lock| lock.path() == file);
    let mismatch = match before {
        None => Some(format!("there is no {name}")),
        Some(lock) => lock.mismatch(engine)?,
    };
    let versions = before.map(LockFile::versions).unwrap_or_default();
    let unchanged = Locked { mismatch, ..Locked::unchanged(file.clone(), versions.len()) };
    match wish {
        LockWish::Check => return Ok(unchanged),
        LockWish::Keep if unchanged.mismatch.is_none() => return Ok(unchanged),
        LockWish::Newest(names) => check_update(names, before, &name)?,
        LockWish::Keep => {}
    }
    // Commits that are locked stay, unless the newest are wanted.
    let sources = match (wish, before) {
        (LockWish::Keep, Some(lock)) => lock.sources(),
        _ => LockedSources::new(),
    };
    let fresh = engine.unlocked(bench.recipe, &sources)?;
    fresh.execute(StepName::Sources, bench)?;
    let is_late = |one: &cabane_spack::SpackEnvironment| !one.needs.is_empty();
    if fresh.stack().environments.iter().any(is_late) {
        return Err(needs_compiler(&fresh));
    }
    names::check(&fresh, bench)?;
    install::concretize(&fresh, bench)?;
    let new = NewLock::of(&fresh, &place)?;
    let is_changed = before.is_none_or(|lock| {
        let is_same = |(path, text): &(_, Vec<u8>)| std::fs::read(path).is_ok_and(|is| is == *text);
        !lock.has(&new.head) || !new.answers.iter().all(is_same)
    });
    let known = before.map(LockFile::environments).unwrap_or_default();
    let old = known.iter().map(|name| place.join(name));
    let is_gone =
        |old: &std::path::PathBuf| !new.answers.iter().any(|(path, _)| path.starts_with(old));
    Ok(Locked {
        packages: new.versions.len(),
        changes: changes(&versions, &new.versions),
        is_changed,
        mismatch: None,
        text: Some(new.text),
        gone: old.filter(is_gone).collect(),
        more: new.answers,
        ..Locked::unchanged(file, 0)
    })
}

fn check_update(names: &[String], before: Option<&LockFile>, file: &str) -> Result<()> {
    if let Some(name) = names.first() {
        let message = format!(
            "cannot update `{}` alone: Spack decides about all packages of a recipe together",
            escape(name)
        );
        let hint = "`cabane update` without names updates all packages".to_owned();
        return Err(Report::new(Kind::Usage, message).hinted(hint).into());
    }
    if before.is_none() {
        let message = format!("there is no {file} to update");
        let hint = "`cabane lock` writes one; without it, each build decides about the versions";
        return Err(Report::new(Kind::NotFound, message).hinted(hint.to_owned()).into());
    }
    Ok(())
}

fn needs_compiler(engine: &SpackEngine) -> BuildError {
    let message = format!(
        "this recipe cannot be locked: Spack {} decides about packages only after their compiler is built",
        engine.stack().version
    );
    let hint =
        "name Spack 1.2 or later as `commit` in config.yaml, or use the compiler of the system";
    BuildError::refused(message, hint)
}
