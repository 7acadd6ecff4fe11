// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane recipe convert`: recipes of older formats, written in the newest.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cabane_builder::{
    BuildError, PortedPackages, StepName, execute, has_old_packages, port_packages,
};
use cabane_image_build::{BuildOptions, plan_build};
use cabane_label::{enumerate, escape};
use cabane_recipe::{Conversion, ConvertTo, convert_stack};
use cabane_report::{IoContext as _, Kind, Report, Result};
use cabane_site::find_system;
use clap::Args;
use serde::Serialize;

use crate::commands::recipe::check::{CheckArgs, Finding, check_all};
use crate::exit_codes::{self, ExitCode};
use crate::interrupt::stop_when_interrupted;
use crate::progress::Shown;
use crate::recipe_files as files;
use crate::setup::Setup;

/// Convert a recipe from format 1 or 2 to format 3
///
/// Comments and the order of keys are kept where possible. Packages in `repo/` that were written for Spack
/// before 1.0 are ported with Spack's own migration, which needs a system. The command lists what you must
/// check yourself. If a system is known, it also checks the converted recipe.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// The directory of the recipe
    recipe: PathBuf,

    /// A new directory for the converted copy; default: change the files in place
    #[arg(long, short, value_name = "DIRECTORY")]
    output: Option<PathBuf>,

    /// The commit, branch, or tag of Spack that the recipe gets; default: its own, or a release if that is older than 1.0
    #[arg(long, value_name = "COMMIT")]
    spack_commit: Option<String>,

    /// The commit, branch, or tag of Spack's packages that the recipe gets; default: its own, or a release if that is older than 1.0
    #[arg(long, value_name = "COMMIT")]
    packages_commit: Option<String>,

    /// Leave packages in `repo/` as they are
    #[arg(long)]
    keep_packages: bool,

    /// Let Spack decide which packages are built, and show them
    #[arg(long)]
    concretize: bool,

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
    /// What became of the packages of the recipe, if they were ported.
    #[serde(skip_serializing_if = "Option::is_none")]
    ported: Option<&'a PortedPackages>,
    /// What was found in the converted recipe, if it was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    checked: Option<&'a Finding>,
}

pub(crate) fn convert(setup: &Setup, args: &ConvertArgs) -> Result<ExitCode> {
    let texts = files::texts(&args.recipe)?;
    let to = ConvertTo {
        spack: args.spack_commit.as_deref(),
        packages: args.packages_commit.as_deref(),
    };
    let mut conversion = convert_stack(&texts.files(), &to).map_err(Report::from)?;
    let has_system = find_system(setup, setup.named_system.as_deref())?.is_some();
    if args.concretize && !has_system {
        return Err(BuildError::no_system().into());
    }
    let is_old = conversion.is_from_old_spack && has_old_packages(&args.recipe)?;
    let ported = if is_old && !args.keep_packages {
        if !has_system {
            return Err(no_system_to_port());
        }
        port(setup, args, &conversion)?
    } else {
        None
    };
    if is_old && ported.is_none() {
        conversion.notes.push(NOT_PORTED.to_owned());
    }
    let directory = match &args.output {
        None => &args.recipe,
        Some(output) => {
            copy_to(&args.recipe, output)?;
            output
        }
    };
    // The packages first: as long as the files are old, the same command ports what is left.
    if let Some(ported) = &ported {
        ported.put_into(directory)?;
    }
    write(directory, &conversion)?;
    if !args.json {
        print(setup, directory, &conversion, ported.as_ref());
    }
    let mut code = exit_codes::SUCCESS;
    let mut found = Vec::new();
    if has_system {
        let check = CheckArgs {
            recipes: vec![directory.clone()],
            fetch: ported.is_some(),
            concretize: args.concretize,
            json: args.json,
        };
        (found, code) = check_all(setup, &check)?;
    }
    if args.json {
        setup.printer.json(&Converted {
            recipe: directory,
            written: conversion.files.iter().map(|(name, _)| *name).collect(),
            removed: &conversion.removed,
            notes: &conversion.notes,
            ported: ported.as_ref(),
            checked: found.first(),
        });
    }
    Ok(code)
}

/// What is said about packages that were left as they are.
const NOT_PORTED: &str = "packages in `repo/` were not ported: Spack 1.0 and later need the package API 2, \
                          with imports from `spack.package` and `spack_repo.builtin`";

fn no_system_to_port() -> Report {
    let message = "the recipe has its own packages, and Spack needs a system to port them";
    Report::new(Kind::BadInput, message.to_owned()).hinted(
        "name it, or the directory of its configuration: `--system SYSTEM`; with `--keep-packages`, \
         the packages stay as they are"
            .to_owned(),
    )
}

/// Ports the packages of a recipe with the Spack that it gets. The recipe stays as it is: this is
/// done with a copy.
fn port(
    setup: &Setup,
    args: &ConvertArgs,
    conversion: &Conversion,
) -> Result<Option<PortedPackages>> {
    let place = tempfile::tempdir().or_failed(|| "create a temporary directory".to_owned())?;
    let copy = place.path().join("recipe");
    copy_to(&args.recipe, &copy)?;
    write(&copy, conversion)?;
    let path = fs::canonicalize(&args.recipe)
        .or_failed(|| format!("find the recipe {}", args.recipe.display()))?;
    let options = BuildOptions {
        until: Some(StepName::Sources.to_string()),
        system: setup.named_system.clone(),
        variant: Some("converted".to_owned()),
        origin: Some(path.to_string_lossy().into_owned()),
        ..BuildOptions::of(&copy)
    };
    let plan = plan_build(setup, &options)?.plan;
    let interrupt = stop_when_interrupted()?;
    let mut progress = Shown::new(setup);
    execute(&plan, &mut progress, &interrupt)?;
    Ok(port_packages(&plan, &mut progress, &interrupt)?)
}

fn print(
    setup: &Setup,
    directory: &Path,
    conversion: &Conversion,
    ported: Option<&PortedPackages>,
) {
    let written: Vec<_> = conversion.files.iter().map(|(name, _)| *name).collect();
    for (verb, names) in [("written", &written), ("removed", &conversion.removed)] {
        for name in names {
            setup.note(format_args!("{verb}: {}", directory.join(name).display()));
        }
    }
    if let Some(ported) = ported {
        let names: Vec<&str> = ported.packages.iter().map(String::as_str).collect();
        setup.note(format_args!("ported: {}", escape(&enumerate(&names, "and"))));
    }
    let problems = ported.iter().flat_map(|ported| ported.problems.iter().chain(&ported.missing));
    for note in conversion.notes.iter().chain(problems) {
        setup.warning(escape(note));
    }
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
            return Err(io::Error::other("the directories are nested too deeply"));
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
