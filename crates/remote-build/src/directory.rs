// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The directory of a build where it runs: what is built, and what came of it, as plain files.
//!
//! ```text
//! <cache>/elsewhere/builds/<id>/
//!     ├── request.json  recipe/  system/  mirrors.yaml    what is built
//!     ├── lock          held by the process that builds
//!     ├── start         held while it is started
//!     ├── process.json  on which host it runs, and a number that grows as long as it does
//!     ├── job.json      the job of Slurm, if it is one
//!     ├── events        what the build reports, a line each
//!     ├── cancel        if the user has cancelled the build
//!     ├── image  meta   the result
//!     └── result.json   what came of the build, written last and by a rename
//! ```
//!
//! The directory is the user's alone.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cabane_label::{ImageId, shown};
use cabane_report::{IoContext, Result};
use cabane_site::Context;
use serde::{Deserialize, Serialize};

use crate::ended::Ended;
use crate::parcel::{LARGEST_PARCEL, Limits, unpack};

/// The most bytes of a file of these directories that is read as a whole.
const LARGEST_FILE: u64 = 16 << 20;
/// How long a build is kept that nothing asks for.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a build that has arrived may take to be started.
const TO_START: Duration = Duration::from_secs(10 * 60);
const A_DAY: Duration = Duration::from_secs(24 * 3600);
/// How often the process of a build changes its number.
pub(crate) const BEAT: Duration = Duration::from_secs(2);
/// How long a build on another host may show no sign of life.
const LEASE: Duration = Duration::from_secs(20);

/// Where a build of this user is.
#[derive(Clone, Debug)]
pub(crate) struct WorkDirectory {
    path: PathBuf,
}

/// What is known of a build where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// Nothing.
    Absent,
    /// It was carried here, and may not have begun.
    Ready,
    /// It runs.
    Running,
    /// It has a result.
    Ended,
    /// The user has cancelled it.
    Cancelled,
}

/// The process that builds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) host: String,
    pub(crate) beat: u64,
}

/// A job of Slurm.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: u64,
}

/// What came of the wish for a lock.
#[derive(Debug)]
pub(crate) enum Lock {
    /// It is held until this file is closed.
    Held(#[expect(dead_code, reason = "it is closed, not read")] File),
    /// Another process has it.
    Taken,
    /// The file system has no locks.
    Unsupported,
}

/// The name of this host.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Makes a directory of the user's alone, or closes it.
pub(crate) fn private_directory(path: &Path) -> Result<()> {
    let make = || -> io::Result<()> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let found = fs::symlink_metadata(path)?;
        if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("it is not a directory that belongs to you"));
        }
        if found.mode() & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        }
        Ok(())
    };
    make().or_failed(|| format!("make the private directory {}", shown(path)))
}

impl WorkDirectory {
    /// Returns the directory with all builds of this user.
    pub(crate) fn all(context: &Context) -> Result<PathBuf> {
        Ok(context.settings.cache_directory.directory()?.join("elsewhere/builds"))
    }

    /// Returns the directory of a build.
    ///
    /// # Errors
    ///
    /// The home directory is unknown.
    pub(crate) fn of(context: &Context, id: &ImageId) -> Result<Self> {
        Ok(Self { path: Self::all(context)?.join(id.as_str()) })
    }

    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Unpacks what is built, at once or not at all.
    pub(crate) fn receive(&self, parcel: &mut dyn BufRead) -> Result<()> {
        let all = self.path.parent().unwrap_or(Path::new("/"));
        private_directory(all)?;
        sweep(all);
        let temporary = all.join(format!(
            ".{}-{}-{}",
            self.path.file_name().unwrap_or_default().to_string_lossy(),
            host(),
            std::process::id()
        ));
        let limits = Limits { bytes: LARGEST_PARCEL, links: true };
        let unpacked = unpack(parcel, &temporary, limits).and_then(|()| {
            let is_there = || self.file("request.json").exists();
            if self.path.exists() && !is_there() {
                // Nothing can be built from it.
                self.set_aside()?;
            }
            // Another command may have brought the same.
            fs::rename(&temporary, &self.path)
                .or_else(|error| if is_there() { Ok(()) } else { Err(error) })
        });
        let _ = cabane_builder::remove_tree(&temporary);
        unpacked.or_failed(|| format!("unpack the recipe into {}", shown(&self.path)))
    }

