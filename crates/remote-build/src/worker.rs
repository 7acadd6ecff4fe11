// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a place for builds can do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cabane_builder::Progress;
use cabane_label::ImageId;
use cabane_report::{Kind, Report, Result};

use crate::ended::{BuiltImage, Ended};
use crate::request::Packed;

/// How long to wait for a cancelled build to stop.
pub(crate) const TO_STOP: Duration = Duration::from_secs(10);

/// How a build was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It was started now.
    Started,
    /// It ran before, or had ended.
    Found,
    /// There is none, and nothing to start it from.
    Absent,
}

/// How a build was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// It has stopped now.
    Now,
    /// It did not run, and is removed there.
    Before,
    /// There is none.
    Absent,
}

/// Returns the error about a build that does not stop. `place` is as in `on eiger` or `in job 7`.
pub(crate) fn still_runs(id: &ImageId, place: &str) -> Report {
    let id = id.as_str();
    Report::new(Kind::Failure, format!("the build {id} still runs {place}"))
        .hinted(format!("`cabane build --cancel {id}` waits for it again"))
}

/// A place for builds.
pub(crate) trait Worker {
    /// Finds a build, or starts it from what is packed.
    fn begin(&mut self, id: &ImageId, packed: Option<&Packed>) -> Result<Begun>;

    /// Reports what the build reports, until it ends.
    fn follow(&mut self, id: &ImageId, progress: &mut dyn Progress) -> Result<Ended>;

    /// Brings the image and its metadata to files below a directory of this machine, and checks the digest
    /// of the image. Returns the image, and the directory with the metadata.
    fn fetch(
        &mut self,
        id: &ImageId,
        built: &BuiltImage,
        place: &Path,
    ) -> Result<(PathBuf, PathBuf)>;

    /// Stops the build, and starts none. It is an error if the build still runs after a while.
    fn cancel(&mut self, id: &ImageId) -> Result<Stopped>;

    /// Removes the result, so that the same command begins the build again. What was carried stays.
    fn reset(&mut self, id: &ImageId) -> Result<()>;

    /// Removes the build and its result there.
    fn forget(&mut self, id: &ImageId) -> Result<()>;

    /// Says where the build is, as in `on eiger` or `in job 7`.
    fn place(&self) -> String;

    /// Returns the host on which paths of the build are, if it is another machine.
    fn host(&self) -> Option<&str>;
}
