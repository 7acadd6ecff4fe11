// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Showing how a build goes on: moving lines on terminals, plain lines elsewhere.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cabane_builder::{Origin, PackageChange, PackageEvent, Progress, Step};
use cabane_label::{escape, shown};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::printer::{Printer, style};
use crate::setup::Setup;

/// How often moving lines move.
const TICK: Duration = Duration::from_millis(120);
/// How many packages have a line of their own.
const MOST_LINES: usize = 12;

/// Shows a build to a person.
#[derive(Debug)]
pub(crate) struct Shown<'a> {
    setup: &'a Setup,
    lines: Option<Lines>,
    /// How many steps had been done before.
    pub(crate) done_before: usize,
}

impl<'a> Shown<'a> {
    /// Shows on standard error.
    pub(crate) fn new(setup: &'a Setup) -> Self {
        Self { setup, lines: None, done_before: 0 }
    }

    fn clear(&mut self) {
        if let Some(lines) = self.lines.take() {
            lines.clear();
        }
    }
}

impl Progress for Shown<'_> {
    fn started(&mut self, step: &Step, index: usize, total: usize) {
        self.clear();
        if Printer::is_watched() {
            let prefix = format!("{}/{total} {}", index + 1, step.name);
            self.lines = Some(Lines::new(prefix));
        } else {
            self.setup.note(format_args!("[{}/{total}] {}…", index + 1, step.name));
        }
    }

    fn output(&mut self, _step: &Step, line: &str) {
        match &self.lines {
            Some(lines) => lines.first.set_message(line.to_owned()),
            None => self.setup.detail(line),
        }
    }

    fn package(&mut self, event: &PackageEvent<'_>) {
        if let Some(lines) = &mut self.lines {
            lines.package(event);
            return;
        }
        let package = spec(event);
        match event.change {
            PackageChange::Phase(phase) => {
                self.setup.detail(format_args!("  {package} {}", escape(phase)));
            }
            PackageChange::Ready => self.setup.detail(format_args!("  {package} ready")),
            PackageChange::Done { origin, took } => {
                let how = match origin {
                    Origin::Built => format!("built {}", seconds(took)),
                    Origin::Cache => "from the cache".to_owned(),
                };
                let (mark, end) = (style::GOOD, style::GOOD);
                let left = event.left.filter(|left| !left.is_zero());
                let left =
                    left.map_or(String::new(), |left| format!(", about {} left", seconds(left)));
                let (done, total) = (event.done, event.total);
                let node = on_node(event);
                self.setup.note(format_args!(
                    "{mark}✓{end:#} {package}  {how}{node} ({done} of {total}{left})"
                ));
            }
            PackageChange::Failed => {
                self.setup.note(format_args!("✗ {package}{}", on_node(event)));
            }
        }
    }

    fn finished(&mut self, step: &Step, took: Duration) {
        self.clear();
        let (mark, end) = (style::GOOD, style::GOOD);
        let seconds = took.as_secs_f64();
        self.setup.note(format_args!("{mark}✓{end:#} {:<10} {seconds:>6.1} s", step.name));
    }

    fn skipped(&mut self, step: &Step) {
        self.done_before += 1;
        self.setup.detail(format_args!("✓ {:<10} done before", step.name));
    }

    fn waiting(&mut self, process: Option<u32>, lock: &Path) {
        let who = process.map_or(String::new(), |process| format!(" (process {process})"));
        let lock = shown(lock);
        self.setup.note(format_args!("waiting for another build{who} to release the lock {lock}"));
    }

    fn remark(&mut self, text: &str) {
        self.clear();
        self.setup.note(text);
    }

    fn warning(&mut self, text: &str) {
        self.clear();
        self.setup.warning(text);
    }
}

/// The moving lines of a step: one for all of it, and one for each package that is
/// worked on.
#[derive(Debug)]
struct Lines {
    all: MultiProgress,
    first: ProgressBar,
    packages: Vec<(String, ProgressBar)>,
    /// When the step may be done.
    end: Arc<Mutex<Option<Instant>>>,
}

impl Lines {
    fn new(prefix: String) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let end = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&end);
        let left = move |_: &ProgressState, text: &mut dyn std::fmt::Write| {
            let end: Option<Instant> = seen.lock().ok().and_then(|end| *end);
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            // Promises that were not kept are not shown.
            if let Some(left) = left.filter(|left| !left.is_zero()) {
                let _ = write!(text, " about {} left", seconds(left));
            }
        };
        let template = "{spinner} [{prefix}] {elapsed:>4}{left} {wide_msg}";
        let first = all.add(ProgressBar::no_length());
        first.set_style(styled(template).with_key("left", left));
        first.set_prefix(prefix);
        first.enable_steady_tick(TICK);
        Self { all, first, packages: Vec::new(), end }
    }

    fn clear(self) {
        for (_, bar) in self.packages {
            bar.finish_and_clear();
        }
        self.first.finish_and_clear();
        let _ = self.all.clear();
    }

    fn package(&mut self, event: &PackageEvent<'_>) {
        if let Ok(mut end) = self.end.lock() {
            *end = event.left.map(|left| Instant::now() + left);
        }
        let message = format!("{} of {} packages", event.done, event.total);
        self.first.set_message(message);
        let known = self.packages.iter().position(|(hash, _)| hash == event.hash);
        let PackageChange::Phase(phase) = event.change else {
            if let Some(known) = known {
                self.packages.remove(known).1.finish_and_clear();
            }
            return;
        };
        let mut message = format!("{} {}{}", spec(event), escape(phase), on_node(event));
        if let Some(last) = event.last_time {
            let _ = write!(message, ", {} last time", seconds(last));
        }
        match known.and_then(|known| self.packages.get(known)) {
            Some((_, bar)) => bar.set_message(message),
            None if self.packages.len() < MOST_LINES => {
                let bar = self.all.add(ProgressBar::no_length());
                bar.set_style(styled("    {elapsed:>4} {wide_msg}"));
                bar.set_message(message);
                bar.enable_steady_tick(Duration::from_secs(1));
                self.packages.push((event.hash.to_owned(), bar));
            }
            None => {}
        }
    }
}

fn styled(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// ` on n2`, if several nodes build.
fn on_node(event: &PackageEvent<'_>) -> String {
    event.node.map_or_else(String::new, |node| format!(" on {}", escape(node)))
}

fn spec(event: &PackageEvent<'_>) -> String {
    if event.version.is_empty() {
        return escape(event.name).to_string();
    }
    format!("{}@{}", escape(event.name), escape(event.version))
}

/// `7 s`, `362 s`, `25 min`, `3 h 20 min`
fn seconds(duration: Duration) -> String {
    // What takes less than a second takes some time, too.
    let seconds = duration.as_secs().max(1);
    match seconds {
        0..600 => format!("{seconds} s"),
        600..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}
