// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a build tells while it works.

use std::path::Path;
use std::time::Duration;

use crate::Step;

/// What happened to a package while a stack is installed. The texts are those of lock
/// files and programs: they are escaped before they are shown.
#[derive(Clone, Copy, Debug)]
pub struct PackageEvent<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// What tells it from others of the same name and version.
    pub hash: &'a str,
    /// The node on which that happened, if several build.
    pub node: Option<&'a str>,
    /// What happened.
    pub change: PackageChange<'a>,
    /// How long it took last time, if that is known.
    pub last_time: Option<Duration>,
    /// How many packages are there.
    pub done: usize,
    /// How many will be there in the end.
    pub total: usize,
    /// How long the rest may take, if enough is known.
    pub left: Option<Duration>,
}

/// What happens to a package.
#[derive(Clone, Copy, Debug)]
pub enum PackageChange<'a> {
    /// A phase begins: `configure`, `fetching from build cache`.
    Phase(&'a str),
    /// It was downloaded or built, and is installed together with the others.
    Ready,
    /// It is there.
    Done {
        /// Where it came from.
        origin: Origin,
        /// How long that took.
        took: Duration,
    },
    /// It could not be installed.
    Failed,
}

/// Where a package comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was built here.
    Built,
    /// It was built before, here or elsewhere.
    Cache,
}

/// Receives the progress of a build. Every method may be left out.
pub trait Progress {
    /// A step begins; the first has index 0.
    fn started(&mut self, _step: &Step, _index: usize, _total: usize) {}

    /// The step wrote a line, safe to show. Lines may be left out when they come
    /// fast: the log has them all.
    fn output(&mut self, _step: &Step, _line: &str) {}

    /// Something happened to a package of the step.
    fn package(&mut self, _event: &PackageEvent<'_>) {}

    /// The step is done.
    fn finished(&mut self, _step: &Step, _took: Duration) {}

    /// The step had been done before.
    fn skipped(&mut self, _step: &Step) {}

    /// A process, perhaps a build of another recipe, has a lock; this build waits for it.
    fn waiting(&mut self, _process: Option<u32>, _lock: &Path) {}

    /// Something that its user may want to know.
    fn remark(&mut self, _text: &str) {}

    /// Something that does not stop the build but that its user should know.
    fn warning(&mut self, _text: &str) {}
}

/// Reports nothing.
impl Progress for () {}