    /// Returns what came of the build, if it has ended.
    pub(crate) fn result(&self) -> Option<Ended> {
        self.json("result.json")
    }

    pub(crate) fn json<T: for<'d> Deserialize<'d>>(&self, name: &str) -> Option<T> {
        let mut text = Vec::new();
        File::open(self.file(name)).ok()?.take(LARGEST_FILE).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub(crate) fn write<T: Serialize>(&self, name: &str, value: &T) -> Result<()> {
        let text = serde_json::to_vec(value).unwrap_or_default();
        let path = self.file(name);
        // Makes no directory: a process that outlives its build does not bring a part of it back.
        let new = self.file(&format!(".{name}-{}-{}", host(), std::process::id()));
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            options.create(true).write(true).truncate(true).mode(0o600);
            options.open(&new)?.write_all(&text)?;
            fs::rename(&new, &path)
        };
        write().or_failed(|| format!("write {}", shown(&path)))
    }

    /// Takes the lock with this name.
    pub(crate) fn lock(&self, name: &str) -> Result<Lock> {
        let path = self.file(name);
        let mut options = OpenOptions::new();
        let opened = options.create(true).append(true).mode(0o600).open(&path);
        let file = opened.or_failed(|| format!("write {}", shown(&path)))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock::Held(file)),
            Err(TryLockError::WouldBlock) => Ok(Lock::Taken),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                Ok(Lock::Unsupported)
            }
            Err(TryLockError::Error(error)) => {
                Err(error).or_failed(|| format!("lock {}", shown(&path)))
            }
        }
    }

    /// Finds out what is known of the build. On another host than that of the build, or where there are no
    /// locks, this may take the time of its lease, because it waits for a sign of life.
    pub(crate) fn state(&self) -> Result<State> {
        if !self.file("request.json").exists() {
            return Ok(State::Absent);
        }
        match self.result() {
            Some(Ended::Cancelled) => return Ok(State::Cancelled),
            Some(_) => return Ok(State::Ended),
            None => {}
        }
        let has_locks = match self.lock("lock")? {
            Lock::Taken => return Ok(State::Running),
            Lock::Held(_) => true,
            Lock::Unsupported => false,
        };
        if self.is_alive(has_locks) {
            return Ok(State::Running);
        }
        // It may have ended in the meantime.
        Ok(if self.result().is_some() { State::Ended } else { State::Ready })
    }

    /// Waits for a sign of life of the process that builds. With locks, one of this host has none to show:
    /// it would hold the lock.
    pub(crate) fn is_alive(&self, has_locks: bool) -> bool {
        let process = || self.json::<Process>("process.json");
        let is_asked = |process: &Process| !has_locks || process.host != host();
        let Some(first) = process().filter(is_asked) else {
            return false;
        };
        let begin = Instant::now();
        while begin.elapsed() < LEASE {
            if process().is_some_and(|now| now.beat != first.beat) {
                return true;
            }
            if self.result().is_some() {
                return false;
            }
            sleep(Duration::from_millis(250));
        }
        false
    }

    /// Returns the events after an offset, up to a limit.
    pub(crate) fn events(&self, offset: u64, most: u64) -> Result<Vec<u8>> {
        self.part("events", offset, most)
    }

    /// Returns the part of a file that begins at an offset; nothing if there is no file.
    pub(crate) fn part(&self, name: &str, offset: u64, most: u64) -> Result<Vec<u8>> {
        let path = self.file(name);
        let read = || -> io::Result<Vec<u8>> {
            // Opened each time, because network file systems then ask the server.
            let mut file = match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                opened => opened?,
            };
            file.seek(SeekFrom::Start(offset))?;
            let mut bytes = Vec::new();
            file.take(most).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().or_failed(|| format!("read {}", shown(&path)))
    }

    /// Asks the process of the build to stop.
    pub(crate) fn cancel(&self) -> Result<()> {
        let path = self.file("cancel");
        File::create(&path).map(drop).or_failed(|| format!("write {}", shown(&path)))
    }

    /// Removes the result only.
    pub(crate) fn forget_result(&self) -> Result<()> {
        let path = self.file("result.json");
        fs::remove_file(&path).or_failed(|| format!("remove {}", shown(&path)))
    }

    /// Removes what an earlier process has left, before another one begins.
    pub(crate) fn reset(&self) {
        for name in ["process.json", "events", "output", "cancel", "job.json", "result.json"] {
            // What is not there need not go.
            let _ = fs::remove_file(self.file(name));
        }
    }

    /// Removes the directory, if it exists.
    pub(crate) fn remove(&self) -> Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        self.set_aside().or_failed(|| format!("remove {}", shown(&self.path)))
    }

    /// Removes the directory, which first gets another name: no process finds a part of it.
    fn set_aside(&self) -> io::Result<()> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let gone = format!(".gone-{name}-{}-{}", host(), std::process::id());
        let gone = self.path.with_file_name(gone);
        match fs::rename(&self.path, &gone) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            renamed => renamed?,
        }
        // What stays is removed by a later build.
        let _ = cabane_builder::remove_tree(&gone);
        Ok(())
    }
}

