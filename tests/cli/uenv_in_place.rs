// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Repositories of uenv, used where they are, by both tools.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use cabane_testkit::belongs_to;
use rusqlite::Connection;
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody};
use crate::uenv_repository::{DATE, Uenv};

const LABEL: &str = "--format={label}";

/// Makes an empty repository of uenv that belongs to the user, and returns its path.
pub(crate) fn created(cabane: &Cabane) -> String {
    let path = cabane.world.directory("own").join("uenv").to_string_lossy().into_owned();
    cabane.run(&["repo", "create", "--uenv", &path]).success();
    path
}

/// Returns the labels in the database and the digests of their images.
pub(crate) fn rows(repository: &str) -> Vec<(String, String)> {
    let database = Connection::open(format!("{repository}/index.db")).unwrap();
    let mut query = database
        .prepare(
            "SELECT name || '/' || version || ':' || tag || '@' || system || '%' || uarch, sha256
             FROM records WHERE id = substr(sha256, 1, 16) AND size > 0 ORDER BY 1",
        )
        .unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

fn labels_of(repository: &str) -> Vec<String> {
    rows(repository).into_iter().map(|(label, _)| label).collect()
}

fn listed(cabane: &Cabane, repository: &str) -> Vec<String> {
    let listed = cabane.run(&["--repo", repository, "image", "ls", "@*", LABEL]).success();
    listed.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn its_images_are_listed_and_run() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let uenv = Uenv::new(&cabane);
        uenv.add("app");
        uenv.add("tool");
        let hello = cabane.run(&["--repo", &uenv.arg(), "run", "tool", "--", "hello"]);
        assert_eq!(hello.success().stdout, "hello from tool\n", "as {who:?}");
        let labels = ["app/1.0:v1@here%x86_64", "tool/1.0:v1@here%x86_64"];
        assert_eq!(listed(&cabane, &uenv.arg()), labels, "as {who:?}");
    }
}

#[test]
fn one_that_may_only_be_read_is_not_changed() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let uenv = Uenv::new(&cabane);
    uenv.add("app");
    uenv.allow(0o555, 0o444);
    let hello = cabane.run(&["--repo", &uenv.arg(), "run", "app", "--", "hello"]).success();
    let refused = cabane.run(&["--repo", &uenv.arg(), "image", "rm", "app"]);
    uenv.allow(0o755, 0o644);
    let mut names: Vec<_> =
        fs::read_dir(&uenv.path).unwrap().map(|one| one.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(
        (hello.stdout.as_str(), refused.code, names),
        ("hello from app\n", 6, ["images", "index.db"].map(Into::into).to_vec()),
        "{}",
        refused.stderr
    );
}

#[test]
fn what_uenv_changes_is_seen_at_once() {
    let cabane = Cabane::new(everybody()[0]);
    let uenv = Uenv::new(&cabane);
    let digest = uenv.add("app");
    let before = listed(&cabane, &uenv.arg());
    let kept = || fs::read_dir(uenv.path.join(".cabane")).unwrap().count();
    // The records are kept if this user may write there.
    let is_kept = uenv.path.join(".cabane").exists();
    uenv.row(&digest, "app", "v2");
    let added = listed(&cabane, &uenv.arg());
    uenv.database.execute("DELETE FROM tags WHERE tag = 'v1'", []).unwrap();
    let removed = listed(&cabane, &uenv.arg());
    fs::remove_dir_all(uenv.directory(&digest)).unwrap();
    let gone = listed(&cabane, &uenv.arg());
    let [v1, v2] = ["v1", "v2"].map(|tag| format!("app/1.0:{tag}@here%x86_64"));
    assert_eq!(
        (before, added, removed, gone),
        (vec![v1.clone()], vec![v1, v2.clone()], vec![v2], Vec::new())
    );
    // One file of records and the directory of temporary names.
    assert!(is_kept && kept() == 2, "{is_kept} {}", kept());
}

#[test]
fn labels_that_are_given_and_removed_are_in_the_database() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let repository = created(&cabane);
        let run = |arguments: &[&str]| cabane.run(&[&["--repo", &repository], arguments].concat());
        let mount_point = cabane.mount_point("app");
        let [app, tool] = ["app", "tool"].map(|name| cabane.image(name, &mount_point));
        run(&["image", "add", "app/1.0:v1@here%x86_64", &app]).success();
        run(&["image", "add", "app/1.0:v2@here%x86_64", "app/1.0:v1"]).success();
        let taken = run(&["image", "add", "app/1.0:v1@here%x86_64", &tool]);
        let first = rows(&repository);
        run(&["image", "add", "--force", "app/1.0:v1@here%x86_64", &tool]).success();
        let second = rows(&repository);
        run(&["image", "rm", "app/1.0:v1"]).success();
        let third = rows(&repository);
        let digests = [&first[0].1, &second[0].1];
        let is_there = |digest: &str| {
            let place = PathBuf::from(&repository).join("images").join(digest);
            place.join("store.squashfs").is_file() && place.join("meta/env.json").is_file()
        };
        let hello = run(&["run", "app", "--", "hello"]).success();
        assert_eq!(
            (
                taken.code,
                first[1].1 == first[0].1,
                digests[0] == digests[1],
                third,
                hello.stdout.as_str()
            ),
            (1, true, false, vec![second[1].clone()], "hello from app\n"),
            "as {who:?}: {}",
            taken.stderr
        );
        assert_eq!((is_there(digests[0]), is_there(digests[1])), (true, false), "as {who:?}");
        let status = run(&["repo", "status", &repository]);
        assert_eq!(status.code, 0, "as {who:?}: {}", status.stdout);
    }
}

