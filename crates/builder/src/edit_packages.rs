// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Adding packages to a recipe, and removing them: in its own files, which otherwise stay as they are.

use std::path::{Path, PathBuf};

use cabane_label::{enumerate, escape, shown};
use cabane_recipe::{
    EngineConfig, ListFormat, PackageList, PythonConfig, PythonSource, environment_names,
};
use cabane_report::{Kind as FailureKind, Report};
use serde::Serialize;

use crate::engine::{Kind, RecipeDir};
use crate::plan::read_recipe;
use crate::python::{Requirements, written_lock};
use crate::spack::SPACK_LOCKS;
use crate::{BuildError, Result, disk};

/// The file of a recipe for Spack that lists packages.
const ENVIRONMENTS: &str = "environments.yaml";

/// What is done with packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackageAction {
    /// They are listed; an entry with the same name is replaced.
    Add,
    /// They are no longer listed.
    Remove,
}

/// What became of a package that was named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PackageEdit {
    /// Its name.
    pub package: String,
    /// The file that lists it.
    pub file: PathBuf,
    /// The environment that lists it, in a recipe for Spack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The entry before; `None` if there was none.
    pub before: Option<String>,
    /// The entry now; `None` if it was removed.
    pub now: Option<String>,
}

impl PackageEdit {
    /// Whether the file changes.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.before != self.now
    }
}

/// A recipe whose lists of packages are changed, but not written yet.
#[derive(Debug)]
pub struct EditedRecipe {
    /// What became of each package, in the order in which they were named.
    pub edits: Vec<PackageEdit>,
    /// The lock file, or the directory of lock files, that no longer matches when the files are written.
    pub lock: Option<PathBuf>,
    lists: Vec<OpenList>,
}

/// A list in a file, with its text as it will be.
#[derive(Clone, Debug)]
struct OpenList {
    path: PathBuf,
    real: PathBuf,
    text: String,
    format: ListFormat,
    is_changed: bool,
}

/// Changes which packages a recipe lists. Nothing is written before [`EditedRecipe::write`].
///
/// `directory` is that of the recipe, and `environment` the one that is meant in a recipe for Spack.
///
/// # Errors
///
/// The recipe is malformed or lists no packages; a text is no requirement or spec; several environments or
/// entries could be meant; a package to be removed is not there.
pub fn edit_packages(
    directory: &Path,
    action: PackageAction,
    packages: &[String],
    environment: Option<&str>,
) -> Result<EditedRecipe> {
    let recipe = read_recipe(directory)?;
    let (lists, lock) = match &recipe.engine {
        EngineConfig::Python(_) if environment.is_some() => {
            return Err(refused(
                "only recipes for Spack have environments",
                "remove `--environment`",
            ));
        }
        EngineConfig::Python(config) => python_lists(directory, config)?,
        EngineConfig::Spack(_) => {
            let locks = directory.join(SPACK_LOCKS);
            (environments(directory, environment)?, Some(locks).filter(|locks| locks.is_dir()))
        }
        other => {
            let message = format!("a recipe with the engine `{}` lists no packages", other.name());
            return Err(refused(message, "edit its config.yaml, and build it again"));
        }
    };
    let mut edited = EditedRecipe { edits: Vec::new(), lock, lists };
    for package in packages {
        match action {
            PackageAction::Add => edited.add(package)?,
            PackageAction::Remove => edited.remove(package)?,
        }
    }
    Ok(edited)
}

