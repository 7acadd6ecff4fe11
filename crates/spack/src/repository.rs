// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Package repositories, read through files that the caller has.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::package_text::{self, PackageText};
use crate::variant_values::Values;

/// The files of a package repository.
pub trait RepositoryFiles {
    /// Lists the names in a directory; none if it is not there.
    fn list(&self, directory: &str) -> Vec<String>;
    /// Reads a file; `None` if it is not there.
    fn read(&self, path: &str) -> Option<String>;
}

/// A package repository. What was read of it is kept.
pub struct PackageIndex {
    namespace: String,
    files: Box<dyn RepositoryFiles>,
    /// The directory of each package.
    directories: OnceCell<BTreeMap<String, String>>,
    virtuals: OnceCell<BTreeSet<String>>,
    modules: RefCell<BTreeMap<String, Option<Rc<PackageText>>>>,
}

impl PackageIndex {
    /// Takes the files of a repository, in whose `packages/` the packages are.
    #[must_use]
    pub fn new(namespace: &str, files: Box<dyn RepositoryFiles>) -> Self {
        Self {
            namespace: namespace.to_owned(),
            files,
            directories: OnceCell::new(),
            virtuals: OnceCell::new(),
            modules: RefCell::default(),
        }
    }

    /// Returns the names of all packages.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.directories().keys().map(String::as_str)
    }

    fn directories(&self) -> &BTreeMap<String, String> {
        self.directories.get_or_init(|| {
            let all = self.files.list("packages").into_iter();
            let all = all.filter(|directory| !directory.starts_with("__"));
            all.map(|directory| (package_of(&directory), directory)).collect()
        })
    }

    /// Whether it has a package.
    fn has(&self, name: &str) -> bool {
        // Before the package API 2.0, directories are called as packages are.
        self.directories().contains_key(&name.replace('_', "-"))
    }

    /// Returns the virtual packages that its packages provide.
    fn virtuals(&self) -> &BTreeSet<String> {
        self.virtuals.get_or_init(|| {
            let directories = self.directories().values();
            // One at a time: all of them may be more than fits into memory.
            let texts = directories.filter_map(|one| self.files.read(&package_path(one)));
            let texts = texts.filter(|text| text.contains("provides("));
            texts.flat_map(|text| package_text::read(&text).provides).collect()
        })
    }

    fn module(&self, path: &str) -> Option<Rc<PackageText>> {
        if let Some(known) = self.modules.borrow().get(path) {
            return known.clone();
        }
        let text = self.files.read(path);
        let found = text.map(|text| Rc::new(package_text::read(&text)));
        self.modules.borrow_mut().insert(path.to_owned(), found.clone());
        found
    }
}

/// Whether a text is a name of Python: it becomes a part of a path.
fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// The package of a directory: `py-numpy` of `py_numpy`, `3dtk` of `_3dtk`.
fn package_of(directory: &str) -> String {
    directory.trim_start_matches('_').replace('_', "-")
}

fn package_path(directory: &str) -> String {
    format!("packages/{directory}/package.py")
}

/// What is known of a package: its own declarations and those of all that it imports.
#[derive(Debug, Default)]
pub struct PackageFacts {
    /// The versions, and whether each is deprecated.
    pub versions: BTreeMap<String, bool>,
    /// Whether it may have others.
    pub has_other_versions: bool,
    /// The variants, and the values that each can have.
    pub variants: BTreeMap<String, Values>,
    /// Whether it may have others.
    pub has_other_variants: bool,
}

/// Returns what is known of a package, which the first repository is asked for that has it.
#[must_use]
pub fn declared(repositories: &[Rc<PackageIndex>], name: &str) -> Option<PackageFacts> {
    Repositories(repositories).find(name)
}

/// Whether a package of the repositories provides a virtual package.
#[must_use]
pub fn is_virtual(repositories: &[Rc<PackageIndex>], name: &str) -> bool {
    Repositories(repositories).has_virtual(name)
}

/// The repositories of a recipe, in the order in which Spack searches them.
pub(crate) struct Repositories<'r>(pub(crate) &'r [Rc<PackageIndex>]);

