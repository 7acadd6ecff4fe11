// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Changing which packages a recipe lists. Of a file, only the lines of the packages change.
//!
//! [`PackageList`] finds the packages of a requirements file, of a `pyproject.toml`, or of an environment
//! in `environments.yaml`. Each change returns the new text, which is read again: a change in the wrong
//! place is an error.

mod brackets;
mod lines;
mod markers;
mod requirement;
mod versions;

use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use cabane_label::{enumerate, escape};
use cabane_report::{Kind, Report as Failure, Result};

use crate::diagnostic::{Source, malformed};
use crate::language::Language;
use crate::node::{Entry, Node, Value};
use crate::report::Report;
use crate::stack::{Yaml, package_name};
use crate::suggest::nearest;

pub use requirement::python_name;

/// Where packages are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListFormat {
    /// A requirements file of Python.
    Requirements,
    /// `project.dependencies` of a `pyproject.toml`.
    Project,
    /// `specs` of an environment, by its name, in `environments.yaml`.
    Environment(String),
}

/// A package in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPackage {
    /// Its name, as it is compared.
    pub name: String,
    /// The whole entry: `hdf5@1.14 +mpi`, `pandas>=2`.
    pub text: String,
    place: Range<usize>,
}

/// How a list is written.
#[derive(Clone, Debug)]
enum Shape {
    /// A requirement in each line.
    Lines,
    /// Items with dashes.
    Dashes,
    /// Items in brackets, of which the first has this place.
    Brackets(usize),
    /// There is none yet: the place for it, and what comes before and behind the item.
    None(usize, &'static str, &'static str),
}

/// The packages that a file lists.
#[derive(Clone, Debug)]
pub struct PackageList<'t> {
    text: &'t str,
    format: ListFormat,
    packages: Vec<ListedPackage>,
    shape: Shape,
    /// Where the colon is that a list with dashes follows.
    colon: usize,
    /// What the file lists elsewhere, which no change may touch.
    others: Vec<String>,
}

impl<'t> PackageList<'t> {
    /// Finds the packages in the text of a file.
    ///
    /// # Errors
    ///
    /// The file is malformed, or has no such list.
    pub fn read(text: &'t str, format: &ListFormat) -> Result<Self> {
        let mut list = Self {
            text,
            format: format.clone(),
            packages: Vec::new(),
            shape: Shape::Lines,
            colon: 0,
            others: Vec::new(),
        };
        match format {
            ListFormat::Requirements => {
                let found = lines::requirements(text).into_iter();
                list.packages = found.map(|(place, text)| list.package(text, place)).collect();
            }
            ListFormat::Project => list.read_project()?,
            ListFormat::Environment(name) => list.read_environment(name)?,
        }
        Ok(list)
    }

    /// Returns the packages in the order of the file.
    #[must_use]
    pub fn packages(&self) -> &[ListedPackage] {
        &self.packages
    }

    /// Returns the numbers of the entries that a text means: the entry that is the same, or else all with
    /// the name.
    #[must_use]
    pub fn find(&self, typed: &str) -> Vec<usize> {
        let same = |one: &ListedPackage| self.is_same(&one.text, typed);
        if let Some(found) = self.packages.iter().position(same) {
            return vec![found];
        }
        let name = self.name(typed);
        let named = self.packages.iter().enumerate().filter(|(_, one)| one.name == name);
        named.map(|(index, _)| index).collect()
    }

    /// Whether two entries say the same.
    #[must_use]
    pub fn is_same(&self, one: &str, other: &str) -> bool {
        let between = if self.is_python() { "" } else { " " };
        let compact = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(between);
        compact(one) == compact(other)
    }

    /// Returns the listed name that is most like a name.
    #[must_use]
    pub fn nearest(&self, name: &str) -> Option<&str> {
        let names: Vec<&str> = self.packages.iter().map(|one| one.name.as_str()).collect();
        nearest(name, &names)
    }

    /// Returns the name of the package that an entry is about, as it is compared.
    #[must_use]
    pub fn name(&self, entry: &str) -> String {
        match &self.format {
            ListFormat::Environment(_) => {
                let name = package_name(entry);
                name.rsplit('.').next().unwrap_or(name).to_owned()
            }
            _ => python_name(requirement::name_of(entry).unwrap_or(entry)),
        }
    }

    /// Fails if a text cannot be an entry.
    ///
    /// # Errors
    ///
    /// It is no requirement of Python, or no spec that begins with a name.
    pub fn check(&self, entry: &str) -> Result<()> {
        if self.is_python() {
            return requirement::check(entry);
        }
        let refused = |why: &str, hint: Option<String>| {
            let message = format!("`{}` is not the spec of a package: {why}", escape(entry));
            let usual = || "examples: `cmake`, `hdf5@1.14`, `'hdf5+mpi'`".to_owned();
            Failure::new(Kind::BadInput, message).hinted(hint.unwrap_or_else(usual))
        };
        match crate::stack::read_spec(entry) {
            Ok(parts) if parts.package.is_some() => Ok(()),
            Ok(_) => Err(refused("it does not begin with a name", None)),
            Err(problem) => Err(refused(&problem.message, problem.hint)),
        }
    }

