// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The commands: one file each.

use clap::Subcommand;

use crate::args::GlobalArgs;
use crate::exit_codes::ExitCode;
use crate::printer::Printer;
use crate::report::CommandResult;
use crate::setup::Setup;

mod attach;
mod build;
mod build_containers;
mod clean;
mod completion;
mod config;
mod diff;
mod diff_text;
mod doctor;
mod environment;
mod explain;
mod explain_start;
mod explain_text;
mod export;
mod export_base;
mod export_target;
mod export_told;
mod export_tree;
mod export_words;
mod image_add;
mod image_copy;
mod image_find;
mod image_find_shown;
mod image_inspect;
mod image_ls;
mod image_packages;
mod image_pull;
mod image_push;
mod image_rm;
mod image_sign;
mod image_verify;
mod import;
mod import_check;
mod import_make;
mod import_place;
mod import_reference;
mod import_remote;
mod import_told;
mod mpi;
mod mpi_audit;
mod mpi_audit_found;
mod mpi_inspect;
mod mpi_probe;
mod mpi_root;
mod mpi_substitute;
mod mpi_swap;
mod mpi_swap_root;
mod mpi_text;
mod recipe;
mod recipe_convert;
mod recipe_files;
mod recipe_show;
mod repo;
mod repo_gc;
mod repo_import;
mod repo_migrate;
mod repo_pin;
mod run;
mod sight;
mod slurm_around;
mod slurm_check;
mod slurm_install;
mod slurm_mpi;
mod slurm_node;
mod slurm_node_mpi;
mod slurm_record;
mod slurm_submit;
mod slurm_ways;
mod start;
mod status;
mod status_save;
mod system;
mod system_devices;
mod system_mpi;
mod system_text;
mod vendor_mpi;

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a shell in images
    Start(start::StartArgs),
    /// Run a command in images
    Run(run::RunArgs),
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
    ExplainStart(explain_start::ExplainStartArgs),
    #[command(hide = true)]
    MpiPlan(mpi_root::PlanArgs),
    /// Manage images in repositories and registries
    #[command(subcommand)]
    Image(ImageCommand),
    /// Manage repositories
    #[command(subcommand)]
    Repo(RepoCommand),
    /// Import a container image into the repository
    Import(import::ImportArgs),
    /// Export images as a container image
    Export(export::ExportArgs),
    /// Build an image from a recipe and add it to the repository
    Build(build::BuildArgs),
    /// Check and inspect recipes
    #[command(subcommand)]
    Recipe(RecipeCommand),
    /// Check and inspect environment files
    #[command(subcommand)]
    Environment(EnvironmentCommand),
    /// Describe systems for building
    #[command(subcommand)]
    System(SystemCommand),
    /// Turn a vendor's MPI packages into a package for Spack
    VendorMpi(vendor_mpi::VendorMpiArgs),
    /// Inspect, replace, and audit MPI installations
    #[command(subcommand)]
    Mpi(mpi::MpiCommand),
    /// Set up images for Slurm jobs
    #[command(subcommand)]
    Slurm(SlurmCommand),
    /// Show the configuration in effect and the source of each value
    Config(config::ConfigArgs),
    /// Diagnose mounting problems and suggest fixes
    Doctor(doctor::DoctorArgs),
    /// Remove the leftovers of builds
    Clean(clean::CleanArgs),
    /// Print a shell completion script
    Completion(completion::CompletionArgs),
}

/// What can be done with images.
#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// List images
    #[command(alias = "list")]
    Ls(image_ls::LsArgs),
    /// Show the details of one image
    Inspect(image_inspect::InspectArgs),
    /// Add an image file under a label, or give an image another label
    Add(image_add::AddArgs),
    /// Remove labels, and images without labels
    Rm(image_rm::RmArgs),
    /// List the images in a registry
    Find(image_find::FindArgs),
    /// Download an image from a registry into the repository
    Pull(image_pull::PullArgs),
    /// Upload an image to a registry
    Push(image_push::PushArgs),
    /// Give an image in a registry another label
    Copy(image_copy::CopyArgs),
    /// Remove a label from an image in a registry, and the image with its last label
    Delete(image_copy::DeleteArgs),
    /// Sign an image in a registry
    Sign(image_sign::SignArgs),
    /// Verify the signature and the content of an image
    Verify(image_verify::VerifyArgs),
    /// Create keys for signing images
    #[command(subcommand)]
    Key(image_sign::KeyCommand),
}

