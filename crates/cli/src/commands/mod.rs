// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The commands: a file each, and a folder for each noun.

use std::ffi::OsString;

use cabane_report::Result;
use clap::{Args as _, Parser, Subcommand};

use crate::args::GlobalArgs;
use crate::exit_codes::{self, ExitCode};
use crate::printer::Printer;
use crate::setup::Setup;

mod attach;
mod build;
mod bundle;
mod cache;
mod catalogue;
mod channel;
mod check;
mod clean;
mod completion;
mod config;
mod diff;
mod doctor;
mod environment;
mod evidence;
mod exec;
mod explain;
mod export;
pub(crate) mod image;
mod impact;
mod import;
mod init;
mod kernel;
mod mpi;
mod package;
mod packages;
mod pipeline;
mod recipe;
mod registry;
mod repo;
mod run;
mod search;
mod self_update;
mod share;
mod site;
pub(crate) mod slurm;
pub(crate) mod start;
mod status;
mod system;
mod upgrade;
mod vendor_mpi;

/// Build, share, and run software environments for HPC: one read-only image, mounted for one shell, command, or job
#[derive(Debug, Parser)]
#[command(
    name = "cabane",
    bin_name = "cabane",
    version,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "To begin, list the images with `cabane image ls`, then run a command in one with \
                  `cabane run NAME -- COMMAND`."
)]
pub(crate) struct Args {
    /// Options that every command has.
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Start a shell in images
    Start(start::StartArgs),
    /// Run a command in images
    Run(run::RunArgs),
    /// Run a command in a container image, with the syntax of Apptainer
    Exec(exec::ExecArgs),
    /// Start a shell in a container image, with the syntax of Apptainer
    Shell(exec::ShellArgs),
    /// Run a shell or a command in the environment of a running process or job
    Attach(attach::AttachArgs),
    /// Show the loaded images and views
    Status(status::StatusArgs),
    /// Show where a command, library, variable, or file comes from
    Explain(explain::ExplainArgs),
    /// Show what changed between two images, views, or environments
    Diff(diff::DiffArgs),
    /// Show conflicts between views, then run a command
    #[command(hide = true)]
    ExplainStart(explain::ExplainStartArgs),
    /// Start a command as another process has planned it
    #[command(hide = true)]
    RunPlan(run::RunPlanArgs),
    /// Manage images in repositories and registries
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// Search for images by words in their names, packages, and descriptions
    Search(search::SearchArgs),
    /// Show which images have a package, in which versions, and on which systems
    Info(search::InfoArgs),
    /// Manage repositories
    #[command(subcommand)]
    Repo(repo::RepoCommand),
    /// Manage registries: their lists of images, and mirrors
    #[command(subcommand)]
    Registry(registry::RegistryCommand),
    /// Upgrade images that follow a channel
    Upgrade(upgrade::UpgradeArgs),
    /// Undo the last upgrade
    Rollback(upgrade::RollbackArgs),
    /// Release images of a registry through channels
    #[command(subcommand)]
    Channel(channel::ChannelCommand),
    /// Generate a website that lists images
    #[command(subcommand, visible_alias = "catalog")]
    Catalogue(catalogue::CatalogueCommand),
    /// Transfer images to a site without a network
    #[command(subcommand)]
    Bundle(bundle::BundleCommand),
    /// Print the command that others use to download an image
    Share(share::ShareArgs),
    /// Import a container image into the repository
    Import(import::ImportArgs),
    /// Export images as a container image
    Export(export::ExportArgs),
    /// Make a native package (.deb or .rpm) of a view
    Package(package::PackageArgs),
    /// Create a recipe to start from
    Init(init::InitArgs),
    /// Add packages to a recipe
    Add(packages::AddArgs),
    /// Remove packages from a recipe
    Remove(packages::RemoveArgs),
    /// Write the exact versions of the packages of a recipe into its lock file
    Lock(packages::LockArgs),
    /// Update the packages in the lock file of a recipe
    Update(packages::UpdateArgs),
    /// Build an image from a recipe and add it to the repository
    Build(Box<build::BuildArgs>),
    /// Run builds for other machines
    #[command(subcommand, hide = true)]
    BuildWorker(build::BuildWorkerCommand),
    /// Check and inspect recipes
    #[command(
        subcommand,
        after_help = "\
The pages docs/concepts/recipe-format.md and docs/concepts/spack-recipes.md describe all keys of a
recipe, and docs/guides/build-a-stack.md shows how to build a stack. An installation has these pages
in the directory share/doc/cabane below its prefix, as in /usr/share/doc/cabane."
    )]
    Recipe(recipe::RecipeCommand),
    /// Manage Jupyter kernels that run in images
    #[command(subcommand)]
    Kernel(kernel::KernelCommand),
    /// Check and inspect environment files
    #[command(subcommand)]
    Environment(environment::EnvironmentCommand),
    /// Configure Cabane for all users of a machine
    #[command(subcommand)]
    Site(site::SiteCommand),
    /// Describe systems for building
    #[command(subcommand)]
    System(system::SystemCommand),
    /// Turn a vendor's MPI packages into a package for Spack
    VendorMpi(vendor_mpi::VendorMpiArgs),
    /// Inspect, replace, and audit MPI installations
    #[command(subcommand)]
    Mpi(mpi::MpiCommand),
    /// Set up images for Slurm jobs
    #[command(subcommand)]
    Slurm(slurm::SlurmCommand),
    /// Show the configuration in effect and the source of each value
    Config(config::ConfigArgs),
    /// Show which images a change to the host breaks, and why
    Impact(impact::ImpactArgs),
    /// Diagnose mounting problems and suggest fixes
    Doctor(doctor::DoctorArgs),
    /// Test whether images work here
    Check(check::CheckArgs),
    /// Show and manage evidence: signed results of checks
    #[command(subcommand)]
    Evidence(evidence::EvidenceCommand),
    /// Build, check, publish, and promote the images of many recipes and systems
    #[command(subcommand)]
    Pipeline(pipeline::PipelineCommand),
    /// Manage the build cache: packages, sources, and concretized specs
    #[command(subcommand)]
    Cache(cache::CacheCommand),
    /// Remove files that builds left behind
    Clean(clean::CleanArgs),
    /// Update Cabane itself
    #[command(subcommand, name = "self")]
    SelfUpdate(self_update::SelfCommand),
    /// Print shell code for tab completion and the prompt
    Completion(completion::CompletionArgs),
}

