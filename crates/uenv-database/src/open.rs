// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Opening a database that other programs may write to.
//!
//! For reading, SQLite opens it as immutable: without locks, which some cluster file systems lack, and
//! without files beside it, which read-only users cannot create. So this module does what SQLite
//! does otherwise. If the database changes during a read, it is read again. If a writer was killed,
//! SQLite recovers a copy of the database and its journal. Whether it was killed or still works, the
//! lock of a writer says: the kernel releases it at the end of the process.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use cabane_label::shown;
use cabane_report::{Kind, Report, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use rustix::process::{Flock, FlockOffsetType, FlockType, fcntl_getlk};
use tempfile::TempDir;

use crate::error::{refused, unreadable, unwritable};

/// A database, and what SQLite keeps beside it as long as a change is not complete.
const FILES: [&str; 3] = ["", "-journal", "-wal"];
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// How long a change waits for others that change the database.
const BUSY: Duration = Duration::from_secs(30);

/// The size of the header of a database, in bytes; <https://www.sqlite.org/fileformat.html> 1.3.
const HEADER: usize = 100;
/// Where the header has the version that is needed to write; 2 means that there is a write-ahead log.
const WRITE_VERSION: usize = 18;
/// Where the header has the number of changes.
const CHANGES: Range<usize> = 24..28;
/// The two bytes that a writer locks, PENDING and RESERVED; <https://www.sqlite.org/lockingv3.html>.
const WRITER: Range<u64> = 0x4000_0000..0x4000_0002;

/// Returns a text that differs after each change of a database: its file, size, time, and number of
/// changes. `None` if a change is not complete, or the database has none of these.
pub fn stamp(path: &Path) -> Option<String> {
    let before = look(path).ok().filter(|seen| !is_incomplete(seen))?;
    let mut header = [0; HEADER];
    File::open(path).ok()?.read_exact(&mut header).ok()?;
    let [inode, size, seconds, nanoseconds] = (*before.first()?)?;
    let changes = u32::from_be_bytes(header[CHANGES].try_into().ok()?);
    let text = format!("{inode:x}-{size:x}-{seconds:x}-{nanoseconds:x}-{changes:x}");
    (header[WRITE_VERSION] < 2 && look(path).ok()? == before).then_some(text)
}

/// Changes a database in one transaction, which waits for those of others.
pub(crate) fn change<T>(
    path: &Path,
    change: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<T> {
    let outcome = || {
        let mut connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE, "")?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let answer = change(&transaction)?;
        transaction.commit()?;
        Ok(answer)
    };
    outcome().map_err(unwritable(path))
}

/// Reads from a database, once more if it was changed in the meantime.
pub(crate) fn read<T>(path: &Path, query: impl Fn(&Connection) -> Result<T>) -> Result<T> {
    read_pausing(path, query, &|| sleep(PAUSE))
}

/// As [`read`]; `pause` is called before each further attempt.
fn read_pausing<T>(
    path: &Path,
    query: impl Fn(&Connection) -> Result<T>,
    pause: &dyn Fn(),
) -> Result<T> {
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            pause();
        }
        let before = look(path)?;
        // The journal of a writer that is still at work is gone in a moment.
        if is_incomplete(&before) && attempt + 1 < ATTEMPTS / 2 && has_writer(path) {
            continue;
        }
        let copy = is_incomplete(&before).then(|| copy(path)).transpose()?;
        let connection = match &copy {
            Some(copy) => {
                open(&copy.path().join("index.db"), OpenFlags::SQLITE_OPEN_READ_WRITE, "")
            }
            None => open(path, OpenFlags::SQLITE_OPEN_READ_ONLY, "?immutable=1"),
        };
        let answer = connection.map_err(unreadable(path)).and_then(|connection| query(&connection));
        if look(path)? == before {
            return answer;
        }
    }
    let message = format!("the database {} changes while it is read", shown(path));
    let hint = "try again when no image is being pulled with uenv".to_owned();
    Err(Report::new(Kind::Repository, message).hinted(hint))
}

/// What can be seen of a file from outside, if it is there.
type Seen = Option<[u64; 4]>;

/// Looks at a database and what is beside it.
fn look(path: &Path) -> Result<Vec<Seen>> {
    let seen = FILES.iter().map(|end| look_at(&beside(path, end)));
    seen.collect::<io::Result<_>>().map_err(refused("read", path))
}

