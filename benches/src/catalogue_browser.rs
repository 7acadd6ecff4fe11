// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A catalogue in Chromium, measured by `browser/catalogue.js`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bed::Bed;
use crate::measure::NotMeasured;
use crate::peers::{CHROMIUM, NODE};

const TOOLS: &str = "CABANE_BENCH_BROWSER_TOOLS";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/browser/catalogue.js");

/// What was seen. Times are in milliseconds.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) browser: String,
    /// How long the first page takes, each time in a new browser.
    pub(crate) ready: Vec<f64>,
    /// How long each search takes the first time in a new browser, and again.
    pub(crate) searches: Vec<(String, [Vec<f64>; 2])>,
    /// How many pages were checked.
    pub(crate) pages: usize,
    pub(crate) findings: Vec<String>,
}

/// Opens a site, and searches for some texts.
pub(crate) fn look(bed: &Bed, site: &Path, texts: &[&str]) -> Result<Seen, NotMeasured> {
    let (chromium, node) = (CHROMIUM.find()?, NODE.find()?);
    let tools = env::var_os(TOOLS).map(PathBuf::from).ok_or_else(|| {
        format!("{TOOLS} does not name a directory with playwright-core and axe-core")
    })?;
    let mut command = Command::new(node);
    command.arg(SCRIPT).arg(&chromium).arg(site).args(texts);
    command.env("NODE_PATH", tools.join("node_modules")).env("HOME", bed.path(""));
    let output = command.output().map_err(|error| format!("cannot start node: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let mut seen = Seen { browser: CHROMIUM.version()?, ..Seen::default() };
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        seen.note(line).ok_or_else(|| format!("cannot read `{line}` of the browser"))?;
    }
    Ok(seen)
}

impl Seen {
    fn note(&mut self, line: &str) -> Option<()> {
        let (kind, rest) = line.split_once(' ')?;
        match kind {
            "ready" => self.ready.push(rest.parse().ok()?),
            "pages" => self.pages = rest.parse().ok()?,
            "finding" => self.findings.push(rest.to_owned()),
            "first" | "again" => {
                let (time, text) = rest.split_once(' ')?;
                if self.searches.last().is_none_or(|(last, _)| last != text) {
                    self.searches.push((text.to_owned(), [Vec::new(), Vec::new()]));
                }
                let (_, times) = self.searches.last_mut()?;
                times[usize::from(kind == "again")].push(time.parse().ok()?);
            }
            _ => return None,
        }
        Some(())
    }
}
