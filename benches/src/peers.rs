// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The programs beside which Cabane is measured, and those it needs.
//!
//! Each is found in `PATH` or named by a variable; none is required. What is missing
//! is named in the report where its figures would stand.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::measure::NotMeasured;

/// A program: what it is called, which variable names another one, and how it is
/// requested its version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) variable: &'static str,
    version: &'static str,
}

const fn peer(name: &'static str, variable: &'static str, version: &'static str) -> Peer {
    Peer { name, variable, version }
}

pub(crate) const UNSHARE: Peer = peer("unshare", "CABANE_BENCH_UNSHARE", "--version");
pub(crate) const BWRAP: Peer = peer("bwrap", "CABANE_BENCH_BWRAP", "--version");
pub(crate) const SQUASHFUSE: Peer = peer("squashfuse_ll", "CABANE_BENCH_SQUASHFUSE", "--version");
pub(crate) const FUSERMOUNT: Peer = peer("fusermount3", "CABANE_BENCH_FUSERMOUNT", "--version");
pub(crate) const SQUASHFS_MOUNT: Peer =
    peer("squashfs-mount", "CABANE_BENCH_SQUASHFS_MOUNT", "--version");
pub(crate) const UENV: Peer = peer("uenv", "CABANE_BENCH_UENV", "--version");
pub(crate) const CH_RUN: Peer = peer("ch-run", "CABANE_BENCH_CH_RUN", "--version");
pub(crate) const CH_IMAGE: Peer = peer("ch-image", "CABANE_BENCH_CH_IMAGE", "--version");
pub(crate) const UV: Peer = peer("uv", "CABANE_UV", "--version");
pub(crate) const MKSQUASHFS: Peer = peer("mksquashfs", "CABANE_BENCH_MKSQUASHFS", "-version");
pub(crate) const MKFS_EROFS: Peer = peer("mkfs.erofs", "CABANE_BENCH_MKFS_EROFS", "-V");
pub(crate) const STACKINATOR: Peer = peer("stack-config", "CABANE_BENCH_STACKINATOR", "--version");
pub(crate) const CURL: Peer = peer("curl", "CABANE_BENCH_CURL", "--version");
pub(crate) const ORAS: Peer = peer("oras", "CABANE_TEST_ORAS", "version");
pub(crate) const SKOPEO: Peer = peer("skopeo", "CABANE_TEST_SKOPEO", "--version");
pub(crate) const UMOCI: Peer = peer("umoci", "CABANE_BENCH_UMOCI", "--version");
pub(crate) const PODMAN: Peer = peer("podman", "CABANE_BENCH_PODMAN", "--version");
pub(crate) const BUILDAH: Peer = peer("buildah", "CABANE_BENCH_BUILDAH", "--version");
pub(crate) const APPTAINER: Peer = peer("apptainer", "CABANE_BENCH_APPTAINER", "--version");
pub(crate) const DOCKER_REGISTRY: Peer =
    peer("docker-registry", "CABANE_TEST_DOCKER_REGISTRY", "--version");
pub(crate) const CHROMIUM: Peer = peer("chromium", "CABANE_BENCH_CHROMIUM", "--version");
pub(crate) const NODE: Peer = peer("node", "CABANE_BENCH_NODE", "--version");
pub(crate) const PYTHON: Peer = peer("python3", "CABANE_BENCH_PYTHON", "--version");

/// The order in which the report lists them.
pub(crate) const ALL: &[Peer] = &[
    UNSHARE,
    SQUASHFS_MOUNT,
    UENV,
    BWRAP,
    SQUASHFUSE,
    FUSERMOUNT,
    CH_RUN,
    CH_IMAGE,
    MKSQUASHFS,
    MKFS_EROFS,
    STACKINATOR,
    PYTHON,
    UV,
    DOCKER_REGISTRY,
    ORAS,
    SKOPEO,
    CURL,
    UMOCI,
    PODMAN,
    BUILDAH,
    APPTAINER,
];

/// Directories that are searched after `PATH`; those of administrators are often
/// not in it. `PATH` may also begin with scripts that only call the real program, so
/// the system's directories come first for the interpreter.
const SYSTEM_DIRECTORIES: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

impl Peer {
    /// Finds the program.
    pub(crate) fn find(self) -> Result<PathBuf, NotMeasured> {
        if let Some(path) = env::var_os(self.variable) {
            let path = PathBuf::from(path);
            let is_there = path.is_file();
            return is_there.then_some(path).ok_or(format!("{} names no file", self.variable));
        }
        let system = SYSTEM_DIRECTORIES.iter().map(PathBuf::from);
        let path = env::var_os("PATH").unwrap_or_default();
        let mut directories = system.chain(env::split_paths(&path));
        directories
            .find_map(|directory| Some(directory.join(self.name)).filter(|path| path.is_file()))
            .ok_or_else(|| format!("{} is not installed; {} can name it", self.name, self.variable))
    }

    /// Returns the first line that the program says about its version.
    pub(crate) fn version(self) -> Result<String, NotMeasured> {
        let path = self.find()?;
        let version = first_line(&path, self.version).unwrap_or("of unknown version".to_owned());
        let names_itself = version.starts_with(|first: char| first.is_ascii_alphabetic());
        Ok(if names_itself && version != "of unknown version" {
            version
        } else {
            format!("{} {version}", self.name)
        })
    }
}

/// Runs a program with one argument and returns the first line that holds a number
/// with a point, without the program's own path.
pub(crate) fn first_line(program: &Path, argument: &str) -> Option<String> {
    let output = Command::new(program)
        .arg(argument)
        // Charliecloud says nothing without it.
        .env("USER", "bench")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find(|line| has_version(line))?;
    let name = program.file_name()?.to_string_lossy();
    let line = line.replace(&*program.to_string_lossy(), &name);
    Some(line.trim_start_matches("Version:").trim().to_owned())
}

fn has_version(line: &str) -> bool {
    let digits = |part: &[u8]| matches!(part, [one, b'.', other] if one.is_ascii_digit() && other.is_ascii_digit());
    line.as_bytes().windows(3).any(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_installed_is_named() {
        let missing = peer("no-such-peer", "CABANE_BENCH_NO_SUCH_PEER", "--version");
        assert_eq!(
            missing.find().unwrap_err(),
            "no-such-peer is not installed; CABANE_BENCH_NO_SUCH_PEER can name it"
        );
    }
}
