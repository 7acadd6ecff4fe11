// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why modules cannot be loaded.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_label::{enumerate, escape, shown};
use cabane_process::installation;
use cabane_recipe::{ModuleView, nearest};
use cabane_report::{Kind, Report};
use cabane_view::ViewName;

use super::load::{Answer, ModuleCommand};
use crate::BuildError;

/// The ending of module files in Lua.
const LUA: &str = "lua";
/// How deep module files are below a directory of modules.
const DEPTH: usize = 4;
/// How deep they are below all directories of modules.
const DEPTH_OF_HIERARCHY: usize = 9;
/// How many names are offered.
const OFFERED: usize = 8;
/// Names of versions that mean another one.
const SYMBOLIC: [&str; 2] = ["default", "latest"];

/// What cannot be loaded, and where.
pub(super) struct Failure<'a> {
    pub(super) command: &'a ModuleCommand,
    pub(super) name: &'a ViewName,
    pub(super) view: &'a ModuleView,
    pub(super) tree: &'a Path,
    pub(super) log: &'a Path,
}

impl Failure<'_> {
    /// Explains an answer of the module command that is an error.
    pub(super) fn explain(&self, answer: &Answer) -> BuildError {
        if let Some(report) = self.view.load.iter().find_map(|module| self.of_module(module)) {
            return report.into();
        }
        let hint = self.hint_of_hierarchy(answer);
        let hint = hint.unwrap_or_else(|| format!("the whole log is in {}", shown(self.log)));
        let modules = enumerate(&self.view.load, "and");
        let message = format!("cannot load {modules} for the view `{}`", self.name);
        let lines: Vec<_> = answer.messages.iter().map(|line| format!("  {line}")).collect();
        let report = Report::new(Kind::Build, message).hinted(hint);
        if lines.is_empty() { report.into() } else { report.detailed(lines.join("\n")).into() }
    }

    /// Explains why a module has no file that can be read, if that is so.
    fn of_module(&self, module: &str) -> Option<Report> {
        let what = || format!("cannot load `{}` for the view `{}`", escape(module), self.name);
        let mut is_lua = false;
        for place in self.places() {
            let lua = place.join(format!("{module}.{LUA}"));
            for file in [place.join(module), lua.clone()] {
                if let Some(target) = leads_nowhere(&file) {
                    let (file, target) = (shown(&file), shown(&target));
                    let message = format!("{}: {file} is a link to {target}", what());
                    let hint = "copy the tree with that file, or install the module again";
                    let missing = format!("{message}, which is not there");
                    return Some(Report::new(Kind::Build, missing).hinted(hint.to_owned()));
                }
            }
            if place.join(module).exists() {
                return None;
            }
            is_lua |= lua.exists();
        }
        if is_lua && self.command.is_lmod() {
            return None;
        }
        if is_lua {
            let command = shown(&self.command.path);
            let message = format!("{}: its file is for Lmod, and {command} cannot read it", what());
            return Some(Report::new(Kind::Build, message).hinted(installation::hint("lmod")));
        }
        let all = self.names();
        // A module of a hierarchy is there only after another one is loaded.
        if self.in_hierarchy(module).is_some() {
            return None;
        }
        let paths: Vec<_> = self.view.path.iter().map(|path| path.to_string_lossy()).collect();
        let message =
            format!("{}: no module file has this name in {}", what(), enumerate(&paths, "or"));
        Some(Report::new(Kind::Build, message).hinted(offer(module, &all)))
    }

    /// Returns where a module is in a directory of modules that is not one of the view. All are usually
    /// beside each other.
    fn in_hierarchy(&self, module: &str) -> Option<PathBuf> {
        let above = self.view.path.iter().filter_map(|path| path.parent());
        let mut names = BTreeSet::new();
        for directory in above {
            let place = self.tree.join(directory);
            let mut found = BTreeSet::new();
            collect(&place, &place, DEPTH_OF_HIERARCHY, &mut found);
            names.extend(found.into_iter().map(|name| directory.join(name)));
        }
        let place = names.into_iter().find(|name| name.ends_with(module))?;
        let depth = Path::new(module).components().count();
        place.ancestors().nth(depth).map(Path::to_owned)
    }

    /// Explains that a module is visible only after another one is loaded, if the module command
    /// complains about such a module.
    fn hint_of_hierarchy(&self, answer: &Answer) -> Option<String> {
        let is_named = |module: &&String| {
            let is_in = |line: &String| line.contains(module.as_str());
            !self.has_file(module) && answer.messages.iter().any(is_in)
        };
        let module = self.view.load.iter().find(is_named)?;
        let place = self.in_hierarchy(module)?;
        Some(format!(
            "`{}` is in {}: name the module that adds this directory to MODULEPATH before it",
            escape(module),
            shown(&place)
        ))
    }

    fn places(&self) -> impl Iterator<Item = PathBuf> {
        self.view.path.iter().map(|path| self.tree.join(path))
    }

    /// The names of all modules.
    fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for place in self.places() {
            collect(&place, &place, DEPTH, &mut names);
        }
        names
    }

    /// Fails if a module was replaced by another one that was loaded after it.
    pub(super) fn check_all_loaded(&self, answer: &Answer) -> Result<(), BuildError> {
        let loaded = answer.loaded.after.get("LOADEDMODULES").map_or("", String::as_str);
        let loaded: Vec<&str> = loaded.split(':').collect();
        for module in &self.view.load {
            let Some((base, version)) = module.rsplit_once('/') else { continue };
            if SYMBOLIC.contains(&version) || loaded.contains(&module.as_str()) {
                continue;
            }
            let of_base =
                |other: &&&str| other.strip_prefix(base).is_some_and(|rest| rest.starts_with('/'));
            if let Some(other) = loaded.iter().find(of_base).filter(|_| self.has_file(module)) {
                let (module, other) = (escape(module), escape(other));
                let message = format!(
                    "the view `{}` cannot have `{module}`: `{other}`, which is loaded later, replaces it",
                    self.name
                );
                let hint = "remove one of the two from `modules`, or make a view for each";
                return Err(BuildError::refused(message, hint));
            }
        }
        Ok(())
    }

    fn has_file(&self, module: &str) -> bool {
        let lua = format!("{module}.{LUA}");
        self.places().any(|place| place.join(module).is_file() || place.join(&lua).is_file())
    }
}

