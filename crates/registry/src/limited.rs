// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Reading with a limit, from files and from registries, and what is wrong with the files.

use std::io::{self, Read};
use std::path::Path;

use cabane_label::shown;
use cabane_report::{Kind, Report};

/// Reads to the end; `None` if there is more than the limit.
pub(crate) fn read(reader: impl Read, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    reader.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

/// Returns a function that turns an answer of the file system into an error about a file, whose
/// path may follow what it is: `the key `.
pub(crate) fn unreadable<'a>(what: &'a str, path: &'a Path) -> impl Fn(io::Error) -> Report + 'a {
    move |source| {
        let path = shown(path);
        let is_denied = source.kind() == io::ErrorKind::PermissionDenied;
        Report::caused(Kind::Failure, format!("cannot read {what}{path}"), source)
            .hinted(is_denied.then(|| format!("`ls -ld {path}` shows who may")))
    }
}

/// That a file with a secret is not kept well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptBadly {
    /// What is wrong.
    pub warning: String,
    /// What the user may type about it.
    pub hint: String,
}
