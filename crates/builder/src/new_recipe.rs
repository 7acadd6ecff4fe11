// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A recipe to begin with: few keys, with comments, and it builds as it is.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cabane_label::{shown, shown_word};
use cabane_report::{Kind, Report};

use crate::{BuildError, Result, disk};

/// What a recipe makes an image of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecipeKind {
    /// Python packages.
    Python,
    /// Packages that Spack builds.
    Spack,
    /// Packages that EasyBuild builds.
    EasyBuild,
    /// A container image.
    Container,
    /// A directory.
    Tree,
}

impl RecipeKind {
    /// All kinds, with the word for each.
    pub const ALL: [(&'static str, Self); 5] = [
        ("python", Self::Python),
        ("spack", Self::Spack),
        ("easybuild", Self::EasyBuild),
        ("container", Self::Container),
        ("tree", Self::Tree),
    ];
}

const CONFIG: &str = "config.yaml";
/// What a project of Python has already; the first that is there is used.
const REQUIREMENTS: &str = "requirements.txt";
const PROJECT: &str = "pyproject.toml";

/// Writes a recipe into a directory, which is made if it is not there, and returns the files. What is
/// there stays: a list of requirements or a project of Python becomes part of the recipe. The name becomes
/// that of the image.
///
/// # Errors
///
/// There is a recipe in the directory, or a file cannot be written. Then nothing was written.
pub fn new_recipe(directory: &Path, kind: RecipeKind, name: &str) -> Result<Vec<PathBuf>> {
    if directory.join(CONFIG).symlink_metadata().is_ok() {
        let message = format!("{} already contains a recipe", shown(directory));
        let hint = format!("`cabane recipe check {}` checks it", shown_word(directory));
        return Err(Report::new(Kind::Build, message).hinted(hint).into());
    }
    disk::make_directory(directory)?;
    let mut written = Vec::new();
    for (path, text) in files(directory, kind, name) {
        let path = directory.join(path);
        if let Err(error) = write_new(&path, &text) {
            // Newest first: directories that are empty then.
            for path in written.iter().rev() {
                let _ = fs::remove_file(path);
            }
            return Err(BuildError::file("write", &path)(error));
        }
        written.push(path);
    }
    Ok(written)
}

/// The files of a recipe and their texts, `config.yaml` last: with it, the directory is a recipe.
fn files(directory: &Path, kind: RecipeKind, name: &str) -> Vec<(&'static str, String)> {
    let there = |file: &str| directory.join(file).exists();
    let named = |text: &str| text.replace("@NAME@", name);
    match kind {
        RecipeKind::Python => {
            let mut files = Vec::new();
            let source = if there(PROJECT) && !there(REQUIREMENTS) {
                "# The project in this directory, as its `uv.lock` says if there is one.\n  project: ."
            } else {
                if !there(REQUIREMENTS) {
                    let text = "# One package a line, as pip reads it. The build resolves versions and records hashes.\n\
                                numpy\n";
                    files.push((REQUIREMENTS, text.to_owned()));
                }
                "requirements: requirements.txt"
            };
            let text =
                named(include_str!("new_recipe/data/python.yaml")).replace("@SOURCE@", source);
            files.push((CONFIG, text));
            files
        }
        RecipeKind::Spack => vec![
            ("compilers.yaml", include_str!("new_recipe/data/compilers.yaml").to_owned()),
            ("environments.yaml", include_str!("new_recipe/data/environments.yaml").to_owned()),
            (CONFIG, named(include_str!("new_recipe/data/spack.yaml"))),
        ],
        RecipeKind::EasyBuild => {
            let example = [
                ("hello.c", include_str!("new_recipe/data/hello.c")),
                ("hello-1.0.eb", include_str!("new_recipe/data/hello-1.0.eb")),
            ];
            let example = example.into_iter().filter(|(path, _)| !there(path));
            let example = example.map(|(path, text)| (path, text.to_owned()));
            let config = (CONFIG, named(include_str!("new_recipe/data/easybuild.yaml")));
            example.chain([config]).collect()
        }
        RecipeKind::Container => vec![
            ("files/README", named("Files of @NAME@; replace this one.\n")),
            (CONFIG, named(include_str!("new_recipe/data/container.yaml"))),
        ],
        RecipeKind::Tree => {
            let config = (CONFIG, named(include_str!("new_recipe/data/tree.yaml")));
            let program = named("#!/bin/sh\necho 'hello from @NAME@'\n");
            let hello = (!there("install")).then_some(("install/bin/hello", program));
            hello.into_iter().chain([config]).collect()
        }
    }
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = File::options().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())?;
    if text.starts_with("#!") {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(fs::Permissions::from_mode(0o755))?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_recipe;

    #[test]
    fn each_kind_is_a_recipe_without_mistakes() {
        for (word, kind) in RecipeKind::ALL {
            let directory = tempfile::tempdir().unwrap();
            let place = directory.path().join("analysis");
            let written = new_recipe(&place, kind, "analysis").unwrap();
            assert!(written.iter().all(|path| path.is_file()), "{written:?}");
            let recipe = read_recipe(&place).unwrap();
            assert_eq!((recipe.engine.name(), recipe.name.as_str()), (word, "analysis"));
        }
    }

    #[test]
    fn the_easyconfig_has_the_checksum_of_its_source() {
        let source = crate::digest_of(include_bytes!("new_recipe/data/hello.c"));
        assert!(include_str!("new_recipe/data/hello-1.0.eb").contains(&source.to_string()));
    }

    #[test]
    fn what_is_there_stays_and_is_used() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        fs::write(place.join(PROJECT), "[project]\n").unwrap();
        let written = new_recipe(place, RecipeKind::Python, "a").unwrap();
        assert_eq!(written, [place.join(CONFIG)]);
        assert!(fs::read_to_string(place.join(CONFIG)).unwrap().contains("project: ."));
        assert!(new_recipe(place, RecipeKind::Tree, "a").is_err());
        assert!(!place.join("install").exists());
    }
}
