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

/// What is counted.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Bytes,
    Things,
}

impl Unit {
    fn template(self) -> &'static str {
        match self {
            Self::Bytes => {
                "{prefix} {wide_bar} {decimal_bytes}/{decimal_total_bytes} \
                 {decimal_bytes_per_sec}, {eta} left"
            }
            Self::Things => "{prefix} {wide_bar} {human_pos}/{human_len}, {eta} left",
        }
    }

    fn shown(self, count: u64) -> String {
        match self {
            Self::Bytes => size(count),
            Self::Things => count.to_string(),
        }
    }
}

/// Shows one transfer, or other work that can be counted.
pub(crate) struct Watched {
    printer: Printer,
    what: String,
    unit: Unit,
    bar: Option<ProgressBar>,
    shown_at: Cell<Instant>,
}

impl Watched {
    /// Begins to show.
    pub(crate) fn new(printer: Printer, what: &str, unit: Unit) -> Self {
        let bar = Printer::is_watched().then(|| {
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template(unit.template());
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_prefix(what.to_owned());
            bar
        });
        Self { printer, what: what.to_owned(), unit, bar, shown_at: Cell::new(Instant::now()) }
    }
}

/// Begins to count at what is done already: that is no achievement of this run.
fn begin(bar: &ProgressBar, done: u64, total: u64) {
    bar.set_length(total);
    bar.set_position(done);
    bar.tick();
    bar.reset_eta();
}

impl Transfer for Watched {
    fn show(&self, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            if bar.length() != Some(total) {
                begin(bar, done, total);
            }
            bar.set_position(done);
        } else if self.shown_at.get().elapsed() >= LOG_PAUSE {
            self.shown_at.set(Instant::now());
            let (done, total) = (self.unit.shown(done), self.unit.shown(total));
            self.printer.note(&format!("{}: {done} of {total}", self.what));
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_downloaded_before_does_not_count_for_the_rate() {
        let bar = ProgressBar::hidden();
        begin(&bar, 5_000_000_000, 6_000_000_000);
        std::thread::sleep(Duration::from_millis(50));
        bar.set_position(5_000_001_000);
        bar.tick();
        assert!(bar.per_sec() < 1_000_000.0, "{}", bar.per_sec());
    }
}