/// Returns what builds of other machines have left here: those that failed or were lost. A build that runs,
/// waits, or arrives is kept, and so is an image that was not fetched.
///
/// # Errors
///
/// The home directory is unknown, or it cannot be found out whether a build is being submitted.
pub fn leftovers(context: &Context) -> Result<Vec<PathBuf>> {
    let all = WorkDirectory::all(context)?;
    if !all.exists() {
        return Ok(Vec::new());
    }
    // No job is submitted while this looks.
    let _lock = submission_lock(&all)?;
    let entries = fs::read_dir(all).into_iter().flatten().flatten();
    let directories = entries.map(|entry| WorkDirectory::at(&entry.path()));
    Ok(directories.filter(WorkDirectory::is_left).map(|directory| directory.path).collect())
}

impl WorkDirectory {
    fn age(&self, name: &str) -> Option<Duration> {
        fs::metadata(self.file(name)).and_then(|found| found.modified()).ok()?.elapsed().ok()
    }

    fn is_left(&self) -> bool {
        let is_older = |name: &str, than| self.age(name).is_some_and(|age| age > than);
        if self.path.file_name().is_some_and(is_hidden) {
            return is_older("", A_DAY);
        }
        let is_job = self.file("job.json").exists();
        match self.result() {
            Some(Ended::Built(_)) => false,
            // Slurm may start the job again.
            Some(Ended::Interrupted) if is_job => is_older("result.json", A_DAY),
            Some(_) => true,
            // A job may wait for days.
            None if is_job => false,
            None => self.is_not_started() && matches!(self.state(), Ok(State::Ready)),
        }
    }

    /// Whether no process starts the build at this moment. One that has just arrived is about to be started.
    fn is_not_started(&self) -> bool {
        if self.file("start").exists() {
            return !matches!(self.lock("start"), Ok(Lock::Taken));
        }
        self.age("request.json").is_none_or(|age| age > TO_START)
    }
}

/// Takes the lock under which builds are submitted, so that two commands do not both submit one. `all` is the
/// directory with all builds.
pub(crate) fn submission_lock(all: &Path) -> Result<File> {
    private_directory(all)?;
    let path = all.with_file_name("lock");
    let locking = || format!("lock {}", shown(&path));
    let file = File::options().create(true).append(true).open(&path).or_failed(locking)?;
    match file.lock() {
        Err(error) if error.kind() != io::ErrorKind::Unsupported => Err(error).or_failed(locking),
        _ => Ok(file),
    }
}

