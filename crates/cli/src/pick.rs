// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `--pick`: choosing one row of a table on a terminal.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cabane_report::{IoContext as _, Kind, Report, Result};
use clap::Args;
use dialoguer::FuzzySelect;
use dialoguer::console::{Term, truncate_str};
use dialoguer::theme::ColorfulTheme;
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::emulate_default_handler;

use crate::printer::Printer;
use crate::setup::Setup;
use crate::table::Table;

/// What the theme writes before each row.
const MARGIN: usize = 2;
/// How long a signal may have no effect.
const LOOKS_AGAIN: Duration = Duration::from_millis(50);

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
/// If there is nothing to choose from, or Escape is typed.
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

/// Shows the rows, and returns the number of the chosen one; `None` after Escape.
fn chosen(terminal: &Term, rows: &[String]) -> Result<Option<usize>> {
    let before = TerminalBefore::new()?;
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
        // A signal, or Ctrl-C, after which the library sends SIGINT to this process.
        Err(dialoguer::Error::IO(error)) if error.kind() == io::ErrorKind::Interrupted => {
            before.restore_and_end();
            Ok(None)
        }
        Err(dialoguer::Error::IO(error)) => {
            Err(error).or_failed(|| "read from the terminal".to_owned())
        }
    }
}

/// How the terminal was. The library reads keys in a mode in which a shell would not show what is typed, and a
/// signal must not end this process in it.
struct TerminalBefore {
    input: OwnedFd,
    mode: Termios,
    /// Which signals have come. SIGINT is the last: the library adds it to others.
    seen: [(i32, Arc<AtomicBool>); 3],
}

impl TerminalBefore {
    fn new() -> Result<Self> {
        let failed = || "prepare the terminal".to_owned();
        let seen = [SIGTERM, SIGHUP, SIGINT].map(|signal| (signal, Arc::default()));
        for (signal, flag) in &seen {
            signal_hook::flag::register(*signal, Arc::clone(flag)).or_failed(failed)?;
        }
        // The library reads from the same.
        let input = if io::stdin().is_terminal() {
            io::stdin().as_fd().try_clone_to_owned().or_failed(failed)?
        } else {
            File::open("/dev/tty").or_failed(failed)?.into()
        };
        let mode = tcgetattr(&input).map_err(io::Error::from).or_failed(failed)?;
        let flags = seen.each_ref().map(|(_, flag)| Arc::clone(flag));
        // The library ends when a signal interrupts its waiting for a key. One that comes earlier is sent again.
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(LOOKS_AGAIN);
                if flags.iter().any(|flag| flag.load(Ordering::Relaxed)) {
                    let _ = kill_process(getpid(), Signal::INT);
                }
            }
        });
        Ok(Self { input, mode, seen })
    }

    /// Ends this process as the signal would have done. Returns if there was none.
    fn restore_and_end(&self) {
        while tcsetattr(&self.input, OptionalActions::Now, &self.mode) == Err(Errno::INTR) {}
        let seen = self.seen.iter().find(|(_, flag)| flag.load(Ordering::Relaxed));
        let _ = seen.map(|(signal, _)| emulate_default_handler(*signal));
    }
}
