// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Debug symbols apart from the image, for recipes with `debug-symbols: separate`.
//!
//! The reasons for the design are in `docs/design/0028-debug-symbols.md`.

mod companion;
mod elf;
mod split;

use std::path::{Path, PathBuf};

use cabane_recipe::{EngineConfig, Recipe};
use cabane_report::{Kind, Report};

pub(crate) use companion::{has_any, mount_point, write};
pub(crate) use split::split;

use crate::engine::StepDraft;
use crate::fingerprint::Inputs;
use crate::program;
use crate::{BuildError, BuildRequest, Result, StepName};

/// The directory in which debug files are found by build ID.
const BUILD_ID: &str = ".build-id";

/// The program that separates debug symbols.
#[derive(Clone, Debug)]
pub(crate) struct Objcopy {
    program: PathBuf,
    version: String,
}

impl Objcopy {
    /// Finds the program; none if the recipe leaves debug symbols where they are.
    pub(crate) fn find(request: &BuildRequest, recipe: &Recipe) -> Result<Option<Self>> {
        if !recipe.separates_debug_symbols {
            return if request.debug_symbols { Err(not_separated(recipe)) } else { Ok(None) };
        }
        let program = program::find("objcopy", request.programs.objcopy.as_deref())?;
        let version = program::ask_version(&program, "--version")?;
        Ok(Some(Self { program, version }))
    }

    /// The step that separates the symbols.
    pub(crate) fn draft(&self) -> StepDraft {
        let objcopy = self.program.display();
        let mut draft = StepDraft::new(StepName::Split, "separate the debug symbols");
        draft.commands = vec![
            format!("{objcopy} --only-keep-debug FILE DEBUG-FILE"),
            format!("{objcopy} --strip-debug FILE"),
        ];
        draft.from(Inputs::from([("program".to_owned(), format!("objcopy {}", self.version))]))
    }
}

fn not_separated(recipe: &Recipe) -> BuildError {
    let (message, hint) = if matches!(recipe.engine, EngineConfig::Container(_)) {
        (
            "`--debug-symbols` cannot be used with recipes of the engine `container`",
            "put the programs into a recipe of another engine, and name its image in `images`",
        )
    } else {
        (
            "the recipe does not separate debug symbols",
            "add the line `debug-symbols: separate` to its config.yaml",
        )
    };
    Report::new(Kind::Build, message).hinted(hint.to_owned()).into()
}

/// Where the debug file of a build ID is.
fn debug_file(symbols: &Path, build_id: &str) -> PathBuf {
    let (start, rest) = build_id.split_at_checked(2).unwrap_or((build_id, ""));
    symbols.join(BUILD_ID).join(start).join(format!("{rest}.debug"))
}
