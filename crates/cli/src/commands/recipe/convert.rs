// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane recipe convert`: recipes of older formats, written in the newest.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cabane_recipe::{Conversion, convert_stack};
use cabane_report::{IoContext as _, Kind, Report, Result};
use clap::Args;
use serde::Serialize;

use crate::commands::recipe::files;
use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

/// Convert a recipe from format 1 or 2 to format 3
///
/// Comments and the order of keys are kept where possible. The command lists what you must check yourself.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// The directory of the recipe
    recipe: PathBuf,

    /// A new directory for the converted copy; default: change the files in place
    #[arg(long, short, value_name = "DIRECTORY")]
    output: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Converted<'a> {
    recipe: &'a Path,
    written: Vec<&'static str>,
    removed: &'a [&'static str],
    notes: &'a [String],
}

pub(crate) fn convert(setup: &Setup, args: &ConvertArgs) -> Result<ExitCode> {
    let texts = files::texts(&args.recipe)?;
    let conversion = convert_stack(&texts.files()).map_err(Report::from)?;
    let directory = match &args.output {
        None => &args.recipe,
        Some(output) => {
            copy_to(&args.recipe, output)?;
            output
        }
    };
    write(directory, &conversion)?;
    let converted = Converted {
        recipe: directory,
        written: conversion.files.iter().map(|(name, _)| *name).collect(),
        removed: &conversion.removed,
        notes: &conversion.notes,
    };
    if args.json {
        setup.printer.json(&converted);
        return Ok(exit_codes::SUCCESS);
    }
    for (verb, names) in [("written", &converted.written), ("removed", &conversion.removed)] {
        for name in names {
            setup.note(format_args!("{verb}: {}", directory.join(name).display()));
        }
    }
    for note in &conversion.notes {
        setup.warning(cabane_label::escape(note));
    }
    Ok(exit_codes::SUCCESS)
}

/// Writes what is different. Each file is there as a whole, old or new.
fn write(directory: &Path, conversion: &Conversion) -> Result<()> {
    for (name, text) in &conversion.files {
        let path = directory.join(name);
        let written = tempfile::NamedTempFile::new_in(directory).and_then(|file| {
            fs::write(file.path(), text)?;
            let before = fs::metadata(&path).map(|before| before.permissions());
            let permissions = before.unwrap_or(fs::Permissions::from_mode(0o644));
            fs::set_permissions(file.path(), permissions)?;
            file.persist(&path).map_err(|error| error.error)
        });
        written.or_failed(|| format!("write {}", path.display()))?;
    }
    for name in &conversion.removed {
        let path = directory.join(name);
        fs::remove_file(&path).or_failed(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}

/// Copies a recipe to a directory that is not there, or empty.
fn copy_to(recipe: &Path, output: &Path) -> Result<()> {
    let is_free = match fs::read_dir(output) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if !is_free {
        let error = Report::new(Kind::Failure, format!("{} is there already", output.display()));
        return Err(error.hinted("name a directory that does not exist yet".to_owned()));
    }
    // What is copied is listed before the copy begins, which may be in the recipe.
    let mut files = Vec::new();
    fs::canonicalize(recipe)
        .and_then(|root| list(&root, Path::new(""), DEEPEST, &mut files))
        .or_failed(|| format!("list {}", recipe.display()))?;
    for (relative, is_link) in files {
        let (from, to) = (recipe.join(&relative), output.join(&relative));
        copy(&from, &to, is_link)
            .or_failed(|| format!("copy {} to {}", from.display(), to.display()))?;
    }
    Ok(())
}

/// How deep the directories of a recipe may be in each other.
const DEEPEST: usize = 32;

/// Lists directories before what is in them, and whether each is a link to something in the
/// recipe, which stays one. What belongs to Git is left out, and instead of a link that leads out
/// of the recipe comes what it leads to.
fn list(
    root: &Path,
    below: &Path,
    depth: usize,
    files: &mut Vec<(PathBuf, bool)>,
) -> io::Result<()> {
    files.push((below.to_owned(), false));
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_name() == ".git" {
            continue;
        }
        let is_link = entry.file_type()?.is_symlink()
            && fs::canonicalize(entry.path()).is_ok_and(|target| target.starts_with(root));
        if is_link || !entry.path().is_dir() {
            files.push((path, is_link));
        } else if depth > 0 {
            list(root, &path, depth - 1, files)?;
        } else {
            return Err(io::Error::other("directories lie too deep in each other"));
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path, is_link: bool) -> io::Result<()> {
    if is_link {
        std::os::unix::fs::symlink(fs::read_link(from)?, to)
    } else if from.is_dir() {
        fs::create_dir_all(to)
    } else {
        fs::copy(from, to).map(drop)
    }
}
