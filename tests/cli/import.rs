// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane repo import`: repositories of uenv, made with the tables that it makes.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody};
use crate::uenv_repository::{Uenv, copy};

fn labels(cabane: &Cabane) -> String {
    cabane.run(&["image", "ls", "@*", "--format={label}"]).stdout
}

fn own(cabane: &Cabane, path: &str) -> PathBuf {
    let repository = cabane.world.path("home/.local/share/cabane/repository");
    repository.join(path)
}

#[test]
fn every_image_is_there_with_its_labels_date_and_metadata() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let uenv = Uenv::new(&cabane);
        let digest = uenv.add("app");
        uenv.row(&digest, "app", "latest");
        uenv.add("tool");
        uenv.import(&[]).success();
        let format = "--format={label} {date} {description}";
        let seen = cabane.run(&["image", "ls", format]).stdout;
        let lines: Vec<&str> = seen.lines().collect();
        let hello = cabane.run(&["run", "tool", "--", "hello"]).stdout;
        assert_eq!(hello, "hello from tool\n", "as {who:?}");
        let expected = ["app/1.0:latest", "app/1.0:v1", "tool/1.0:v1"]
            .map(|label| format!("{label}@here%x86_64 2024-03-11T17:08:35Z an image of the tests"));
        assert_eq!(lines, expected, "as {who:?}");
    }
}

#[test]
fn a_repository_of_an_older_release_is_read_as_well() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let uenv = Uenv::old_with_app(&cabane, "monday", "default", "daint");
    uenv.import(&[]).success();
    assert_eq!(labels(&cabane), "app/1.0:default@daint%x86_64\n");
}

#[test]
fn what_is_damaged_is_named_and_the_rest_is_imported() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let uenv = Uenv::new(&cabane);
    uenv.add("whole");
    let changed = uenv.add("changed");
    let mut bytes = fs::read(uenv.file(&changed)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(uenv.file(&changed), bytes).unwrap();
    fs::remove_file(uenv.file(&uenv.add("missing"))).unwrap();
    let unnamed = uenv.image("unnamed");
    let empty = "e".repeat(64);
    let bad = uenv.image("bad");
    uenv.row(&bad, "no good", "v1");
    let row = format!("INSERT INTO images VALUES ('{empty}', '{}', '', 1)", &empty[..16]);
    uenv.database.execute_batch(&row).unwrap();
    let broken = uenv.add("broken");
    fs::write(uenv.directory(&broken).join("meta/env.json"), "{").unwrap();
    let seen = uenv.import(&[]);
    let id = |digest: &str| digest[..16].to_owned();
    let named = [
        format!("{} (`changed/1.0:v1@here%x86_64`) has changed", id(&changed)),
        "of the label `missing/1.0:v1@here%x86_64` has no file".to_owned(),
        format!("the image {unnamed} has no label"),
        format!("an image `{empty}` without label and file"),
        "a label `no good/1.0:v1@here%x86_64` that cannot be kept".to_owned(),
        format!("{} (`broken/1.0:v1@here%x86_64`): the metadata", id(&broken)),
    ];
    let unsaid: Vec<_> = named.iter().filter(|one| !seen.stderr.contains(*one)).collect();
    assert_eq!(unsaid, Vec::<&String>::new(), "{}", seen.stderr);
    let lines = seen.stderr.matches("warning").count();
    assert_eq!(
        (seen.code, lines, labels(&cabane).as_str()),
        (6, named.len(), "whole/1.0:v1@here%x86_64\n"),
        "{}",
        seen.stderr
    );
}

/// Everything that can be seen of a directory, but when it was read.
fn everything(directory: &Path) -> BTreeMap<PathBuf, (u32, u64, i64, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut places = vec![directory.to_owned()];
    while let Some(path) = places.pop() {
        let seen = fs::symlink_metadata(&path).unwrap();
        let content = fs::read(&path).unwrap_or_default();
        if seen.is_dir() {
            places.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let facts = (seen.mode(), seen.nlink(), seen.mtime(), seen.mtime_nsec(), content);
        found.insert(path, facts);
    }
    found
}

#[test]
fn the_repository_of_uenv_is_only_read() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let uenv = Uenv::new(&cabane);
        let digest = uenv.add("app");
        for closed in [&uenv.path, &uenv.path.join("images"), &uenv.directory(&digest)] {
            fs::set_permissions(closed, Permissions::from_mode(0o555)).unwrap();
        }
        let before = everything(&uenv.path);
        uenv.import(&[]).success();
        assert!(everything(&uenv.path) == before, "as {who:?}");
    }
}

