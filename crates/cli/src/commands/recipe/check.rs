// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane recipe check` and `cabane recipe schema`.

use std::path::{Path, PathBuf};

use cabane_builder::BuildError;
use cabane_recipe::{Diagnostic, StackFile, StackOptions, SystemConfig};
use cabane_report::{Report, Result};
use cabane_site::find_system;
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::Serialize;

use crate::commands::recipe::files::{self, is_for_spack};
use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

/// Check a recipe and report every mistake
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The directory of the recipe
    #[arg(required = true)]
    recipes: Vec<PathBuf>,

    /// The system for which the recipe is built, by name or as a directory
    #[arg(long, value_name = "SYSTEM")]
    system: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Print the JSON schema of a recipe file or a system file
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The file to describe
    #[arg(value_parser = PossibleValuesParser::new(StackFile::ALL.map(StackFile::name)))]
    file: String,
}

/// What was found in one recipe.
#[derive(Default, Serialize)]
struct Finding {
    recipe: PathBuf,
    name: Option<String>,
    engine: Option<&'static str>,
    mistakes: Vec<Diagnostic>,
    remarks: Vec<Diagnostic>,
    /// What is wrong besides: a file that is missing, a system that does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(crate) fn check(setup: &Setup, args: &CheckArgs) -> Result<ExitCode> {
    let system = find_system(setup, args.system.as_deref())?
        .map(|found| files::system(&found.directory, None))
        .transpose()?;
    let mut code = exit_codes::SUCCESS;
    let mut findings = Vec::new();
    for directory in &args.recipes {
        let (finding, found) = check_one(setup, directory, system.as_ref(), args.json);
        findings.push(finding);
        if found != exit_codes::SUCCESS {
            code = found;
        }
    }
    if args.json {
        setup.printer.json(&findings);
    }
    Ok(code)
}

/// Checks one recipe; what is found is printed unless it is for a program.
fn check_one(
    setup: &Setup,
    directory: &Path,
    system: Option<&SystemConfig>,
    is_quiet: bool,
) -> (Finding, ExitCode) {
    let mut finding = Finding { recipe: directory.to_owned(), ..Finding::default() };
    let remarks = look_at(&mut finding, directory, system);
    match &remarks {
        Ok(_) if is_quiet => {}
        Err(error) if is_quiet => {
            finding.error = Some(error.texts().0).filter(|_| finding.mistakes.is_empty());
        }
        Ok(remarks) => {
            for remark in remarks {
                setup.warning(remark);
            }
            setup.note(format_args!(
                "{}: {}, engine {}",
                directory.display(),
                finding.name.as_deref().unwrap_or_default(),
                finding.engine.unwrap_or_default()
            ));
        }
        Err(error) => setup.printer.failure(error),
    }
    let code = remarks.map_or_else(|error| error.kind().into(), |_| exit_codes::SUCCESS);
    (finding, code)
}

fn look_at(
    finding: &mut Finding,
    directory: &Path,
    system: Option<&SystemConfig>,
) -> Result<Vec<Diagnostic>> {
    let recipe = cabane_builder::read_recipe(directory);
    if let Ok(recipe) = &recipe {
        finding.name = Some(recipe.name.to_string());
        finding.engine = Some(recipe.engine.name());
    }
    let is_readable = matches!(recipe, Ok(_) | Err(BuildError::Recipe(_)));
    if !is_readable || !is_for_spack(directory, recipe.as_ref().ok()) {
        return match recipe {
            Ok(_) => Ok(Vec::new()),
            Err(error) => {
                if let BuildError::Recipe(error) = &error {
                    finding.mistakes = error.diagnostics().to_vec();
                }
                Err(Report::from(error))
            }
        };
    }
    let options = StackOptions { system, accept_old_spack: false };
    let stack = files::texts(directory)?.parse(&options).map_err(|error| {
        finding.mistakes = error.diagnostics().to_vec();
        Report::from(error)
    })?;
    if let Some(system) = system {
        files::plan(directory, &stack, system)?;
    }
    finding.remarks.clone_from(&stack.remarks);
    Ok(stack.remarks)
}

pub(crate) fn schema(setup: &Setup, args: &SchemaArgs) -> Result<ExitCode> {
    let file = StackFile::ALL.into_iter().find(|file| file.name() == args.file);
    if let Some(file) = file {
        let value: serde_json::Value =
            serde_json::from_str(&file.schema().to_json()).unwrap_or_default();
        setup.printer.json(&value);
    }
    Ok(exit_codes::SUCCESS)
}
