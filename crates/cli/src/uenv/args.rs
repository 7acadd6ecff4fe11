// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The command line of uenv.

use std::ffi::OsString;
use std::path::PathBuf;

use cabane_environment::{ImageRequest, JoinOptions};
use cabane_report::{Kind, Report};
use cabane_transfer::RegistryRequest;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

use crate::commands::image::{copy, push};
use crate::commands::slurm::SlurmCommand;

/// Find, download, and use software environments
#[derive(Debug, Parser)]
#[command(
    name = "uenv",
    bin_name = "uenv",
    disable_help_subcommand = true,
    disable_version_flag = true,
    after_help = "This is Cabane, called by the name uenv. `cabane --help` shows what else it can do."
)]
pub(super) struct Args {
    /// Show more detail
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
    /// Color the output
    #[arg(long, overrides_with = "no_color")]
    pub(super) color: bool,
    /// Do not color the output
    #[arg(long, overrides_with = "color")]
    pub(super) no_color: bool,
    /// Print the version
    #[arg(long)]
    pub(super) version: bool,
    /// Repositories to use: paths, names, or NAME=PATH, separated by commas
    #[arg(long, value_name = "LIST")]
    pub(super) repo: Option<String>,
    /// The name of this system, or `*` for images of all systems
    #[arg(long, value_name = "NAME")]
    pub(super) system: Option<String>,
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

/// Returns what is completed: commands that only programs use are left out.
pub(super) fn completed() -> clap::Command {
    let command = command();
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    let completed = clap::Command::new("uenv").disable_help_subcommand(true);
    completed.args(command.get_arguments()).subcommands(shown)
}

/// Returns the parser. Examples in the help of commands that both programs have name `uenv`.
pub(super) fn command() -> clap::Command {
    fn renamed(command: clap::Command) -> clap::Command {
        let help =
            command.get_after_help().map(|text| text.to_string().replace("cabane ", "uenv "));
        let command = command.mut_subcommands(renamed);
        match help {
            Some(help) => command.after_help(help),
            None => command,
        }
    }
    let command = Args::command();
    command.mut_subcommands(renamed)
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Start a shell in images
    Start(StartArgs),
    /// Run a command in images
    Run(RunArgs),
    /// Show the loaded images and views
    Status(StatusArgs),
    /// Manage images in repositories and registries
    #[command(subcommand)]
    Image(ImageCommand),
    /// Manage repositories
    #[command(subcommand)]
    Repo(RepoCommand),
    /// Show the details of one image
    #[command(hide = true)]
    Inspect(InspectArgs),
    /// Submit a recipe to a build service
    #[command(hide = true)]
    Build(BuildArgs),
    /// Print a shell completion script
    Completion(CompletionArgs),
    /// Show the configuration in effect
    Config,
    /// Answer the plugin of Slurm
    #[command(subcommand, hide = true)]
    Slurm(SlurmCommand),
}

impl Command {
    /// Whether the images are for a job for which the name of the program was not chosen.
    pub(super) fn is_for_job(&self) -> bool {
        matches!(self, Self::Slurm(SlurmCommand::Submit(args)) if args.cabane_first)
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum ImageCommand {
    /// List the images in the repositories
    Ls(LsArgs),
    /// List the images in the registry
    Find(LsArgs),
    /// Show the details of one image
    Inspect(InspectArgs),
    /// Download an image from the registry
    Pull(PullArgs),
    /// Upload an image to the registry
    Push(push::PushArgs),
    /// Add an image to the repository
    Add(AddArgs),
    /// Remove an image from the repository
    Rm(RmArgs),
    /// Give an image in the registry another label
    Copy(copy::CopyArgs),
    /// Remove an image from the registry
    Delete(copy::DeleteArgs),
}

#[derive(Debug, Subcommand)]
pub(super) enum RepoCommand {
    /// Create a repository
    Create(PathArgs),
    /// Show the state of a repository
    Status(RepoStatusArgs),
    /// Remove labels whose image is missing
    Update(UpdateArgs),
    /// Copy a repository to another place
    Migrate(MigrateArgs),
}

/// Images and views.
#[derive(Debug, clap::Args)]
pub(super) struct EnvironmentArgs {
    /// Images: label, ID, digest, or path, each optionally followed by :/mount/point; separated by commas
    uenv: String,
    /// Views to load: VIEW or NAME:VIEW, separated by commas
    #[arg(short, long, value_name = "VIEWS")]
    view: Option<String>,
    /// Load no view unless one is named
    #[arg(long)]
    no_default_view: bool,
    /// Share memory with other processes in the same environment
    #[arg(short, long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    join: Option<String>,
}

impl EnvironmentArgs {
    pub(super) fn request(&self) -> ImageRequest {
        ImageRequest::new(&self.uenv, self.view.as_deref(), self.no_default_view)
    }

    pub(super) fn join(&self) -> JoinOptions {
        JoinOptions { join: self.join.clone(), no_join: false }
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct StartArgs {
    #[command(flatten)]
    pub(super) environment: EnvironmentArgs,
    /// Start a shell even without a terminal
    #[arg(long)]
    pub(super) ignore_tty: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) environment: EnvironmentArgs,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    /// Exit with code 1 if no image is loaded
    #[arg(long)]
    pub(super) error_if_unset: bool,
    /// How much to show
    #[arg(long, value_enum, default_value_t = StatusFormat::Full, hide_default_value = true)]
    pub(super) format: StatusFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum StatusFormat {
    /// Everything
    Full,
    /// Names, separated by commas
    #[value(alias = "name")]
    Short,
    /// Names and loaded views: `NAME[VIEW,…]`
    Views,
}

#[derive(Debug, clap::Args)]
pub(super) struct LsArgs {
    /// A label with parts left out, an ID, or a digest
    pub(super) uenv: Option<String>,
    /// Omit the table header
    #[arg(long)]
    pub(super) no_header: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "format")]
    pub(super) json: bool,
    /// Print one line for each image from a template such as `{name}/{version}`
    #[arg(long, value_name = "TEMPLATE")]
    pub(super) format: Option<String>,
    /// Match only the exact name
    #[arg(long)]
    pub(super) no_partials: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct InspectArgs {
    /// A label, an ID, a digest, or a path
    pub(super) uenv: String,
    /// Print JSON
    #[arg(long, conflicts_with = "format")]
    pub(super) json: bool,
    /// Print a text from a template such as `{name} at {mount}`
    #[arg(long, value_name = "TEMPLATE")]
    pub(super) format: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct PullArgs {
    /// A label, an ID, or a digest
    pub(super) uenv: String,
    /// A file with a token for the registry, or a directory with a file TOKEN
    #[arg(long, value_name = "PATH")]
    token: Option<PathBuf>,
    /// The user name for the token
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// Download only the metadata, into the repository
    #[arg(long)]
    pub(super) only_meta: bool,
    /// If another image in the repository has the label, move it to the downloaded image
    #[arg(long)]
    pub(super) force: bool,
    /// Removed: write `build::` before the label
    #[arg(long, hide = true)]
    pub(super) build: bool,
}

impl PullArgs {
    pub(super) fn registry(&self) -> RegistryRequest {
        let (token, username) = (self.token.clone(), self.username.clone());
        RegistryRequest { registry: None, token, username }
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct AddArgs {
    /// The label: name/version:tag@system%uarch
    pub(super) label: String,
    /// An image file, or an image of the repository
    pub(super) source: String,
    /// Move the file instead of copying it
    #[arg(long = "move")]
    pub(super) moves: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct RmArgs {
    /// A label, an ID, or a digest
    pub(super) label: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct PathArgs {
    /// The path of the repository; default: your own
    pub(super) path: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct RepoStatusArgs {
    #[command(flatten)]
    pub(super) repository: PathArgs,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct UpdateArgs {
    #[command(flatten)]
    pub(super) repository: PathArgs,
    /// Accepted, without effect: `lfs setstripe` sets how images are spread over servers
    #[arg(long, overrides_with = "no_lustre")]
    lustre: bool,
    /// Accepted, without effect
    #[arg(long, overrides_with = "lustre")]
    no_lustre: bool,
}

#[derive(Debug, clap::Args)]
#[command(override_usage = "uenv repo migrate [OPTIONS] [SOURCE] <TARGET>")]
pub(super) struct MigrateArgs {
    /// The source and the target; with one path, the source is your own repository
    #[arg(required = true, num_args = 1..=2, value_name = "PATHS")]
    pub(super) paths: Vec<PathBuf>,
    /// Add to a repository that exists; this is the default
    #[arg(long, overrides_with = "no_sync")]
    sync: bool,
    /// Refuse a target that exists
    #[arg(long, overrides_with = "sync")]
    pub(super) no_sync: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    pub(super) shell: clap_complete::Shell,
}

#[derive(Debug, clap::Args)]
pub(super) struct BuildArgs {
    /// The recipe
    recipe: PathBuf,
    /// The label: name/version@system%uarch
    label: String,
    /// Use the development version of Spack
    #[arg(short, long)]
    develop: bool,
}

impl BuildArgs {
    /// Says why it is not built.
    pub(super) fn refused(&self) -> Report {
        let _ = self.develop;
        let (recipe, label) = (self.recipe.display(), &self.label);
        let error = "the build service that `uenv build` submits to is not part of Cabane";
        Report::new(Kind::Failure, error)
            .hinted(format!("`cabane build {recipe} --label {label}` builds the recipe here"))
    }
}