/// Returns where a link leads if nothing is there. A link to an absolute path is judged where it is now.
fn leads_nowhere(file: &Path) -> Option<PathBuf> {
    let target = fs::read_link(file).ok()?;
    (target.is_relative() && !file.exists()).then_some(target)
}

fn collect(root: &Path, directory: &Path, depth: usize, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            // A link could lead back.
            if depth > 1 && !path.is_symlink() {
                collect(root, &path, depth - 1, names);
            }
            continue;
        }
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        let path = if path.extension().is_some_and(|ending| ending == LUA) {
            path.with_extension("")
        } else {
            path
        };
        if let (false, Ok(name)) = (is_hidden, path.strip_prefix(root)) {
            names.insert(name.to_string_lossy().into_owned());
        }
    }
}

/// Offers names for one that is not known.
fn offer(module: &str, all: &BTreeSet<String>) -> String {
    let base = module.rsplit_once('/').map_or(module, |(base, _)| base);
    let of_base =
        |name: &&String| name.strip_prefix(base).is_some_and(|rest| rest.starts_with('/'));
    let versions: Vec<&String> = all.iter().filter(of_base).take(OFFERED).collect();
    if !versions.is_empty() {
        return format!("there is {}", enumerate(&versions, "and"));
    }
    let known: Vec<&str> = all.iter().map(String::as_str).collect();
    if let Some(meant) = nearest(module, &known) {
        return format!("did you mean `{}`?", escape(meant));
    }
    let some: Vec<&str> = known.iter().take(OFFERED).copied().collect();
    match (some.is_empty(), known.len() > OFFERED) {
        (true, _) => "look for the directory of module files in the tree, and name it: \
                      `modulepath: modules/all`"
            .to_owned(),
        (false, true) => format!("the first modules there are {}", enumerate(&some, "and")),
        (false, false) => format!("the modules there are {}", enumerate(&some, "and")),
    }
}