/// What can be done with repositories.
#[derive(Debug, Subcommand)]
pub(crate) enum RepoCommand {
    /// Create a repository
    Create(repo::CreateArgs),
    /// Show the contents of a repository and check its integrity
    Status(repo::StatusArgs),
    /// Clean up a repository and rebuild its index
    Update(repo::UpdateArgs),
    /// Copy all images of a repository to another one
    Migrate(repo_migrate::MigrateArgs),
    /// Copy the images of a uenv repository
    Import(repo_import::ImportArgs),
    /// Remove unused or surplus images
    Gc(repo_gc::GcArgs),
    /// Protect labels from `gc`, or list the protected ones
    Pin(repo_pin::PinArgs),
    /// Stop protecting labels from `gc`
    Unpin(repo_pin::UnpinArgs),
}

/// What can be done with recipes.
#[derive(Debug, Subcommand)]
pub(crate) enum RecipeCommand {
    /// Check a recipe and report every mistake
    Check(recipe::CheckArgs),
    /// Show what Spack gets for a recipe
    Show(recipe_show::ShowArgs),
    /// Convert a recipe from format 1 or 2 to format 3
    Convert(recipe_convert::ConvertArgs),
    /// Print the JSON schema of a recipe file or a system file
    Schema(recipe::SchemaArgs),
}

/// What can be done with environment files.
#[derive(Debug, Subcommand)]
pub(crate) enum EnvironmentCommand {
    /// Check environment files and report every mistake
    Check(environment::CheckArgs),
    /// Print an environment file with its bases and variables filled in
    Show(environment::ShowArgs),
    /// List the environment files that have a name
    #[command(alias = "list")]
    Ls(environment::LsArgs),
}

/// What can be done with systems.
#[derive(Debug, Subcommand)]
pub(crate) enum SystemCommand {
    /// Detect the hardware and software of this machine, for building
    Probe(system::ProbeArgs),
    /// List the devices of this machine that containers can use
    Devices(system_devices::DevicesArgs),
}

