// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! uenv and Cabane change one repository in the same moment.

use std::fs::{self, File, Permissions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cabane_testkit::{Finished, needs};
use rusqlite::Connection;

use crate::cabane::{APP, Cabane, Who, everybody};
use crate::registry::Shared;
use crate::uenv_in_place::{created, rows};
use crate::uenv_repository::{DATE, copy};

const LABEL: &str = "app/1.0:v1@here%x86_64";

fn start(cabane: &Cabane, repository: &str, arguments: &[&str]) -> Child {
    let mut command = cabane.command(&[&["--repo", repository], arguments].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(child: Child) -> Finished {
    let output = child.wait_with_output().unwrap();
    Finished {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Waits until a process has opened a file in a certain way; `2` is for reading and writing.
fn wait_for_open(child: &mut Child, file: &Path, way: u32) {
    let started = Instant::now();
    let place = format!("/proc/{}", child.id());
    let is_open = || {
        let open = fs::read_dir(format!("{place}/fd")).ok()?.flatten();
        let mut same = open.filter(|one| fs::read_link(one.path()).is_ok_and(|link| link == file));
        same.find(|one| {
            let number = one.file_name().to_string_lossy().into_owned();
            let info = fs::read_to_string(format!("{place}/fdinfo/{number}")).unwrap_or_default();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
            flags.is_some_and(|flags| flags & 3 == way)
        })
    };
    while is_open().is_none() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before");
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "it does not open {}",
            file.display()
        );
        sleep(Duration::from_millis(2));
    }
}

/// Gives a label to an image as uenv does, in a transaction that has begun.
fn set_label_as_uenv(database: &Connection, digest: &str) {
    let rows = format!(
        "INSERT OR IGNORE INTO images VALUES ('{digest}', '{}', '{DATE}', 4096);
         INSERT OR IGNORE INTO uenv (system, uarch, name, version)
             VALUES ('here', 'x86_64', 'app', '1.0');
         INSERT INTO tags SELECT version_id, 'v1', '{digest}' FROM uenv WHERE name = 'app'
             ON CONFLICT (version_id, tag) DO UPDATE SET sha256 = excluded.sha256;
         COMMIT;",
        &digest[..16]
    );
    database.execute_batch(&rows).unwrap();
}

fn digest_of(repository: &str, label: &str) -> String {
    rows(repository).into_iter().find(|(one, _)| one == label).unwrap().1
}

#[test]
fn a_label_that_uenv_sets_at_the_same_moment_is_not_overwritten_unseen() {
    for (force, before) in [(false, false), (true, false), (true, true)] {
        let cabane = Cabane::new(everybody()[0]);
        let repository = created(&cabane);
        let mount_point = cabane.mount_point("app");
        let [first, new, third] =
            ["first", "new", "third"].map(|name| cabane.image(name, &mount_point));
        let ours = |arguments: &[&str]| cabane.run(&[&["--repo", &repository], arguments].concat());
        ours(&["image", "add", "third/1.0:v1@here%x86_64", &third]).success();
        if before {
            ours(&["image", "add", LABEL, &first]).success();
        }
        let third = digest_of(&repository, "third/1.0:v1@here%x86_64");
        // Cabane sees the label as it was, and waits for uenv when it changes the database.
        let path = PathBuf::from(format!("{repository}/index.db"));
        let database = Connection::open(&path).unwrap();
        database.execute_batch("BEGIN IMMEDIATE").unwrap();
        let arguments =
            [&["image", "add", LABEL, &new][..], if force { &["--force"] } else { &[] }];
        let mut adding = start(&cabane, &repository, &arguments.concat());
        wait_for_open(&mut adding, &path, 2);
        set_label_as_uenv(&database, &third);
        let added = end(adding);
        let now = digest_of(&repository, LABEL);
        let says = if force {
            format!("the label was taken from the image {}", &third[..16])
        } else {
            format!("the label `{LABEL}` belongs to the image {}", &third[..16])
        };
        assert!(added.stderr.contains(&says), "{force} {before}: {}", added.stderr);
        assert_eq!((added.code == 0, now != third), (force, force), "{}", added.stderr);
    }
}

/// A download of uenv: the lock, the metadata, and a part of the image are there.
struct Download {
    repository: String,
    digest: String,
    bytes: Vec<u8>,
    lock: File,
    file: File,
}

impl Download {
    fn lock_path(repository: &str, digest: &str) -> PathBuf {
        PathBuf::from(format!("{repository}/images/{digest}.lock"))
    }

    /// Begins to download a copy of an image file.
    fn begin(repository: &str, image: &Path, digest: &str, meta: Option<&Path>) -> Self {
        fs::create_dir_all(format!("{repository}/images")).unwrap();
        let lock = File::create(Self::lock_path(repository, digest)).unwrap();
        lock.lock().unwrap();
        let place = PathBuf::from(format!("{repository}/images/{digest}"));
        fs::create_dir(&place).unwrap();
        if let Some(meta) = meta {
            copy(meta, &place.join("meta"));
        }
        let bytes = fs::read(image).unwrap();
        let mut file = File::create(place.join("store.squashfs")).unwrap();
        file.write_all(&bytes[..bytes.len() / 2]).unwrap();
        let (repository, digest) = (repository.to_owned(), digest.to_owned());
        Self { repository, digest, bytes, lock, file }
    }

    /// Writes the rest, and returns the inode of the file.
    fn finish(mut self) -> u64 {
        self.file.write_all(&self.bytes[self.bytes.len() / 2..]).unwrap();
        let database = Connection::open(format!("{}/index.db", self.repository)).unwrap();
        database.execute_batch("BEGIN").unwrap();
        set_label_as_uenv(&database, &self.digest);
        self.lock.unlock().unwrap();
        self.file.metadata().unwrap().ino()
    }
}

fn sum(cabane: &Cabane, path: &str) -> String {
    let sum = cabane.world.command("sha256sum").arg(path).output().unwrap();
    String::from_utf8(sum.stdout).unwrap()[..64].to_owned()
}

fn inode(repository: &str, digest: &str) -> u64 {
    fs::metadata(format!("{repository}/images/{digest}/store.squashfs")).unwrap().ino()
}

#[test]
fn an_image_that_uenv_downloads_is_not_downloaded_again() {
    needs!("docker-registry");
    for has_meta in [true, false] {
        let shared = Shared::pushed(everybody()[0]);
        shared.forget();
        let cabane = &shared.cabane;
        let repository = created(cabane);
        let image = cabane.world.path("app.squashfs");
        let digest = sum(cabane, image.to_str().unwrap());
        let meta = cabane.world.path("trees/app/meta");
        let download =
            Download::begin(&repository, &image, &digest, has_meta.then_some(meta.as_path()));
        let mut pulling = start(cabane, &repository, &["image", "pull", APP]);
        let mut said = String::new();
        let mut reader = BufReader::new(pulling.stderr.take().unwrap());
        while !said.contains("waiting for another pull") {
            assert_ne!(reader.read_line(&mut said).unwrap(), 0, "{said}");
        }
        let written = download.finish();
        reader.read_to_string(&mut said).unwrap();
        let code = pulling.wait().unwrap().code();
        let hello = cabane.run(&["--repo", &repository, "run", "app", "--", "hello"]).success();
        assert_eq!(
            (code, inode(&repository, &digest), rows(&repository), hello.stdout.as_str()),
            (Some(0), written, vec![(APP.to_owned(), digest)], "hello from app\n"),
            "{said}"
        );
    }
}

#[test]
fn an_image_that_uenv_downloads_is_not_replaced_by_a_file() {
    let cabane = Cabane::new(everybody()[0]);
    let repository = created(&cabane);
    let image = cabane.image("app", &cabane.mount_point("app"));
    let digest = sum(&cabane, &image);
    let meta = cabane.world.path("trees/app/meta");
    let download = Download::begin(&repository, Path::new(&image), &digest, Some(&meta));
    let other = "other/1.0:v1@here%x86_64";
    let mut adding = start(&cabane, &repository, &["image", "add", other, &image]);
    wait_for_open(&mut adding, &Download::lock_path(&repository, &digest), 2);
    let written = download.finish();
    end(adding).success();
    let both = [LABEL, other].map(|label| (label.to_owned(), digest.clone()));
    assert_eq!((inode(&repository, &digest), rows(&repository)), (written, both.to_vec()));
    cabane.run(&["--repo", &repository, "image", "verify", "app"]).success();
}

#[test]
fn a_download_of_uenv_that_was_killed_is_replaced() {
    let cabane = Cabane::new(everybody()[0]);
    let repository = created(&cabane);
    let image = cabane.image("app", &cabane.mount_point("app"));
    let digest = sum(&cabane, &image);
    drop(Download::begin(&repository, Path::new(&image), &digest, None));
    cabane.run(&["--repo", &repository, "image", "add", LABEL, &image]).success();
    let status = cabane.run(&["repo", "status", "--verify", &repository]);
    assert_eq!(status.code, 0, "{}", status.stdout);
    let hello = cabane.run(&["--repo", &repository, "run", "app", "--", "hello"]).success();
    assert_eq!(hello.stdout, "hello from app\n");
}

#[test]
fn an_image_that_uenv_is_about_to_label_is_not_removed() {
    let cabane = Cabane::new(everybody()[0]);
    let repository = created(&cabane);
    let image = cabane.image("app", &cabane.mount_point("app"));
    let other = "other/1.0:v1@here%x86_64";
    cabane.run(&["--repo", &repository, "image", "add", other, &image]).success();
    let digest = digest_of(&repository, other);
    // uenv finds the image, downloads nothing, and has not yet given it a label.
    let lock = File::create(Download::lock_path(&repository, &digest)).unwrap();
    lock.lock().unwrap();
    cabane.run(&["--repo", &repository, "image", "rm", "other"]).success();
    let database = Connection::open(format!("{repository}/index.db")).unwrap();
    database.execute_batch("BEGIN").unwrap();
    set_label_as_uenv(&database, &digest);
    lock.unlock().unwrap();
    let hello = cabane.run(&["--repo", &repository, "run", "app", "--", "hello"]).success();
    assert_eq!(hello.stdout, "hello from app\n");
    // Without the lock it goes with its last label.
    cabane.run(&["--repo", &repository, "image", "rm", "app"]).success();
    assert!(!Path::new(&format!("{repository}/images/{digest}")).exists());
}

#[test]
fn an_image_that_is_closed_to_others_keeps_its_labels() {
    const GROUP: u32 = 61_235;
    if everybody()[0] != Who::Root {
        cabane_testkit::not_run!("root");
    }
    needs!("docker-registry");
    let shared = Shared::pushed(Who::Root);
    let cabane = &shared.cabane;
    let repository = created(cabane);
    let image = cabane.world.path("app.squashfs");
    let (other, image) = ("other/1.0:v1@here%x86_64", image.to_str().unwrap());
    cabane.run(&["--repo", &repository, "image", "add", other, image]).success();
    // Only the group sees the repository anyway.
    chown(&repository, None, Some(GROUP)).unwrap();
    fs::set_permissions(&repository, Permissions::from_mode(0o750)).unwrap();
    let group = GROUP.to_string();
    cabane.run(&["--repo", &repository, "image", "pull", "--group", &group, APP]).success();
    let labels: Vec<_> = rows(&repository).into_iter().map(|(label, _)| label).collect();
    assert_eq!(labels, [APP, other]);
}

#[test]
fn an_empty_database_comes_with_a_way_out() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let repository = cabane.world.directory("own").join("uenv");
    fs::create_dir(&repository).unwrap();
    File::create(repository.join("index.db")).unwrap();
    let repository = repository.to_string_lossy().into_owned();
    if everybody()[0] == Who::Root {
        cabane_testkit::Finished::of(cabane.world.command("chmod").args([
            "-R",
            "a+rwX",
            &repository,
        ]))
        .success();
    }
    let listed = cabane.run(&["--repo", &repository, "image", "ls"]);
    let says = "the database [WORLD]/own/uenv/index.db is an empty file";
    let hint = "hint: `rm [WORLD]/own/uenv/index.db`, then `cabane repo create --uenv [WORLD]/own/uenv` \
                makes a database without labels";
    assert!(listed.stderr.contains(says) && listed.stderr.contains(hint), "{}", listed.stderr);
    assert_eq!(listed.code, 6);
    fs::remove_file(format!("{repository}/index.db")).unwrap();
    cabane.run(&["repo", "create", "--uenv", &repository]).success();
    cabane.run(&["--repo", &repository, "image", "ls"]).success();
}
