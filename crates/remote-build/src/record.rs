// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What this machine remembers of builds elsewhere: where each is, and what it was for.
//!
//! ```text
//! <cache>/elsewhere/sent/<id>/
//!     ├── record.json                  the place, the label, the time
//!     ├── lock                         held by the command that brings the image back
//!     └── image.partial  meta/         what has arrived
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cabane_label::{Digest, ImageId, Label, shown};
use cabane_registry::write_at_once;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::Context;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::directory::private_directory;
use crate::place::Place;

/// The most bytes of a record.
const LARGEST: u64 = 1 << 20;
/// How long a finished build is remembered.
const KEPT: Duration = Duration::from_secs(90 * 24 * 3600);

/// A build elsewhere.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Where it runs.
    pub place: Place,
    /// The label, as it was completed here.
    pub label: Option<String>,
    /// The file that gets the image instead.
    pub output: Option<PathBuf>,
    /// The recipe.
    pub recipe: PathBuf,
    /// When it was started.
    pub started: Timestamp,
    /// The program on the host.
    pub program: Option<String>,
    /// The image, once it is here.
    pub done: Option<DoneImage>,
}

impl Record {
    /// Returns the command that starts this build, to be shown.
    pub(crate) fn command(&self) -> String {
        let label = self.label.clone();
        let output = self.output.iter().map(|output| format!("--output {}", shown(output)));
        let rest: Vec<String> = label.into_iter().chain(output).collect();
        let (place, recipe) = (&self.place, shown(&self.recipe));
        format!("cabane build --on {place} {recipe} {}", rest.join(" "))
    }
}

/// An image that was brought back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoneImage {
    pub(crate) label: String,
    pub(crate) digest: Digest,
}

impl DoneImage {
    /// Returns the label, if it is one.
    pub(crate) fn label(&self) -> Option<Label> {
        self.label.parse().ok()
    }
}

/// The directory of a record.
#[derive(Clone, Debug)]
pub(crate) struct RecordDirectory {
    pub(crate) path: PathBuf,
}

impl RecordDirectory {
    pub(crate) fn of(context: &Context, id: &ImageId) -> Result<Self> {
        Ok(Self { path: all(context)?.join(id.as_str()) })
    }

    pub(crate) fn read(&self) -> Option<Record> {
        let mut text = Vec::new();
        let file = File::open(self.path.join("record.json")).ok()?;
        file.take(LARGEST).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub(crate) fn write(&self, record: &Record) -> Result<()> {
        private_directory(&self.path)?;
        let path = self.path.join("record.json");
        let text = serde_json::to_vec_pretty(record).unwrap_or_default();
        write_at_once(&path, &text).or_failed(|| format!("write {}", shown(&path)))
    }

    /// Waits until no other command brings the image back.
    pub(crate) fn lock(&self, interrupt: &AtomicBool) -> Result<File> {
        private_directory(&self.path)?;
        let path = self.path.join("lock");
        let locking = || format!("lock {}", shown(&path));
        let file = File::options().create(true).append(true).open(&path).or_failed(locking)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok(file);
                }
                Err(TryLockError::Error(error)) => return Err(error).or_failed(locking),
                Err(TryLockError::WouldBlock) if interrupt.load(Ordering::Relaxed) => {
                    return Err(Report::new(Kind::Interrupted, "interrupted"));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Removes what has arrived.
    pub(crate) fn clear(&self) {
        let _ = fs::remove_file(self.path.join("image.partial"));
        let _ = cabane_builder::remove_tree(&self.path.join("meta"));
    }

    pub(crate) fn remove(&self) {
        let _ = cabane_builder::remove_tree(&self.path);
    }
}

fn all(context: &Context) -> Result<PathBuf> {
    Ok(context.settings.cache_directory.directory()?.join("elsewhere/sent"))
}

/// Returns the builds that were started from this machine and have not been brought back, the oldest
/// first.
///
/// # Errors
///
/// The home directory is unknown.
pub fn unfinished(context: &Context) -> Result<Vec<(ImageId, Record)>> {
    let all = all(context)?;
    let mut found = Vec::new();
    for entry in fs::read_dir(&all).into_iter().flatten().flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse::<ImageId>().ok());
        let directory = RecordDirectory { path: entry.path() };
        if let (Some(id), Some(record)) = (id, directory.read()) {
            found.push((id, record));
        }
    }
    found.retain(|(_, record)| record.done.is_none());
    found.sort_by_key(|(_, record)| record.started);
    Ok(found)
}

/// Forgets builds that were finished long ago.
pub(crate) fn sweep(context: &Context) {
    let Ok(all) = all(context) else { return };
    for entry in fs::read_dir(&all).into_iter().flatten().flatten() {
        let directory = RecordDirectory { path: entry.path() };
        let Some(record) = directory.read().filter(|record| record.done.is_some()) else {
            continue;
        };
        let age = Timestamp::now().duration_since(record.started);
        if age.unsigned_abs() > KEPT {
            directory.remove();
        }
    }
}

/// Returns a path that means the same in every directory.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).or_failed(|| "find the current directory".to_owned())
}
