// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane init`: a recipe to begin with.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use cabane_builder::{RecipeKind, new_recipe};
use cabane_label::{Name, shown, shown_word};
use cabane_report::{IoContext, Kind, Report, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::setup::Setup;

/// Create a recipe to start from
#[derive(Debug, Args)]
#[command(after_help = "\
The recipe builds without changes: edit it, or build it first. Existing files are kept. A
requirements.txt or a Python project in the directory becomes part of the recipe.

Examples:
  cabane init python analysis
  cabane init spack prgenv
  cabane init tree . --name solver")]
pub(crate) struct InitArgs {
    /// What the image is made of; without it, the command asks
    #[arg(value_parser = PossibleValuesParser::new(RecipeKind::ALL.map(|(word, _)| word)))]
    kind: Option<String>,
    /// The directory of the recipe
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// The name of the image; default: the name of the directory
    #[arg(long)]
    name: Option<Name>,
}

/// What is asked, in the order of [`RecipeKind::ALL`].
const QUESTIONS: [&str; 5] = [
    "Python packages, from requirements or a project",
    "packages that Spack builds: compilers, MPI, libraries, programs",
    "packages that EasyBuild builds from easyconfigs",
    "a container image, with files and commands added",
    "a directory with software that is installed already",
];

pub(crate) fn init(setup: &Setup, args: &InitArgs) -> Result<()> {
    let word = args.kind.as_deref();
    let known = word.and_then(|word| RecipeKind::ALL.iter().find(|(name, _)| *name == word));
    let kind = known.map_or_else(|| ask(setup), |(_, kind)| Ok(*kind))?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => name_of(&args.directory)?,
    };
    for path in new_recipe(&args.directory, kind, name.as_str())? {
        setup.note(format_args!("wrote {}", shown(&path)));
    }
    let needs_system = kind == RecipeKind::Spack && setup.named_system.is_none();
    if needs_system {
        setup.hint("`cabane system probe --output system` describes this machine");
    }
    let system = if needs_system { " --system system" } else { "" };
    setup.hint(format_args!("`cabane build {} {name}/1.0{system}`", shown_word(&args.directory)));
    Ok(())
}

/// Asks which kind is wanted.
fn ask(setup: &Setup) -> Result<RecipeKind> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let hint = "type `cabane init python`, `spack`, `easybuild`, `container`, or `tree`";
        return Err(Report::new(Kind::Usage, "no kind of recipe is named").hinted(hint.to_owned()));
    }
    setup.note("What will the image contain?");
    for ((word, _), question) in RecipeKind::ALL.iter().zip(QUESTIONS) {
        setup.note(format_args!("  {word:<10}{question}"));
    }
    loop {
        let _ = write!(io::stderr(), "[python] ");
        let mut answer = String::new();
        if io::stdin().read_line(&mut answer).or_failed(|| "read the answer".to_owned())? == 0 {
            return Err(Report::new(Kind::Usage, "no kind of recipe is named"));
        }
        let answer = answer.trim();
        let answer = if answer.is_empty() { "python" } else { answer };
        if let Some((_, kind)) = RecipeKind::ALL.iter().find(|(word, _)| *word == answer) {
            return Ok(*kind);
        }
        setup.note("type `python`, `spack`, `easybuild`, `container`, or `tree`");
    }
}

/// Returns the name of a directory, as far as it can be the name of an image.
fn name_of(directory: &Path) -> Result<Name> {
    let whole =
        std::path::absolute(directory).or_failed(|| format!("find {}", shown(directory)))?;
    let name =
        whole.components().next_back().map(|one| one.as_os_str().to_string_lossy().into_owned());
    let name = name.unwrap_or_default().to_lowercase();
    let is_fit = |one: char| one.is_ascii_alphanumeric() || matches!(one, '_' | '-' | '.');
    let name: String = name.chars().map(|one| if is_fit(one) { one } else { '-' }).collect();
    name.trim_matches(['-', '.']).parse().map_err(|_| {
        let message = format!("{} cannot be the name of an image", shown(&whole));
        Report::new(Kind::Usage, message).hinted("add `--name NAME`".to_owned())
    })
}