fn look_at(path: &Path) -> io::Result<Seen> {
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

/// Returns whether a change is not complete. An empty file stands for none.
fn is_incomplete(seen: &[Seen]) -> bool {
    seen.iter().skip(1).flatten().any(|[_, size, _, _]| *size > 0)
}

/// Returns whether a process changes a database now. `false` if the file system does not say so.
fn has_writer(path: &Path) -> bool {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let Ok(file) = File::options().read(true).custom_flags(flags).open(path) else {
        return false;
    };
    let reader = Flock {
        start: WRITER.start,
        length: WRITER.end - WRITER.start,
        pid: None,
        typ: FlockType::ReadLock,
        offset_type: FlockOffsetType::Set,
    };
    fcntl_getlk(&file, &reader).is_ok_and(|found| found.is_some())
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

/// Copies a database and what is beside it to a place where it can be set right.
fn copy(path: &Path) -> Result<TempDir> {
    let place = tempfile::tempdir().map_err(refused("copy", path))?;
    let target = place.path().join("index.db");
    for end in FILES {
        let from = beside(path, end);
        match copy_file(&from, &beside(&target, end)) {
            Err(error) if end.is_empty() || error.kind() != io::ErrorKind::NotFound => {
                return Err(refused("copy", &from)(error));
            }
            _ => {}
        }
    }
    Ok(place)
}

/// Copies a regular file. The database may be someone else's: a named pipe is not waited for, and a
/// file with holes does not fill the disk.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    const MOST_BYTES: u64 = 1024 * 1024 * 1024;
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(from)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    if found.len() > MOST_BYTES {
        let message = format!("it has more than {MOST_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    io::copy(&mut file.take(MOST_BYTES), &mut File::create(to)?).map(drop)
}

fn open(path: &Path, how: OpenFlags, options: &str) -> rusqlite::Result<Connection> {
    let flags = how | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(address(path, options), flags)?;
    // The database may belong to another user: SQLite must not run anything that it contains.
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
    use std::cell::Cell;
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Begins to change the name in a database, says so, and waits for a line before it ends.
    const WRITER: &str = "
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute('PRAGMA synchronous = OFF')
database.execute('BEGIN IMMEDIATE')
database.execute(\"UPDATE names SET name = 'new'\")
print('begun', flush=True)
sys.stdin.readline()
database.execute('COMMIT')
";

    /// Makes a database with one name in it.
    fn database(place: &TempDir) -> PathBuf {
        let path = place.path().join("index.db");
        let tables = "CREATE TABLE names (name TEXT); INSERT INTO names VALUES ('old')";
        Connection::open(&path).unwrap().execute_batch(tables).unwrap();
        path
    }

    /// Starts a process that changes a database, and returns when it has begun.
    fn writer(path: &Path) -> Child {
        let mut command = Command::new("python3");
        command.args(["-c", WRITER]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut writer = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(writer.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "begun\n");
        writer
    }

    /// Reads the name in a database; `pause` is called before each further attempt.
    fn name(path: &Path, pause: &dyn Fn()) -> String {
        let query = |connection: &Connection| {
            let name = connection.query_row("SELECT name FROM names", [], |row| row.get(0));
            name.map_err(unreadable(path))
        };
        read_pausing(path, query, pause).unwrap()
    }

    #[test]
    fn the_journal_of_a_killed_writer_is_not_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let path = database(&place);
        let mut killed = writer(&path);
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert!(is_incomplete(&look(&path).unwrap()));
        assert_eq!(name(&path, &|| panic!("it was waited for")), "old");
    }

    #[test]
    fn a_writer_that_is_at_work_is_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let path = database(&place);
        let running = Cell::new(Some(writer(&path)));
        let end = || {
            if let Some(mut writer) = running.take() {
                drop(writer.stdin.take());
                assert!(writer.wait().unwrap().success());
            }
        };
        assert_eq!(name(&path, &end), "new");
    }

    #[test]
    fn no_letter_of_a_path_is_taken_for_an_option() {
        let address = address(Path::new("/a b?mode=rw#c/ä%41"), "?immutable=1");
        assert_eq!(address, "file:/a%20b%3fmode%3drw%23c/%c3%a4%2541?immutable=1");
    }
}
