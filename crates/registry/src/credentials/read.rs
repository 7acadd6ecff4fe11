// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Files with passwords, read whole and with a limit.

use std::fs::File;
use std::io;
use std::path::Path;

use cabane_label::shown;
use cabane_report::{Kind, Report, Result};

use crate::files::{read_up_to, unreadable};

/// A login file that has collected the passwords of hundreds of registries is far below it.
pub(super) const MOST_BYTES: u64 = 1 << 20;

/// Reads a file; one that is not there is nothing.
pub(super) fn text_if_there(path: &Path) -> Result<Option<String>> {
    match File::open(path) {
        Ok(file) => text_of(&file, path).map(Some),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(unreadable("", path)(error)),
    }
}

/// Reads what is left in an open file.
pub(super) fn text_of(file: &File, path: &Path) -> Result<String> {
    let read = read_up_to(MOST_BYTES, file).map_err(unreadable("", path))?;
    let too_large = || strange(path, &format!("has more than {MOST_BYTES} bytes, and is not read"));
    let bytes = read.ok_or_else(too_large)?;
    String::from_utf8(bytes).map_err(|_| strange(path, "is not a text in UTF-8"))
}

fn strange(path: &Path, what: &str) -> Report {
    let path = shown(path);
    Report::new(Kind::Failure, format!("{path} {what}"))
        .hinted(format!("`file {path}` shows what it is"))
}

/// Whether nothing is at the path, also where a directory on the way is a file.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