#[test]
fn what_is_damaged_is_named() {
    let cabane = Cabane::new(everybody()[0]);
    let uenv = Uenv::new(&cabane);
    let digest = uenv.add("app");
    uenv.allow(0o755, 0o644);
    let status = || cabane.run(&["repo", "status", "--json", &uenv.arg()]);
    let whole = status();
    uenv.row(&digest, "not a name", "v1");
    uenv.image("unnamed");
    let damaged: Value = serde_json::from_str(&status().stdout).unwrap();
    let kinds: Vec<&str> = damaged[0]["damaged"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        (whole.code, damaged[0]["kind"].as_str(), kinds),
        (0, Some("uenv"), vec!["no-label", "bad-label"]),
        "{}",
        whole.stdout
    );
}

#[test]
fn the_one_of_an_old_release_is_read_and_not_changed() {
    let cabane = Cabane::new(everybody()[0]);
    let uenv = Uenv::old_with_app(&cabane, DATE, "v1", "here");
    let hello = cabane.run(&["--repo", &uenv.arg(), "run", "app", "--", "hello"]).success();
    let refused = cabane.run(&["--repo", &uenv.arg(), "image", "rm", "app"]);
    let says = refused.stderr.contains(" of uenv before 6")
        && refused.stderr.contains("`cabane repo import [WORLD]/uenv`");
    let unnamed = uenv.image("unnamed");
    let kept = cabane.run(&["--repo", &uenv.arg(), "image", "rm", &unnamed]);
    assert_eq!(
        (hello.stdout.as_str(), refused.code, says, kept.code, uenv.file(&unnamed).exists()),
        ("hello from app\n", 6, true, 6, true),
        "{refused:?} {kept:?}"
    );
}

#[test]
fn it_is_found_by_itself_and_searched_after_the_own_repository() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let scratch = cabane.world.directory("scratch");
    let uenv = Uenv::new(&cabane);
    uenv.add("tool");
    fs::rename(&uenv.path, scratch.join(".uenv-images")).unwrap();
    let other = Uenv::new(&cabane);
    other.add("other");
    let seen = |variable: &str, path: &PathBuf| {
        let mut command = cabane.command(&["image", "ls", "@*", "--format={label} {repository}"]);
        cabane.finish(command.env(variable, path)).stdout
    };
    let (data, label) = (cabane.world.path("home/.local/share"), "1.0:v1@here%x86_64");
    let mut command = cabane.command(&["image", "ls", "@*", LABEL]);
    command.env("SCRATCH", &scratch).env("CABANE_REPO", data.join("cabane/repository"));
    let alone = cabane.finish(&mut command).stdout;
    let mut writes = cabane.command(&["image", "add", &format!("new/{label}"), "app"]);
    cabane.finish(writes.env("UENV_REPO_PATH", &other.path)).success();
    let both = seen("UENV_REPO_PATH", &other.path);
    assert_eq!(
        (seen("SCRATCH", &scratch), alone, both),
        (
            format!("tool/{label} uenv\n"),
            format!("app/{label}\n"),
            format!("app/{label} default\nnew/{label} default\nother/{label} uenv\n")
        )
    );
}

/// Adds a label as uenv does, which gives up at once if another process changes the database.
fn add_as_uenv(repository: &str, digest: &str, tag: &str) -> rusqlite::Result<()> {
    let database = Connection::open(format!("{repository}/index.db"))?;
    database.busy_timeout(Duration::ZERO)?;
    database.execute_batch(&format!(
        "PRAGMA foreign_keys = ON;
         BEGIN;
         INSERT OR IGNORE INTO images VALUES ('{digest}', '{}', '{DATE}', 4096);
         INSERT OR IGNORE INTO uenv (system, uarch, name, version)
             VALUES ('here', 'x86_64', 'app', '1.0');
         INSERT INTO tags SELECT version_id, '{tag}', '{digest}' FROM uenv
             WHERE name = 'app' AND version = '1.0';
         COMMIT;",
        &digest[..16]
    ))
}

