// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Called by the name `uenv`, the program has the command line of uenv; called `squashfs-mount`, that
//! of the program with which uenv mounts.
//!
//! This module only translates: arguments into calls of the engines that Cabane's own commands
//! call, and their answers into the texts, columns, and exit codes that scripts for uenv expect.

mod args;
mod fill;
mod image;
mod inspect;
mod launch;
mod records;
mod repo;
mod squashfs_mount;
mod status;
mod words;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use anstream::ColorChoice;
use cabane_report::{IoContext as _, Kind, Report, Result};
use cabane_repository::Repository;
use cabane_site::settings::{Origin, Overrides};

use crate::args::{configured, usual_color};
use crate::exit_codes::{self, ExitCode};
use crate::printer::Printer;
use crate::setup::Setup;
use crate::{complete, parse, print_mistake};
use args::{Args, Command, ImageCommand, RepoCommand};
pub(crate) use words::with_its_commands;

/// The version of uenv whose command line this is.
const VERSION: &str = "9.2.0";

/// A name of another program by which this one was called.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Called {
    Uenv,
    SquashfsMount,
}

impl Called {
    /// Returns which program is meant by the first argument, unless it is Cabane itself.
    pub(crate) fn by(name: &OsStr) -> Option<Self> {
        match Path::new(name).file_name()?.as_encoded_bytes() {
            b"uenv" => Some(Self::Uenv),
            b"squashfs-mount" => Some(Self::SquashfsMount),
            _ => None,
        }
    }

    /// Runs the command line of that program to its end.
    pub(crate) fn main(self, typed: &[OsString]) -> ExitCode {
        match self {
            Self::Uenv => uenv(typed),
            Self::SquashfsMount => squashfs_mount::main(typed),
        }
    }
}

fn uenv(typed: &[OsString]) -> ExitCode {
    if complete::is_asked(typed) {
        return complete::code(&complete::answer(typed, args::completed(), true));
    }
    let args: Args = match parse(args::command(), typed, print_mistake) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let color = match (args.color, args.no_color) {
        (true, _) => ColorChoice::Always,
        (_, is_plain) => usual_color(is_plain),
    };
    let printer = Printer { color, verbosity: args.verbose, is_uenv: true };
    if args.version {
        printer.data(format_args!("{VERSION}\n"));
        return exit_codes::SUCCESS;
    }
    let Some(command) = args.command else {
        let own = env!("CARGO_PKG_VERSION");
        printer.data(format_args!(
            "uenv version {VERSION}, by Cabane {own}\ncall 'uenv --help' for help\n"
        ));
        return exit_codes::SUCCESS;
    };
    let overrides = Overrides {
        repo: args.repo.as_deref().map(absolute),
        system: args.system,
        backend: None,
        is_uenv: true,
        cabane_first: command.is_for_job(),
    };
    let result = run(printer, &overrides, command);
    result.unwrap_or_else(|error| {
        printer.failure(&error);
        exit_codes::of_uenv(error.kind())
    })
}

/// Paths that begin with `.` are paths here, too.
pub(crate) fn absolute(repositories: &str) -> String {
    let whole = |text: &str| match std::path::absolute(text) {
        Ok(path) if text.starts_with('.') => path.display().to_string(),
        _ => text.to_owned(),
    };
    repositories.split(',').map(whole).collect::<Vec<_>>().join(",")
}

fn run(printer: Printer, overrides: &Overrides, command: Command) -> Result<ExitCode> {
    let site = Setup::site(overrides, std::env::vars_os().collect())?;
    let printer = configured(printer, site.settings.color.value);
    let setup = &Setup::of(site, printer);
    match command {
        Command::Start(args) => launch::start(setup, &args)?,
        Command::Run(args) => launch::run(setup, &args)?,
        Command::Status(args) => return status::status(setup, &args),
        Command::Inspect(args) | Command::Image(ImageCommand::Inspect(args)) => {
            inspect::inspect(setup, &args)?;
        }
        Command::Image(command) => image(setup, &command)?,
        Command::Repo(command) => repo(setup, &command)?,
        Command::Build(args) => return Err(args.refused()),
        Command::Completion(args) => {
            let shell = args.shell.to_string();
            let script = complete::script(&shell, "uenv", "uenv");
            printer.data(
                script.or_failed(|| format!("write the script for {shell}"))?.unwrap_or_default(),
            );
        }
        Command::Config => config(setup),
        Command::Slurm(command) => return launch::slurm(setup, &command),
    }
    Ok(exit_codes::SUCCESS)
}

fn image(setup: &Setup, command: &ImageCommand) -> Result<()> {
    use crate::commands::image::{copy, push};
    if let ImageCommand::Ls(_) | ImageCommand::Rm(_) = command {
        check_named(setup)?;
    }
    match command {
        ImageCommand::Ls(args) => records::ls(setup, args),
        ImageCommand::Find(args) => records::find(setup, args),
        ImageCommand::Inspect(args) => inspect::inspect(setup, args),
        ImageCommand::Add(args) => image::add(setup, args),
        ImageCommand::Rm(args) => image::rm(setup, args),
        ImageCommand::Pull(args) => image::pull(setup, args),
        ImageCommand::Push(args) => push::push(setup, args),
        ImageCommand::Copy(args) => copy::copy(setup, args),
        ImageCommand::Delete(args) => copy::delete(setup, args),
    }
}

fn repo(setup: &Setup, command: &RepoCommand) -> Result<()> {
    match command {
        RepoCommand::Create(args) => repo::create(setup, args),
        RepoCommand::Status(args) => repo::status(setup, args),
        RepoCommand::Update(args) => repo::update(setup, args),
        RepoCommand::Migrate(args) => repo::migrate(setup, args),
    }
}

/// Refuses a repository that was named and does not exist.
fn check_named(setup: &Setup) -> Result<()> {
    let named = setup.settings.repositories.iter();
    let mut named = named.filter(|setting| matches!(setting.origin, Origin::Option(_)));
    match named.find(|setting| fs::symlink_metadata(&setting.path).is_err()) {
        None => Ok(()),
        Some(missing) => {
            let path = missing.path.display();
            let error = format!("the repository {path} does not exist");
            Err(Report::new(Kind::Repository, error)
                .hinted(format!("`uenv repo create {path}` creates it")))
        }
    }
}

/// Makes the repository that was named for new images, if it does not exist: uenv does so, too.
fn make_named(setup: &Setup) -> Result<()> {
    let path = setup.default_repository_path()?;
    if fs::symlink_metadata(&path).is_err() {
        Repository::create_uenv(&path).map_err(|error| {
            words::headed(format!("the repository {} does not exist", path.display()), error.into())
        })?;
    }
    Ok(())
}

/// Shows the files that were read and the values in effect, one on each line.
fn config(setup: &Setup) {
    let settings = &setup.settings;
    let mut text = String::new();
    for file in &settings.files {
        text += &format!("file        {}\n", file.display());
    }
    text += &format!("color       {}\n", settings.color.value);
    let system = settings.system.value.as_ref();
    text +=
        &format!("system_name {}\n", system.map_or_else(|| "*".to_owned(), ToString::to_string));
    for repository in &settings.repositories {
        text += &format!("repository  {}={}\n", repository.name, repository.path.display());
    }
    setup.printer.data(text);
}