#[test]
fn a_second_import_copies_nothing() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let uenv = Uenv::new(&cabane);
    let digest = uenv.add("app");
    uenv.import(&[]).success();
    uenv.row(&digest, "app", "v2");
    let seen = uenv.import(&[]).success();
    let reported = "images copied: 0 (0 B), labels given: 1, labels that were there: 1";
    assert!(seen.stderr.contains(reported), "{}", seen.stderr);
}

#[test]
fn only_what_matches_is_imported() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let uenv = Uenv::new(&cabane);
    uenv.add("app");
    uenv.add("tool");
    uenv.image("unnamed");
    uenv.import(&["tool"]).success();
    assert_eq!(labels(&cabane), "tool/1.0:v1@here%x86_64\n");
}

#[test]
fn a_dry_run_shows_what_would_be_copied_and_makes_nothing() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let uenv = Uenv::new(&cabane);
    let digest = uenv.add("app");
    let seen = uenv.import(&["--dry-run", "--json"]).success();
    let plan: Value = serde_json::from_str(&seen.stdout).unwrap();
    let one = &plan["labels"][0];
    assert_eq!(
        (one["digest"].as_str(), one["fate"].as_str(), own(&cabane, "").exists()),
        (Some(digest.as_str()), Some("copied"), false),
        "{plan}"
    );
}

#[test]
fn json_lists_what_was_imported_and_what_was_left_out() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let uenv = Uenv::new(&cabane);
    let digest = uenv.add("app");
    let unnamed = uenv.image("unnamed");
    let seen = uenv.import(&["--json"]);
    let answer: Value = serde_json::from_str(&seen.stdout).unwrap();
    let damaged = &answer["damaged"][0];
    assert_eq!(
        [&answer["images"][0], &damaged["kind"], &damaged["digest"]],
        [digest.as_str(), "no-label", unnamed.as_str()]
    );
}

#[test]
fn a_label_of_another_image_is_kept_unless_it_is_taken() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let other = cabane.image("other", &cabane.mount_point("other"));
    cabane.run(&["image", "add", "app/1.0", &other]).success();
    let uenv = Uenv::new(&cabane);
    uenv.add("app");
    let hello = || cabane.run(&["run", "app", "--", "hello"]).stdout;
    let kept = uenv.import(&[]).success();
    let before = hello();
    uenv.import(&["--force"]).success();
    assert!(kept.stderr.contains("kept the label"), "{}", kept.stderr);
    assert_eq!([before, hello()], ["hello from other\n", "hello from app\n"]);
}

#[test]
fn an_image_without_metadata_beside_it_has_those_in_it() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let uenv = Uenv::new(&cabane);
    let digest = uenv.add("app");
    fs::remove_dir_all(uenv.directory(&digest).join("meta")).unwrap();
    uenv.import(&[]).success();
    let seen = cabane.run(&["image", "ls", "--format={description}"]);
    assert_eq!(seen.stdout, "an image of the tests\n");
}

#[test]
fn files_are_shared_only_on_request() {
    for (arguments, is_shared) in [(&[][..], false), (&["--link"][..], true)] {
        let cabane = Cabane::new(Who::Root);
        let uenv = Uenv::new(&cabane);
        let digest = uenv.add("app");
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        uenv.import(arguments).success();
        let ours = own(&cabane, &format!("images/{digest}/image"));
        let (one, two) = (inode(&uenv.file(&digest)), inode(&ours));
        // Or the file system shares blocks between files.
        let links = fs::metadata(&ours).unwrap().nlink();
        assert!(if is_shared { one == two || links == 1 } else { one != two });
    }
}

