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
    /// Start a shell in one or several images
    Start(start::StartArgs),
    /// Run one command in one or several images
    Run(run::RunArgs),
    /// Start a shell or a command in the environment of a running process or job
    Attach(attach::AttachArgs),
    /// Tell which images and views are loaded
    Status(status::StatusArgs),
    /// Tell where a command, a library, a variable or a file comes from
    Explain(explain::ExplainArgs),
    /// Tell what changed between two images, views or environments
    Diff(diff::DiffArgs),
    /// Tell about conflicts between views, then run a command
    #[command(hide = true)]
    ExplainStart(explain_start::ExplainStartArgs),
    #[command(hide = true)]
    MpiPlan(mpi_root::PlanArgs),
    /// Look at images in repositories and registries, and move them between the two
    #[command(subcommand)]
    Image(ImageCommand),
    /// Make and look after repositories
    #[command(subcommand)]
    Repo(RepoCommand),
    /// Make an image of a container image and add it to the repository
    Import(import::ImportArgs),
    /// Make a container image of images
    Export(export::ExportArgs),
    /// Build an image from a recipe and add it to the repository
    Build(build::BuildArgs),
    /// Check recipes, and look at what they ask for
    #[command(subcommand)]
    Recipe(RecipeCommand),
    /// Look at environment files
    #[command(subcommand)]
    Environment(EnvironmentCommand),
    /// Describe systems for building
    #[command(subcommand)]
    System(SystemCommand),
    /// Make a package for Spack out of the packages of a vendor's MPI
    VendorMpi(vendor_mpi::VendorMpiArgs),
    /// Look at the MPI of programs, machines and images
    #[command(subcommand)]
    Mpi(mpi::MpiCommand),
    /// Give jobs of Slurm their images
    #[command(subcommand)]
    Slurm(SlurmCommand),
    /// Tell the configuration in effect and where each value comes from
    Config(config::ConfigArgs),
    /// Tell which ways of mounting work here, what stands in the way, and what mends it
    Doctor(doctor::DoctorArgs),
    /// Remove what builds left behind
    Clean(clean::CleanArgs),
    /// Print the completion script of a shell
    Completion(completion::CompletionArgs),
}

/// What can be done with images.
#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// List images
    #[command(alias = "list")]
    Ls(image_ls::LsArgs),
    /// Tell everything about one image
    Inspect(image_inspect::InspectArgs),
    /// Add an image file under a label, or give an image another label
    Add(image_add::AddArgs),
    /// Remove labels, and images that have none left
    Rm(image_rm::RmArgs),
    /// List the images of a registry
    Find(image_find::FindArgs),
    /// Get an image from a registry into the repository
    Pull(image_pull::PullArgs),
    /// Put an image into a registry
    Push(image_push::PushArgs),
    /// Give an image of a registry another label there
    Copy(image_copy::CopyArgs),
    /// Take a label away from an image of a registry, and the image with its last label
    Delete(image_copy::DeleteArgs),
    /// Sign an image in a registry
    Sign(image_sign::SignArgs),
    /// Tell whether an image in a registry is signed as it should be
    Verify(image_verify::VerifyArgs),
    /// Make keys for signing images
    #[command(subcommand)]
    Key(image_sign::KeyCommand),
}

/// What can be done with repositories.
#[derive(Debug, Subcommand)]
pub(crate) enum RepoCommand {
    /// Make a repository
    Create(repo::CreateArgs),
    /// Tell what a repository holds and whether it is whole
    Status(repo::StatusArgs),
    /// Tidy up a repository and rebuild its index
    Update(repo::UpdateArgs),
    /// Copy everything in a repository into another one
    Migrate(repo_migrate::MigrateArgs),
    /// Copy the images of a repository of uenv into a repository
    Import(repo_import::ImportArgs),
    /// Remove images that were not used for long, or that are too many
    Gc(repo_gc::GcArgs),
    /// Keep labels from being removed by `gc`, or list those that are
    Pin(repo_pin::PinArgs),
    /// Let labels be removed by `gc` again
    Unpin(repo_pin::UnpinArgs),
}

/// What can be done with recipes.
#[derive(Debug, Subcommand)]
pub(crate) enum RecipeCommand {
    /// Read a recipe and name every mistake in it
    Check(recipe::CheckArgs),
    /// Tell what Spack will be handed for a recipe
    Show(recipe_show::ShowArgs),
    /// Write a recipe of format 1 or 2 in format 3
    Convert(recipe_convert::ConvertArgs),
    /// Print the JSON schema of a file of a recipe for Spack, or of a system
    Schema(recipe::SchemaArgs),
}

/// What can be done with environment files.
#[derive(Debug, Subcommand)]
pub(crate) enum EnvironmentCommand {
    /// Read environment files and name every mistake in them
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
    /// Look at this machine, and describe it for building
    Probe(system::ProbeArgs),
    /// List the devices of this machine that containers can have
    Devices(system_devices::DevicesArgs),
}

/// What can be done with Slurm.
#[derive(Debug, Subcommand)]
pub(crate) enum SlurmCommand {
    /// Make Slurm load the plugin, or no longer
    Install(slurm_install::InstallArgs),
    /// Tell whether jobs on this machine would get their images
    Check(slurm_check::CheckArgs),
    /// Tell the plugin of Slurm which images and variables a job gets
    #[command(hide = true)]
    Submit(slurm_submit::SubmitArgs),
    /// Tell the plugin of Slurm on a node what its devices bring, or how a step gets another MPI
    #[command(hide = true)]
    Node(slurm_node::NodeArgs),
    /// Record which images a step of a job has
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
