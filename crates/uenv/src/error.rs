// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What can go wrong with a repository of uenv as a whole. What is wrong with one image is a
//! [`crate::Corruption`].

use std::io;
use std::path::Path;

use cabane_label::shown;
use cabane_report::{Kind, Report};

/// Returns a function that says what the file system refused, such as to `read`, and for which file.
pub(crate) fn refused(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Report {
    move |source| {
        let hint = (source.kind() == io::ErrorKind::PermissionDenied)
            .then(|| format!("`ls -ld {}` shows who may", shown(path)));
        let message = format!("cannot {action} {}", shown(path));
        Report::caused(Kind::Repository, message, source).hinted(hint)
    }
}

/// Returns a function that says which database SQLite cannot read: it is damaged, or none.
pub(crate) fn unreadable(path: &Path) -> impl Fn(rusqlite::Error) -> Report {
    move |source| {
        let message = format!("the database {} cannot be read", shown(path));
        Report::caused(Kind::Repository, message, source).hinted(format!(
            "`sqlite3 {} 'PRAGMA integrity_check'` shows what is wrong; `cabane image add` adds \
             single images",
            shown(path)
        ))
    }
}
