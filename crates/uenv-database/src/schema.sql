-- SPDX-FileCopyrightText: The Cabane developers
-- SPDX-License-Identifier: Apache-2.0 OR MIT
--
-- The schema that uenv expects: tables, columns, keys, and triggers that remove unused rows.

BEGIN;

CREATE TABLE images (
    sha256 TEXT PRIMARY KEY CHECK (length(sha256) == 64),
    id TEXT UNIQUE CHECK (length(id) == 16),
    date TEXT NOT NULL,
    size INTEGER NOT NULL
);

CREATE TABLE uenv (
    version_id INTEGER PRIMARY KEY,
    system TEXT NOT NULL,
    uarch TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    UNIQUE (system, uarch, name, version)
);

CREATE TABLE tags (
    version_id INTEGER,
    tag TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (version_id, tag),
    FOREIGN KEY (version_id) REFERENCES uenv (version_id) ON DELETE CASCADE ON UPDATE CASCADE,
    FOREIGN KEY (sha256) REFERENCES images (sha256) ON DELETE CASCADE ON UPDATE CASCADE
);

CREATE VIEW records AS
SELECT
    uenv.system AS system, uenv.uarch AS uarch, uenv.name AS name, uenv.version AS version,
    tags.tag AS tag, images.date AS date, images.size AS size, tags.sha256 AS sha256,
    images.id AS id
FROM tags
    INNER JOIN uenv ON uenv.version_id = tags.version_id
    INNER JOIN images ON images.sha256 = tags.sha256;

CREATE TRIGGER delete_orphan_uenv AFTER DELETE ON tags FOR EACH ROW BEGIN
    DELETE FROM uenv WHERE version_id NOT IN (SELECT version_id FROM tags);
END;

CREATE TRIGGER delete_orphan_image AFTER DELETE ON tags FOR EACH ROW BEGIN
    DELETE FROM images WHERE sha256 NOT IN (SELECT sha256 FROM tags);
END;

COMMIT;
