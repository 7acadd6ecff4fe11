// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Easyblocks and hooks of a recipe: Python code that EasyBuild runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_label::shown;
use cabane_recipe::{Diagnostic, EasyBuildConfig, NamedPath, malformed};

use super::tool::Tool;
use crate::engine::{Kind, RecipeDir};
use crate::fingerprint::{self, Inputs};
use crate::layout::Inside;
use crate::plan::CONFIG;
use crate::{BuildError, Result, disk, program};

const ENDING: &str = "py";
/// Says that a directory is a package of Python. EasyBuild writes its own.
const PACKAGE: &str = "__init__.py";
/// How deep easyblocks are below a directory that the recipe names.
const DEPTH: usize = 4;
/// How the class of an easyblock begins that is for one software. EasyBuild looks for it, too.
const SPECIFIC: &str = "class EB_";
/// Compiles files, and says where the first mistake is: the number of the file, line, column, and reason.
const CHECK: &str = "\
import sys
for number, path in enumerate(sys.argv[1:]):
    try:
        with open(path, 'rb') as file:
            compile(file.read(), path, 'exec')
    except SyntaxError as error:
        sys.exit(f'{number} {error.lineno or 1} {error.offset or 1} {error.msg}')
    except ValueError as error:
        sys.exit(f'{number} 1 1 {error}')
";

/// The code of a recipe.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnCode {
    /// Files with easyblocks, relative to the recipe.
    easyblocks: Vec<PathBuf>,
    /// The file with hooks, in the same way.
    hooks: Option<PathBuf>,
    /// What decides about packages.
    pub(super) inputs: Inputs,
}

impl OwnCode {
    /// Finds the files that a recipe names. Each must be there, and be Python.
    pub(super) fn find(
        config: &EasyBuildConfig,
        directory: &RecipeDir,
        tool: &Tool,
    ) -> Result<Self> {
        let mut easyblocks = Vec::new();
        for named in &config.easyblocks {
            add(named, directory, &mut easyblocks)?;
        }
        easyblocks.sort();
        easyblocks.dedup();
        refuse_same_names(&easyblocks, directory)?;
        if let Some(named) = &config.hooks {
            find(named, directory, Kind::File)?;
        }
        let hooks = config.hooks.as_ref().map(|named| named.path.clone());
        let mut inputs = Inputs::new();
        for path in easyblocks.iter().chain(&hooks) {
            let here = directory.path.join(path);
            let digest = fingerprint::of_file(&here).map_err(BuildError::file("read", &here))?;
            inputs.insert(path.to_string_lossy().into_owned(), digest.to_string());
        }
        if !easyblocks.is_empty() {
            inputs.insert("easyblocks".to_owned(), joined(&easyblocks, ""));
        }
        if let Some(path) = &hooks {
            inputs.insert("hooks".to_owned(), path.to_string_lossy().into_owned());
        }
        let found = Self { easyblocks, hooks, inputs };
        found.check(directory, tool)?;
        Ok(found)
    }

    /// Whether there is code that EasyBuild runs between packages.
    pub(super) fn has_hooks(&self) -> bool {
        self.hooks.is_some()
    }

    /// The options that make EasyBuild use it.
    pub(super) fn options(&self) -> Vec<String> {
        let mut options = Vec::new();
        if !self.easyblocks.is_empty() {
            let paths = joined(&self.easyblocks, Inside::RECIPE);
            options.push(format!("--include-easyblocks={paths}"));
        }
        if let Some(hooks) = &self.hooks {
            options.push(format!("--hooks={}", Path::new(Inside::RECIPE).join(hooks).display()));
        }
        options
    }

    /// The files, for the metadata of the image.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.easyblocks.iter().chain(&self.hooks)
    }

    /// Fails at the first mistake that the Python of EasyBuild finds without running anything.
    fn check(&self, directory: &RecipeDir, tool: &Tool) -> Result<()> {
        let files: Vec<String> = self
            .files()
            .map(|path| directory.path.join(path).to_string_lossy().into_owned())
            .collect();
        if files.is_empty() {
            return Ok(());
        }
        let python = tool.python_here();
        let mut arguments = vec!["-I", "-Wignore", "-c", CHECK];
        arguments.extend(files.iter().map(String::as_str));
        let Err(answer) = program::ask_nothing(&python, &arguments) else { return Ok(()) };
        let mut parts = answer.splitn(4, ' ');
        let mut number = || parts.next().and_then(|part| part.parse::<usize>().ok());
        let (Some(file), Some(line), Some(column)) = (number(), number(), number()) else {
            let message =
                format!("{} cannot check the easyblocks and hooks: {answer}", shown(&python));
            return Err(BuildError::refused(message, None));
        };
        let reason = parts.next().unwrap_or_default();
        let Some(path) = self.files().nth(file) else { return Ok(()) };
        let here = directory.path.join(path);
        let text = String::from_utf8_lossy(&disk::read(&here)?).into_owned();
        let start = offset(&text, line, column);
        let diagnostic = Diagnostic::new(&here, &text, start..start + 1, reason);
        Err(malformed("the recipe", &[diagnostic]).into())
    }
}

