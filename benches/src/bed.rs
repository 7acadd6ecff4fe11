// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The bed: a directory with everything that is measured, gone afterwards.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use tempfile::TempDir;

use crate::measure::NotMeasured;
use crate::options::Options;
use crate::starters::Images;

/// A directory with everything that is measured.
pub(crate) struct Bed {
    directory: TempDir,
    /// A copy of the `cabane` program that every user may run.
    pub(crate) cabane: Result<PathBuf, NotMeasured>,
    /// A copy of the program that only mounts.
    pub(crate) mounter: Result<PathBuf, NotMeasured>,
    images: OnceLock<Result<Images, NotMeasured>>,
}

const VARIABLE: &str = "CABANE_BENCH_CABANE";
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

impl Bed {
    /// Makes the directory, builds `cabane` where that is possible, and goes there.
    pub(crate) fn make(options: &Options) -> Result<Self, String> {
        let parent = options.directory.clone().unwrap_or_else(env::temp_dir);
        let failed = |error| format!("cannot make a directory in {}: {error}", parent.display());
        let mut builder = tempfile::Builder::new();
        builder
            .prefix("cabane-bench-")
            .permissions(Permissions::from_mode(0o755));
        let directory = builder.tempdir_in(&parent).map_err(failed)?;
        let path = directory.path().to_owned();
        fs::create_dir(path.join("home")).map_err(failed)?;
        let bed = Self {
            cabane: find_cabane().and_then(|found| copy(&found, &path)),
            mounter: beside_this_program("cabane-bench-mount")
                .and_then(|found| copy(&found, &path)),
            directory,
            images: OnceLock::new(),
        };
        // Not in the command of each sample: that would cost a copy of this process.
        env::set_current_dir(bed.path("home")).map_err(failed)?;
        Ok(bed)
    }

    /// Returns a path in the bed.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    /// Takes the places of this machine out of a text: a page is for everybody.
    pub(crate) fn scrubbed(&self, text: &str) -> String {
        let bed = self.directory.path().to_string_lossy();
        let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        text.replace(&*bed, "BED").replace(workspace, "CABANE")
    }

    /// Makes a directory that the ordinary user of the measurements may write to.
    pub(crate) fn directory(&self, relative: &str) -> Result<PathBuf, NotMeasured> {
        let path = self.path(relative);
        fs::create_dir_all(&path)
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o777)))
            .map_err(|error| format!("cannot make {relative}: {error}"))?;
        Ok(path)
    }

    /// Prepares a program with a small environment that is always the same.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", PATH)
            .env("LANG", "C.UTF-8")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("CABANE_SITE_CONFIG", self.path("no-configuration"))
            .stdin(Stdio::null());
        command
    }

    /// Prepares `cabane` with the options that stand before its command.
    pub(crate) fn cabane(&self, repository: &Path) -> Result<Command, NotMeasured> {
        let mut command = self.command(self.cabane.as_ref().map_err(Clone::clone)?);
        command.arg("--repo").arg(repository);
        Ok(command)
    }

    /// Returns the images that are started, made when they are first asked for.
    pub(crate) fn images(&self) -> Result<&Images, NotMeasured> {
        let images = self.images.get_or_init(|| Images::make(self));
        images.as_ref().map_err(Clone::clone)
    }
}

/// Does something in a thread that is an ordinary user, and whose children are.
///
/// In Linux each thread has an identity of its own, so that the commands need not
/// change theirs: that would cost a copy of this process for each of them.
pub(crate) fn as_ordinary_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            become_ordinary_user();
            work()
        });
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn become_ordinary_user() {
    if !is_root() {
        return;
    }
    let user = ordinary_user();
    set_thread_groups(&[]).expect("root may give up its groups");
    set_thread_gid(Gid::from_raw(user)).expect("root may change its group");
    set_thread_uid(Uid::from_raw(user)).expect("root may change its user");
}

/// Returns a user who is not root. `fusermount3` serves only users who have a name,
/// so the first one of the user database is taken, or `daemon`, whom every system has.
fn ordinary_user() -> u32 {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let users = text
        .lines()
        .filter_map(|line| line.split(':').nth(2)?.parse().ok());
    users
        .into_iter()
        .find(|user| (1000..60_000).contains(user))
        .unwrap_or(1)
}

/// Finds the `cabane` to be measured: the one that is named, or the one that cargo
/// builds now, so that it cannot be an old one.
fn find_cabane() -> Result<PathBuf, NotMeasured> {
    if let Some(path) = env::var_os(VARIABLE) {
        return Ok(path.into());
    }
    if let Some(cargo) = env::var_os("CARGO") {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
        let status = Command::new(cargo)
            .args([
                "build",
                "--release",
                "--package",
                "cabane-cli",
                "--bin",
                "cabane",
            ])
            .args(["--manifest-path", manifest])
            .stdin(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => {}
            _ => return Err("cargo cannot build cabane".to_owned()),
        }
    }
    beside_this_program("cabane")
}

fn beside_this_program(name: &str) -> Result<PathBuf, NotMeasured> {
    let this = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let path = this.with_file_name(name);
    path.is_file()
        .then_some(path)
        .ok_or_else(|| format!("{name} has not been built"))
}

/// Copies a program to where every user may run it.
fn copy(program: &Path, directory: &Path) -> Result<PathBuf, NotMeasured> {
    let failed = |error| format!("cannot copy {}: {error}", program.display());
    let name = program
        .file_name()
        .ok_or_else(|| format!("{VARIABLE} names no file"))?;
    let target = directory.join(name);
    fs::copy(program, &target).map_err(failed)?;
    fs::set_permissions(&target, Permissions::from_mode(0o755)).map_err(failed)?;
    Ok(target)
}

/// Whether this runs as root.
pub(crate) fn is_root() -> bool {
    geteuid().is_root()
}
