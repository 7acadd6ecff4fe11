// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Commands, libraries and files: which one is taken, and what it hides.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cabane_compat::library_cache;
use cabane_label::escape;
use cabane_report::{Kind, Report, Result};
use cabane_resolve::similar;
use serde::Serialize;

use super::ProcessEnvironment;
use super::origins::{Origin, VariableOrigin};
use super::place::{Place, links_from, without_links_above};

/// How a file was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Through {
    /// `PATH`, `LD_LIBRARY_PATH`, `rpath`, or `ld.so.cache`.
    pub by: String,
    /// The directory.
    pub directory: String,
    /// Which element of the list it is, from 1; 0 where there is no list.
    pub position: usize,
    /// How many elements the list has.
    pub of: usize,
    /// Who put the directory there.
    #[serde(flatten)]
    pub origin: Option<Origin>,
}

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The file.
    pub path: String,
    /// How it was found, unless it was named by its path.
    pub through: Option<Through>,
    /// Where it is.
    #[serde(flatten)]
    pub place: Place,
    /// The links to the real file, if it is a link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// Where the real file lies, if it is a link.
    pub real: Option<Place>,
    /// Whether the file or the one that it links to is missing.
    pub is_missing: bool,
}

/// Where something comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Explanation {
    /// A command.
    Command {
        /// Its name.
        name: String,
        /// The file that is run.
        #[serde(flatten)]
        found: Found,
        /// The files that would be run if it were not there, in this order.
        hides: Vec<Found>,
    },
    /// A library.
    Library {
        /// Its name.
        name: String,
        /// The file that is loaded.
        #[serde(flatten)]
        found: Found,
        /// The other files of this name. Those found by an rpath are for the programs of
        /// their own tree.
        others: Vec<Found>,
    },
    /// The libraries of a program.
    Libraries {
        /// The program, as it was named.
        program: String,
        /// Its file.
        #[serde(flatten)]
        found: Found,
        /// What it needs, also what its libraries need.
        libraries: Vec<NeededLibrary>,
    },
    /// A variable.
    Variable(VariableOrigin),
    /// A file or directory, named by its path.
    File(Found),
}