/// What can be done with Slurm.
#[derive(Debug, Subcommand)]
pub(crate) enum SlurmCommand {
    /// Add the plugin to Slurm, or remove it
    Install(slurm_install::InstallArgs),
    /// Check whether jobs on this machine would get their images
    Check(slurm_check::CheckArgs),
    /// Resolve the images and variables of a job, for the Slurm plugin
    #[command(hide = true)]
    Submit(slurm_submit::SubmitArgs),
    /// Resolve devices or the MPI of a step on its node, for the Slurm plugin
    #[command(hide = true)]
    Node(slurm_node::NodeArgs),
    /// Record the images of a job step
    #[command(hide = true)]
    Record(slurm_record::RecordArgs),
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
) -> CommandResult<ExitCode> {
    // It is asked just where something is wrong, be it with the settings.
    if let Command::Doctor(args) = &command {
        return doctor::doctor(global, printer, args);
    }
    // Where a node has a mistake in its settings, steps are recorded all the same.
    if let Command::Slurm(SlurmCommand::Record(args)) = &command {
        return slurm_record::record(args);
    }
    let setup = &Setup::new(global, printer)?;
    match command {
        Command::Start(args) => start::start(setup, &args),
        Command::Run(args) => run::run(setup, &args),
        Command::Explain(args) => explain::explain(setup, &args),
        Command::Diff(args) => diff::diff(setup, &args),
        Command::MpiPlan(args) => mpi_root::plan(setup, &args),
        Command::ExplainStart(args) => explain_start::explain_start(setup, &args),
        Command::Attach(args) => attach::attach(setup, &args),
        Command::Status(args) => status::status(setup, &args),
        Command::Image(ImageCommand::Ls(args)) => image_ls::ls(setup, &args),
        Command::Image(ImageCommand::Inspect(args)) => image_inspect::inspect(setup, &args),
        Command::Image(ImageCommand::Add(args)) => image_add::add(setup, &args),
        Command::Image(ImageCommand::Rm(args)) => image_rm::rm(setup, &args),
        Command::Image(ImageCommand::Find(args)) => image_find::find(setup, &args),
        Command::Image(ImageCommand::Pull(args)) => image_pull::pull(setup, &args),
        Command::Image(ImageCommand::Push(args)) => image_push::push(setup, &args),
        Command::Image(ImageCommand::Copy(args)) => image_copy::copy(setup, &args),
        Command::Image(ImageCommand::Delete(args)) => image_copy::delete(setup, &args),
        Command::Image(ImageCommand::Sign(args)) => image_sign::sign(setup, &args),
        Command::Image(ImageCommand::Verify(args)) => image_verify::verify(setup, &args),
        Command::Image(ImageCommand::Key(command)) => image_sign::key(setup, &command),
        Command::Repo(RepoCommand::Create(args)) => repo::create(setup, &args),
        Command::Repo(RepoCommand::Status(args)) => repo::status(setup, &args),
        Command::Repo(RepoCommand::Update(args)) => repo::update(setup, &args),
        Command::Repo(RepoCommand::Migrate(args)) => repo_migrate::migrate(setup, &args),
        Command::Repo(RepoCommand::Import(args)) => repo_import::import(setup, &args),
        Command::Repo(RepoCommand::Gc(args)) => repo_gc::gc(setup, &args),
        Command::Repo(RepoCommand::Pin(args)) => repo_pin::pin(setup, &args),
        Command::Repo(RepoCommand::Unpin(args)) => repo_pin::unpin(setup, &args),
        Command::Import(args) => import::import(setup, &args),
        Command::Export(args) => export::export(setup, &args),
        Command::Build(args) => build::build(setup, &args),
        Command::Recipe(RecipeCommand::Check(args)) => recipe::check(setup, &args),
        Command::Recipe(RecipeCommand::Show(args)) => recipe_show::show(setup, &args),
        Command::Recipe(RecipeCommand::Convert(args)) => recipe_convert::convert(setup, &args),
        Command::Recipe(RecipeCommand::Schema(args)) => recipe::schema(setup, &args),
        Command::Environment(EnvironmentCommand::Check(args)) => environment::check(setup, &args),
        Command::Environment(EnvironmentCommand::Show(args)) => environment::show(setup, &args),
        Command::Environment(EnvironmentCommand::Ls(args)) => environment::ls(setup, &args),
        Command::System(SystemCommand::Probe(args)) => system::probe(setup, &args),
        Command::System(SystemCommand::Devices(args)) => system_devices::devices(setup, &args),
        Command::VendorMpi(args) => vendor_mpi::vendor_mpi(setup, &args),
        Command::Mpi(command) => mpi::mpi(setup, &command),
        Command::Slurm(SlurmCommand::Install(args)) => slurm_install::install(setup, &args),
        Command::Slurm(SlurmCommand::Check(args)) => slurm_check::check(setup, &args),
        Command::Slurm(SlurmCommand::Submit(args)) => slurm_submit::submit(setup, &args),
        Command::Slurm(SlurmCommand::Node(args)) => slurm_node::node(setup, &args),
        Command::Slurm(SlurmCommand::Record(args)) => slurm_record::record(&args),
        Command::Config(args) => config::config(setup, &args),
        Command::Doctor(args) => doctor::doctor(global, printer, &args),
        Command::Clean(args) => clean::clean(setup, &args),
        Command::Completion(args) => completion::completion(setup, &args),
    }
}