/// Returns a parser that knows only this command, if it is one that is typed often: the parser of all
/// commands takes a quarter of the instructions of a start. It gives the same values; mistakes and
/// help need the parser of all.
pub(crate) fn parser_of(verb: &str) -> Option<clap::Command> {
    let new = clap::Command::new;
    let command = match verb {
        "run" => new("run").defer(run::RunArgs::augment_args),
        "start" => new("start").defer(start::StartArgs::augment_args),
        "exec" => new("exec").defer(exec::ExecArgs::augment_args),
        "run-plan" => new("run-plan").defer(run::RunPlanArgs::augment_args),
        "status" => new("status").defer(status::StatusArgs::augment_args),
        "image" => new("image").defer(image::ImageCommand::augment_subcommands),
        _ => return None,
    };
    let parser = GlobalArgs::augment_args(new("cabane").disable_help_subcommand(true));
    Some(parser.subcommand(command))
}

impl Command {
    /// Returns what was meant, where that depends on the place of `--`. `typed` is the command line.
    pub(crate) fn settled(self, typed: &[OsString]) -> Self {
        match self {
            Self::Run(args) => Self::Run(args.settled(typed)),
            other => other,
        }
    }
}

/// Carries out a command.
///
/// # Errors
///
/// Whatever the command could not do, ready to be printed.
pub(crate) fn run_command(
    global: &GlobalArgs,
    printer: Printer,
    command: Command,
) -> Result<ExitCode> {
    // It is needed just where something is wrong, such as the settings.
    if let Command::Doctor(args) = &command {
        return doctor::doctor(global, printer, args);
    }
    // It writes the settings, and reads none.
    if let Command::Site(command) = &command {
        site::site(printer, command)?;
        return Ok(exit_codes::SUCCESS);
    }
    // Where a node has a mistake in its settings, steps are recorded all the same.
    if let Command::Slurm(slurm::SlurmCommand::Record(args)) = &command {
        slurm::record(args)?;
        return Ok(exit_codes::SUCCESS);
    }
    let setup = &match &command {
        Command::Build(_)
        | Command::Recipe(_)
        | Command::Add(_)
        | Command::Remove(_)
        | Command::Lock(_)
        | Command::Update(_) => Setup::for_recipes(global, printer)?,
        _ => Setup::new(global, printer)?,
    };
    match command {
        Command::Start(args) => start::start(setup, &args)?,
        Command::Run(args) => run::run(setup, &args)?,
        Command::Exec(args) => exec::exec(setup, &args)?,
        Command::Shell(args) => exec::shell(setup, &args)?,
        Command::Explain(args) => explain::explain(setup, &args)?,
        Command::Diff(args) => return diff::diff(setup, &args),
        Command::RunPlan(args) => run::run_plan(setup, &args)?,
        Command::ExplainStart(args) => explain::explain_start(setup, &args)?,
        Command::Attach(args) => attach::attach(setup, &args)?,
        Command::Status(args) => status::status(setup, &args)?,
        Command::Import(args) => return import::import(setup, &args),
        Command::Export(args) => export::export(setup, &args)?,
        Command::Package(args) => package::package(setup, &args)?,
        Command::Init(args) => init::init(setup, &args)?,
        Command::Add(args) => packages::add(setup, &args)?,
        Command::Remove(args) => packages::remove(setup, &args)?,
        Command::Lock(args) => return packages::lock(setup, &args),
        Command::Update(args) => packages::update(setup, &args)?,
        Command::Share(args) => share::share(setup, &args)?,
        Command::Build(args) => build::build(setup, &args)?,
        Command::BuildWorker(command) => build::build_worker(setup, &command)?,
        Command::VendorMpi(args) => vendor_mpi::vendor_mpi(setup, &args)?,
        Command::Image(command) => image::image(setup, &command)?,
        Command::Search(args) => search::search(setup, &args)?,
        Command::Info(args) => search::info(setup, &args)?,
        Command::Repo(command) => return repo::repo(setup, &command),
        Command::Check(args) => return check::check(setup, &args),
        Command::Pipeline(command) => return pipeline::pipeline(setup, &command),
        Command::Evidence(command) => return evidence::evidence(setup, &command),
        Command::Upgrade(args) => upgrade::upgrade(setup, &args)?,
        Command::Rollback(args) => upgrade::rollback(setup, &args)?,
        Command::Channel(command) => return channel::channel(setup, &command),
        Command::Catalogue(command) => return catalogue::catalogue(setup, &command),
        Command::Bundle(command) => return bundle::bundle(setup, &command),
        Command::Registry(command) => return registry::registry(setup, &command),
        Command::Recipe(command) => return recipe::recipe(setup, &command),
        Command::Site(command) => site::site(printer, &command)?,
        Command::System(command) => system::system(setup, &command)?,
        Command::Slurm(command) => return slurm::slurm(setup, &command),
        Command::Environment(command) => return environment::environment(setup, &command),
        Command::Kernel(command) => return kernel::kernel(setup, &command),
        Command::Mpi(command) => return mpi::mpi(setup, &command),
        Command::Impact(args) => return impact::impact(setup, &args),
        Command::Config(args) => config::config(setup, &args)?,
        Command::Doctor(args) => return doctor::doctor(global, printer, &args),
        Command::Cache(command) => return cache::cache(setup, &command),
        Command::Clean(args) => clean::clean(setup, &args)?,
        Command::SelfUpdate(command) => self_update::self_command(setup, &command)?,
        Command::Completion(args) => completion::completion(setup, &args)?,
    }
    Ok(exit_codes::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn a_parser_of_one_command_takes_the_same_arguments() {
        let all = Args::command();
        for name in ["run", "start", "exec", "run-plan", "status", "image"] {
            let arguments = |parser: &clap::Command| {
                let mut command = parser.find_subcommand(name).unwrap().clone();
                command.build();
                let subcommands = command.get_subcommands();
                let names: Vec<_> = subcommands.map(|one| one.get_name().to_owned()).collect();
                let options = command.get_arguments().filter(|one| one.get_id() != "help");
                (options.map(|one| format!("{one:?}")).collect::<Vec<_>>(), names)
            };
            let mut one = parser_of(name).unwrap();
            let mut all = all.clone();
            one.build();
            all.build();
            assert_eq!(arguments(&one), arguments(&all), "{name}");
        }
        assert!(parser_of("mpi").is_none());
    }
}
