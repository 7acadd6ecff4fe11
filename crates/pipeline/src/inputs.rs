// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an image is built from, as one sum.
//!
//! The sum depends on the content, the names and the modes of files, and not on where they are or when
//! they were written: two clones of a repository have the same. Files that a recipe names outside of the
//! directory of the pipeline are not read, since they may be large: their names, sizes and times count.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cabane_builder::{Base, bases, digest_of, read_recipe};
use cabane_label::{Digest, shown};
use cabane_recipe::{EngineConfig, PythonSource};
use cabane_report::{IoContext, Kind, Report, Result};

use crate::directory::DIRECTORY;

/// The most files of one directory. More are something else than a recipe.
const MOST_FILES: usize = 100_000;
/// What git has in the directory itself.
const GIT: &str = ".git";
/// Directories that tools make, wherever they are: Python writes while the tests of a suite run.
const IGNORED: [&str; 2] = ["__pycache__", DIRECTORY];

/// The sums of directories that were read. Many cells have the same system.
#[derive(Debug, Default)]
pub(crate) struct Sums(BTreeMap<PathBuf, Digest>);

impl Sums {
    /// Returns the sum of a file or directory that a recipe names: of its content if it is below `home`.
    pub(crate) fn outside(&mut self, path: &Path, home: &Path) -> Result<Digest> {
        let is_near = path.starts_with(home);
        if path.is_dir() && is_near {
            return self.directory(path);
        }
        if let Some(known) = self.0.get(path) {
            return Ok(known.clone());
        }
        let read = || -> io::Result<Vec<String>> {
            if is_near {
                return Ok(vec![digest_of(&fs::read(path)?).to_string()]);
            }
            let mut lines = Vec::new();
            list(path, Path::new(""), &mut lines)?;
            lines.sort_unstable();
            Ok(lines)
        };
        let lines = read().or_failed(|| format!("read {}", shown(path)))?;
        check_count(path, lines.len())?;
        let sum = digest_of(lines.join("\n").as_bytes());
        self.0.insert(path.to_owned(), sum.clone());
        Ok(sum)
    }

    /// Returns the sum of a directory.
    pub(crate) fn directory(&mut self, directory: &Path) -> Result<Digest> {
        if let Some(known) = self.0.get(directory) {
            return Ok(known.clone());
        }
        let mut lines = Vec::new();
        add(directory, Path::new(""), &mut lines)
            .or_failed(|| format!("read {}", shown(directory)))?;
        check_count(directory, lines.len())?;
        lines.sort_unstable();
        let sum = digest_of(&lines.concat());
        self.0.insert(directory.to_owned(), sum.clone());
        Ok(sum)
    }
}

/// What a recipe is built from outside of its own directory: files, and bases.
pub(crate) fn outside(recipe: &Path) -> (Vec<PathBuf>, Vec<Base>) {
    // What is malformed is reported by the build.
    let Ok(parsed) = read_recipe(recipe) else { return Default::default() };
    let bases = bases(&parsed);
    let named: Vec<PathBuf> = match parsed.engine {
        EngineConfig::Tree(tree) => vec![tree.source],
        EngineConfig::Python(python) => {
            let (PythonSource::Requirements(source) | PythonSource::Project(source)) =
                python.source;
            python.wheels.into_iter().chain([source]).collect()
        }
        EngineConfig::Container(container) => {
            container.files.into_iter().map(|(_, path)| path).collect()
        }
        // Sources of EasyBuild have checksums in its easyconfigs.
        EngineConfig::Spack(_) | EngineConfig::EasyBuild(_) => Vec::new(),
    };
    let found = named.iter().filter_map(|path| fs::canonicalize(recipe.join(path)).ok());
    (found.filter(|path| !path.starts_with(recipe)).collect(), bases)
}