    /// Returns the text with another entry at the end of the list.
    ///
    /// # Errors
    ///
    /// The list is written in a way that is not understood.
    pub fn add(&self, entry: &str) -> Result<String> {
        let new = self.quoted(entry);
        let places: Vec<_> = self.packages.iter().map(|one| one.place.clone()).collect();
        let text = match (&self.shape, places.last()) {
            (Shape::Lines, _) => lines::insert(self.text, self.text.len(), &new),
            (Shape::Dashes, Some(last)) => {
                let dash = lines::dash(self.text, last).ok_or_else(|| self.not_edited())?;
                let end = lines::line_end(self.text, last.end);
                lines::insert(self.text, end, &format!("{dash}{new}"))
            }
            (Shape::Dashes, None) => return Err(self.not_edited()),
            (Shape::Brackets(open), _) => brackets::add(self.text, *open, &places, &new),
            (Shape::None(at, before, after), _) => {
                format!("{}{before}{new}{after}{}", &self.text[..*at], &self.text[*at..])
            }
        };
        let mut wanted = self.entries();
        wanted.push(entry);
        self.checked(text, &wanted)
    }

    /// Returns the text with another entry in the place of the one with this number.
    ///
    /// # Errors
    ///
    /// As [`Self::add`].
    pub fn replace(&self, index: usize, entry: &str) -> Result<String> {
        let place = &self.packages[index].place;
        let (before, after) = (&self.text[..place.start], &self.text[place.end..]);
        let mut wanted = self.entries();
        wanted[index] = entry;
        self.checked(format!("{before}{}{after}", self.quoted(entry)), &wanted)
    }

    /// Returns the text without the entry with this number.
    ///
    /// # Errors
    ///
    /// As [`Self::add`].
    pub fn remove(&self, index: usize) -> Result<String> {
        let place = &self.packages[index].place;
        let mut places: Vec<_> = self.packages.iter().map(|one| one.place.clone()).collect();
        let text = match &self.shape {
            Shape::Lines => lines::remove(self.text, place),
            Shape::Dashes => {
                lines::dash(self.text, place).ok_or_else(|| self.not_edited())?;
                let text = lines::remove(self.text, place);
                places.remove(index);
                let (head, tail) = text.split_at(self.colon);
                // A list without items is written in brackets.
                if places.is_empty() { format!("{head} []{tail}") } else { text }
            }
            Shape::Brackets(_) => brackets::remove(self.text, &places, index),
            Shape::None(..) => return Err(self.not_edited()),
        };
        let mut wanted = self.entries();
        wanted.remove(index);
        self.checked(text, &wanted)
    }

    fn entries(&self) -> Vec<&str> {
        self.packages.iter().map(|one| one.text.as_str()).collect()
    }

    /// Reads a text that was changed.
    fn checked(&self, text: String, wanted: &[&str]) -> Result<String> {
        let read = PackageList::read(&text, &self.format).map_err(|_| self.not_edited())?;
        if read.entries() == wanted && read.others == self.others {
            return Ok(text);
        }
        Err(self.not_edited())
    }

    fn not_edited(&self) -> Failure {
        let (file, key) = match &self.format {
            ListFormat::Requirements => ("the requirements file", "list"),
            ListFormat::Project => ("pyproject.toml", "`dependencies`"),
            ListFormat::Environment(_) => ("environments.yaml", "`specs`"),
        };
        let message = format!("{file} is written in a way that this command cannot change");
        let hint = format!("edit the {key} by hand; one package in each line always works");
        Failure::new(Kind::BadInput, message).hinted(hint)
    }

    fn is_python(&self) -> bool {
        !matches!(self.format, ListFormat::Environment(_))
    }

    /// Returns an entry as the file has it.
    fn quoted(&self, entry: &str) -> String {
        match &self.format {
            ListFormat::Requirements => entry.to_owned(),
            ListFormat::Project if entry.contains('"') && !entry.contains('\'') => {
                format!("'{entry}'")
            }
            ListFormat::Project => format!("{entry:?}"),
            ListFormat::Environment(_) => Yaml::from(entry).to_string().trim_end().to_owned(),
        }
    }

    fn package(&self, text: String, place: Range<usize>) -> ListedPackage {
        ListedPackage { name: self.name(&text), text, place }
    }
}