/// Whether it is the name of a directory that arrives or is removed.
fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// Removes builds of which nothing has changed for long. What cannot be removed stays.
fn sweep(all: &Path) {
    const SIGNS: [&str; 3] = ["request.json", "process.json", "result.json"];
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let age = |name: &str| WorkDirectory::at(&entry.path()).age(name);
        let youngest = SIGNS.into_iter().filter_map(age).min();
        let is_old = if is_hidden(&entry.file_name()) {
            age("").is_some_and(|age| age > A_DAY)
        } else {
            youngest.is_some_and(|age| age > KEPT)
        };
        if is_old {
            let _ = cabane_builder::remove_tree(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parcel::Packer;

    fn parcel() -> Vec<u8> {
        let mut packer = Packer::new(Vec::new());
        packer.file(Path::new("request.json"), b"{}").unwrap();
        packer.end().unwrap()
    }

    fn build(place: &tempfile::TempDir) -> WorkDirectory {
        WorkDirectory::at(&place.path().join("builds/0123456789abcdef"))
    }

    #[test]
    fn a_build_that_was_removed_stays_removed_and_can_be_carried_again() {
        let place = tempfile::tempdir().unwrap();
        let directory = build(&place);
        directory.receive(&mut &parcel()[..]).unwrap();
        let process = Process { host: host(), beat: 1 };
        directory.write("process.json", &process).unwrap();
        directory.remove().unwrap();
        assert!(directory.write("process.json", &process).is_err());
        assert_eq!(fs::read_dir(place.path().join("builds")).unwrap().count(), 0);
        // What an earlier version left of one is in no way.
        fs::create_dir(directory.path()).unwrap();
        fs::write(directory.file("result.json"), "{}").unwrap();
        directory.receive(&mut &parcel()[..]).unwrap();
        assert!(directory.file("request.json").exists() && directory.result().is_none());
        assert!(!directory.file("result.json").exists());
    }

    #[test]
    fn only_builds_that_failed_or_were_lost_are_left_over() {
        let place = tempfile::tempdir().unwrap();
        let directory = build(&place);
        directory.receive(&mut &parcel()[..]).unwrap();
        assert!(!directory.is_left(), "it is about to be started");
        let arrives = WorkDirectory::at(&place.path().join("builds/.0123456789abcdef-host-1"));
        fs::create_dir(arrives.path()).unwrap();
        assert!(!arrives.is_left());
        let start = directory.lock("start").unwrap();
        assert!(!directory.is_left(), "it is being started");
        drop(start);
        assert!(directory.is_left(), "it was started and lost");
        directory.write("result.json", &Ended::Interrupted).unwrap();
        assert!(directory.is_left());
        directory.write("job.json", &Job { id: 7 }).unwrap();
        assert!(!directory.is_left(), "Slurm may start it again");
        directory.write("result.json", &Ended::Cancelled).unwrap();
        assert!(directory.is_left());
    }

    #[test]
    fn without_locks_a_build_on_this_host_is_alive_as_long_as_its_number_changes() {
        let place = tempfile::tempdir().unwrap();
        let directory = build(&place);
        directory.receive(&mut &parcel()[..]).unwrap();
        assert!(!directory.is_alive(false));
        let process = |beat| Process { host: host(), beat };
        directory.write("process.json", &process(0)).unwrap();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let of_thread = directory.clone();
        let beats = std::thread::spawn(move || {
            let mut beat = 1;
            let pause = Duration::from_millis(20);
            while ended.recv_timeout(pause) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                beat += 1;
                of_thread.write("process.json", &process(beat)).unwrap();
            }
        });
        assert!(directory.is_alive(false));
        assert!(!directory.is_alive(true));
        drop(end);
        beats.join().unwrap();
    }
}
