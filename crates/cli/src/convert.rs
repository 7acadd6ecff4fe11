// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Errors of the libraries as the user sees them: code, snippet, hint.

use cabane_builder::BuildError;
use cabane_label::{IncompleteLabel, ParseError};
use cabane_recipe::{ColorChoice, RecipeError, SettingsError};
use cabane_resolve::{AssembleError, EnvironmentError, LocateError};
use cabane_run::RunError;

use crate::args::When;
use crate::exit_codes;
use crate::report::CommandError;

/// An error in something that was typed, with the place.
pub(crate) fn parse_error(error: ParseError) -> CommandError {
    let detail = indented(&error.pointer());
    let hint = error.hint();
    CommandError::new(exit_codes::BAD_INPUT, error)
        .detailed(detail)
        .hinted(hint)
}

/// A label that lacks parts.
pub(crate) fn incomplete_label(error: IncompleteLabel) -> CommandError {
    let hint = error.hint();
    CommandError::new(exit_codes::BAD_INPUT, error).hinted(hint)
}

/// An error of a repository.
pub(crate) fn repository_error(error: cabane_repository::Error) -> CommandError {
    use cabane_repository::Error;
    let hint = error.hint();
    let code = match &error {
        Error::NoSuchLabel { .. } | Error::NoSuchImage { .. } => exit_codes::NOT_FOUND,
        Error::Image { .. } | Error::Meta { .. } | Error::MetaEntry { .. } => exit_codes::BAD_INPUT,
        Error::NoSpace { .. } | Error::LabelTaken { .. } => exit_codes::FAILURE,
        _ => exit_codes::REPOSITORY,
    };
    CommandError::new(code, error).hinted(hint)
}

/// An error of a repository of uenv.
pub(crate) fn uenv_error(error: cabane_uenv::Error) -> CommandError {
    match error {
        cabane_uenv::Error::Target(error) => repository_error(error),
        error => {
            let hint = error.hint();
            CommandError::new(exit_codes::REPOSITORY, error).hinted(hint)
        }
    }
}

/// An error of a registry.
pub(crate) fn registry_error(error: cabane_registry::Error) -> CommandError {
    use cabane_registry::Error;
    let hint = error.hint();
    let code = match &error {
        Error::NoSuchImage { .. } | Error::NoContainer { .. } => exit_codes::NOT_FOUND,
        Error::Unfit(_) | Error::NotAnImage { .. } | Error::Metadata { .. } | Error::Key(_) => {
            exit_codes::BAD_INPUT
        }
        Error::NoSpace { .. }
        | Error::NoRoom { .. }
        | Error::LabelTaken { .. }
        | Error::TagTaken { .. }
        | Error::Io { .. }
        | Error::SourceChanged { .. }
        // What is wrong is here, and not in the registry.
        | Error::Credential(_)
        | Error::Trust(_)
        | Error::Proxy(_)
        | Error::Settings { .. } => exit_codes::FAILURE,
        _ => exit_codes::REGISTRY,
    };
    CommandError::new(code, error).hinted(hint)
}

/// An error with a container image.
pub(crate) fn container_error(error: cabane_container::Error) -> CommandError {
    use cabane_container::Error;
    let hint = error.hint();
    let code = match &error {
        Error::NoSuchName { .. } | Error::NoPlatform { .. } => exit_codes::NOT_FOUND,
        Error::NotAnImage { .. }
        | Error::Document { .. }
        | Error::Tampered { .. }
        | Error::Layer { .. } => exit_codes::BAD_INPUT,
        _ => exit_codes::FAILURE,
    };
    CommandError::new(code, error).hinted(hint)
}

/// An image that was not found, or not only one.
pub(crate) fn locate_error(error: LocateError) -> CommandError {
    let hint = error.hint();
    let code = match &error {
        LocateError::NotFound { .. } => exit_codes::NOT_FOUND,
        LocateError::Ambiguous { .. } => exit_codes::AMBIGUOUS,
        LocateError::Repository { .. } => exit_codes::REPOSITORY,
        LocateError::Unreadable { .. } | LocateError::Closed { .. } => exit_codes::FAILURE,
        _ => exit_codes::BAD_INPUT,
    };
    CommandError::new(code, error).hinted(hint)
}

