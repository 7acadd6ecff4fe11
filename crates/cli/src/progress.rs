// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Showing how a build goes on: a moving line on terminals, plain lines elsewhere.

use std::time::Duration;

use cabane_build::{Progress, Step};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::printer::{Printer, style};

/// Shows a build to a person.
#[derive(Debug)]
pub(crate) struct Shown {
    printer: Printer,
    bar: Option<ProgressBar>,
    done_before: usize,
}

impl Shown {
    /// Shows on standard error.
    pub(crate) fn new(printer: Printer) -> Self {
        Self {
            printer,
            bar: None,
            done_before: 0,
        }
    }

    /// Returns how many steps had been done before.
    pub(crate) fn done_before(&self) -> usize {
        self.done_before
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Shown {
    fn started(&mut self, step: &Step, index: usize, total: usize) {
        self.clear();
        if !Printer::is_watched() {
            self.printer
                .note(format_args!("[{}/{total}] {}…", index + 1, step.name));
            return;
        }
        let template = "{spinner} [{prefix}] {elapsed:>4} {wide_msg}";
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        bar.set_style(style);
        bar.set_prefix(format!("{}/{total} {}", index + 1, step.name));
        bar.enable_steady_tick(Duration::from_millis(120));
        self.bar = Some(bar);
    }

    fn output(&mut self, _step: &Step, line: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(line.to_owned()),
            None => self.printer.detail(line),
        }
    }

    fn finished(&mut self, step: &Step, took: Duration) {
        self.clear();
        let (mark, end) = (style::GOOD, style::GOOD);
        let seconds = took.as_secs_f64();
        self.printer.note(format_args!(
            "{mark}✓{end:#} {:<10} {seconds:>6.1} s",
            step.name
        ));
    }

    fn skipped(&mut self, step: &Step) {
        self.done_before += 1;
        self.printer
            .detail(format_args!("✓ {:<10} done before", step.name));
    }

    fn waiting(&mut self, process: Option<u32>) {
        let who = process.map_or(String::new(), |process| format!(" (process {process})"));
        self.printer.note(format_args!(
            "waiting for another build of this recipe{who}"
        ));
    }

    fn warning(&mut self, text: &str) {
        self.clear();
        self.printer.warning(text);
    }
}
