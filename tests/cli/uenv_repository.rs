// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Repositories as uenv makes them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_testkit::Finished;
use rusqlite::Connection;

use crate::cabane::Cabane;

/// The tables of releases 6 to 9.
pub(crate) const TABLES: &str = "
    CREATE TABLE images (sha256 TEXT PRIMARY KEY CHECK(length(sha256)==64),
        id TEXT UNIQUE CHECK(length(id)==16), date TEXT NOT NULL, size INTEGER NOT NULL);
    CREATE TABLE uenv (version_id INTEGER PRIMARY KEY, system TEXT NOT NULL, uarch TEXT NOT NULL,
        name TEXT NOT NULL, version TEXT NOT NULL, UNIQUE (system, uarch, name, version));
    CREATE TABLE tags (version_id INTEGER, tag TEXT NOT NULL, sha256 TEXT NOT NULL,
        PRIMARY KEY (version_id, tag),
        FOREIGN KEY (version_id) REFERENCES uenv (version_id) ON DELETE CASCADE ON UPDATE CASCADE,
        FOREIGN KEY (sha256) REFERENCES images (sha256) ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE VIEW records AS SELECT uenv.system AS system, uenv.uarch AS uarch, uenv.name AS name,
        uenv.version AS version, tags.tag AS tag, images.date AS date, images.size AS size,
        tags.sha256 AS sha256, images.id AS id FROM tags
        INNER JOIN uenv ON uenv.version_id = tags.version_id
        INNER JOIN images ON images.sha256 = tags.sha256;";

/// Those of the releases before: system and microarchitecture belong to the image.
const OLD_TABLES: &str = "
    CREATE TABLE images (sha256 TEXT PRIMARY KEY CHECK(length(sha256)==64),
        id TEXT UNIQUE CHECK(length(id)==16), date TEXT NOT NULL, size INTEGER NOT NULL,
        uarch TEXT NOT NULL, system TEXT NOT NULL);
    CREATE TABLE uenv (version_id INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL,
        UNIQUE (name, version));
    CREATE TABLE tags (version_id INTEGER, tag TEXT NOT NULL, sha256 TEXT NOT NULL,
        PRIMARY KEY (version_id, tag),
        FOREIGN KEY (version_id) REFERENCES uenv (version_id) ON DELETE CASCADE ON UPDATE CASCADE,
        FOREIGN KEY (sha256) REFERENCES images (sha256) ON DELETE CASCADE ON UPDATE CASCADE);";

pub(crate) const DATE: &str = "2024-03-11 17:08:35.976000+00:00";

/// A repository of uenv in a world.
pub(crate) struct Uenv<'a> {
    pub(crate) cabane: &'a Cabane,
    pub(crate) path: PathBuf,
    pub(crate) database: Connection,
}

impl<'a> Uenv<'a> {
    pub(crate) fn with_tables(cabane: &'a Cabane, tables: &str) -> Self {
        let path = cabane.world.directory("uenv");
        fs::create_dir(path.join("images")).unwrap();
        let database = Connection::open(path.join("index.db")).unwrap();
        database.execute_batch(tables).unwrap();
        Self { cabane, path, database }
    }

    /// One of the older releases with the image `app`, from a date, under a tag for a system.
    pub(crate) fn old_with_app(cabane: &'a Cabane, date: &str, tag: &str, system: &str) -> Self {
        let uenv = Self::with_tables(cabane, OLD_TABLES);
        let digest = uenv.image("app");
        let rows = format!(
            "INSERT INTO images VALUES ('{digest}', '{}', '{date}', 4096, 'x86_64', '{system}');
             INSERT INTO uenv VALUES (1, 'app', '1.0');
             INSERT INTO tags VALUES (1, '{tag}', '{digest}');",
            &digest[..16]
        );
        uenv.database.execute_batch(&rows).unwrap();
        uenv
    }

    pub(crate) fn new(cabane: &'a Cabane) -> Self {
        Self::with_tables(cabane, TABLES)
    }

    /// Sets the modes of its directory and of its database.
    pub(crate) fn allow(&self, directory: u32, database: u32) {
        fs::set_permissions(self.path.join("index.db"), Permissions::from_mode(database)).unwrap();
        fs::set_permissions(&self.path, Permissions::from_mode(directory)).unwrap();
    }

    pub(crate) fn arg(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Puts an image there that says who it is, with its metadata, and returns its digest.
    pub(crate) fn image(&self, name: &str) -> String {
        let image = self.cabane.image(name, &self.cabane.mount_point("app"));
        let sum = self.cabane.world.command("sha256sum").arg(&image).output().unwrap();
        let digest = String::from_utf8(sum.stdout).unwrap()[..64].to_owned();
        let place = self.directory(&digest);
        fs::create_dir(&place).unwrap();
        fs::rename(&image, place.join("store.squashfs")).unwrap();
        let tree = self.cabane.world.path(&format!("trees/{name}/meta"));
        copy(&tree, &place.join("meta"));
        digest
    }

    pub(crate) fn directory(&self, digest: &str) -> PathBuf {
        self.path.join("images").join(digest)
    }

    pub(crate) fn file(&self, digest: &str) -> PathBuf {
        self.directory(digest).join("store.squashfs")
    }

    /// Writes a row for an image and one for its label `name/1.0:tag@here%x86_64`.
    pub(crate) fn row(&self, digest: &str, name: &str, tag: &str) {
        let values = [digest, &digest[..16], DATE, name, tag];
        for statement in [
            "INSERT OR IGNORE INTO images VALUES (?1, ?2, ?3, 4096)",
            "INSERT OR IGNORE INTO uenv (system, uarch, name, version)
             VALUES ('here', 'x86_64', ?4, '1.0')",
            "INSERT INTO tags SELECT version_id, ?5, ?1 FROM uenv WHERE name = ?4",
        ] {
            let mut statement = self.database.prepare(statement).unwrap();
            for (index, value) in (1..=statement.parameter_count()).zip(values) {
                statement.raw_bind_parameter(index, value).unwrap();
            }
            statement.raw_execute().unwrap();
        }
    }

    pub(crate) fn add(&self, name: &str) -> String {
        let digest = self.image(name);
        self.row(&digest, name, "v1");
        digest
    }

    pub(crate) fn import(&self, arguments: &[&str]) -> Finished {
        let path = self.arg();
        let all = [&["repo", "import", path.as_str()], arguments].concat();
        self.cabane.run(&all)
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(copied.unwrap().success());
}
