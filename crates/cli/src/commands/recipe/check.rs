// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane recipe check` and `cabane recipe schema`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cabane_builder::{
    BuildError, ComesFrom, ConcretePackage, Concretized, NameLookUp, Plan, State, Step, StepName,
    concretized, execute,
};
use cabane_image_build::{BuildOptions, plan_build};
use cabane_label::{enumerate, escape};
use cabane_recipe::{Diagnostic, StackFile, StackOptions, SystemConfig, malformed};
use cabane_report::{Report, Result};
use cabane_site::settings::find_program;
use cabane_site::{env_vars, find_system};
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::Serialize;

use crate::exit_codes::{self, ExitCode};
use crate::interrupt::stop_when_interrupted;
use crate::progress::Shown;
use crate::recipe_files::{self as files, is_for_spack};
use crate::setup::Setup;

/// Check a recipe and report every mistake
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The directory of the recipe
    #[arg(required = true)]
    pub(crate) recipes: Vec<PathBuf>,

    /// Get the package repositories or EasyBuild first, to look up the names of packages
    #[arg(long)]
    pub(crate) fetch: bool,

    /// Let Spack decide which packages are built, and show them
    #[arg(long)]
    pub(crate) concretize: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
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
pub(crate) struct Finding {
    recipe: PathBuf,
    name: Option<String>,
    engine: Option<&'static str>,
    mistakes: Vec<Diagnostic>,
    remarks: Vec<Diagnostic>,
    /// Whether packages, versions, and variants were looked up.
    names_looked_up: bool,
    /// What Spack decided.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    concretized: Option<Concretized>,
    /// What is wrong besides: a file that is missing, a system that does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(crate) fn check(setup: &Setup, args: &CheckArgs) -> Result<ExitCode> {
    let (findings, code) = check_all(setup, args)?;
    if args.json {
        setup.printer.json(&findings);
    }
    Ok(code)
}

/// Checks recipes; what is found is printed unless it is for a program.
pub(crate) fn check_all(setup: &Setup, args: &CheckArgs) -> Result<(Vec<Finding>, ExitCode)> {
    let system = find_system(setup, setup.named_system.as_deref())?
        .map(|found| {
            let config = files::system(&found.directory, None)?;
            Ok::<_, Report>((found.directory, config))
        })
        .transpose()?;
    let cache = setup.settings.cache_directory.directory()?;
    let path = setup.calling.get(OsStr::new(env_vars::PATH)).map(AsRef::as_ref);
    let mut checked = Checked {
        setup,
        args,
        system: system.as_ref().map(|(directory, config)| (directory.as_path(), config)),
        names: NameLookUp::new(find_program("git", path), cache),
        shown: BTreeSet::new(),
        interrupt: if args.fetch || args.concretize {
            stop_when_interrupted()?
        } else {
            Arc::default()
        },
    };
    let mut code = exit_codes::SUCCESS;
    let mut findings = Vec::new();
    for directory in &args.recipes {
        let (finding, found) = checked.check(directory);
        findings.push(finding);
        if found != exit_codes::SUCCESS {
            code = found;
        }
    }
    Ok((findings, code))
}

/// What recipes are checked with.
struct Checked<'a> {
    setup: &'a Setup,
    args: &'a CheckArgs,
    system: Option<(&'a Path, &'a SystemConfig)>,
    names: NameLookUp,
    /// The remarks that were printed.
    shown: BTreeSet<String>,
    interrupt: Arc<AtomicBool>,
}