#[test]
fn an_image_for_a_group_stays_so_with_the_file_or_its_directory_closed() {
    if !cabane_testkit::is_root() {
        cabane_testkit::not_run!("needs root, to give files to groups");
    }
    for link in [&[][..], &["--link"][..]] {
        let cabane = Cabane::new(Who::Root);
        let uenv = Uenv::new(&cabane);
        let [by_file, by_directory] = ["one", "two"].map(|name| uenv.add(name));
        let close = |path: &Path, mode: u32| {
            std::os::unix::fs::chown(path, None, Some(61_235)).unwrap();
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        close(&uenv.file(&by_file), 0o640);
        close(&uenv.directory(&by_directory), 0o750);
        let before = everything(&uenv.path);
        uenv.import(link).success();
        let facts = [by_file, by_directory].map(|digest| {
            let place = own(&cabane, &format!("images/{digest}"));
            let [place, image] = [place.clone(), place.join("image")];
            [place, image].map(|one| {
                let found = fs::metadata(one).unwrap();
                (found.mode() & 0o777, found.gid())
            })
        });
        assert_eq!(facts, [[(0o750, 61_235), (0o640, 61_235)]; 2], "{link:?}");
        let modes = |all: BTreeMap<PathBuf, (u32, u64, i64, i64, Vec<u8>)>| {
            all.into_iter().map(|(path, facts)| (path, facts.0)).collect::<Vec<_>>()
        };
        assert_eq!(modes(everything(&uenv.path)), modes(before), "{link:?}");
    }
}

#[test]
fn what_a_killed_writer_of_uenv_has_not_completed_is_not_believed() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let uenv = Uenv::new(&cabane);
    let digest = uenv.add("app");
    // As it is when the change is in the database, and the journal not yet away.
    let begin = "PRAGMA synchronous = OFF; BEGIN IMMEDIATE; UPDATE uenv SET name = 'wrong';";
    uenv.database.execute_batch(begin).unwrap();
    let killed = cabane.world.directory("killed");
    let [database, journal] = ["index.db", "index.db-journal"];
    copy(&uenv.path.join(journal), &killed.join(journal));
    uenv.database.execute_batch("COMMIT").unwrap();
    copy(&uenv.path.join(database), &killed.join(database));
    copy(&uenv.path.join("images"), &killed.join("images"));
    // Without the journal the change is taken for complete.
    let address = format!("file:{}/index.db?immutable=1", killed.display());
    let changed = Connection::open(address).unwrap();
    let changed = changed.query_row("SELECT count(*) FROM uenv WHERE name = 'wrong'", [], |row| {
        row.get::<_, i64>(0)
    });
    assert_eq!(changed.unwrap(), 1);
    let before = everything(&killed);
    let seen = cabane.run(&["repo", "import", &killed.to_string_lossy()]);
    assert_eq!(labels(&cabane), "app/1.0:v1@here%x86_64\n", "{digest}: {}", seen.stderr);
    assert!(everything(&killed) == before);
}

#[test]
fn a_file_that_is_no_database_of_uenv_says_so() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let uenv = Uenv::with_tables(&cabane, "CREATE TABLE other (a TEXT)");
    let other = uenv.import(&[]);
    fs::write(uenv.path.join("index.db"), vec![b'x'; 5000]).unwrap();
    let damaged = uenv.import(&[]);
    let says =
        [other.stderr.contains("has no table `images`"), damaged.stderr.contains("cannot be read")];
    assert_eq!((other.code, damaged.code, says), (6, 6, [true; 2]), "{other:?} {damaged:?}");
}

#[test]
fn killed_in_the_middle_it_goes_on_where_it_was() {
    const IMAGES: usize = 6;
    let cabane = Cabane::new(Who::OrdinaryUser);
    let uenv = Uenv::new(&cabane);
    for number in 0..IMAGES {
        // Something to copy for a while.
        let tree = cabane.world.path(&format!("trees/app{number}"));
        fs::create_dir_all(&tree).unwrap();
        let mut random = fs::File::open("/dev/urandom").unwrap();
        let mut file = fs::File::create(tree.join("large")).unwrap();
        std::io::copy(&mut std::io::Read::take(&mut random, 5_000_000), &mut file).unwrap();
        uenv.add(&format!("app{number}"));
    }
    let path = uenv.arg();
    let arguments = ["repo", "import", &path];
    let refs = own(&cabane, "refs");
    let count = || fs::read_dir(&refs).map_or(0, Iterator::count);
    let mut kills = 0;
    for wanted in 1..IMAGES {
        let mut command = cabane.command(&arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = command.spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while count() < wanted && running.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "nothing is copied");
            sleep(Duration::from_millis(1));
        }
        kills += usize::from(running.try_wait().unwrap().is_none());
        running.kill().unwrap();
        running.wait().unwrap();
    }
    let before = count();
    let last = uenv.import(&[]).success();
    let reported = last.stderr.contains(&format!("labels that were there: {before}"));
    let status = cabane.run(&["repo", "status", "--verify"]);
    let seen = (reported, labels(&cabane).lines().count(), status.code);
    assert!(kills > 0 && seen == (true, IMAGES, 0), "{kills} kills, {seen:?}: {}", last.stderr);
}
