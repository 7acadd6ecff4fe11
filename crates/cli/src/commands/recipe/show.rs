// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane recipe show`: what Spack will get.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cabane_builder::BuildError;
use cabane_recipe::{GitSource, PackageRepository, StackOptions};
use cabane_report::{Kind, Report, Result};
use cabane_site::find_system;
use cabane_spack::{SpackEnvironment, SpackStack};
use clap::Args;
use serde::Serialize;

use crate::exit_codes::{self, ExitCode};
use crate::recipe_files as files;
use crate::setup::Setup;

/// Show what Spack gets for a recipe
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The directory of the recipe
    recipe: PathBuf,

    /// Show only this file
    #[arg(value_name = "FILE")]
    file: Option<String>,

    /// Mirrors, instead of those of the system
    #[arg(long, value_name = "FILE")]
    mirrors: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn show(setup: &Setup, args: &ShowArgs) -> Result<ExitCode> {
    let recipe = cabane_builder::read_recipe(&args.recipe);
    if let Ok(recipe) = &recipe
        && !files::is_for_spack(&args.recipe, Some(recipe))
    {
        let engine = recipe.engine.name();
        let message = format!("this recipe does not use Spack: its engine is {engine}");
        let hint = format!(
            "`cabane build --dry-run {}` shows what it runs",
            cabane_label::shown_word(&args.recipe)
        );
        return Err(Report::new(Kind::Usage, message).hinted(hint));
    }
    let found = find_system(setup, setup.named_system.as_deref())?;
    let Some(found) = found else {
        // Mistakes come first: another engine needs no system.
        recipe?;
        return Err(BuildError::no_system().into());
    };
    let mut system = files::system(&found.directory, args.mirrors.as_deref())?;
    system.mirrors = files::expand(setup, system.mirrors)?;
    let options = StackOptions { system: Some(&system), accept_old_spack: false };
    let recipe = files::texts(&args.recipe)?.parse(&options).map_err(Report::from)?;
    for remark in &recipe.remarks {
        setup.warning(remark);
    }
    let stack = files::plan(&args.recipe, &recipe, &system)?;
    let files = files(&stack);
    if let Some(name) = &args.file {
        let text = files.get(name).ok_or_else(|| {
            let names: Vec<&str> = files.keys().map(String::as_str).collect();
            Report::new(Kind::NotFound, format!("Spack gets no file `{name}`"))
                .hinted(format!("the files are {}", names.join(", ")))
        })?;
        setup.printer.data(text);
    } else if args.json {
        setup.printer.json(&Shown::of(&stack, &files));
    } else {
        setup.printer.data(text(&stack, &files));
    }
    Ok(exit_codes::SUCCESS)
}

/// Returns all files by the names under which they are shown.
fn files(stack: &SpackStack) -> BTreeMap<String, &str> {
    let mut files = BTreeMap::new();
    for environment in &stack.environments {
        let name = format!("{}/spack.yaml", environment.name);
        files.insert(name, environment.spack_yaml.as_str());
    }
    for (name, text) in &stack.config {
        files.insert(format!("config/{name}"), text.as_str());
    }
    for (name, text) in &stack.upstream {
        files.insert(format!("upstream/{name}"), text.as_str());
    }
    if let Some(modules) = &stack.modules {
        files.insert("modules/modules.yaml".to_owned(), modules.modules_yaml.as_str());
    }
    files
}

fn text(stack: &SpackStack, files: &BTreeMap<String, &str>) -> String {
    let source = |source: &GitSource| {
        let commit = source.commit.as_deref().unwrap_or("its default");
        cabane_label::escape(&format!("{} at {commit}", source.repo)).into_owned()
    };
    let mut text = format!("# Spack {}: {}\n", stack.version, source(&stack.sources.spack));
    for one in &stack.sources.repositories {
        text += &format!("# packages `{}`: {}\n", one.name, source(&one.source));
    }
    // The environments are shown in the order in which they are built.
    for environment in &stack.environments {
        text += &format!("\n# ----- {}/spack.yaml\n", environment.name);
        for need in &environment.compilers {
            text += &format!("# with {} of {}\n", need.compiler.package(), need.environment);
        }
        if !environment.external_find.is_empty() {
            let packages = environment.external_find.join(" ");
            text += &format!("# after `spack external find --not-buildable {packages}`\n");
        }
        text += &shown(&environment.spack_yaml);
    }
    for (name, file) in files.iter().filter(|(name, _)| !name.ends_with("/spack.yaml")) {
        text += &format!("\n# ----- {name}\n{}", shown(file));
    }
    text
}

/// Escapes a file line by line; what is written is without control characters, but a
/// recipe may hold others that change how a terminal shows it.
fn shown(file: &str) -> String {
    let mut text = String::with_capacity(file.len());
    for line in file.lines() {
        text += &cabane_label::escape(line);
        text.push('\n');
    }
    text
}

#[derive(Serialize)]
struct Shown<'a> {
    spack: &'a GitSource,
    version: String,
    package_repositories: &'a [PackageRepository],
    environments: &'a [SpackEnvironment],
    views: Vec<View<'a>>,
    modules: Vec<&'static str>,
    cleanup: &'static str,
    files: &'a BTreeMap<String, &'a str>,
}

#[derive(Serialize)]
struct View<'a> {
    name: &'a str,
    environment: &'a str,
    root: &'a str,
    compilers: Vec<&'static str>,
}

impl<'a> Shown<'a> {
    fn of(stack: &'a SpackStack, files: &'a BTreeMap<String, &'a str>) -> Self {
        let views = stack.views.iter().map(|view| View {
            name: view.name.as_str(),
            environment: &view.environment,
            root: &view.root,
            compilers: view.compilers.iter().map(|name| name.package()).collect(),
        });
        let kinds = stack.modules.iter().flat_map(|modules| &modules.kinds);
        Self {
            spack: &stack.sources.spack,
            version: stack.version.to_string(),
            package_repositories: &stack.sources.repositories,
            environments: &stack.environments,
            views: views.collect(),
            modules: kinds.map(|kind| kind.as_str()).collect(),
            cleanup: stack.cleanup.as_str(),
            files,
        }
    }
}
