// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane repo pin` and `unpin`: labels that `gc` leaves alone.

use cabane_label::{Label, LabelPattern, NameMatch};
use cabane_report::{Kind, Report, Result};
use clap::Args;

use crate::exit_codes::{self, ExitCode};
use crate::format::json;
use crate::setup::Setup;

/// Protect labels from `gc`, or list the protected ones
#[derive(Debug, Args)]
#[command(after_help = "\
Without a label, the command lists the pinned labels. A pin stays with its label when the
label moves to another image. `cabane image rm` removes pinned labels, too.")]
pub(crate) struct PinArgs {
    /// Labels; a part that is left out matches everything
    #[arg(value_name = "LABELS")]
    labels: Vec<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "labels")]
    json: bool,
}

/// Stop protecting labels from `gc`
#[derive(Debug, Args)]
pub(crate) struct UnpinArgs {
    /// Labels; a part that is left out matches everything
    #[arg(required = true, value_name = "LABELS")]
    labels: Vec<String>,
}

pub(crate) fn pin(setup: &Setup, args: &PinArgs) -> Result<ExitCode> {
    let repository = setup.repository_to_write()?.repository;
    if args.labels.is_empty() {
        let pins = repository.pins()?;
        let lines = || pins.iter().map(|label| format!("{label}\n"));
        setup.printer.data(if args.json { json(&pins) } else { lines().collect::<String>() });
        return Ok(exit_codes::SUCCESS);
    }
    for text in &args.labels {
        let pattern: LabelPattern = text.parse()?;
        let records = repository.find(&pattern, NameMatch::Exact)?;
        let labels: Vec<Label> = records
            .into_iter()
            .map(|record| record.label)
            .filter(|label| is_meant(setup, &pattern, label))
            .collect();
        if labels.is_empty() {
            let error = format!("no label fits `{pattern}`");
            return Err(Report::new(Kind::NotFound, error)
                .hinted("`cabane image ls` lists the labels".to_owned()));
        }
        for label in labels {
            let is_new = repository.pin(&label)?;
            let what = if is_new { "pinned" } else { "was pinned:" };
            setup.note(format_args!("{what} {label}"));
        }
    }
    Ok(exit_codes::SUCCESS)
}

pub(crate) fn unpin(setup: &Setup, args: &UnpinArgs) -> Result<ExitCode> {
    let repository = setup.repository_to_write()?.repository;
    for text in &args.labels {
        let pattern: LabelPattern = text.parse()?;
        let mut labels = repository.pins()?;
        labels.retain(|label| {
            pattern.matches(label, NameMatch::Exact) && is_meant(setup, &pattern, label)
        });
        if labels.is_empty() {
            let error = format!("no pinned label fits `{pattern}`");
            return Err(Report::new(Kind::NotFound, error)
                .hinted("`cabane repo pin` lists the pinned ones".to_owned()));
        }
        for label in labels {
            repository.unpin(&label)?;
            setup.note(format_args!("{label} is not pinned any more"));
        }
    }
    Ok(exit_codes::SUCCESS)
}

/// As everywhere, images of other systems have to be requested.
fn is_meant(setup: &Setup, pattern: &LabelPattern, label: &Label) -> bool {
    let system = setup.system().filter(|_| pattern.system.is_none());
    system.is_none_or(|system| label.system == system)
}