impl Checked<'_> {
    /// Checks one recipe; what is found is printed unless it is for a program.
    fn check(&mut self, directory: &Path) -> (Finding, ExitCode) {
        let setup = self.setup;
        let mut finding = Finding { recipe: directory.to_owned(), ..Finding::default() };
        let looked_at = self.look_at(&mut finding, directory);
        match &looked_at {
            Ok(_) if self.args.json => {}
            Err(error) if self.args.json => {
                finding.error = Some(error.texts().0).filter(|_| finding.mistakes.is_empty());
            }
            Ok(unknown) => {
                for remark in &finding.remarks {
                    // What is said about the system is the same for several recipes.
                    if self.shown.insert(remark.to_string()) {
                        setup.warning(remark);
                    }
                }
                setup.note(format_args!(
                    "{}: {}, engine {}",
                    directory.display(),
                    finding.name.as_deref().unwrap_or_default(),
                    finding.engine.unwrap_or_default()
                ));
                if let Some(why) = unknown {
                    setup.note(format_args!("package names were not looked up: {why}"));
                }
                if let Some(concretized) = &finding.concretized {
                    print_concretized(setup, concretized);
                }
            }
            Err(error) => setup.printer.failure(error),
        }
        let code = looked_at.map_or_else(|error| error.kind().into(), |_| exit_codes::SUCCESS);
        (finding, code)
    }

    /// Looks at a recipe; returns why names were not looked up, if they were not.
    fn look_at(&mut self, finding: &mut Finding, directory: &Path) -> Result<Option<String>> {
        let recipe = cabane_builder::read_recipe(directory);
        if let Ok(recipe) = &recipe {
            finding.name = Some(recipe.name.to_string());
            finding.engine = Some(recipe.engine.name());
        }
        let is_readable = matches!(recipe, Ok(_) | Err(BuildError::Recipe(_)));
        if !is_readable || !is_for_spack(directory, recipe.as_ref().ok()) {
            return match recipe {
                Ok(_) => {
                    // Whether the files that it names are there.
                    let mut plan = self.plan(directory)?;
                    if self.args.fetch && !plan.files_of_engine().is_empty() {
                        self.build(directory, StepName::Sources)?;
                        plan = self.plan(directory)?;
                    }
                    finding.remarks.extend(unknown_files(directory, &plan));
                    Ok(None)
                }
                Err(error) => {
                    if let BuildError::Recipe(error) = &error {
                        finding.mistakes = error.diagnostics().to_vec();
                    }
                    Err(Report::from(error))
                }
            };
        }
        let system = self.system.map(|(_, system)| system);
        let options = StackOptions { system, accept_old_spack: false };
        let texts = files::texts(directory)?;
        let stack = texts.parse(&options).map_err(|error| {
            finding.mistakes = error.diagnostics().to_vec();
            Report::from(error)
        })?;
        finding.remarks.clone_from(&stack.remarks);
        let Some((system_dir, system)) = self.system else {
            let why = "packages may be those of the system; name it with `--system SYSTEM`";
            return Ok(Some(why.to_owned()));
        };
        files::plan(directory, &stack, system)?;
        if stack.spack.base.is_some() {
            // Whether the base is there, and fits.
            self.plan(directory)?;
        }
        if self.args.fetch || self.args.concretize {
            self.build(directory, StepName::Sources)?;
        }
        let system = (system_dir, system);
        let is_fresh = self.args.fetch || self.args.concretize;
        let names = self.names.look_up((directory, &texts), &stack, system, is_fresh);
        finding.names_looked_up = names.missing.is_empty();
        // A build reports them as well.
        if self.args.json || !self.args.concretize {
            finding.remarks.extend(names.remarks);
        }
        finding.remarks.extend(names.of_system);
        if !names.mistakes.is_empty() {
            let error = malformed("the recipe", &names.mistakes);
            finding.mistakes = names.mistakes;
            return Err(error);
        }
        if self.args.concretize {
            let plan = self.build(directory, StepName::Concretize)?;
            finding.concretized = concretized(&plan)?;
            // Otherwise the step has printed them.
            let was_decided =
                |step: &Step| step.name == StepName::Concretize && step.state == State::Done;
            if plan.steps.iter().any(was_decided) {
                let not_chosen = finding.concretized.iter().flat_map(|one| &one.not_chosen);
                not_chosen.for_each(|one| self.setup.warning(one));
            }
        }
        let missing: Vec<&str> = names.missing.iter().map(String::as_str).collect();
        let (missing, verb) =
            (enumerate(&missing, "and"), if missing.len() == 1 { "is" } else { "are" });
        let why = format!("{missing} {verb} not on this machine; add `--fetch`");
        Ok((!finding.names_looked_up).then_some(why))
    }

    /// Finds out what a build would do.
    fn plan(&self, directory: &Path) -> Result<Plan> {
        let system = self.setup.named_system.clone();
        plan_build(self.setup, &BuildOptions { system, ..BuildOptions::of(directory) })
            .map(|planned| planned.plan)
    }

    /// Does the first steps of a build.
    fn build(&self, directory: &Path, until: StepName) -> Result<Plan> {
        let options = BuildOptions {
            until: Some(until.to_string()),
            system: self.setup.named_system.clone(),
            ..BuildOptions::of(directory)
        };
        let planned = plan_build(self.setup, &options)?;
        execute(&planned.plan, &mut Shown::new(self.setup), &self.interrupt)?;
        Ok(planned.plan)
    }
}

/// Says which files are not in the recipe, where EasyBuild may bring them.
fn unknown_files(directory: &Path, plan: &Plan) -> Vec<Diagnostic> {
    let file = directory.join("config.yaml");
    let text = fs::read_to_string(&file).unwrap_or_default();
    let remark = |path: PathBuf| {
        let name = path.to_string_lossy();
        let message = format!(
            "`{name}` is not in the recipe. EasyBuild may contain it, but EasyBuild is not here yet"
        );
        let start = text.find(&*name).unwrap_or_default();
        Diagnostic::new(&file, &text, start..start + name.len(), &message)
            .with_hint("add `--fetch` to get EasyBuild and to look there")
    };
    plan.files_of_engine().into_iter().map(remark).collect()
}

/// Prints the packages, those of the system last.
fn print_concretized(setup: &Setup, concretized: &Concretized) {
    let mut text = String::new();
    let origins = [
        (ComesFrom::Build, "build"),
        (ComesFrom::Cache, "cache"),
        (ComesFrom::Base, "base"),
        (ComesFrom::System, "system"),
    ];
    for (from, word) in origins {
        for one in concretized.packages.iter().filter(|one| one.from == from) {
            let ConcretePackage { name, version, variants, prefix, .. } = one;
            let more = prefix.as_ref().unwrap_or(variants);
            let line = format!("{word:<7} {name}@{version}  {more}");
            text.push_str(&escape(line.trim_end()));
            text.push('\n');
        }
    }
    setup.printer.data(text);
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
