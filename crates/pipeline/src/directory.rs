// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The directory of a run: what came of every stage, as plain files.
//!
//! ```text
//! <directory>/lock                                          held while cells are run
//! <directory>/cells/<system>/<uarch>/<name>/<version>/lock           held while a stage is carried out
//! <directory>/cells/<system>/<uarch>/<name>/<version>/<stage>.json   what came of a stage
//! <directory>/cells/<system>/<uarch>/<name>/<version>/<stage>.log    what it printed
//! <directory>/slurm/jobs.json                               what was submitted
//! ```
//!
//! A result is written by one rename, so that a stage that is killed has none. Whatever carries a stage
//! out, here, in a job, or in somebody else's CI, leaves the same files.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use cabane_label::shown;
use cabane_registry::write_at_once;
use cabane_report::{IoContext, Kind, Report, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::cell::{Cell, CellName};
use crate::stage::{Stage, StageResult};

/// The directory of a run where none is named, beside the pipeline's file.
pub const DIRECTORY: &str = ".cabane-pipeline";
/// The most bytes of a result that are read.
const MAX_RESULT: u64 = 16 << 20;

/// The directory of a run.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    root: PathBuf,
}

/// Held while cells are run.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "it is held, not read")] File);

impl RunDirectory {
    /// Opens the directory; it is made when something is written.
    ///
    /// # Errors
    ///
    /// The current directory is unknown.
    pub fn new(root: &Path) -> Result<Self> {
        let root = std::path::absolute(root).or_failed(|| format!("find {}", shown(root)))?;
        Ok(Self { root })
    }

    /// Returns the directory of a run without results. It can never exist.
    pub(crate) fn nowhere() -> Self {
        Self { root: PathBuf::from("/dev/null") }
    }

    /// Returns its path.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Takes the lock, so that no two runs do the same.
    ///
    /// # Errors
    ///
    /// Another run has it.
    pub fn lock(&self) -> Result<Lock> {
        lock(&self.root, FlockOperation::NonBlockingLockExclusive)?.ok_or_else(|| {
            let message = format!("another run works in {}", shown(&self.root));
            Report::new(Kind::Failure, message).hinted(
                "`cabane pipeline status` shows it; `--run DIR` names another directory".to_owned(),
            )
        })
    }

    /// Takes the lock of a cell, so that no two processes carry out its stages. Waits for another process
    /// that has it, after `waits` was called.
    ///
    /// # Errors
    ///
    /// The directory cannot be written.
    pub(crate) fn lock_cell(&self, cell: &CellName, waits: impl FnOnce()) -> Result<Option<Lock>> {
        let directory = self.of_cell(cell);
        let lock_now = lock(&directory, FlockOperation::NonBlockingLockExclusive)?;
        if lock_now.is_some() {
            return Ok(lock_now);
        }
        waits();
        lock(&directory, FlockOperation::LockExclusive)
    }

    /// Returns the directory of a cell.
    #[must_use]
    pub fn of_cell(&self, cell: &CellName) -> PathBuf {
        self.root.join("cells").join(cell.directory())
    }

    /// Returns the log of a stage.
    #[must_use]
    pub fn log(&self, cell: &CellName, stage: Stage) -> PathBuf {
        self.of_cell(cell).join(format!("{stage}.log"))
    }

    /// Starts the log of a stage anew.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn new_log(&self, cell: &CellName, stage: Stage) -> Result<File> {
        let path = self.log(cell, stage);
        let create = || {
            fs::create_dir_all(self.of_cell(cell))?;
            File::create(&path)
        };
        create().or_failed(|| format!("write {}", shown(&path)))
    }

    /// Returns the end of the log of a stage: whole lines, `bytes` at most. `None` if there is no log.
    #[must_use]
    pub fn end_of_log(&self, cell: &CellName, stage: Stage, bytes: u64) -> Option<String> {
        let mut file = File::open(self.log(cell, stage)).ok()?;
        let length = file.metadata().ok()?.len();
        let start = length.saturating_sub(bytes);
        file.seek(SeekFrom::Start(start)).ok()?;
        let mut end = Vec::new();
        file.take(bytes).read_to_end(&mut end).ok()?;
        let text = String::from_utf8_lossy(&end).into_owned();
        // The first line may be cut.
        let whole = if start > 0 { text.find('\n').map_or(0, |end| end + 1) } else { 0 };
        Some(text.get(whole..).unwrap_or_default().to_owned())
    }

    /// Returns what came of a stage, of whatever the cell was built from; `None` if there is nothing, or
    /// the file is damaged.
    #[must_use]
    pub fn last_result(&self, cell: &CellName, stage: Stage) -> Option<StageResult> {
        let file = File::open(self.of_cell(cell).join(format!("{stage}.json"))).ok()?;
        let mut text = Vec::new();
        file.take(MAX_RESULT).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Returns what came of a stage of the cell as it is now: of the same inputs, and of the image that
    /// the last build made.
    #[must_use]
    pub fn result(&self, cell: &Cell, stage: Stage) -> Option<StageResult> {
        let of_inputs = |stage| {
            self.last_result(&cell.name, stage).filter(|result| result.inputs == cell.inputs)
        };
        let result = of_inputs(stage)?;
        if stage != Stage::Build && result.digest.is_some() {
            let built = of_inputs(Stage::Build).and_then(|build| build.digest);
            if built.is_some() && built != result.digest {
                return None;
            }
        }
        Some(result)
    }

    /// Forgets what came of a stage and of later ones.
    ///
    /// # Errors
    ///
    /// It cannot be removed.
    pub fn forget(&self, cell: &CellName, from: Stage) -> Result<()> {
        for stage in Stage::ALL.iter().filter(|stage| **stage >= from) {
            let path = self.of_cell(cell).join(format!("{stage}.json"));
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).or_failed(|| format!("remove {}", shown(&path)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Keeps what came of a stage, and forgets what came of later ones: they were about another image.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn keep(&self, cell: &CellName, result: &StageResult) -> Result<()> {
        let directory = self.of_cell(cell);
        let later = Stage::ALL.into_iter().find(|later| *later > result.stage);
        later.map_or(Ok(()), |later| self.forget(cell, later))?;
        write_json(&directory.join(format!("{}.json", result.stage)), result)
    }
}

/// Takes the lock in a directory; `None` if another process has it.
fn lock(directory: &Path, how: FlockOperation) -> Result<Option<Lock>> {
    let path = directory.join("lock");
    let open = || -> io::Result<File> {
        fs::create_dir_all(directory)?;
        File::options().create(true).append(true).open(&path)
    };
    let file = open().or_failed(|| format!("write {}", shown(&path)))?;
    match flock(&file, how) {
        Ok(()) => Ok(Some(Lock(file))),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => {
            let error = io::Error::from(error);
            Err(error).or_failed(|| format!("lock {}", shown(&path)))
        }
    }
}

/// Writes a file as JSON, at once or not at all.
pub(crate) fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.push(b'\n');
    write_at_once(path, &text).or_failed(|| format!("write {}", shown(path)))
}