/// Adds a line for each file: its path, what it is, and its content or target.
fn add(root: &Path, below: &Path, lines: &mut Vec<Vec<u8>>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = entry.file_name();
        let is_of_git = below.as_os_str().is_empty() && name == GIT;
        let is_ignored = is_of_git || IGNORED.iter().any(|one| name == *one);
        if is_ignored || lines.len() > MOST_FILES {
            continue;
        }
        let path = below.join(&name);
        let kind = entry.file_type()?;
        let (what, content) = if kind.is_dir() {
            add(root, &path, lines)?;
            continue;
        } else if kind.is_symlink() {
            let target = fs::read_link(entry.path())?;
            let mut content = target.as_os_str().as_bytes().to_vec();
            // A recipe may be read through a link that leads out of it.
            if entry.path().is_file() {
                content.push(0);
                content.extend_from_slice(&fs::read(entry.path())?);
            }
            ("link", digest_of(&content))
        } else if kind.is_file() {
            let is_program = entry.metadata()?.permissions().mode() & 0o100 != 0;
            (if is_program { "program" } else { "file" }, digest_of(&fs::read(entry.path())?))
        } else {
            continue;
        };
        let mut line = path.as_os_str().as_bytes().to_vec();
        line.extend_from_slice(format!("\0{what} {content}\0").as_bytes());
        lines.push(line);
    }
    Ok(())
}

/// Adds a line for a file, and for all below a directory: its path below `root`, size, and time.
fn list(root: &Path, below: &Path, lines: &mut Vec<String>) -> io::Result<()> {
    let path = root.join(below);
    let found =
        if below.as_os_str().is_empty() { fs::metadata(root) } else { path.symlink_metadata() }?;
    if found.is_dir() {
        for entry in fs::read_dir(&path)? {
            if lines.len() <= MOST_FILES {
                list(root, &below.join(entry?.file_name()), lines)?;
            }
        }
    } else {
        let (size, seconds, rest) = (found.size(), found.mtime(), found.mtime_nsec());
        let name = below.as_os_str().as_bytes().escape_ascii();
        lines.push(format!("{name} {size} {seconds}.{rest}"));
    }
    Ok(())
}

fn check_count(directory: &Path, count: usize) -> Result<()> {
    if count <= MOST_FILES {
        return Ok(());
    }
    let message = format!("{} has more than {MOST_FILES} files", shown(directory));
    Err(Report::new(Kind::BadInput, message).hinted(
        "each run of the pipeline compares all of them; name a smaller directory".to_owned(),
    ))
}

/// Returns the sum of several sums and texts.
pub(crate) fn combine(parts: &[&str]) -> Digest {
    digest_of(parts.join("\0").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_recipe_names_elsewhere_counts() {
        let home = tempfile::tempdir().unwrap();
        let (recipe, tree) = (home.path().join("recipe"), home.path().join("tree"));
        fs::create_dir(&recipe).unwrap();
        fs::create_dir(&tree).unwrap();
        let text = "name: app\nengine: tree\ntree: {source: ../tree}\n";
        fs::write(recipe.join("config.yaml"), text).unwrap();
        fs::write(tree.join("file"), "1").unwrap();
        let recipe = recipe.canonicalize().unwrap();
        let (found, _) = outside(&recipe);
        assert_eq!(found, [tree.canonicalize().unwrap()]);
        for home in [recipe.parent().unwrap(), Path::new("/elsewhere")] {
            let sum = || Sums::default().outside(&found[0], home).unwrap();
            let first = sum();
            fs::write(tree.join("file"), "12").unwrap();
            assert_ne!(sum(), first);
            fs::write(tree.join("file"), "1").unwrap();
        }
    }

    #[test]
    fn content_names_and_modes_count_and_dates_do_not() {
        let one = tempfile::tempdir().unwrap();
        let sum = || Sums::default().directory(one.path()).unwrap();
        fs::create_dir(one.path().join("a")).unwrap();
        fs::write(one.path().join("a/file"), "1").unwrap();
        let first = sum();
        fs::write(one.path().join("a/file"), "1").unwrap();
        for ignored in [".git", "a/__pycache__"] {
            fs::create_dir(one.path().join(ignored)).unwrap();
        }
        fs::write(one.path().join("a/__pycache__/file.pyc"), "1").unwrap();
        fs::write(one.path().join(".git/index"), "1").unwrap();
        assert_eq!(sum(), first);
        fs::set_permissions(one.path().join("a/file"), fs::Permissions::from_mode(0o755)).unwrap();
        let second = sum();
        assert_ne!(second, first);
        fs::rename(one.path().join("a/file"), one.path().join("a/fil")).unwrap();
        assert_ne!(sum(), second);
    }
}
