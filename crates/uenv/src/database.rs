// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Opening a database that others may write to, without touching it.
//!
//! It is opened as one that never changes: no locks, which file systems of clusters have in
//! part only, and no files beside it, which could not be made where one may only read. What
//! SQLite would otherwise see to is then left to us: a database that changes meanwhile is read
//! again, and where a writer was killed, the database and its journal are copied, so that the
//! copy can be set right.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::Error;

/// What SQLite keeps beside a database as long as a change is not complete.
const COMPANIONS: [&str; 2] = ["-journal", "-wal"];
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// Reads from a database, once more if it was changed in the meantime.
pub(crate) fn read<T>(
    path: &Path,
    ask: impl Fn(&Connection) -> Result<T, Error>,
) -> Result<T, Error> {
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            sleep(PAUSE);
        }
        let before = Look::at(path)?;
        // A journal may be that of a writer who is still at work; it is then gone in a moment.
        if before.has_companion() && attempt + 1 < ATTEMPTS / 2 {
            continue;
        }
        let answer = if before.has_companion() {
            let copy = copy(path)?;
            open(&copy.path().join("index.db"), OpenFlags::SQLITE_OPEN_READ_WRITE, "")
                .map_err(failed(path))
                .and_then(|connection| ask(&connection))
        } else {
            open(path, OpenFlags::SQLITE_OPEN_READ_ONLY, "?immutable=1")
                .map_err(failed(path))
                .and_then(|connection| ask(&connection))
        };
        if Look::at(path)? == before {
            return answer;
        }
    }
    Err(Error::Changing { path: path.to_owned() })
}

/// Returns a function that says of which database an answer of SQLite is.
pub(crate) fn failed(path: &Path) -> impl Fn(rusqlite::Error) -> Error + '_ {
    |source| Error::Database { path: path.to_owned(), source }
}

/// What can be seen of a database from outside.
#[derive(PartialEq, Eq)]
struct Look {
    files: [Option<[u64; 4]>; 3],
}

impl Look {
    fn at(path: &Path) -> Result<Self, Error> {
        let [journal, wal] = COMPANIONS.map(|end| companion(path, end));
        let [one, two, three] = [path, &journal, &wal].map(look);
        let all = || Ok([one?, two?, three?]);
        let files = all().map_err(Error::io("read", path))?;
        Ok(Self { files })
    }

    /// Returns whether a change is not complete. An empty file stands for none.
    fn has_companion(&self) -> bool {
        let [_, companions @ ..] = &self.files;
        companions.iter().flatten().any(|[_, size, _, _]| *size > 0)
    }
}

fn look(path: &Path) -> io::Result<Option<[u64; 4]>> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some([
            found.ino(),
            found.len(),
            found.mtime().cast_unsigned(),
            found.mtime_nsec().cast_unsigned(),
        ])),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn companion(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

/// Copies a database and what is beside it to a place where it can be set right.
fn copy(path: &Path) -> Result<TempDir, Error> {
    let place = tempfile::tempdir().map_err(Error::io("copy", path))?;
    let target = place.path().join("index.db");
    fs::copy(path, &target).map_err(Error::io("copy", path))?;
    for end in COMPANIONS {
        let (from, to) = (companion(path, end), companion(&target, end));
        match fs::copy(&from, &to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("copy", &from)(error));
            }
            _ => {}
        }
    }
    Ok(place)
}

fn open(path: &Path, how: OpenFlags, options: &str) -> Result<Connection, rusqlite::Error> {
    let flags = how | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(address(path, options), flags)?;
    // The database may be someone else's: nothing in it shall do anything.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(connection)
}

/// Writes a path as an address: `file:` and whatever could mean something else as `%xx`.
fn address(path: &Path, options: &str) -> String {
    let mut address = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                address.push(char::from(*byte));
            }
            _ => {
                let _ = write!(address, "%{byte:02x}");
            }
        }
    }
    address + options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_letter_of_a_path_is_taken_for_an_option() {
        let address = address(Path::new("/a b?mode=rw#c/ä%41"), "?immutable=1");
        assert_eq!(address, "file:/a%20b%3fmode%3drw%23c/%c3%a4%2541?immutable=1");
    }
}
