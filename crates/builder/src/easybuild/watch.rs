// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Follows EasyBuild while it fetches sources and builds: which package it works on, in which phase, and why one
//! failed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::installed::Installed;
use super::order::Planned;
use crate::build_context::Listener;
use crate::layout::Layout;
use crate::{
    Failure, Origin, PackageChange, PackageEvent, Progress, StepName, disk, package_log, process,
};

const FAILED: &str = "== FAILED: Installation ended unsuccessfully: ";
const LOG: &str = "== Results of the build can be found in the log file(s) ";
const DONE: &str = "== COMPLETED: ";
const PACKAGE: &str = "== building and installing ";
const FILE: &str = "== processing EasyBuild easyconfig ";
/// Where the output of a shell command that failed is.
const OUTPUT: &str = "output (stdout + stderr)";
/// What follows the name of a missing file.
const PATHS: &str = "... Paths attempted";
/// What EasyBuild writes before an error that belongs to no package.
const ERROR: &str = "ERROR: ";

/// What EasyBuild does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// It gets sources, perhaps from the network.
    Fetch { has_network: bool },
    /// It builds.
    Install,
}

/// Follows EasyBuild.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    layout: &'a Layout,
    /// What is built, in this order.
    planned: &'a [Planned],
    work: Work,
    /// The package that is worked on: its module, and its easyconfig.
    module: String,
    easyconfig: String,
    phase: String,
    began: Instant,
    /// The modules of the packages that are there.
    done: BTreeSet<String>,
    /// Where finished packages are noted.
    installed: Option<&'a mut Installed>,
    /// Whether hooks of the recipe may write after EasyBuild says that a package is finished.
    has_hooks: bool,
    /// The package that is noted when hooks can write no more.
    to_note: Option<String>,
    /// Why the package failed, and where EasyBuild wrote more.
    reason: Option<String>,
    log: Option<PathBuf>,
    output: Option<PathBuf>,
    errors: Vec<String>,
}

impl<'a> Watch<'a> {
    /// Follows EasyBuild in a build whose packages are known, if they are.
    pub(super) fn new(layout: &'a Layout, planned: &'a [Planned], work: Work) -> Self {
        Self {
            layout,
            planned,
            work,
            module: String::new(),
            easyconfig: String::new(),
            phase: String::new(),
            began: Instant::now(),
            done: BTreeSet::new(),
            installed: None,
            has_hooks: false,
            to_note: None,
            reason: None,
            log: None,
            output: None,
            errors: Vec::new(),
        }
    }

    /// Notes the packages that an earlier attempt has built; EasyBuild does not name them all. `modules` is the
    /// directory of their module files.
    pub(super) fn take_installed(&mut self, modules: &Path, progress: &mut dyn Progress) {
        for one in self.planned.iter().filter(|one| modules.join(&one.module).is_file()) {
            self.module.clone_from(&one.module);
            self.done.insert(one.module.clone());
            let change = PackageChange::Done { origin: Origin::Cache, took: Duration::ZERO };
            self.tell(change, progress);
        }
    }

    /// Notes the packages that EasyBuild finishes, for a build that is killed.
    pub(super) fn note_in(&mut self, installed: &'a mut Installed, has_hooks: bool) {
        self.installed = Some(installed);
        self.has_hooks = has_hooks;
    }

    fn note(&mut self, module: Option<String>) {
        if let (Some(installed), Some(module)) = (&mut self.installed, module) {
            installed.finish(&module);
        }
    }

    fn tell(&self, change: PackageChange<'_>, progress: &mut dyn Progress) {
        let (name, version) = self.module.rsplit_once('/').unwrap_or((&self.module, ""));
        progress.package(&PackageEvent {
            name,
            version,
            hash: &self.module,
            node: None,
            change,
            last_time: None,
            done: self.done.len(),
            total: self.planned.len().max(self.done.len()),
            left: None,
        });
    }

    /// Returns the end of what the shell command wrote that failed.
    fn output_of_command(&self) -> Vec<String> {
        let Some(output) = &self.output else { return Vec::new() };
        let kept = self.layout.work().join("output");
        let lines = match package_log::keep(self.layout, output, &kept) {
            Ok(()) => process::tail(&kept),
            Err(_) => Vec::new(),
        };
        // It is in the log as well.
        let _ = disk::remove(&kept);
        lines
    }

    /// Says why sources are missing, and what to do.
    fn explain(&self, reason: &str) -> Vec<String> {
        let Some((missing, _)) = reason.split_once(PATHS) else {
            return vec![reason.to_owned()];
        };
        let mut lines = vec![missing.to_owned()];
        if self.work == Work::Install {
            lines.push("(`cabane build --from fetch` gets the sources again)".to_owned());
            return lines;
        }
        if self.work == (Work::Fetch { has_network: false }) {
            lines.push(
                "(`build.command_network` in the configuration forbids downloads)".to_owned(),
            );
        }
        lines.push(
            "(copy the file into the recipe, or into a directory that `sources` names)".to_owned(),
        );
        lines
    }
}

