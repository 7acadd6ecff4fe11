// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What can go wrong with a database as a whole.

use std::io;
use std::path::Path;

use cabane_label::shown;
use cabane_report::{Kind, Report};
use rusqlite::ErrorCode;

/// Returns a function that says what the file system refused, such as to `read`, and for which file.
pub fn refused(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Report {
    move |source| {
        let hint = (source.kind() == io::ErrorKind::PermissionDenied)
            .then(|| format!("`ls -ld {}` shows its owner and permissions", shown(path)));
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

/// Returns a function that says which database SQLite cannot change.
pub(crate) fn unwritable(path: &Path) -> impl Fn(rusqlite::Error) -> Report {
    move |source| {
        let hint = match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Some("another process is changing it: try the same command again".to_owned())
            }
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Some(format!("`ls -ld {}` shows its owner and permissions", shown(path)))
            }
            _ => None,
        };
        let message = format!("the database {} cannot be changed", shown(path));
        Report::caused(Kind::Repository, message, source).hinted(hint)
    }
}