impl EditedRecipe {
    /// Whether anything changes.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.lists.iter().any(|list| list.is_changed)
    }

    /// Returns the file of a recipe for Spack that changes, with its text.
    #[must_use]
    pub fn environments(&self) -> Option<&str> {
        let is_one = |list: &&OpenList| matches!(list.format, ListFormat::Environment(_));
        self.lists.iter().filter(is_one).find(|list| list.is_changed).map(|list| list.text.as_str())
    }

    /// Writes what has changed. Each file is there as a whole, old or new.
    ///
    /// # Errors
    ///
    /// A file cannot be written.
    pub fn write(&self) -> Result<()> {
        let mut changed = self.lists.iter().filter(|list| list.is_changed);
        changed.try_for_each(|list| disk::replace(&list.real, list.text.as_bytes()))
    }

    /// Finds the entries that a text means: the list, and the number in it.
    fn find(&self, typed: &str) -> Result<Vec<(usize, usize)>> {
        let mut found = Vec::new();
        for (number, list) in self.lists.iter().enumerate() {
            let indexes = list.open()?.find(typed);
            found.extend(indexes.into_iter().map(|index| (number, index)));
        }
        Ok(found)
    }

    fn add(&mut self, package: &str) -> Result<()> {
        let package = package.trim();
        let Some(first) = self.lists.first() else { return Ok(()) };
        let list = first.open()?;
        list.check(package)?;
        let name = list.name(package);
        let is_bare = package.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if let (ListFormat::Environment(_), true) = (&first.format, self.lists.len() > 1) {
            let names: Vec<_> = self.lists.iter().filter_map(OpenList::environment).collect();
            return Err(ambiguous_environment(&names));
        }
        match self.find(package)?.as_slice() {
            [] => {
                let text = list.add(package)?;
                self.change((0, text), name, None, Some(package));
            }
            [(number, index)] => {
                let list = self.lists[*number].open()?;
                let before = list.packages()[*index].text.clone();
                // A name alone asks for no other version.
                if is_bare || list.is_same(&before, package) {
                    let (number, text) = (*number, self.lists[*number].text.clone());
                    self.change((number, text), name, Some(&before), Some(&before));
                } else {
                    let text = list.replace(*index, package)?;
                    self.change((*number, text), name, Some(&before), Some(package));
                }
            }
            several => return Err(self.ambiguous(&name, several)),
        }
        Ok(())
    }

    fn remove(&mut self, package: &str) -> Result<()> {
        let package = package.trim();
        let Some(first) = self.lists.first() else { return Ok(()) };
        let name = first.open()?.name(package);
        match self.find(package)?.as_slice() {
            [] => Err(self.not_listed(&name)?),
            [(number, index)] => {
                let list = self.lists[*number].open()?;
                let before = list.packages()[*index].text.clone();
                let text = list.remove(*index)?;
                self.change((*number, text), name, Some(&before), None);
                Ok(())
            }
            several => Err(self.ambiguous(&name, several)),
        }
    }

    /// Gives a list its new text and remembers what became of the package.
    fn change(
        &mut self,
        (number, text): (usize, String),
        package: String,
        before: Option<&str>,
        now: Option<&str>,
    ) {
        let list = &mut self.lists[number];
        self.edits.push(PackageEdit {
            package,
            file: list.path.clone(),
            environment: list.environment().map(str::to_owned),
            before: before.map(str::to_owned),
            now: now.map(str::to_owned),
        });
        if list.text == text {
            return;
        }
        // Environments are in one file: each list of it sees what the others changed.
        let real = list.real.clone();
        for other in self.lists.iter_mut().filter(|other| other.real == real) {
            other.text.clone_from(&text);
            other.is_changed = true;
        }
    }

    fn not_listed(&self, name: &str) -> Result<BuildError> {
        let mut meant = None;
        for list in &self.lists {
            meant = meant.or(list.open()?.nearest(name).map(str::to_owned));
        }
        let files: Vec<String> = self.files().into_iter().map(|file| shown(&file)).collect();
        let message = format!("{} does not list `{}`", files.join(", "), escape(name));
        let report = Report::new(FailureKind::NotFound, message);
        Ok(report.hinted(meant.map(|meant| format!("did you mean `{}`?", escape(&meant)))).into())
    }

    fn ambiguous(&self, name: &str, found: &[(usize, usize)]) -> BuildError {
        let entry = |(number, index): &(usize, usize)| {
            let list = &self.lists[*number];
            let text = list
                .open()
                .map_or_else(|_| String::new(), |open| open.packages()[*index].text.clone());
            let place = list.environment().map_or_else(|| shown(&list.path), str::to_owned);
            format!("  {}: {}", escape(&place), escape(&text))
        };
        let lines: Vec<String> = found.iter().map(entry).collect();
        let is_in_several = found.iter().any(|(number, _)| *number != found[0].0);
        let hint = if is_in_several && self.lists[0].environment().is_some() {
            "name the environment: `--environment NAME`"
        } else {
            "type the whole entry, or edit the file"
        };
        let message = format!("`{}` is listed {} times", escape(name), found.len());
        let report = Report::new(FailureKind::Ambiguous, message).detailed(lines.join("\n"));
        report.hinted(hint.to_owned()).into()
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.lists.iter().map(|list| list.path.clone()).collect();
        files.dedup();
        files
    }
}