impl Repositories<'_> {
    /// Finds a package: `hdf5`, or `builtin.hdf5`.
    pub(crate) fn find(&self, name: &str) -> Option<PackageFacts> {
        let (namespace, name) = match name.rsplit_once('.') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, name),
        };
        let is_meant = |one: &&Rc<PackageIndex>| {
            namespace.is_none_or(|namespace| namespace == one.namespace) && one.has(name)
        };
        let found = self.0.iter().find(is_meant)?;
        let directory = found.directories().get(&name.replace('_', "-"))?;
        let mut facts = PackageFacts::default();
        self.gather(found, &package_path(directory), &mut facts);
        Some(facts)
    }

    /// Whether packages provide a virtual package.
    pub(crate) fn has_virtual(&self, name: &str) -> bool {
        self.0.iter().any(|one| one.virtuals().contains(name))
    }

    /// Adds what a module and those that it imports declare.
    fn gather(&self, repository: &Rc<PackageIndex>, path: &str, facts: &mut PackageFacts) {
        let mut open = vec![(Rc::clone(repository), path.to_owned())];
        let mut seen = BTreeSet::new();
        while let Some((repository, path)) = open.pop() {
            if !seen.insert((repository.namespace.clone(), path.clone())) {
                continue;
            }
            let Some(module) = repository.module(&path) else {
                facts.has_other_versions = true;
                facts.has_other_variants = true;
                continue;
            };
            for (version, is_deprecated) in &module.versions {
                facts.versions.insert(version.clone(), *is_deprecated);
            }
            for (name, values) in &module.variants {
                facts.variants.entry(name.clone()).or_default().add(values.clone());
            }
            facts.has_other_versions |= module.has_other_versions || module.has_unknown_base;
            facts.has_other_variants |= module.has_other_variants || module.has_unknown_base;
            for (name, taken) in &module.imports {
                if let Some(found) = self.resolve(&repository, &path, name, taken) {
                    open.extend(found);
                } else {
                    facts.has_other_versions = true;
                    facts.has_other_variants = true;
                }
            }
        }
    }

    /// Finds the files of an import; `None` if it is of a package that is not here.
    fn resolve(
        &self,
        repository: &Rc<PackageIndex>,
        path: &str,
        module: &str,
        taken: &[String],
    ) -> Option<Vec<(Rc<PackageIndex>, String)>> {
        let (repositories, parts) = self.place(repository, path, module)?;
        if repositories.is_empty() {
            return Some(Vec::new());
        }
        let mut found = Vec::new();
        for one in repositories {
            let mut paths = vec![format!("{parts}.py"), format!("{parts}/__init__.py")];
            let taken = || taken.iter().filter(|name| is_identifier(name));
            paths.extend(taken().map(|name| format!("{parts}/{name}.py")));
            paths.extend(taken().map(|name| format!("{parts}/{name}/package.py")));
            paths.retain(|path| one.module(path).is_some());
            found.extend(paths.into_iter().map(|path| (Rc::clone(&one), path)));
        }
        (!found.is_empty()).then_some(found)
    }

    /// Where a module is: in which repositories, and at which path without its ending. No
    /// repositories for modules that declare nothing.
    fn place(
        &self,
        repository: &Rc<PackageIndex>,
        path: &str,
        module: &str,
    ) -> Option<(Vec<Rc<PackageIndex>>, String)> {
        let nothing = Some((Vec::new(), String::new()));
        let words = module.trim_start_matches('.');
        if !words.is_empty() && !words.split('.').all(is_identifier) {
            return None;
        }
        if module.starts_with('.') {
            let dots = module.len() - module.trim_start_matches('.').len();
            let rest = module[dots..].replace('.', "/");
            let mut parts: Vec<&str> = path.split('/').collect();
            parts.truncate(parts.len().saturating_sub(dots));
            if !rest.is_empty() {
                parts.push(&rest);
            }
            return Some((vec![Rc::clone(repository)], parts.join("/")));
        }
        let parts: Vec<&str> = module.split('.').collect();
        let (namespace, path) = match parts.as_slice() {
            ["spack_repo", namespace, rest @ ..] => (namespace, rest.join("/")),
            ["spack", "pkg", namespace, name, ..] => {
                (namespace, format!("packages/{name}/package"))
            }
            // The classes of Spack itself before package recipes had their own.
            ["spack", "build_systems", ..] | ["spack_repo", ..] => return None,
            _ => return nothing,
        };
        let named = self.0.iter().filter(|one| one.namespace == *namespace).cloned();
        let named: Vec<_> = named.collect();
        Some((if named.is_empty() { self.0.to_vec() } else { named }, path))
    }
}
