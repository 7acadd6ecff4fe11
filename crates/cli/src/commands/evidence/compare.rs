// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane evidence compare`.

use cabane_evidence::{Answer, ComparedFigure, FigureName};
use cabane_label::{System, escape};
use cabane_release::{CompareRequest, ImageComparison, compare_images};
use cabane_report::Result;
use clap::Args;

use super::ls::WhereArgs;
use crate::printer::style;
use crate::setup::Setup;
use crate::table::Table;

/// Compare the figures of an image with those of the previous image
#[derive(Debug, Args)]
#[command(after_help = "\
Each statement of a tester is a run. At least 5 runs of each image are needed, at about the
same time, and the newest 20 count. The answer is one of:
  better, worse  the bands around the two medians do not overlap
  higher, lower  the bands do not overlap, and no limit says which direction is better
  same           the new median is in the old band, and both bands are narrow
  cannot tell    there are too few runs, they vary too much, or their times differ too much

Without --with, the image before is the one that the channel released before. If no
channel releases the image, it is the newest older one of the same name, system, and
microarchitecture that has figures.

Examples:
  cabane check prgenv-gnu/25.6:v1 prgenv-gnu/25.6:v2 --key tests.key --repeat 5
  cabane evidence compare prgenv-gnu/25.6:v2
  cabane evidence compare prgenv-gnu/25.6:v2 --with prgenv-gnu/25.6:v1 --remote")]
pub(crate) struct CompareArgs {
    /// The image: a label, ID, digest, or path
    image: String,
    /// The image to compare it with; default: the one before it
    #[arg(long, value_name = "IMAGE")]
    with: Option<String>,
    /// The system on which both were tested; default: this system
    #[arg(long, value_name = "NAME")]
    on: Option<System>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: WhereArgs,
}

pub(crate) fn compare(setup: &Setup, args: &CompareArgs) -> Result<()> {
    let connection = args.place.connect(setup)?;
    let request =
        CompareRequest { image: args.image.clone(), with: args.with.clone(), on: args.on.clone() };
    let compared = compare_images(setup, connection.as_ref(), &request)?;
    if args.json {
        setup.printer.json(&compared);
        return Ok(());
    }
    setup.printer.data(text(&compared));
    let comparison = &compared.comparison;
    say_others(setup, "only the image before has", &comparison.missing);
    say_others(setup, "the image before does not have", &comparison.added);
    if comparison.figures.is_empty() {
        setup.note("the images have no figures in common that count");
    }
    if comparison.figures.is_empty() || comparison.with(Answer::CannotTell).next().is_some() {
        setup.hint("`cabane check OLD NEW --repeat 10 --key FILE` measures both in turns");
    }
    Ok(())
}

fn say_others(setup: &Setup, which: &str, names: &[FigureName]) {
    if !names.is_empty() {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        setup.note(format_args!("{which} {}", names.join(", ")));
    }
}

fn text(compared: &ImageComparison) -> String {
    let (image, before) = (&compared.image, &compared.before);
    let on = compared.system.as_deref().map(|system| format!(" on {}", escape(system)));
    let mut table = Table::new(&["figure", "before", "now", ">ratio", "answer"]);
    for one in &compared.comparison.figures {
        let ratio = one.ratio.map(|ratio| format!("{ratio:.3}")).unwrap_or_default();
        let (old, new) = (one.before.with_unit(&one.unit), one.now.with_unit(&one.unit));
        table.push(&[&one.name, &old, &new, &ratio, &answer(one)]);
    }
    format!(
        "{} ({}), compared with {} ({}){}\n{table}",
        escape(&image.image),
        image.digest.id(),
        escape(&before.image),
        before.digest.id(),
        on.unwrap_or_default()
    )
}

fn answer(one: &ComparedFigure) -> String {
    let color = match one.answer {
        Answer::Better => style::GOOD,
        Answer::Worse => style::ERROR,
        Answer::Higher | Answer::Lower => style::WARNING,
        Answer::Same | Answer::CannotTell => style::FAINT,
    };
    let reason = one.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{color}{}{color:#}{reason}", one.answer)
}
