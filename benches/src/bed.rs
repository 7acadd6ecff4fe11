// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The bed: a directory with everything that is measured, gone afterwards.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::process::geteuid;
use tempfile::TempDir;

use crate::images::{Format, Images};
use crate::keeper::{self, Keeper};
use crate::measure::{NotMeasured, finish};
use crate::options::Options;
use crate::users::as_ordinary_user;
use crate::world::World;

/// A directory with everything that is measured.
pub(crate) struct Bed {
    directory: TempDir,
    /// A copy of the `cabane` program that every user may run.
    pub(crate) cabane: Result<PathBuf, NotMeasured>,
    /// A copy of the small programs of the measurements.
    pub(crate) small: Result<PathBuf, NotMeasured>,
    /// Where the helper is.
    pub(crate) world: World,
    images: OnceLock<Result<Images, NotMeasured>>,
    numpy: OnceLock<Result<Images, NotMeasured>>,
    small_image: OnceLock<Result<(Format, PathBuf), NotMeasured>>,
}

/// The name of the small programs of the measurements.
const SMALL_PROGRAMS: &str = "cabane-bench-mount";
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

impl Bed {
    /// Makes the directory, builds `cabane` where that is possible, and goes there.
    pub(crate) fn make(options: &Options) -> Result<Self, String> {
        build()?;
        let parent = options.directory.clone().unwrap_or_else(env::temp_dir);
        let failed = |error| format!("cannot make a directory in {}: {error}", parent.display());
        let mut builder = tempfile::Builder::new();
        builder.prefix("cabane-bench-").permissions(Permissions::from_mode(0o755));
        let directory = builder.tempdir_in(&parent).map_err(failed)?;
        let path = directory.path().to_owned();
        for directory in ["home", "homes"] {
            fs::create_dir(path.join(directory)).map_err(failed)?;
        }
        fs::set_permissions(path.join("homes"), Permissions::from_mode(0o1777)).map_err(failed)?;
        let bed = Self {
            cabane: find("CABANE_BENCH_CABANE", "cabane").and_then(|found| copy(&found, &path)),
            small: beside_this_program(SMALL_PROGRAMS).and_then(|found| copy(&found, &path)),
            world: World::furnish(find("CABANE_BENCH_HELPER", "cabane-mount")),
            directory,
            images: OnceLock::new(),
            numpy: OnceLock::new(),
            small_image: OnceLock::new(),
        };
        // Not in the command of each sample: that would cost a copy of this process.
        env::set_current_dir(bed.path("home")).map_err(failed)?;
        Ok(bed)
    }

    /// Returns a path in the bed.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    /// Takes the places of this machine out of a text: a page is for everyone.
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

    /// The home directory of the user of this thread, where Cabane has its cache.
    pub(crate) fn home(&self) -> PathBuf {
        let home = self.path("homes").join(geteuid().as_raw().to_string());
        // It may exist already.
        let _ = fs::create_dir(&home);
        home
    }

