// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the scripts of tests left in the directory of a suite.

use std::path::{Path, PathBuf};

use cabane_evidence::{LeftOut, Testcase};

use crate::bench::read_start;
use crate::judge::short;

/// The most of messages that is read, in bytes.
const MOST: u64 = 1024 * 1024;
/// With these words begins the line of a test that did not measure something: `left out: FIGURE: REASON`.
const LEFT_OUT: &str = "left out: ";
/// The most of such lines that are kept. A test can print anything.
const MOST_LEFT_OUT: usize = 200;

/// What is known about a test beside the report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Whether its build began in the image.
    pub(super) has_built: bool,
    /// Whether its job began in the image.
    pub(super) has_run: bool,
    /// The numbers of ranks that `srun` began.
    pub(super) ranks: Vec<u32>,
    /// What its build wrote to the standard error.
    pub(super) of_build: String,
    /// The same of its job.
    pub(super) of_job: String,
    /// What it says that it did not measure.
    pub(super) left_out: Vec<LeftOut>,
}

/// Knows what was seen of tests.
pub(super) trait Witness {
    /// Returns what was seen of a test.
    fn seen(&self, case: &Testcase) -> Seen;
}

/// The files in the directory of a suite.
pub(super) struct Marks<'a> {
    directory: &'a Path,
}

impl<'a> Marks<'a> {
    pub(super) fn new(directory: &'a Path) -> Self {
        Self { directory }
    }

    /// A directory that the report names, if it is one of the suite: a suite can write anything into a report.
    fn below(&self, named: Option<&String>) -> Option<PathBuf> {
        let named = Path::new(named?);
        let is_plain =
            named.components().all(|part| !matches!(part, std::path::Component::ParentDir));
        (is_plain && named.starts_with(self.directory)).then(|| named.to_owned())
    }
}

/// Reads a file in a directory by its name, which is no path.
fn text(directory: Option<&PathBuf>, name: Option<&String>) -> Option<String> {
    let bytes = read_start(&directory?.join(Path::new(name?).file_name()?), MOST)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

impl Witness for Marks<'_> {
    fn seen(&self, case: &Testcase) -> Seen {
        let Some(stage) = self.below(case.stagedir.as_ref()) else {
            return Seen::default();
        };
        let inside = stage.strip_prefix("/").unwrap_or(&stage);
        let marks = self.directory.join("begun").join(inside);
        let entries = marks.read_dir().into_iter().flatten().flatten();
        let rank = |name: std::ffi::OsString| name.to_str()?.strip_prefix("rank.")?.parse().ok();
        let of_stage = |name: Option<&String>| text(Some(&stage), name).unwrap_or_default();
        let kept = self.below(case.outputdir.as_ref());
        let stdout = case.job_stdout.as_ref();
        let stdout = text(kept.as_ref(), stdout).unwrap_or_else(|| of_stage(stdout));
        Seen {
            has_built: marks.join("build").exists(),
            has_run: marks.join("job").exists(),
            ranks: entries.filter_map(|entry| rank(entry.file_name())).collect(),
            of_build: of_stage(case.build_stderr.as_ref()),
            of_job: of_stage(case.job_stderr.as_ref()),
            left_out: left_out(&stdout),
        }
    }
}

fn left_out(output: &str) -> Vec<LeftOut> {
    let lines = output.lines().filter_map(|line| line.strip_prefix(LEFT_OUT)?.split_once(": "));
    let figures = lines.map(|(figure, reason)| LeftOut {
        figure: short(figure.trim()),
        reason: short(reason.trim()),
    });
    figures.take(MOST_LEFT_OUT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_says_what_it_did_not_measure() {
        let output = "figure: start 0.5\nleft out: start_nfs: no NFS: none is mounted\nleft out: \x1b[1m: x\n\
                      it left out: nothing\nleft out: nothing\n";
        let found: Vec<(String, String)> =
            left_out(output).into_iter().map(|one| (one.figure, one.reason)).collect();
        assert_eq!(found[0], ("start_nfs".to_owned(), "no NFS: none is mounted".to_owned()));
        assert_eq!(found.len(), 2);
        assert!(!found[1].0.contains('\x1b'), "{found:?}");
        assert_eq!(left_out(&"left out: a: b\n".repeat(1000)).len(), MOST_LEFT_OUT);
    }
}
