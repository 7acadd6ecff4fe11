// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Repositories of uenv, and the two programs that are called `uenv`.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::{Connection, params};

use crate::bed::Bed;
use crate::images::Format;
use crate::listing::{fill, tiny_image};
use crate::measure::{NotMeasured, finish};
use crate::peers;

/// One repository in both layouts: Cabane's own and that of uenv.
pub(crate) struct Repositories {
    pub(crate) own: PathBuf,
    pub(crate) of_uenv: PathBuf,
}

impl Repositories {
    /// Makes both with so many images.
    pub(crate) fn make(bed: &Bed, records: usize) -> Result<Self, NotMeasured> {
        let own = fill(bed, bed.path(&format!("own-{records}")), records)?;
        let of_uenv = create(bed, &format!("uenv-{records}"))?;
        let format = ["image", "ls", "--format={name} {version} {tag} {system} {uarch} {digest}"];
        let listed = finish(bed.cabane(&own)?.args(format))?;
        let lines = String::from_utf8_lossy(&listed);
        write_rows(&of_uenv, &lines).map_err(|error| format!("cannot fill a database: {error}"))?;
        let image = tiny_image(bed)?;
        let meta = bed.path("tiny/meta/env.json");
        for digest in lines.lines().filter_map(|line| line.split(' ').next_back()) {
            let place = of_uenv.join("images").join(digest);
            fs::create_dir_all(place.join("meta"))
                .and_then(|()| fs::hard_link(&image, place.join("store.squashfs")))
                .and_then(|()| fs::hard_link(&meta, place.join("meta/env.json")))
                .map_err(|error| format!("cannot fill a repository: {error}"))?;
        }
        Ok(Self { own, of_uenv })
    }
}

/// Makes an empty repository of uenv.
fn create(bed: &Bed, name: &str) -> Result<PathBuf, NotMeasured> {
    let path = bed.path(name);
    let cabane = bed.cabane.as_ref().map_err(Clone::clone)?;
    finish(bed.command(cabane).args(["repo", "create", "--uenv"]).arg(&path))?;
    Ok(path)
}

fn write_rows(repository: &Path, lines: &str) -> rusqlite::Result<()> {
    let mut database = Connection::open(repository.join("index.db"))?;
    let all = database.transaction()?;
    for (number, line) in lines.lines().enumerate() {
        let parts: Vec<&str> = line.split(' ').collect();
        let [name, version, tag, system, uarch, digest] = parts.as_slice() else { continue };
        let id = digest.get(..16).unwrap_or(digest);
        all.execute(
            "INSERT INTO images VALUES (?1, ?2, '2024-03-11 17:08:35.976000+00:00', 4096)",
            params![digest, id],
        )?;
        let row = i64::try_from(number).unwrap_or_default();
        all.execute(
            "INSERT INTO uenv VALUES (?1, ?2, ?3, ?4, ?5)",
            params![row, system, uarch, name, version],
        )?;
        all.execute("INSERT INTO tags VALUES (?1, ?2, ?3)", params![row, tag, digest])?;
    }
    all.commit()
}

/// Makes a repository of uenv with the image that is started.
pub(crate) fn to_start(bed: &Bed) -> Result<PathBuf, NotMeasured> {
    let path = create(bed, "uenv-start")?;
    let image = bed.images()?.file(Format::Squashfs)?;
    finish(bed.cabane(&path)?.args(["image", "add", &Format::Squashfs.label()]).arg(image))?;
    Ok(path)
}

/// Prepares uenv itself, with its own squashfs-mount before all others.
pub(crate) fn real(bed: &Bed, repository: &Path) -> Result<Command, NotMeasured> {
    with_repository(bed, &peers::UENV.find()?, repository)
}

/// Prepares Cabane under the name `uenv`.
pub(crate) fn ours(bed: &Bed, repository: &Path) -> Result<Command, NotMeasured> {
    let link = bed.path("names").join("uenv");
    if fs::symlink_metadata(&link).is_err() {
        let cabane = bed.cabane.as_ref().map_err(Clone::clone)?;
        let made = fs::create_dir_all(bed.path("names")).and_then(|()| symlink(cabane, &link));
        made.map_err(|error| format!("cannot make a link: {error}"))?;
    }
    with_repository(bed, &link, repository)
}

fn with_repository(bed: &Bed, program: &Path, repository: &Path) -> Result<Command, NotMeasured> {
    let mut command = bed.command(program);
    let mount = bed.world.squashfs_mount.as_ref().map_err(Clone::clone)?;
    let before = mount.parent().map(Path::to_owned).into_iter();
    let system = ["/usr/bin", "/bin"].map(PathBuf::from);
    let path = env::join_paths(before.chain(system)).map_err(|error| error.to_string())?;
    command.env("PATH", path).arg(format!("--repo={}", repository.display()));
    Ok(command)
}