    /// Prepares a program with a small environment that is always the same.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", PATH)
            .env("LANG", "C.UTF-8")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("CABANE_SITE_CONFIG", self.path("no-configuration"))
            .stdin(Stdio::null());
        if let Ok(helper) = &self.world.helper {
            command.env("CABANE_HELPER", helper);
        }
        command
    }

    /// Prepares `cabane` with the options that stand before its command.
    pub(crate) fn cabane(&self, repository: &Path) -> Result<Command, NotMeasured> {
        let mut command = self.command(self.cabane.as_ref().map_err(Clone::clone)?);
        command.arg("--repo").arg(repository);
        Ok(command)
    }

    /// Prepares one of the small programs.
    pub(crate) fn small(&self, task: &str) -> Result<Command, NotMeasured> {
        let mut command = self.command(self.small.as_ref().map_err(Clone::clone)?);
        command.arg(task);
        Ok(command)
    }

    /// Prepares the command that gives up the images that are held and not used: as
    /// root all, as a user his own.
    pub(crate) fn clean_mounts(&self) -> Result<Command, NotMeasured> {
        let mut command = self.command(self.cabane.as_ref().map_err(Clone::clone)?);
        command.args(["clean", "--mounts"]).stderr(Stdio::null());
        Ok(command)
    }

    /// Sets whether there is a policy for the helper and for root, and sees to it that
    /// nothing is held.
    pub(crate) fn have_policy(&self, wanted: bool) -> Result<(), NotMeasured> {
        self.world.have_policy(true)?;
        finish(&mut self.clean_mounts()?)?;
        self.world.have_policy(wanted)
    }

    /// Sets up a site: a policy for the helper, nothing held but another image.
    pub(crate) fn with_helper(&self) -> Result<Site<'_>, NotMeasured> {
        self.world.helper.as_ref().map_err(Clone::clone)?;
        self.have_policy(true)?;
        let made = self.small_image.get_or_init(|| keeper::image(self));
        let (format, image) = made.as_ref().map_err(Clone::clone)?;
        Ok(Site {
            bed: self,
            keeper: Some(as_ordinary_user(|| Keeper::start(self, *format, image))?),
        })
    }

    /// Returns the images that are started, made when they are first requested.
    pub(crate) fn images(&self) -> Result<&Images, NotMeasured> {
        let images = self.images.get_or_init(|| Images::make(self));
        images.as_ref().map_err(Clone::clone)
    }

    /// Returns those with numpy.
    pub(crate) fn numpy(&self) -> Result<&Images, NotMeasured> {
        let images = self.numpy.get_or_init(|| Images::with_numpy(self));
        images.as_ref().map_err(Clone::clone)
    }
}

/// A policy for the helper, and another image in use.
pub(crate) struct Site<'a> {
    bed: &'a Bed,
    keeper: Option<Keeper>,
}

impl Site<'_> {
    /// From now on nothing is in use, and nothing is held.
    pub(crate) fn fall_idle(&mut self) -> Result<(), NotMeasured> {
        self.keeper = None;
        finish(&mut self.bed.clean_mounts()?).map(drop)
    }
}

/// Finds a program of ours: the one that a variable names, or the one that was built.
fn find(variable: &str, name: &str) -> Result<PathBuf, NotMeasured> {
    match env::var_os(variable) {
        Some(path) => Ok(path.into()),
        None => beside_this_program(name),
    }
}

/// Under cargo everything is built now, so that what is measured cannot be an old one;
/// `cabane` and the helper are what `make build` makes.
fn build() -> Result<(), String> {
    let Some(cargo) = env::var_os("CARGO") else {
        return Ok(());
    };
    let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut small = Command::new(cargo);
    small
        .current_dir(workspace)
        .args(["rustc", "--locked", "--release", "-p", "cabane-benches"])
        .args(["--bin", SMALL_PROGRAMS, "--", "-C"])
        .arg("target-feature=+crt-static");
    for mut command in [Command::new(Path::new(workspace).join("scripts/build")), small] {
        // Build scripts of others run anew when these are not those of their last run.
        for (name, _) in env::vars_os() {
            let name_of_cargo = name.as_encoded_bytes();
            if [&b"CARGO_PKG_"[..], b"CARGO_MANIFEST_"]
                .iter()
                .any(|one| name_of_cargo.starts_with(one))
            {
                command.env_remove(name);
            }
        }
        match command.stdin(Stdio::null()).status() {
            Ok(status) if status.success() => {}
            _ => return Err("cannot build what is to be measured".to_owned()),
        }
    }
    Ok(())
}

pub(crate) fn beside_this_program(name: &str) -> Result<PathBuf, NotMeasured> {
    let this = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let path = this.with_file_name(name);
    path.is_file().then_some(path).ok_or_else(|| format!("{name} has not been built"))
}

/// Copies a program to where every user may run it.
fn copy(program: &Path, directory: &Path) -> Result<PathBuf, NotMeasured> {
    let failed = |error| format!("cannot copy {}: {error}", program.display());
    let name = program.file_name().ok_or_else(|| format!("{} is no file", program.display()))?;
    let target = directory.join(name);
    fs::copy(program, &target).map_err(failed)?;
    fs::set_permissions(&target, Permissions::from_mode(0o755)).map_err(failed)?;
    Ok(target)
}
