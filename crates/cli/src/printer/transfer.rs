// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Progress of a transfer: a bar on terminals, occasional lines elsewhere.

use std::cell::Cell;
use std::time::{Duration, Instant};

use cabane_report::{Notices as _, Transfer, size};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::printer::Printer;

/// How often progress is reported in a log.
const LOG_PAUSE: Duration = Duration::from_secs(30);
const TEMPLATE: &str =
    "{prefix} {wide_bar} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec}, {eta} left";

/// Shows one transfer.
pub(crate) struct Watched {
    printer: Printer,
    what: String,
    bar: Option<ProgressBar>,
    shown_at: Cell<Instant>,
}

impl Watched {
    /// Begins to show.
    pub(crate) fn new(printer: Printer, what: &str) -> Self {
        let bar = Printer::is_watched().then(|| {
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template(TEMPLATE);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_prefix(what.to_owned());
            bar
        });
        Self { printer, what: what.to_owned(), bar, shown_at: Cell::new(Instant::now()) }
    }
}

impl Transfer for Watched {
    fn show(&self, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            if bar.length() != Some(total) {
                bar.set_length(total);
                // What was there before is no achievement of this run.
                bar.reset_eta();
            }
            bar.set_position(done);
        } else if self.shown_at.get().elapsed() >= LOG_PAUSE {
            self.shown_at.set(Instant::now());
            let (done, total) = (size(done), size(total));
            self.printer.note(&format!("{}: {done} of {total}", self.what));
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
