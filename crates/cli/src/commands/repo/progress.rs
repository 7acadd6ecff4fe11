// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Progress of a copy between repositories.

use cabane_label::Label;
use cabane_report::size;
use indicatif::{ProgressBar, ProgressStyle};

use crate::printer::Printer;
use crate::setup::Setup;

/// Shows how far it is: a line that moves on terminals, one for each image elsewhere.
pub(crate) struct Shown<'a> {
    setup: &'a Setup,
    bar: Option<ProgressBar>,
    last: Option<String>,
}

impl<'a> Shown<'a> {
    pub(crate) fn new(setup: &'a Setup) -> Self {
        Self { setup, bar: None, last: None }
    }

    pub(crate) fn show(&mut self, label: &Label, bytes: u64, done: u64, total: u64) {
        let label = label.to_string();
        if self.last.as_ref() != Some(&label) {
            self.clear();
            if Printer::is_watched() {
                self.bar = Some(bar(&label, total));
            } else {
                let size = size(bytes);
                self.setup.note(format_args!("copying {label} ({size})"));
            }
            self.last = Some(label);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn bar(label: &str, total: u64) -> ProgressBar {
    const TEMPLATE: &str = "{msg} {decimal_bytes} of {decimal_total_bytes}, \
                            {decimal_bytes_per_sec}, {eta} left";
    let style = ProgressStyle::with_template(TEMPLATE);
    let bar = ProgressBar::new(total).with_message(label.to_owned());
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
