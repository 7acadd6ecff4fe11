// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The lock file of a pipeline: what the bases of its recipes mean.
//!
//! It is beside the pipeline's file and belongs into its Git repository. A base that has moved since is
//! noticed when the file is made anew, and then counts as an input of the recipes that build on it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cabane_builder::{Base, Pins, bases, read_recipe};
use cabane_image_build::look_up;
use cabane_label::{escape, shown};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::Context;
use serde::{Deserialize, Serialize};

use crate::cell::{Cell, CellName};
use crate::directory::write_json;
use crate::pipeline::{Pipeline, Selection};

/// The version of the format.
const VERSION: u32 = 1;

/// What the bases of recipes mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockFile {
    version: u32,
    /// By the directory of the recipe, relative to that of the pipeline where it is below it.
    recipes: BTreeMap<String, Pins>,
}

impl Default for LockFile {
    fn default() -> Self {
        Self { version: VERSION, recipes: BTreeMap::new() }
    }
}

impl LockFile {
    /// Returns the name of the lock file of a pipeline: `pipeline.lock` of `pipeline.yaml`.
    pub(crate) fn path(pipeline: &Path) -> PathBuf {
        pipeline.with_extension("lock")
    }

    /// Reads the lock file of a pipeline; `None` if it has none.
    pub(crate) fn of(pipeline: &Path) -> Result<Option<Self>> {
        let path = Self::path(pipeline);
        match fs::read(&path) {
            Ok(text) => Self::parse(&path, &text).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).or_failed(|| format!("read {}", shown(&path))),
        }
    }

    pub(crate) fn parse(path: &Path, text: &[u8]) -> Result<Self> {
        let malformed = |what: &str| {
            let message = format!("{} is malformed: {what}", shown(path));
            Report::new(Kind::BadInput, message)
                .hinted("remove the file, and run `cabane pipeline lock`".to_owned())
        };
        let read: Self =
            serde_json::from_slice(text).map_err(|error| malformed(&error.to_string()))?;
        if read.version != VERSION {
            return Err(malformed(&format!("`version` must be {VERSION}")));
        }
        let pins = || read.recipes.values().flat_map(Pins::iter);
        if let Some((base, meaning)) = pins().find(|(_, meaning)| !is_meaning(meaning)) {
            let (base, meaning) = (escape(base), escape(meaning));
            let what = format!("`{meaning}` of `{base}` is neither a digest nor a commit");
            return Err(malformed(&what));
        }
        Ok(read)
    }

    /// Returns what is pinned for a recipe.
    pub(crate) fn pins(&self, home: &Path, recipe: &Path) -> Option<&Pins> {
        self.recipes.get(&name_of(home, recipe))
    }
}

/// Whether a text is a digest or a commit. It becomes an argument of Git.
fn is_meaning(text: &str) -> bool {
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    matches!(digits.len(), 40 | 64) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns how a recipe is named in the file.
fn name_of(home: &Path, recipe: &Path) -> String {
    recipe.strip_prefix(home).unwrap_or(recipe).to_string_lossy().into_owned()
}

/// Returns what is pinned of the bases of a recipe, and the bases that are not pinned.
pub(crate) fn pinned(pins: Option<&Pins>, bases: &[Base]) -> (Pins, Vec<Base>) {
    let mut found = Pins::default();
    let mut open = Vec::new();
    for base in bases {
        match pins.and_then(|pins| pins.of(base)) {
            Some(meaning) => drop(found.pin(base, meaning.to_owned())),
            None => open.push(base.clone()),
        }
    }
    (found, open)
}

/// A base, and what it means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LockedBase {
    /// Its name in recipes.
    pub base: String,
    /// What the lock file said before; `None` if it did not have it. Recipes may have been locked at different times.
    pub before: Option<String>,
    /// What it means now.
    pub now: String,
    /// The cells that are built on it.
    pub cells: BTreeSet<CellName>,
}

