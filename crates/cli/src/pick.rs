// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `--pick`: choosing one row of a table on a terminal.

use std::fmt::Display;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cabane_report::{IoContext as _, Kind, Report, Result};
use clap::Args;
use dialoguer::FuzzySelect;
use dialoguer::console::{Term, truncate_str};
use dialoguer::theme::ColorfulTheme;
use signal_hook::consts::SIGINT;

use crate::printer::Printer;
use crate::setup::Setup;
use crate::table::Table;

/// What the theme writes before each row.
const MARGIN: usize = 2;

/// Chooses one of the images that were found.
#[derive(Debug, Args)]
pub(crate) struct PickArgs {
    /// Choose one image on the terminal, and print its label: type to filter, Enter to choose, Escape to leave
    #[arg(long, conflicts_with = "json")]
    pick: bool,
}

impl PickArgs {
    /// Returns whether one image is wanted. Called before images are searched for.
    ///
    /// # Errors
    ///
    /// If there is no terminal on which one can be chosen.
    pub(crate) fn is_wanted(&self) -> Result<bool> {
        if self.pick && !Printer::is_watched() {
            let hint = "without `--pick`, all images are printed";
            let error = "`--pick` needs a terminal, and standard error is none";
            return Err(Report::new(Kind::Usage, error).hinted(hint.to_owned()));
        }
        Ok(self.pick)
    }
}

/// Asks for one row of a table, and returns its number.
///
/// # Errors
///
/// If there is nothing to choose from, or Escape or Ctrl-C is typed.
pub(crate) fn pick(table: &Table) -> Result<usize> {
    let mut rows = table.rows();
    if rows.is_empty() {
        return Err(Report::new(Kind::NotFound, "no image matches"));
    }
    let terminal = Term::buffered_stderr();
    let width = usize::from(terminal.size().1).saturating_sub(MARGIN + 1);
    for row in &mut rows {
        *row = truncate_str(row, width, "…").into_owned();
    }
    let number = chosen(&terminal, &rows)?;
    number.ok_or_else(|| Report::new(Kind::Interrupted, "no image was chosen"))
}

/// Prints what was chosen, for `$(…)` in a command line. A person at the terminal gets a hint as well.
pub(crate) fn print_label(setup: &Setup, label: &str, hint: impl Display) {
    setup.printer.data(format_args!("{label}\n"));
    if io::stdout().is_terminal() {
        setup.hint(hint);
    }
}

/// Shows the rows, and returns the number of the chosen one.
fn chosen(terminal: &Term, rows: &[String]) -> Result<Option<usize>> {
    // The library of the terminal sends SIGINT to this process after Ctrl-C. It must not end the process:
    // the cursor is hidden.
    let signal = signal_hook::flag::register(SIGINT, Arc::new(AtomicBool::new(false)));
    signal.or_failed(|| "watch for signals".to_owned())?;
    let theme = ColorfulTheme::default();
    let question = FuzzySelect::with_theme(&theme)
        .with_prompt("image")
        .items(rows)
        .default(0)
        .highlight_matches(false)
        .report(false);
    let answer = question.interact_on_opt(terminal);
    // The library hides it, and writes the rest of its buffer only when it reads the next key.
    let _ = terminal.show_cursor().and_then(|()| terminal.flush());
    match answer {
        Ok(chosen) => Ok(chosen),
        Err(dialoguer::Error::IO(error)) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(dialoguer::Error::IO(error)) => {
            Err(error).or_failed(|| "read from the terminal".to_owned())
        }
    }
}
