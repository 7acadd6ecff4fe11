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

use std::fs;
use std::path::Path;

use cabane_label::{Digest, Label, shown, shown_word};
use cabane_report::{Kind, Report, Result};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::error::unreadable;
use crate::open;

/// A label and its image, as it is written: nothing has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The label: `name/version:tag@system%uarch`.
    pub label: String,
    /// The digest of the image.
    pub sha256: String,
    /// When the image was made.
    pub date: String,
    /// The number of bytes of the image, if the row has one.
    pub size: Option<u64>,
}

impl Row {
    /// Returns the digest and the label, or the reason why the row does not have them.
    pub fn checked(&self) -> Result<(Digest, Label), String> {
        let digest = self.sha256.parse().map_err(|_| {
            let sha256 = &self.sha256;
            format!("its image `{sha256}` is not a sha256 digest")
        })?;
        Ok((digest, self.label.parse::<Label>().map_err(|error| error.to_string())?))
    }

    /// Returns when the image was made, if the row has such a date.
    pub fn date(&self) -> Option<Timestamp> {
        parse_date(&self.date)
    }
}

/// What is in a database.
#[derive(Debug, Default)]
pub struct Rows {
    /// The labels.
    pub labels: Vec<Row>,
    /// The digests of images that have no label.
    pub unnamed: Vec<String>,
}

/// The columns that every release has.
const COLUMNS: [(&str, &[&str]); 3] = [
    ("images", &["sha256", "date", "size"]),
    ("uenv", &["version_id", "name", "version"]),
    ("tags", &["version_id", "tag", "sha256"]),
];

/// Reads what is in a database.
///
/// # Errors
///
/// The file cannot be read, is no database of uenv, or changes all the time.
pub fn read(path: &Path) -> Result<Rows> {
    open::read(path, |connection| {
        let place = place_of_system(path, connection)?;
        let rows =
            || Ok(Rows { labels: labels(connection, place)?, unnamed: unnamed(connection)? });
        rows().map_err(unreadable(path))
    })
}

/// Refuses a database of the releases before 6, which is not changed: two systems could not have
/// the same image there.
///
/// # Errors
///
/// It is such a database, or cannot be read.
pub fn refuse_old(path: &Path) -> Result<()> {
    open::read(path, |connection| {
        if place_of_system(path, connection)? == "uenv" {
            return Ok(());
        }
        let message = format!("cannot change the database {} of uenv before 6", shown(path));
        let directory = path.parent().unwrap_or(path);
        Err(Report::new(Kind::Repository, message).hinted(format!(
            "`cabane repo import {}` copies its images into a repository that can be changed",
            shown(directory)
        )))
    })
}

/// Checks the columns, and returns the table that has those of the system.
fn place_of_system(path: &Path, connection: &Connection) -> Result<&'static str> {
    let mut place = "uenv";
    for (table, wanted) in COLUMNS {
        let columns = columns(connection, table).map_err(unreadable(path))?;
        let has = |column: &str| columns.iter().any(|one| one == column);
        let lacks = |what: String| Err(no_database_of_uenv(path, &what));
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

/// Says what a database lacks that those of uenv have, and what to do about it.
fn no_database_of_uenv(path: &Path, lacks: &str) -> Report {
    let (file, directory) = (shown(path), path.parent().unwrap_or(path));
    if fs::metadata(path).is_ok_and(|found| found.len() == 0) {
        let message = format!("the database {file} is an empty file");
        return Report::new(Kind::Repository, message).hinted(format!(
            "`rm {}`, then `cabane repo create --uenv {}` makes a database without labels",
            shown_word(path),
            shown_word(directory)
        ));
    }
    let message = format!("the database {file} has no {lacks}, as those of uenv have");
    Report::new(Kind::Repository, message)
        .hinted(format!("`sqlite3 {file} .schema` shows what it has"))
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
                images.date, images.size
         FROM tags LEFT JOIN uenv ON uenv.version_id = tags.version_id
                   LEFT JOIN images ON images.sha256 = tags.sha256",
    ))?;
    let rows = query.query_map([], |row| {
        let text = |index| row.get_ref(index).map(text);
        let [name, version, tag] = [text(0)?, text(1)?, text(2)?];
        let [system, uarch] = [text(3)?, text(4)?];
        Ok(Row {
            label: format!("{name}/{version}:{tag}@{system}%{uarch}"),
            sha256: text(5)?,
            date: text(6)?,
            size: text(7)?.parse().ok(),
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

/// Reads any value as text, so that a corrupt row is reported, and the others are still read.
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

/// Reads a date as the releases of uenv have written them; `None` if it is none.
///
/// A day alone, a day and a time, with or without parts of a second and the offset to UTC;
/// where there is none it is UTC.
fn parse_date(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if let Ok(date) = text.parse::<Timestamp>() {
        return Some(date);
    }
    let date: DateTime = text.parse().ok()?;
    TimeZone::UTC.to_timestamp(date).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        parse_date(text).map(|date| date.to_string())
    }

    #[test]
    fn a_date_of_any_release_is_read() {
        let dates = [
            "2024-03-11 17:08:35.976000+00:00",
            "2024-03-11T17:08:35.976Z",
            "2024-03-11 17:08:35",
            "2024-03-11",
        ];
        assert_eq!(
            dates.map(|date| read(date).unwrap_or_default()),
            [
                "2024-03-11T17:08:35.976Z",
                "2024-03-11T17:08:35.976Z",
                "2024-03-11T17:08:35Z",
                "2024-03-11T00:00:00Z"
            ]
        );
    }

    #[test]
    fn a_word_is_no_date() {
        assert_eq!(read("monday"), None);
    }
}