impl Listener for Watch<'_> {
    fn line(&mut self, line: &str, progress: &mut dyn Progress) -> bool {
        if let Some(path) = line.strip_prefix(FILE) {
            let finished = self.to_note.take();
            self.note(finished);
            let name = Path::new(path).file_name().unwrap_or_default();
            self.easyconfig = name.to_string_lossy().into_owned();
        } else if let Some(module) = line.strip_prefix(PACKAGE) {
            module.trim_end_matches('.').clone_into(&mut self.module);
            self.began = Instant::now();
        } else if line.starts_with(DONE) {
            self.done.insert(self.module.clone());
            self.to_note = Some(self.module.clone());
            if !self.has_hooks {
                let finished = self.to_note.take();
                self.note(finished);
            }
            let change = match self.work {
                Work::Fetch { .. } => PackageChange::Ready,
                Work::Install => {
                    PackageChange::Done { origin: Origin::Built, took: self.began.elapsed() }
                }
            };
            self.tell(change, progress);
        } else if let Some(reason) = line.strip_prefix(FAILED) {
            let end = reason.rfind(" (took ").unwrap_or(reason.len());
            self.reason = Some(reason.get(..end).unwrap_or(reason).trim_end().to_owned());
            self.tell(PackageChange::Failed, progress);
        } else if let Some(log) = line.strip_prefix(LOG) {
            self.log = Some(PathBuf::from(log.trim()));
        } else if let Some((what, path)) = line.split_once("->") {
            if !what.contains(OUTPUT) {
                return false;
            }
            // Colors of a terminal may follow, escaped.
            let path = path.trim().split('\\').next().unwrap_or_default();
            self.output = Some(PathBuf::from(path));
        } else if let Some(error) = line.strip_prefix(ERROR) {
            self.errors.push(error.to_owned());
            return false;
        } else if let Some(phase) = phase(line) {
            phase.clone_into(&mut self.phase);
            self.tell(PackageChange::Phase(phase), progress);
        } else {
            return false;
        }
        true
    }

    fn blame(&mut self, failure: &mut Failure) {
        let Some(reason) = self.reason.take() else {
            if !self.errors.is_empty() {
                failure.tail = std::mem::take(&mut self.errors);
            }
            return;
        };
        failure.package = Some(self.easyconfig.clone());
        failure.phase = Some(self.phase.clone());
        if failure.step == StepName::Fetch {
            failure.tail = self.explain(&reason);
            return;
        }
        failure.tail = self.output_of_command();
        failure.tail.extend(self.explain(&reason));
        let Some(log) = &self.log else { return };
        let kept = self.layout.logs().join(format!("{}.log", self.easyconfig));
        if package_log::keep(self.layout, log, &kept).is_ok() {
            failure.log = kept;
        }
    }
}

/// Reads the beginning of a phase: `== fetching files and verifying checksums...`.
fn phase(line: &str) -> Option<&str> {
    let phase = line.strip_prefix("== ")?.strip_suffix("...")?;
    let is_words = phase.starts_with(|c: char| c.is_ascii_lowercase());
    (is_words && !phase.starts_with("resolving")).then_some(phase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_told_from_other_lines() {
        let lines = [
            "== creating build dir, resetting environment...",
            "== building...",
            "== ... (took < 1 sec)",
            "== resolving dependencies ...",
            "== Summary:",
        ];
        let expected =
            [Some("creating build dir, resetting environment"), Some("building"), None, None, None];
        assert_eq!(lines.map(phase), expected);
    }

    #[test]
    fn a_failure_names_the_easyconfig_the_phase_and_the_reason() {
        use std::os::unix::process::ExitStatusExt;
        let layout = Layout::new("/nonexistent".into());
        let mut watch = Watch::new(&layout, &[], Work::Fetch { has_network: false });
        for line in [
            "== processing EasyBuild easyconfig /cabane/recipe/base-1.0.eb",
            "== building and installing base/1.0...",
            "== fetching files and verifying checksums...",
            "== FAILED: Installation ended unsuccessfully: Couldn't find file b.tar.gz anywhere, and \
             downloading it didn't work either... Paths attempted (in order): /a, /b  (took 0 secs)",
        ] {
            assert!(watch.line(line, &mut ()), "{line}");
        }
        let mut failure = Failure {
            step: StepName::Fetch,
            package: None,
            phase: None,
            place: None,
            command: String::new(),
            status: std::process::ExitStatus::from_raw(256),
            log: PathBuf::new(),
            tail: Vec::new(),
        };
        watch.blame(&mut failure);
        let expected = [
            "Couldn't find file b.tar.gz anywhere, and downloading it didn't work either",
            "(`build.command_network` in the configuration forbids downloads)",
            "(copy the file into the recipe, or into a directory that `sources` names)",
        ];
        assert_eq!(failure.tail, expected);
        assert_eq!(failure.package.as_deref(), Some("base-1.0.eb"));
        assert_eq!(failure.phase.as_deref(), Some("fetching files and verifying checksums"));
    }
}
