// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Libraries that were loaded and belong to another installation.

use std::path::{Path, PathBuf};

use crate::benchmark::BenchmarkOutput;
use crate::judge::Reason;
use crate::{Installation, Origin};

/// Adds to a failure that the library is none of the installation's: a linker takes what
/// the system has where a prefix has none.
pub(super) fn with_strange_library(
    reason: Reason,
    one: &Installation,
    output: &BenchmarkOutput,
) -> Reason {
    let Origin::Prefix(prefix) = &one.origin else {
        return reason;
    };
    match (reason, other_library(output, prefix)) {
        (Reason::NotStarted { code, message }, Some(other)) => Reason::NotStarted {
            code,
            message: format!(
                "it was linked with {other}, not with a library of its own: {message}"
            ),
        },
        (reason, _) => reason,
    }
}

/// The library that was loaded, if none of a directory was.
pub(super) fn other_library(output: &BenchmarkOutput, directory: &Path) -> Option<String> {
    let real = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let is_ours =
        output.loaded.iter().any(|file| file.starts_with(&real) || file.starts_with(directory));
    let first = output.loaded.first()?;
    (!is_ours).then(|| first.display().to_string())
}

/// The prefix of another installation that the loaded library belongs to: a directory above it with a
/// compiler wrapper that is not the one of this installation.
pub(super) fn library_of(one: &Installation, output: &BenchmarkOutput) -> Option<PathBuf> {
    let wrapper = one.wrapper.as_ref().filter(|_| one.enter.is_empty())?.canonicalize().ok()?;
    let own = wrapper.parent()?.parent()?;
    let file = output.loaded.first()?.canonicalize().ok()?;
    if file.starts_with(own) {
        return None;
    }
    let theirs = file.ancestors().skip(1).find(|above| above.join("bin/mpicc").exists())?;
    let is_another = theirs.join("bin/mpicc").canonicalize().is_ok_and(|theirs| theirs != wrapper);
    is_another.then(|| theirs.to_owned())
}