/// Reports that something is not there, with what may have been meant.
fn not_found(message: String, near: impl IntoIterator<Item = String>) -> Report {
    let near: Vec<String> = near.into_iter().map(|one| format!("`{}`", escape(&one))).collect();
    let hint = (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")));
    Report::new(Kind::NotFound, message).hinted(hint)
}

impl ProcessEnvironment {
    /// Tells where something comes from: a path if there is a `/` in it, else every
    /// command, library and variable of this name.
    ///
    /// # Errors
    ///
    /// That there is nothing of this name, with names that are almost the same.
    pub fn explain(&self, what: &str) -> Result<Vec<Explanation>> {
        if what.contains('/') || what == "." || what == ".." {
            return self.file(Path::new(what)).map(|found| vec![Explanation::File(found)]);
        }
        let found = [
            self.command(what),
            self.library(what),
            self.variable(what).map(Explanation::Variable),
        ];
        let found: Vec<Explanation> = found.into_iter().flatten().collect();
        if !found.is_empty() {
            return Ok(found);
        }
        self.file(Path::new(what)).map(|found| vec![Explanation::File(found)]).map_err(|_| {
            let shown = escape(what);
            let message = format!("there is no command, library, or variable `{shown}` here");
            not_found(message, self.near(what))
        })
    }

    /// Tells where a file lies.
    ///
    /// # Errors
    ///
    /// That there is none, with the name in the same directory that is most like it.
    pub fn file(&self, path: &Path) -> Result<Found> {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if fs::symlink_metadata(&absolute).is_ok() {
            return Ok(self.found(&absolute, None));
        }
        let parent = absolute.parent().unwrap_or(Path::new("/"));
        let names = names_in(parent);
        let wanted = absolute.file_name().unwrap_or_default().to_string_lossy();
        let near = similar(&wanted, names.iter().map(String::as_str));
        let near = near.map(|name| parent.join(name).display().to_string());
        let shown = absolute.display().to_string();
        Err(not_found(format!("there is no file {}", escape(&shown)), near))
    }

    /// Tells which file a command is.
    pub fn command(&self, name: &str) -> Option<Explanation> {
        let mut all = self.in_list("PATH", name, is_program).into_iter();
        let found = all.next()?;
        Some(Explanation::Command { name: name.to_owned(), found, hides: all.collect() })
    }

    /// Tells which file a library is, for a program that does not say itself where its
    /// libraries lie: first the variable, then the trees of the views, where their own
    /// programs find them, then the way of the host.
    pub fn library(&self, name: &str) -> Option<Explanation> {
        if !is_library_name(name) {
            return None;
        }
        let mut all = self.in_list("LD_LIBRARY_PATH", name, Path::is_file);
        for (place, view) in self.views.iter().enumerate() {
            let root = view.root.iter().map(Path::new);
            let directories = root.flat_map(|root| ["lib", "lib64"].map(|one| root.join(one)));
            for path in directories.map(|directory| directory.join(name)) {
                let through = through("rpath", &path, Some(self.view_origin(place)));
                if path.is_file() && !all.iter().any(|one| is_same_place(one, &path)) {
                    all.push(self.found(&path, Some(through)));
                }
            }
        }
        let on_host = library_cache::find(name);
        if let Some(path) = on_host.filter(|path| !all.iter().any(|one| is_same_place(one, path))) {
            let through = through("ld.so.cache", &path, None);
            all.push(self.found(&path, Some(through)));
        }
        let mut all = all.into_iter();
        let found = all.next()?;
        Some(Explanation::Library { name: name.to_owned(), found, others: all.collect() })
    }

    /// Finds every file of a name in the directories of a list; a directory that is
    /// named twice, or by a link, counts once.
    fn in_list(&self, variable: &str, name: &str, fits: impl Fn(&Path) -> bool) -> Vec<Found> {
        let elements = self.elements(variable);
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        for (position, (directory, element)) in
            self.directories(variable).iter().zip(&elements).enumerate()
        {
            let path = directory.join(name);
            if !fits(&path) || !seen.insert(without_links_above(&path)) {
                continue;
            }
            let through = Through {
                by: variable.to_owned(),
                directory: directory.display().to_string(),
                position: position + 1,
                of: elements.len(),
                origin: Some(element.origin.clone()),
            };
            all.push(self.found(&path, Some(through)));
        }
        all
    }

    /// Returns the directories of a list; an empty one is the current directory.
    pub(super) fn directories(&self, variable: &str) -> Vec<PathBuf> {
        let value = self.variables.get(OsStr::new(variable));
        let parts = value.map(|value| value.as_bytes().split(|&byte| byte == b':'));
        let directory = |part: &[u8]| match part {
            [] => PathBuf::from("."),
            part => PathBuf::from(OsStr::from_bytes(part)),
        };
        parts.into_iter().flatten().map(directory).collect()
    }

    fn found(&self, path: &Path, through: Option<Through>) -> Found {
        let links = links_from(path);
        Found {
            path: path.display().to_string(),
            through,
            place: self.place(path),
            real: links.last().map(|real| self.place(real)),
            links: links.iter().map(|one| one.display().to_string()).collect(),
            is_missing: !path.exists(),
        }
    }

    /// Returns the command, the library and the variable that are most like a name.
    fn near(&self, what: &str) -> Vec<String> {
        let in_path = self.directories("PATH");
        let commands: Vec<String> = in_path.iter().flat_map(|one| names_in(one)).collect();
        let variables = self.variables.keys();
        let variables: Vec<String> =
            variables.map(|name| name.to_string_lossy().into_owned()).collect();
        let libraries = if is_library_name(what) { self.library_names() } else { Vec::new() };
        let mut near: Vec<String> = [commands, libraries, variables]
            .iter()
            .filter_map(|names| similar(what, names.iter().map(String::as_str)))
            .map(str::to_owned)
            .collect();
        near.dedup();
        near
    }

    fn library_names(&self) -> Vec<String> {
        let roots = self.views.iter().filter_map(|view| view.root.as_deref());
        let in_roots = roots.flat_map(|root| ["lib", "lib64"].map(|one| Path::new(root).join(one)));
        let directories = self.directories("LD_LIBRARY_PATH").into_iter().chain(in_roots);
        let mut names: Vec<String> = directories.flat_map(|one| names_in(&one)).collect();
        names.extend(library_cache::names());
        names
    }
}

/// Returns the elements that a view put into a list, with their directories.
pub(super) fn of_views(
    process_environment: &ProcessEnvironment,
    variable: &str,
) -> Vec<(PathBuf, String)> {
    let elements = process_environment.elements(variable).into_iter();
    let directories = process_environment.directories(variable);
    let by_view = elements.zip(directories).filter_map(|(element, path)| match element.origin {
        Origin::View { view, .. } => Some((path, view)),
        Origin::EnvironmentFile | Origin::Cabane | Origin::Caller => None,
    });
    by_view.collect()
}

fn through(by: &str, path: &Path, origin: Option<Origin>) -> Through {
    let directory = path.parent().unwrap_or(Path::new("/"));
    Through {
        by: by.to_owned(),
        directory: directory.display().to_string(),
        position: 0,
        of: 0,
        origin,
    }
}

fn is_same_place(found: &Found, path: &Path) -> bool {
    without_links_above(Path::new(&found.path)) == without_links_above(path)
}

pub(super) fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

pub(super) fn is_library_name(name: &str) -> bool {
    let ends = Path::new(name).extension().is_some_and(|end| end == "so");
    ends || name.contains(".so.")
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// A library that a program needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NeededLibrary {
    /// The name under which it is needed.
    pub name: String,
    /// The file; none if it is not found.
    pub found: Option<Found>,
}