impl LockedBase {
    /// Whether it means something else than before.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.before.as_ref() != Some(&self.now)
    }
}

impl Pipeline {
    /// Returns its lock file, which may not exist.
    #[must_use]
    pub fn lock_file(&self) -> PathBuf {
        LockFile::path(&self.file)
    }

    /// Looks up all bases of some cells, and writes the lock file unless nothing has changed or `dry_run` is true.
    /// What it says of other cells stays.
    ///
    /// # Errors
    ///
    /// No cell is meant, a base cannot be looked up, or the file cannot be written. Then it stays as it is.
    pub fn lock(
        &self,
        context: &Context,
        selection: &Selection,
        dry_run: bool,
    ) -> Result<Vec<LockedBase>> {
        let old = LockFile::of(&self.file)?.unwrap_or_default();
        let cells = self.select(selection)?;
        let mut new = LockFile::default();
        let of_all: BTreeSet<String> =
            self.cells.iter().map(|cell| self.recipe_name(cell)).collect();
        let kept = old.recipes.iter().filter(|(name, _)| of_all.contains(*name));
        new.recipes.extend(kept.map(|(name, pins)| (name.clone(), pins.clone())));
        let mut found: BTreeMap<Base, LockedBase> = BTreeMap::new();
        let mut read: BTreeMap<String, Vec<Base>> = BTreeMap::new();
        for cell in cells {
            let name = self.recipe_name(cell);
            if !read.contains_key(&name) {
                read.insert(name.clone(), bases(&read_recipe(&cell.recipe)?));
                new.recipes.remove(&name);
            }
            for base in &read[&name] {
                let before = old.recipes.get(&name).and_then(|pins| pins.of(base));
                if !found.contains_key(base) {
                    let now =
                        look_up(context, base).map_err(|error| of_cell(&error, base, cell))?;
                    let (base, cells) = (base.clone(), BTreeSet::new());
                    let locked = LockedBase {
                        base: base.to_string(),
                        before: before.map(str::to_owned),
                        now,
                        cells,
                    };
                    found.insert(base, locked);
                }
                let Some(locked) = found.get_mut(base) else { continue };
                locked.cells.insert(cell.name.clone());
                if before != Some(&locked.now) {
                    locked.before = before.map(str::to_owned);
                }
                let pins = new.recipes.entry(name.clone()).or_default();
                pins.pin(base, locked.now.clone());
            }
        }
        if new != old && !dry_run {
            write_json(&self.lock_file(), &new)?;
        }
        Ok(found.into_values().collect())
    }

    fn recipe_name(&self, cell: &Cell) -> String {
        name_of(&self.directory, &cell.recipe)
    }

    /// Returns the bases of all cells that the lock file does not have, or all if there is none.
    #[must_use]
    pub fn unlocked(&self) -> BTreeSet<String> {
        self.cells.iter().flat_map(|cell| &cell.unlocked).map(ToString::to_string).collect()
    }

    /// Returns a warning if there is a lock file that does not have all bases.
    #[must_use]
    pub fn lock_warning(&self) -> Option<String> {
        let unlocked = self.unlocked();
        let first = unlocked.first().filter(|_| self.lock_file().exists())?;
        let file = self.lock_file();
        let file = file.file_name().unwrap_or(OsStr::new("the lock file")).to_string_lossy();
        let others = match unlocked.len() - 1 {
            0 => String::new(),
            1 => " and another one".to_owned(),
            others => format!(" and {others} others"),
        };
        Some(format!("{file} does not have `{first}`{others}: `cabane pipeline lock` adds them"))
    }
}

fn of_cell(error: &Report, base: &Base, cell: &Cell) -> Report {
    let (message, hint) = error.texts();
    let message = format!("cannot look up `{base}`, a base of {}: {message}", cell.name);
    Report::new(error.kind(), message).hinted(hint)
}