/// Images and views that do not go together.
pub(crate) fn assemble_error(error: AssembleError) -> CommandError {
    let hint = error.hint();
    let code = match &error {
        AssembleError::UnknownView { .. } | AssembleError::UnknownImage { .. } => {
            exit_codes::NOT_FOUND
        }
        AssembleError::AmbiguousView { .. } => exit_codes::AMBIGUOUS,
        _ => exit_codes::BAD_INPUT,
    };
    CommandError::new(code, error).hinted(hint)
}

/// An error of mounting or of starting a command.
pub(crate) fn run_error(error: RunError) -> CommandError {
    let hint = error.hint();
    CommandError::new(exit_codes::NOT_STARTED, error).hinted(hint)
}

/// Every mistake in a recipe.
pub(crate) fn recipe_error(error: &RecipeError) -> CommandError {
    let place = " in the recipe";
    let count = error.diagnostics().len();
    CommandError::new(exit_codes::BAD_INPUT, Mistakes { count, place }).detailed(error.to_string())
}

/// Every mistake in the manifest of a vendor's MPI.
pub(crate) fn manifest_error(error: &RecipeError) -> CommandError {
    let place = " in the manifest";
    let count = error.diagnostics().len();
    CommandError::new(exit_codes::BAD_INPUT, Mistakes { count, place }).detailed(error.to_string())
}

/// Every mistake in the configuration of a system.
pub(crate) fn system_error(error: &RecipeError) -> CommandError {
    let place = " in the configuration of the system";
    let count = error.diagnostics().len();
    CommandError::new(exit_codes::BAD_INPUT, Mistakes { count, place }).detailed(error.to_string())
}

/// Every mistake in a configuration file.
pub(crate) fn settings_error(error: &SettingsError) -> CommandError {
    let place = " in the configuration";
    let count = error.diagnostics().len();
    CommandError::new(exit_codes::BAD_INPUT, Mistakes { count, place }).detailed(error.to_string())
}

/// An environment file that is missing, or every mistake in it.
pub(crate) fn environment_error(error: EnvironmentError) -> CommandError {
    let hint = error.hint();
    let code = match error {
        EnvironmentError::Malformed { error } => {
            let place = " in the environment file";
            let count = error.diagnostics().len();
            let mistakes = Mistakes { count, place };
            return CommandError::new(exit_codes::BAD_INPUT, mistakes).detailed(error.to_string());
        }
        EnvironmentError::NotFound { .. } => exit_codes::NOT_FOUND,
        EnvironmentError::Unreadable { .. } => exit_codes::FAILURE,
        _ => exit_codes::BAD_INPUT,
    };
    CommandError::new(code, error).hinted(hint)
}

/// An error of a build.
pub(crate) fn build_error(error: BuildError) -> CommandError {
    let hint = error.hint();
    let tail = error.failure().map(|failure| failure.tail.join("\n"));
    match error {
        BuildError::Recipe(error) => recipe_error(&error),
        BuildError::System(error) => system_error(&error),
        error @ (BuildError::NoStep { .. } | BuildError::StepsCrossed { .. }) => {
            CommandError::new(exit_codes::USAGE, error).hinted(hint)
        }
        error => {
            let converted = CommandError::new(exit_codes::BUILD, error).hinted(hint);
            match tail.filter(|tail| !tail.is_empty()) {
                Some(tail) => converted.detailed(indented(&tail)),
                None => converted,
            }
        }
    }
}

/// The setting of a configuration file as the option has it.
pub(crate) fn when(setting: ColorChoice) -> When {
    match setting {
        ColorChoice::Auto => When::Auto,
        ColorChoice::Always => When::Always,
        ColorChoice::Never => When::Never,
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{}{place}", if *count == 1 { "a mistake".to_owned() } else { format!("{count} mistakes") })]
struct Mistakes {
    count: usize,
    place: &'static str,
}

fn indented(text: &str) -> String {
    text.lines()
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