impl PackageList<'_> {
    fn read_project(&mut self) -> Result<()> {
        let refused = |why: &str, hint: &str| {
            let message = format!("pyproject.toml {why}");
            Failure::new(Kind::BadInput, message).hinted(hint.to_owned())
        };
        let root = self.tree(Language::Toml)?;
        let project = find(&root, "project").ok_or_else(|| {
            refused("has no table `[project]`", "a project has at least `name` and `version` there")
        })?;
        if let Some(list) = find(&project.value, "dependencies") {
            let items = items(&list.value).ok_or_else(|| {
                refused("has `dependencies` that are no list", "write `dependencies = []`")
            })?;
            self.shape = Shape::Brackets(list.value.place.start);
            return self.take(items);
        }
        let dynamic = find(&project.value, "dynamic");
        let dynamic = dynamic.and_then(|list| items(&list.value)).unwrap_or_default();
        if dynamic.iter().any(|one| text_of(one) == Some("dependencies")) {
            let hint = "list the packages where the build of the project reads them";
            return Err(refused("says that another file lists the dependencies", hint));
        }
        let last = ["version", "name"].iter().find_map(|key| find(&project.value, key));
        let last = last.ok_or_else(|| self.not_edited())?;
        let end = lines::line_end(self.text, last.value.place.end);
        self.shape = Shape::None(end, "dependencies = [", "]\n");
        Ok(())
    }

    fn read_environment(&mut self, name: &str) -> Result<()> {
        let root = self.tree(Language::Yaml)?;
        let Value::Section(environments) = &root.value else { return Err(self.not_edited()) };
        for one in environments.iter().filter(|one| one.key != name) {
            let specs = find(&one.value, "specs").and_then(|specs| items(&specs.value));
            let texts = specs.unwrap_or_default().iter().filter_map(|spec| text_of(spec));
            self.others.extend([one.key.as_str()].into_iter().chain(texts).map(str::to_owned));
        }
        let environment = environments.iter().find(|one| one.key == name);
        let environment = environment.ok_or_else(|| no_environment(name, environments))?;
        let specs = find(&environment.value, "specs").ok_or_else(|| self.not_edited())?;
        let place = specs.key_place.end;
        let colon = self.text[place..].find(':').map(|colon| place + colon + 1);
        self.colon = colon.ok_or_else(|| self.not_edited())?;
        let start = specs.value.place.start;
        match &specs.value.value {
            Value::Null => {
                self.shape = Shape::None(self.colon, " [", "]");
                Ok(())
            }
            Value::List(specs) => {
                let is_flow = self.text[start..].starts_with('[');
                self.shape = if is_flow { Shape::Brackets(start) } else { Shape::Dashes };
                self.take(&specs.clone())
            }
            _ => Err(self.not_edited()),
        }
    }

    fn take(&mut self, items: &[Rc<Node>]) -> Result<()> {
        for item in items {
            let text = text_of(item).ok_or_else(|| self.not_edited())?.to_owned();
            let package = self.package(text, item.place.into());
            self.packages.push(package);
        }
        Ok(())
    }

    fn tree(&self, language: Language) -> Result<Rc<Node>> {
        tree(self.text, language)
    }
}

fn tree(text: &str, language: Language) -> Result<Rc<Node>> {
    let name = if language == Language::Toml { "pyproject.toml" } else { "environments.yaml" };
    let source = Source::new(Path::new(name), text);
    let report = Report::new(&source, language);
    let root = match language {
        Language::Toml => crate::toml_tree::parse(&report),
        Language::Yaml => crate::yaml::parse(&report),
    };
    match report.finish(root) {
        Ok(root) => Ok(root),
        Err(problems) => Err(malformed(name, &problems)),
    }
}

/// Returns the names of the environments in `environments.yaml`.
///
/// # Errors
///
/// The file is malformed.
pub fn environment_names(text: &str) -> Result<Vec<String>> {
    let root = tree(text, Language::Yaml)?;
    let Value::Section(environments) = &root.value else { return Ok(Vec::new()) };
    Ok(environments.iter().map(|one| one.key.clone()).collect())
}

fn no_environment(name: &str, environments: &[Entry]) -> Failure {
    let names: Vec<&str> = environments.iter().map(|one| one.key.as_str()).collect();
    let message = format!("environments.yaml has no environment `{}`", escape(name));
    let hint = match nearest(name, &names) {
        Some(meant) => format!("did you mean `--environment {meant}`?"),
        None => format!("its environments are {}", enumerate(&names, "and")),
    };
    Failure::new(Kind::NotFound, message).hinted(hint)
}

fn find<'n>(node: &'n Node, key: &str) -> Option<&'n Entry> {
    match &node.value {
        Value::Section(entries) => entries.iter().find(|entry| entry.key == key),
        _ => None,
    }
}

fn items(node: &Node) -> Option<&[Rc<Node>]> {
    match &node.value {
        Value::List(items) => Some(items),
        _ => None,
    }
}

fn text_of(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar(scalar) => Some(&scalar.text),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
