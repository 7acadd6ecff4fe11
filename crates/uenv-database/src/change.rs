// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Making a database, and giving and removing labels.
//!
//! The triggers with which uenv removes what no label needs are not run: a database may belong to
//! someone else. What they do is done here.

use std::fs;
use std::io;
use std::path::Path;
use std::process;

use cabane_label::{Digest, ImageId, Label, shown};
use cabane_report::{Kind, Report, Result};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rusqlite::{Connection, OptionalExtension as _};

use crate::error::{refused, unwritable};
use crate::open::change;
use crate::rows::refuse_old;

/// The tables, the view, and the triggers of uenv since release 6.
const SCHEMA: &str = include_str!("schema.sql");

/// Makes an empty database at a path.
///
/// # Errors
///
/// There is a file already, or nothing can be written there.
pub fn create(path: &Path) -> Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".new-{}", process::id()));
    let new = Path::new(&new);
    // It gets its name when it is complete.
    let made = fill(new).map_err(unwritable(path)).and_then(|()| {
        fs::hard_link(new, path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                let message = format!("{} exists already", shown(path));
                Report::new(Kind::Repository, message)
            }
            _ => refused("create", path)(error),
        })
    });
    let _ = fs::remove_file(new);
    made
}

fn fill(path: &Path) -> rusqlite::Result<()> {
    Connection::open(path)?.execute_batch(SCHEMA)
}

/// An image that is given a label.
#[derive(Clone, Copy, Debug)]
pub struct NewLabel<'a> {
    /// The label.
    pub label: &'a Label,
    /// The image that has the label now; `None` if no image has it.
    pub before: Option<&'a Digest>,
    /// The image that gets the label.
    pub digest: &'a Digest,
    /// Its size in bytes.
    pub size: u64,
    /// The date of the image. It is not changed if the database has the image.
    pub date: Timestamp,
}

/// Gives a label to an image, and takes it from the image that has it. Returns `false`, and changes
/// nothing, if another image has the label than the caller expects: another process was faster.
///
/// # Errors
///
/// The database cannot be changed, or is one of a release that kept systems with images.
pub fn set_label(path: &Path, new: &NewLabel<'_>) -> Result<bool> {
    let NewLabel { label, before, digest, size, date } = *new;
    refuse_old(path)?;
    let date = date.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S").to_string();
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    change(path, |database| {
        let version = version_of(database, label)?;
        let has = version.map(|version| image_of(database, version, label)).transpose()?.flatten();
        // A row without a digest is corrupt, and is replaced.
        if has.and_then(|text| text.parse().ok()).as_ref() != before {
            return Ok(false);
        }
        database.execute(
            "INSERT OR IGNORE INTO images (sha256, id, date, size) VALUES (?1, ?2, ?3, ?4)",
            (digest.as_str(), digest.id().as_str(), &date, size),
        )?;
        let version = if let Some(version) = version {
            version
        } else {
            database.execute(
                "INSERT INTO uenv (system, uarch, name, version) VALUES (?1, ?2, ?3, ?4)",
                parts(label),
            )?;
            database.last_insert_rowid()
        };
        database.execute(
            "INSERT INTO tags (version_id, tag, sha256) VALUES (?1, ?2, ?3)
             ON CONFLICT (version_id, tag) DO UPDATE SET sha256 = excluded.sha256",
            (version, label.tag.as_str(), digest.as_str()),
        )?;
        Ok(true)
    })
}

/// Removes a label if it belongs to this image, and the rows that nothing needs then. Returns
/// whether it was there.
///
/// # Errors
///
/// As those of [`set_label`].
pub fn remove_label(path: &Path, label: &Label, image: &ImageId) -> Result<bool> {
    refuse_old(path)?;
    change(path, |database| {
        let Some(version) = version_of(database, label)? else {
            return Ok(false);
        };
        let removed = database.execute(
            "DELETE FROM tags WHERE version_id = ?1 AND tag = ?2 AND substr(sha256, 1, 16) = ?3",
            (version, label.tag.as_str(), image.as_str()),
        )?;
        database.execute(
            "DELETE FROM uenv WHERE version_id = ?1
             AND NOT EXISTS (SELECT 1 FROM tags WHERE version_id = ?1)",
            [version],
        )?;
        forget_in(database, image)?;
        Ok(removed > 0)
    })
}

/// Removes the row of an image that no label has.
///
/// # Errors
///
/// As those of [`set_label`].
pub fn forget(path: &Path, image: &ImageId) -> Result<()> {
    refuse_old(path)?;
    change(path, |database| forget_in(database, image))
}

fn forget_in(database: &Connection, image: &ImageId) -> rusqlite::Result<()> {
    database.execute(
        "DELETE FROM images WHERE id = ?1
         AND NOT EXISTS (SELECT 1 FROM tags WHERE tags.sha256 = images.sha256)",
        [image.as_str()],
    )?;
    Ok(())
}

/// Returns the `version_id` of the name, version, system, and uarch of a label.
fn version_of(database: &Connection, label: &Label) -> rusqlite::Result<Option<i64>> {
    let query = "SELECT version_id FROM uenv
                 WHERE system = ?1 AND uarch = ?2 AND name = ?3 AND version = ?4";
    database.query_row(query, parts(label), |row| row.get(0)).optional()
}

/// Returns the digest of the image that has a label.
fn image_of(
    database: &Connection,
    version: i64,
    label: &Label,
) -> rusqlite::Result<Option<String>> {
    let query = "SELECT CAST(sha256 AS TEXT) FROM tags WHERE version_id = ?1 AND tag = ?2";
    database.query_row(query, (version, label.tag.as_str()), |row| row.get(0)).optional()
}

fn parts(label: &Label) -> [&str; 4] {
    [label.system.as_str(), label.uarch.as_str(), label.name.as_str(), label.version.as_str()]
}