impl OpenList {
    fn open(&self) -> Result<PackageList<'_>> {
        Ok(PackageList::read(&self.text, &self.format)?)
    }

    fn environment(&self) -> Option<&str> {
        match &self.format {
            ListFormat::Environment(name) => Some(name),
            _ => None,
        }
    }
}

/// Opens the lists of a recipe for Python, and returns its lock file, if there is one.
fn python_lists(
    directory: &Path,
    config: &PythonConfig,
) -> Result<(Vec<OpenList>, Option<PathBuf>)> {
    let path = std::fs::canonicalize(directory).map_err(BuildError::file("open", directory))?;
    let recipe = RecipeDir { path };
    let open = |relative: &Path, real: PathBuf, format| {
        let text = disk::read_text(&real)?;
        let path = directory.join(relative);
        Ok::<_, BuildError>(OpenList { path, real, text, format, is_changed: false })
    };
    match &config.source {
        PythonSource::Requirements(path) => {
            let requirements = Requirements::read(&recipe, path)?;
            if requirements.locked && !requirements.lines.is_empty() {
                let message = format!(
                    "{} is a lock file: it has the hash of each package",
                    shown(&directory.join(path))
                );
                let hint = "list the packages in a file without hashes, and type `cabane lock`";
                return Err(refused(message, hint));
            }
            let list = |relative: &PathBuf| {
                let real = recipe.find_inside(relative, Kind::File)?;
                open(relative, real, ListFormat::Requirements)
            };
            let lists = requirements.lists.iter().map(list).collect::<Result<_>>()?;
            let lock = directory.join(written_lock::path_for(path));
            Ok((lists, Some(lock).filter(|lock| written_lock::is_one(lock))))
        }
        PythonSource::Project(project) => {
            let relative = project.join("pyproject.toml");
            let real = recipe.find(&relative, Kind::File)?;
            let lock = directory.join(project).join("uv.lock");
            let lists = vec![open(&relative, real, ListFormat::Project)?];
            Ok((lists, Some(lock).filter(|lock| lock.exists())))
        }
    }
}

/// Opens the list of one environment, or those of all.
fn environments(directory: &Path, wanted: Option<&str>) -> Result<Vec<OpenList>> {
    let path = directory.join(ENVIRONMENTS);
    let real = std::fs::canonicalize(&path).map_err(BuildError::file("open", &path))?;
    let text = disk::read_text(&real)?;
    let names = match wanted {
        Some(name) => vec![name.to_owned()],
        None => environment_names(&text)?,
    };
    let list = |name: String| {
        let list = OpenList {
            path: path.clone(),
            real: real.clone(),
            text: text.clone(),
            format: ListFormat::Environment(name),
            is_changed: false,
        };
        list.open()?;
        Ok(list)
    };
    names.into_iter().map(list).collect()
}

fn ambiguous_environment(names: &[&str]) -> BuildError {
    let names = enumerate(names, "and");
    let message = format!("the recipe has several environments: {names}");
    let hint = "name the one that gets the package: `--environment NAME`";
    Report::new(FailureKind::Ambiguous, message).hinted(hint.to_owned()).into()
}

fn refused(message: impl Into<String>, hint: &str) -> BuildError {
    Report::new(FailureKind::Usage, message.into()).hinted(hint.to_owned()).into()
}