/// Returns the byte at a line and a column, both counted from 1.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let rest = text.get(before..).unwrap_or_default();
    let within = rest.char_indices().nth(column.saturating_sub(1));
    before + within.map_or(rest.len(), |(place, _)| place)
}

fn joined(paths: &[PathBuf], below: &str) -> String {
    let paths = paths.iter().map(|path| Path::new(below).join(path).to_string_lossy().into_owned());
    paths.collect::<Vec<_>>().join(",")
}

/// Adds a file, or the files in a directory.
fn add(named: &NamedPath, directory: &RecipeDir, files: &mut Vec<PathBuf>) -> Result<()> {
    if named.path.extension().is_some() {
        find(named, directory, Kind::File)?;
        files.push(named.path.clone());
        return Ok(());
    }
    find(named, directory, Kind::Directory)?;
    let before = files.len();
    add_directory(&directory.path, &named.path, DEPTH, files)?;
    if files.len() == before {
        let message = "there are no easyblocks in this directory";
        let hint = "put a file `NAME.py` into it, or remove it here";
        return Err(mistake(named, directory, message, hint));
    }
    Ok(())
}

fn add_directory(root: &Path, below: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in disk::entries("list", &root.join(below))? {
        let (name, here) = (entry.file_name(), entry.path());
        let is_hidden = name.to_string_lossy().starts_with('.');
        if here.is_dir() {
            if depth > 1 && !is_hidden && !here.is_symlink() {
                add_directory(root, &below.join(&name), depth - 1, files)?;
            }
        } else if here.extension().is_some_and(|end| end == ENDING) && !is_hidden && name != PACKAGE
        {
            files.push(below.join(&name));
        }
    }
    Ok(())
}

/// Makes sure that a path leads to a file or a directory of the recipe.
fn find(named: &NamedPath, directory: &RecipeDir, want: Kind) -> Result<()> {
    let here = directory.path.join(&named.path);
    let (is_there, expected) = match want {
        Kind::File => (here.is_file(), "file"),
        Kind::Directory => (here.is_dir(), "directory"),
    };
    if !is_there {
        let message = format!("the recipe has no {expected} {}", shown(&named.path));
        let hint = format!("create {}, or remove it here", shown(&here));
        return Err(mistake(named, directory, &message, &hint));
    }
    if directory.find_inside(&named.path, want).is_err() {
        let message = format!("{} is a link to a place outside of the recipe", shown(&named.path));
        let hint = "copy the file into the directory of config.yaml";
        return Err(mistake(named, directory, &message, hint));
    }
    Ok(())
}

/// Shows the line of the recipe that names a path, and what is wrong about it.
fn mistake(named: &NamedPath, directory: &RecipeDir, message: &str, hint: &str) -> BuildError {
    let file = directory.path.join(CONFIG);
    let text = fs::read_to_string(&file).unwrap_or_default();
    let diagnostic = Diagnostic::new(&file, &text, named.place.clone(), message).with_hint(hint);
    malformed("the recipe", &[diagnostic]).into()
}

/// Fails if two files would be the same module: EasyBuild would use one of them, and say nothing.
fn refuse_same_names(files: &[PathBuf], directory: &RecipeDir) -> Result<()> {
    let mut seen = BTreeMap::new();
    for path in files {
        let text = disk::read(&directory.path.join(path))?;
        let text = String::from_utf8_lossy(&text);
        let is_specific = text.lines().any(|line| line.starts_with(SPECIFIC));
        if let Some(other) = seen.insert((path.file_name(), is_specific), path) {
            let (path, other) = (shown(path), shown(other));
            let message = format!(
                "the easyblocks {other} and {path} have the same name, and EasyBuild can use only one"
            );
            return Err(BuildError::refused(message, "rename one of the files"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_mistake_counts_characters() {
        let text = "a = 1\né = = 2\n";
        assert_eq!(offset(text, 2, 5), text.find("= 2").unwrap());
        assert_eq!(offset(text, 9, 1), text.len());
    }
}
