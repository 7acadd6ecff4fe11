// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Repositories. Each may be on a file system that does not answer.

use std::path::Path;

use cabane_repository::Corruption;
use cabane_site::open_repository;

use super::{QUICK, READING, with_cause};
use crate::facts::{Answer, NoAnswer, RepositoryFacts};
use crate::probe::within;

/// Opens a repository, then looks through it.
pub(crate) fn look_at_repository(path: &Path) -> Answer<RepositoryFacts> {
    if let Some(unusable) = within(QUICK, || open(path))? {
        return Ok(unusable);
    }
    match within(READING, || read(path)) {
        Err(NoAnswer::Silent(_)) => Ok(RepositoryFacts::TooLong),
        answer => answer,
    }
}

/// Returns why it cannot be opened.
fn open(path: &Path) -> Option<RepositoryFacts> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Some(RepositoryFacts::Missing)
        }
        _ => open_repository(path).err().map(|error| unusable(&error)),
    }
}

fn read(path: &Path) -> RepositoryFacts {
    let status = open_repository(path).and_then(|repository| repository.status(false));
    let status = match status {
        Ok(status) => status,
        Err(error) => return unusable(&error),
    };
    let (leftovers, damaged): (Vec<_>, Vec<_>) = status
        .damaged
        .iter()
        .partition(|corruption| matches!(corruption, Corruption::Leftover { .. }));
    RepositoryFacts::Usable {
        file_system: status.file_system,
        writable: status.writable,
        labels: status.labels,
        images: status.images,
        free: status.free,
        leftovers: leftovers.len(),
        damaged: damaged.iter().map(ToString::to_string).collect(),
    }
}

fn unusable(error: &cabane_repository::Error) -> RepositoryFacts {
    RepositoryFacts::Unusable { reason: with_cause(error), hint: error.hint() }
}
