// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The rows of the database, of whichever release.
//!
//! ```text
//! images   sha256, id, date, size              since release 6; before: and uarch, system
//! uenv     version_id, system, uarch, name, version          before: no system, uarch
//! tags     version_id, tag, sha256
//! ```
//!
//! There is also a view that joins them, which is not used: it leaves out what does not fit.

use std::path::Path;

use cabane_label::shown;
use cabane_report::{Kind, Report, Result};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::database;
use crate::error::unreadable;

/// A label and its image, as it is written: nothing has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) tag: String,
    pub(crate) system: String,
    pub(crate) uarch: String,
    pub(crate) sha256: String,
    pub(crate) date: String,
}

/// What is in a database.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// The labels.
    pub(crate) labels: Vec<Row>,
    /// The digests of images that have no label.
    pub(crate) unnamed: Vec<String>,
}

/// The columns that every release has.
const COLUMNS: [(&str, &[&str]); 3] = [
    ("images", &["sha256", "date"]),
    ("uenv", &["version_id", "name", "version"]),
    ("tags", &["version_id", "tag", "sha256"]),
];

/// Reads what is in a database.
pub(crate) fn read(path: &Path) -> Result<Rows> {
    database::read(path, |connection| {
        let place = place_of_system(path, connection)?;
        let rows =
            || Ok(Rows { labels: labels(connection, place)?, unnamed: unnamed(connection)? });
        rows().map_err(unreadable(path))
    })
}

/// Checks the columns, and returns the table that has those of the system.
fn place_of_system(path: &Path, connection: &Connection) -> Result<&'static str> {
    let mut place = "uenv";
    for (table, wanted) in COLUMNS {
        let columns = columns(connection, table).map_err(unreadable(path))?;
        let has = |column: &str| columns.iter().any(|one| one == column);
        let lacks = |what: String| {
            let path = shown(path);
            let message = format!("the database {path} has no {what}, as those of uenv have");
            Err(Report::new(Kind::Repository, message))
        };
        if columns.is_empty() {
            return lacks(format!("table `{table}`"));
        }
        if let Some(missing) = wanted.iter().find(|column| !has(column)) {
            return lacks(format!("column `{missing}` in its table `{table}`"));
        }
        let has_system = has("system") && has("uarch");
        if table == "images" && has_system {
            place = table;
        }
        if table == "uenv" && place == table && !has_system {
            return lacks("column `system`".to_owned());
        }
    }
    Ok(place)
}

/// Returns the columns of a table; none if there is no such table.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut query = connection.prepare(
        "SELECT columns.name FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
         WHERE tables.type = 'table' AND tables.name = ?1",
    )?;
    let names = query.query_map([table], |row| row.get(0))?;
    names.collect()
}

fn labels(connection: &Connection, place: &str) -> rusqlite::Result<Vec<Row>> {
    let mut query = connection.prepare(&format!(
        "SELECT uenv.name, uenv.version, tags.tag, {place}.system, {place}.uarch, tags.sha256,
                images.date
         FROM tags LEFT JOIN uenv ON uenv.version_id = tags.version_id
                   LEFT JOIN images ON images.sha256 = tags.sha256",
    ))?;
    let rows = query.query_map([], |row| {
        let text = |index| row.get_ref(index).map(text);
        Ok(Row {
            name: text(0)?,
            version: text(1)?,
            tag: text(2)?,
            system: text(3)?,
            uarch: text(4)?,
            sha256: text(5)?,
            date: text(6)?,
        })
    })?;
    rows.collect()
}

fn unnamed(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut query = connection
        .prepare("SELECT sha256 FROM images WHERE sha256 NOT IN (SELECT sha256 FROM tags)")?;
    let rows = query.query_map([], |row| row.get_ref(0).map(text))?;
    rows.collect()
}

/// Takes any value for text: a damaged row is to be named, and not to end everything.
fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
    }
}
