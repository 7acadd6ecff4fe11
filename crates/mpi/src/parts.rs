// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a library of MPI loads while it runs, and what that needs.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use cabane_compat::{Binary, GlibcVersion};

use crate::closure::{Closure, Loaded, is_of_glibc};
use crate::plan::{each_once, own_files, places_of_parts};
use crate::{Loader, Through, Tree};

/// How far below their directories parts may be: Debian has `openmpi/lib/openmpi3`.
const DEPTH: usize = 2;

/// The symbols of a file.
#[derive(Default)]
struct Symbols {
    defined: BTreeSet<String>,
    needed: BTreeSet<String>,
}

/// What parts of a substitute load.
#[derive(Default)]
pub(crate) struct LoadedByParts {
    /// The files that must be carried.
    pub(crate) files: Vec<Loaded>,
    /// The oldest C library with which these and the parts can be loaded.
    pub(crate) glibc: Option<GlibcVersion>,
}

/// The parts of a substitute, whose files are in one tree, for a program in another.
pub(crate) struct Parts<'a> {
    tree: &'a Tree,
    inside: &'a Tree,
    /// The symbols of files that were read.
    read: RefCell<BTreeMap<PathBuf, Rc<Symbols>>>,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(tree: &'a Tree, inside: &'a Tree) -> Self {
        Self { tree, inside, read: RefCell::default() }
    }

    /// Returns what is loaded only while a library runs: the libraries that its parts need, and it
    /// does not.
    ///
    /// Every program that is started with these variables would get them. So what is found in the
    /// directories of the system is left out where the program has a library of that name, `there`,
    /// with all that is needed of it.
    pub(crate) fn loaded(
        &self,
        loader: &Loader<'_>,
        closures: &[Closure],
        plugins: &[PathBuf],
        there: impl Fn(&str) -> Option<Loaded>,
    ) -> LoadedByParts {
        let places = each_once(own_files(closures).flat_map(places_of_parts));
        let mut parts: Vec<Loaded> = Vec::new();
        let mut needed: Vec<Loaded> = Vec::new();
        let own = places.iter().flat_map(|place| parts_in(self.tree, place, DEPTH));
        for path in own.chain(plugins.iter().cloned()) {
            let files = loader.follow(&path).map(|closure| closure.files).unwrap_or_default();
            let mut files = files.into_iter();
            parts.extend(files.next());
            for file in files {
                let name = file.links.soname.as_ref().unwrap_or(&file.name);
                if !is_known(closures, &needed, name) {
                    needed.push(file);
                }
            }
        }
        let users: Vec<&Loaded> = parts.iter().chain(&needed).collect();
        let is_taken = |file: &Loaded| {
            let name = file.links.soname.as_ref().unwrap_or(&file.name);
            let is_of_system = matches!(file.by, Through::Cache | Through::System);
            let there = is_of_system.then(|| there(name)).flatten();
            there.is_none_or(|there| !self.is_enough(&there, file, &users))
        };
        let mut taken: Vec<bool> = needed.iter().map(is_taken).collect();
        // What needs one of them comes from here as well: they are made for each other.
        loop {
            let is_needed = |name: &String| {
                let mut all = needed.iter().zip(&taken);
                all.any(|(file, is_taken)| *is_taken && file.answers_to(name))
            };
            let next: Vec<bool> = needed
                .iter()
                .zip(&taken)
                .map(|(file, is_taken)| *is_taken || file.links.needed.iter().any(is_needed))
                .collect();
            if next == taken {
                break;
            }
            taken = next;
        }
        let mut taken = taken.into_iter();
        needed.retain(|_| taken.next().unwrap_or_default());
        let glibc = parts.iter().chain(&needed).filter_map(Loaded::glibc).max();
        LoadedByParts { files: needed, glibc }
    }

    /// Whether a library of the program has all that files need of the machine's one.
    fn is_enough(&self, there: &Loaded, here: &Loaded, files: &[&Loaded]) -> bool {
        let versions = files.iter().flat_map(|file| &file.needs);
        let mut versions = versions.filter(|need| !need.is_weak && here.answers_to(&need.of));
        if !there.has.is_empty() && versions.any(|need| !there.has.contains(&need.version)) {
            return false;
        }
        let (here, there) = (self.symbols(self.tree, here), self.symbols(self.inside, there));
        let lacking: BTreeSet<&String> = here.defined.difference(&there.defined).collect();
        let is_needed = |file: &&Loaded| {
            let needed = self.symbols(self.tree, file);
            lacking.iter().any(|name| needed.needed.contains(*name))
        };
        lacking.is_empty() || !files.iter().any(is_needed)
    }

    fn symbols(&self, tree: &Tree, file: &Loaded) -> Rc<Symbols> {
        let path = &file.place.outside;
        if let Some(known) = self.read.borrow().get(path) {
            return Rc::clone(known);
        }
        let mut symbols = Symbols::default();
        if let Some(opened) = tree.open(&file.path)
            && let Some(binary) = Binary::open(&opened)
        {
            binary.each_symbol(|symbol| {
                if symbol.is_defined {
                    symbols.defined.insert(symbol.name.to_owned());
                } else if !symbol.is_weak {
                    symbols.needed.insert(symbol.name.to_owned());
                }
            });
        }
        let symbols = Rc::new(symbols);
        self.read.borrow_mut().insert(path.clone(), Rc::clone(&symbols));
        symbols
    }
}

/// Finds the parts in a directory and those below it.
fn parts_in(tree: &Tree, directory: &Path, depth: usize) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for name in tree.names(directory) {
        let path = directory.join(&name);
        if path.extension().is_some_and(|extension| extension == "so") {
            all.push(path);
        } else if depth > 0 {
            all.extend(parts_in(tree, &path, depth - 1));
        }
    }
    all
}

fn is_known(closures: &[Closure], more: &[Loaded], name: &str) -> bool {
    let mut all = closures.iter().flat_map(|closure| &closure.files).chain(more);
    is_of_glibc(name) || all.any(|file| file.answers_to(name))
}
