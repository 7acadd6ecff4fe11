// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What one view took from another: variables, and files that are found by their name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_resolve::{Effect, scalar_conflicts};
use serde::Serialize;

use super::ProcessEnvironment;
use super::lookup::{is_library_name, is_program, of_views};

/// A variable that several views set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VariableConflict {
    /// The variable.
    pub variable: String,
    /// The view that wins because it was applied last.
    pub winner: String,
    /// The value that it set; none if it removed the variable.
    pub value: Option<String>,
    /// The views that wanted something else, and what.
    pub losers: Vec<Loser>,
}

/// A view whose value was replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loser {
    /// The view.
    pub view: String,
    /// What it wanted; none if it wanted the variable removed.
    pub value: Option<String>,
}

/// Files of the same name that two views bring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileConflicts {
    /// The variable that lists the directories.
    pub variable: String,
    /// The view whose files are found, because its directory is first.
    pub winner: String,
    /// The view whose files are hidden.
    pub loser: String,
    /// The names of the files.
    pub names: BTreeSet<String>,
}

/// Everything that one view took from another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Conflicts {
    /// Variables.
    pub variables: Vec<VariableConflict>,
    /// Files.
    pub files: Vec<FileConflicts>,
}

impl Conflicts {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.variables.is_empty() && self.files.is_empty()
    }
}

/// Whether a file of this path is one that the list is about.
type Counts = fn(&Path) -> bool;

/// The lists in which a name is looked up and the first one counts, and which names do
/// count. Manual pages are not among them: every program brings some.
const LISTS: [(&str, Counts); 4] = [
    ("PATH", is_program),
    ("LD_LIBRARY_PATH", is_library),
    ("PYTHONPATH", is_module),
    ("PKG_CONFIG_PATH", is_package_description),
];

impl ProcessEnvironment {
    /// Finds everything that one view took from another. Files count as the same if
    /// they are links to the same file.
    pub fn conflicts(&self) -> Conflicts {
        let files =
            LISTS.iter().flat_map(|(variable, counts)| self.file_conflicts(variable, *counts));
        Conflicts { variables: self.variable_conflicts(), files: files.collect() }
    }

    fn variable_conflicts(&self) -> Vec<VariableConflict> {
        let name = |view: usize| {
            let view = self.views.get(view);
            view.map(|view| view.name.clone()).unwrap_or_default()
        };
        let value = |effect: Effect| match effect {
            Effect::Set(value) => Some(value),
            Effect::Added(values) => Some(values.join(":")),
            Effect::Unset => None,
        };
        let conflicts = scalar_conflicts(self.views.iter().map(|view| &view.patch));
        let reported = conflicts.into_iter().map(|one| VariableConflict {
            variable: one.variable,
            winner: name(one.winner),
            value: value(one.effect),
            losers: one
                .losers
                .into_iter()
                .map(|(view, effect)| Loser { view: name(view), value: value(effect) })
                .collect(),
        });
        reported.collect()
    }

    fn file_conflicts(&self, variable: &str, counts: Counts) -> Vec<FileConflicts> {
        let directories = of_views(self, variable);
        let views: BTreeSet<&String> = directories.iter().map(|(_, view)| view).collect();
        if views.len() < 2 {
            return Vec::new();
        }
        let mut first: HashMap<OsString, usize> = HashMap::new();
        let mut found: BTreeMap<(usize, usize), BTreeSet<String>> = BTreeMap::new();
        for (place, (directory, view)) in directories.iter().enumerate() {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let Some(&winner) = first.get(&name) else {
                    if counts(&directory.join(&name)) {
                        first.insert(name, place);
                    }
                    continue;
                };
                let Some((winning, winning_view)) = directories.get(winner) else {
                    continue;
                };
                let hidden = directory.join(&name);
                let is_conflict = view != winning_view
                    && counts(&hidden)
                    && identity(winning, &name) != identity(directory, &name);
                if is_conflict {
                    let names = found.entry((winner, place)).or_default();
                    names.insert(name.to_string_lossy().into_owned());
                }
            }
        }
        merged(variable, &directories, found)
    }
}

/// Puts together what several directories of the same two views have in common.
fn merged(
    variable: &str,
    directories: &[(PathBuf, String)],
    found: BTreeMap<(usize, usize), BTreeSet<String>>,
) -> Vec<FileConflicts> {
    let mut all: Vec<FileConflicts> = Vec::new();
    let view = |place: usize| directories.get(place).map(|(_, view)| view.clone());
    for ((winner, loser), names) in found {
        let (Some(winner), Some(loser)) = (view(winner), view(loser)) else {
            continue;
        };
        let same = |one: &&mut FileConflicts| one.winner == winner && one.loser == loser;
        match all.iter_mut().find(same) {
            Some(known) => known.names.extend(names),
            None => all.push(FileConflicts { variable: variable.to_owned(), winner, loser, names }),
        }
    }
    all
}

/// Returns what a name leads to. The interpreter of a virtual environment is mostly a
/// link to that of the host, but it makes a difference through which link it is started:
/// it looks for its modules beside the link.
fn identity(directory: &Path, name: &OsString) -> PathBuf {
    let path = directory.join(name);
    let Ok(real) = fs::canonicalize(&path) else {
        return path;
    };
    let prefix = directory.parent().unwrap_or(directory);
    let leads_out = fs::canonicalize(prefix).is_ok_and(|prefix| !real.starts_with(prefix));
    if leads_out && prefix.join("pyvenv.cfg").is_file() { path } else { real }
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension == wanted)
}

fn is_library(path: &Path) -> bool {
    is_library_name(&path.file_name().unwrap_or_default().to_string_lossy())
}

fn is_module(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    has_extension(path, "py")
        || has_extension(path, "so")
        || name != "__pycache__"
            && !has_extension(path, "dist-info")
            && !has_extension(path, "egg-info")
            && path.is_dir()
}

fn is_package_description(path: &Path) -> bool {
    has_extension(path, "pc")
}
