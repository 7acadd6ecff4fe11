// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the scripts of tests left in the directory of a suite.

use std::path::{Path, PathBuf};

use cabane_evidence::Testcase;

use crate::bench::read_start;

/// The most of messages that is read, in bytes.
const MOST: u64 = 1024 * 1024;

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

    fn stage(&self, case: &Testcase) -> Option<PathBuf> {
        // A suite can write anything into a report.
        let stage = Path::new(case.stagedir.as_deref()?);
        let is_plain =
            stage.components().all(|part| !matches!(part, std::path::Component::ParentDir));
        (is_plain && stage.starts_with(self.directory)).then(|| stage.to_owned())
    }
}

impl Witness for Marks<'_> {
    fn seen(&self, case: &Testcase) -> Seen {
        let Some(stage) = self.stage(case) else {
            return Seen::default();
        };
        let inside = stage.strip_prefix("/").unwrap_or(&stage);
        let marks = self.directory.join("begun").join(inside);
        let entries = marks.read_dir().into_iter().flatten().flatten();
        let rank = |name: std::ffi::OsString| name.to_str()?.strip_prefix("rank.")?.parse().ok();
        let text = |name: Option<&String>| {
            // The name of a file, and no path.
            let name = Path::new(name?).file_name()?;
            let bytes = read_start(&stage.join(name), MOST)?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        Seen {
            has_built: marks.join("build").exists(),
            has_run: marks.join("job").exists(),
            ranks: entries.filter_map(|entry| rank(entry.file_name())).collect(),
            of_build: text(case.build_stderr.as_ref()).unwrap_or_default(),
            of_job: text(case.job_stderr.as_ref()).unwrap_or_default(),
        }
    }
}
