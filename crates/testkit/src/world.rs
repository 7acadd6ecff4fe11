// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A frozen world for commands: home, directories and variables that never vary.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::user::{ORDINARY_USER, is_root};

/// A directory in which a test lives, with a home and nothing of the caller's
/// environment.
#[derive(Debug)]
pub struct World {
    directory: TempDir,
}

impl World {
    /// Makes an empty world that every user may enter.
    ///
    /// # Panics
    ///
    /// If it cannot be made, like every function here.
    pub fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("cabane-test-").tempdir().expect("a world");
        open_to_all(directory.path());
        let world = Self { directory };
        world.directory("home");
        world.directory("work");
        world
    }

    /// Returns a path in the world.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    /// Makes a directory that every user may write to, and returns its path.
    pub fn directory(&self, relative: &str) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(&path).expect("make a directory");
        open_to_all(&path);
        path
    }

    /// Writes a file and returns its path.
    pub fn file(&self, relative: &str, content: &str) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().expect("a parent")).expect("make a directory");
        if content.starts_with("#!") {
            write_elsewhere(&path, content);
        } else {
            fs::write(&path, content).expect("write a file");
        }
        path
    }

    /// Prepares a command in this world, as the user of the tests.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin")
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .current_dir(self.path("work"))
            .stdin(Stdio::null());
        command
    }

    /// Prepares a command in this world as an ordinary user, no matter who runs the tests.
    pub fn command_as_ordinary_user(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.command(program);
        if is_root() {
            let home = self.path("home");
            chown(&home, Some(ORDINARY_USER), Some(ORDINARY_USER)).expect("give the home away");
            // With a user given, the standard library drops the groups of root, too.
            command.uid(ORDINARY_USER).gid(ORDINARY_USER);
        }
        command
    }

    /// Replaces the path of the world in a text, so that it can be compared.
    pub fn blank(&self, text: &str) -> String {
        text.replace(&*self.directory.path().to_string_lossy(), "[WORLD]")
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

/// A command that has ended: what it printed and how.
#[derive(Debug, PartialEq, Eq)]
pub struct Finished {
    /// The exit code, or 128 and the signal.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Finished {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Self {
        let output =
            command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        let code = output.status.code().unwrap_or_else(|| {
            128 + std::os::unix::process::ExitStatusExt::signal(&output.status).unwrap_or(0)
        });
        Self {
            code,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Returns itself if the command succeeded.
    ///
    /// # Panics
    ///
    /// With its output if it did not.
    #[expect(clippy::return_self_not_must_use, reason = "most callers only want the check")]
    pub fn success(self) -> Self {
        assert!(self.code == 0, "exit code {}\n{}\n{}", self.code, self.stdout, self.stderr);
        self
    }
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("open a directory");
}

/// Writes a script in another process. A child that another test starts meanwhile would
/// hold it open for writing for a moment, in which no one can run it.
fn write_elsewhere(path: &Path, content: &str) {
    let mut shell = Command::new("/bin/sh")
        .args(["-c", "cat >\"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("start a shell");
    let mut input = shell.stdin.take().expect("a pipe");
    input.write_all(content.as_bytes()).expect("write a script");
    drop(input);
    assert!(shell.wait().expect("wait for a shell").success());
}