#[test]
fn a_hundred_writers_of_both_tools_lose_nothing() {
    const EACH: usize = 50;
    let cabane = Cabane::new(everybody()[0]);
    let repository = created(&cabane);
    let image = cabane.image("app", &cabane.mount_point("app"));
    cabane
        .run(&["--repo", &repository, "image", "add", "app/1.0:v0@here%x86_64", &image])
        .success();
    let digest = rows(&repository)[0].1.clone();
    let add = |number: usize| {
        let label = format!("app/1.0:cabane{number}@here%x86_64");
        let mut command =
            cabane.command(&["--repo", &repository, "image", "add", &label, "app/1.0:v0"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..EACH {
                // A user types the command again.
                while add_as_uenv(&repository, &digest, &format!("uenv{number}")).is_err() {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        let writers: Vec<Child> = (0..EACH).map(add).collect();
        for writer in writers {
            let output = writer.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    });
    let mut labels = labels_of(&repository);
    let mut seen = listed(&cabane, &repository);
    labels.sort();
    seen.sort();
    assert_eq!((labels.len(), seen), (2 * EACH + 1, labels));
}

#[test]
fn a_writer_that_is_killed_leaves_what_was_there() {
    let cabane = Cabane::new(everybody()[0]);
    let repository = created(&cabane);
    let mount_point = cabane.mount_point("app");
    let [app, tool] = ["app", "tool"].map(|name| cabane.image(name, &mount_point));
    let [old, new] = ["old/1.0:v1@here%x86_64", "new/1.0:v1@here%x86_64"];
    cabane.run(&["--repo", &repository, "image", "add", old, &app]).success();
    for delay in 0..30 {
        let mut command = cabane.command(&["--repo", &repository, "image", "add", new, &tool]);
        let mut writer = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(delay));
        let _ = writer.kill();
        writer.wait().unwrap();
        let labels = labels_of(&repository);
        assert!(labels == [old] || labels == [new, old], "after {delay} ms: {labels:?}");
        assert_eq!(listed(&cabane, &repository), labels, "after {delay} ms");
        if labels.len() == 2 {
            cabane.run(&["--repo", &repository, "image", "rm", new]).success();
        }
    }
    cabane.run(&["repo", "update", &repository]).success();
    let status = cabane.run(&["repo", "status", "--verify", &repository]);
    // The lock of an image stays, as with uenv.
    let names = fs::read_dir(format!("{repository}/images")).unwrap().flatten();
    let images = names.filter(|one| one.path().is_dir()).count();
    assert_eq!((status.code, images), (0, 1), "{}", status.stdout);
}

/// With `CABANE_TEST_UENV`, which names the program of uenv. `make test-uenv` runs it.
#[test]
fn uenv_itself_reads_and_changes_the_same_repository() {
    const EACH: usize = 25;
    let Some(program) = env::var_os("CABANE_TEST_UENV") else {
        belongs_to!("CABANE_TEST_UENV=PROGRAM make test-uenv")
    };
    let cabane = Cabane::new(everybody()[0]);
    let repository = created(&cabane);
    let mount_point = cabane.mount_point("app");
    let [app, tool] = ["app", "tool"].map(|name| cabane.image(name, &mount_point));
    let uenv = |arguments: &[&str]| {
        let mut command = cabane.other(program.to_str().unwrap());
        command.env("CLUSTER_NAME", "here").arg(format!("--repo={repository}")).args(arguments);
        cabane.finish(&mut command)
    };
    let ours = |arguments: &[&str]| cabane.run(&[&["--repo", &repository], arguments].concat());
    ours(&["image", "add", "app/1.0:v1@here%x86_64", &app]).success();
    uenv(&["image", "add", "tool/1.0:v1@here%x86_64", &tool]).success();
    let inspected = uenv(&["image", "inspect", "--format={name} {sqfs}", "app"]).success();
    let digest = &rows(&repository)[0].1;
    let hello = ours(&["run", "tool", "--", "hello"]).success();
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..EACH {
                let label = format!("tool/1.0:uenv{number}@here%x86_64");
                // It gives up at once if another process changes the database.
                while uenv(&["image", "add", &label, "tool/1.0:v1"]).code != 0 {
                    thread::sleep(Duration::from_millis(10));
                }
            }
        });
        for number in 0..EACH {
            let label = format!("app/1.0:ours{number}@here%x86_64");
            ours(&["image", "add", &label, "app/1.0:v1"]).success();
        }
    });
    let both = (labels_of(&repository).len(), listed(&cabane, &repository).len());
    uenv(&["image", "rm", digest]).success();
    let left = listed(&cabane, &repository).len();
    assert_eq!(
        (inspected.stdout.trim_end(), hello.stdout.as_str(), both, left),
        (
            format!("app {}/images/{digest}/store.squashfs", cabane.world.blank(&repository))
                .as_str(),
            "hello from tool\n",
            (2 * EACH + 2, 2 * EACH + 2),
            EACH + 1
        )
    );
}
