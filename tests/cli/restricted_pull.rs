// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that only a group may read, from a registry: seen by a member and by a stranger.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use cabane_testkit::{Finished, Tree, is_root, needs, not_run};

use crate::cabane::{APP, Who};
use crate::registry::{Shared, large};

const GROUP: u32 = 61_235;
const MEMBER: (u32, u32) = (61_240, GROUP);
const STRANGER: (u32, u32) = (61_241, 61_241);

/// Types a command as another user, who uses the repository of root.
fn run_as(shared: &Shared, (user, group): (u32, u32), arguments: &[&str]) -> Finished {
    let mut command = shared.cabane.other("setpriv");
    let (user, group) = (user.to_string(), group.to_string());
    let who = ["--reuid", &user, "--regid", &user, "--groups", &group, "--"];
    let repository = repository(shared, "");
    let home = shared.cabane.world.directory(&format!("home-of-{user}"));
    command.env("HOME", home).env("CABANE_REPO", repository);
    command.args(who).arg(shared.cabane.program()).args(arguments);
    shared.cabane.finish(&mut command)
}

fn repository(shared: &Shared, path: &str) -> PathBuf {
    let world = &shared.cabane.world;
    world.path("home/.local/share/cabane/repository").join(path)
}

/// The mode and the group of each part of every image, and of every unfinished download.
fn access(shared: &Shared) -> Vec<(String, u32, u32)> {
    let mut all = Vec::new();
    for places in ["images", "tmp"] {
        let entries = fs::read_dir(repository(shared, places)).into_iter().flatten();
        for place in entries.flatten().filter(|one| one.path().is_dir()) {
            // The directory last: it is closed before anything is in it.
            for file in ["image.partial", "image", ""] {
                let Ok(found) = fs::symlink_metadata(place.path().join(file)) else {
                    continue;
                };
                let name = format!("{places}/{file}");
                all.push((name, found.mode() & 0o777, found.gid()));
            }
        }
    }
    all.sort();
    all
}

/// What an image is like that only the group may read.
fn closed() -> Vec<(String, u32, u32)> {
    vec![("images/".to_owned(), 0o750, GROUP), ("images/image".to_owned(), 0o640, GROUP)]
}

/// A registry with an image, and nothing of it in the repository of root.
fn shared() -> Option<Shared> {
    if !is_root() {
        return None;
    }
    let shared = Shared::pushed(Who::Root);
    shared.forget();
    Some(shared)
}

fn pull(shared: &Shared) -> Finished {
    let group = GROUP.to_string();
    shared.run(&["image", "pull", "app", "--group", &group])
}

/// Returns whether a label, a member and a stranger see what they should.
fn assert_for_members_only(shared: &Shared) {
    let label = |who| run_as(shared, who, &["image", "ls", "--format={label}"]).stdout;
    let hello = |who| run_as(shared, who, &["run", "app", "--", "hello"]);
    let (member, stranger) = (hello(MEMBER), hello(STRANGER));
    assert_eq!(member.stdout, "hello from app\n", "{}", member.stderr);
    assert_ne!(stranger.code, 0, "{}", stranger.stdout);
    let says = format!("only the group {GROUP} may read the image");
    assert!(stranger.stderr.contains(&says), "{}", stranger.stderr);
    assert_eq!([label(MEMBER), label(STRANGER)], [format!("{APP}\n"), format!("{APP}\n")]);
}

#[test]
fn what_is_pulled_for_a_group_is_for_its_members() {
    needs!("docker-registry");
    let Some(shared) = shared() else {
        not_run!("needs root, to have two users");
    };
    pull(&shared).success();
    assert_eq!(access(&shared), closed());
    assert_for_members_only(&shared);
}

#[test]
fn what_is_in_the_image_is_not_shown_to_others() {
    needs!("docker-registry");
    let Some(shared) = shared() else {
        not_run!("needs root, to have two users");
    };
    pull(&shared).success();
    let inspected = run_as(&shared, STRANGER, &["image", "inspect", "app"]);
    let searched = shared
        .cabane
        .other("setpriv")
        .args(["--reuid=61241", "--regid=61241", "--clear-groups", "grep", "-rl"])
        .args(["an image of the tests"])
        .arg(repository(&shared, ""))
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let reported = inspected.stdout.contains("an image of the tests");
    let member = run_as(&shared, MEMBER, &["image", "inspect", "app"]).stdout;
    assert_eq!((String::from_utf8_lossy(&searched.stdout).as_ref(), reported), ("", false));
    assert!(member.contains("an image of the tests"), "{member}");
}

#[test]
fn the_configuration_says_what_is_for_a_group() {
    needs!("docker-registry");
    let Some(shared) = shared() else {
        not_run!("needs root, to have two users");
    };
    let rules = format!(
        "url = \"{}/uenv\"\n[[restricted]]\nimages = \"other\"\ngroup = \"1\"\n\
         [[restricted]]\nimages = \"deploy::app\"\ngroup = \"{GROUP}\"",
        shared.registry.url()
    );
    shared.configure(&rules);
    // The user's own file cannot take it back.
    let own = "[[restricted]]\nimages = \"app\"\ngroup = \"2\"\n";
    shared.cabane.world.file("home/.config/cabane/config.toml", own);
    shared.run(&["image", "pull", "app"]).success();
    assert_eq!(access(&shared), closed());
}

#[test]
fn metadata_without_their_image_are_for_the_group_of_the_image() {
    needs!("docker-registry");
    let Some(shared) = shared() else {
        not_run!("needs root, to have two users");
    };
    let rule = format!("[[restricted]]\nimages = \"deploy::app\"\ngroup = \"{GROUP}\"");
    shared.configure(&format!("url = \"{}/uenv\"\n{rule}", shared.registry.url()));
    let link = shared.cabane.world.path("uenv");
    symlink(shared.cabane.program(), &link).unwrap();
    let pull = || {
        let mut command = shared.cabane.other(link.to_str().unwrap());
        shared.cabane.finish(command.args(["image", "pull", "--only-meta", "app"]))
    };
    let pulled = pull().success().stdout;
    assert!(pulled.starts_with(&format!("the metadata of {APP} are in ")), "{pulled}");
    let meta = pulled.trim_end().rsplit("[WORLD]/").next().unwrap();
    let meta = shared.cabane.world.path(meta);
    let place = meta.parent().unwrap();
    let found = fs::metadata(place).unwrap();
    assert_eq!((found.mode() & 0o777, found.gid()), (0o750, GROUP));
    assert!(meta.join("env.json").is_file());
    let again = pull().success().stdout;
    assert!(again.ends_with(" already has its metadata here\n"), "{again}");
}

#[test]
fn an_unknown_group_is_refused_before_anything_is_got() {
    needs!("docker-registry");
    let Some(shared) = shared() else {
        not_run!("needs root, to have two users");
    };
    let seen = shared.run(&["image", "pull", "app", "--group", "nobody-has-it"]);
    let says = seen.stderr.contains("there is no group `nobody-has-it`");
    assert!(seen.code == 2 && says && access(&shared).is_empty(), "{seen:?}");
}

#[test]
fn who_is_not_in_the_group_gets_nothing_for_it() {
    needs!("docker-registry");
    let Some(shared) = shared() else {
        not_run!("needs root, to have two users");
    };
    for place in ["images", "refs", "tmp"] {
        let open = Permissions::from_mode(0o777);
        fs::set_permissions(repository(&shared, place), open).unwrap();
    }
    let group = GROUP.to_string();
    let seen = run_as(&shared, STRANGER, &["image", "pull", "app", "--group", &group]);
    let says = seen.stderr.contains("cannot be closed to all but the group");
    let arrived = access(&shared).iter().any(|one| one.0.ends_with("image.partial"));
    assert!(seen.code == 6 && says && !arrived, "{seen:?}");
}

#[test]
fn an_image_that_is_here_is_closed_when_it_is_pulled_for_a_group() {
    needs!("docker-registry");
    let Some(shared) = shared() else {
        not_run!("needs root, to have two users");
    };
    shared.run(&["image", "pull", "app"]).success();
    pull(&shared).success();
    assert_eq!(access(&shared), closed());
    assert_for_members_only(&shared);
    let description = shared.run(&["image", "ls", "--format={description}"]).stdout;
    assert_eq!(description.trim(), "");
}

fn pushed_large(shared: &Shared) {
    let image = large(shared, "large", 24);
    shared.run(&["image", "push", &image, "large/1.0:v1"]).success();
}

/// A world without a registry, and a root file system in it.
fn with_tree() -> (Shared, String) {
    let shared = Shared::new(Who::Root);
    shared.forget();
    let tree = Tree::new(shared.cabane.world.path("root")).root_file_system("os", "");
    let tree = format!("dir:{}", tree.root().display());
    (shared, tree)
}

#[test]
fn what_is_imported_for_a_group_is_for_its_members() {
    needs!("docker-registry");
    if !is_root() {
        not_run!("needs root, to have two users");
    }
    let (shared, tree) = with_tree();
    let group = GROUP.to_string();
    shared.run(&["import", &tree, "os/1:v1", "--group", &group]).success();
    assert_eq!(access(&shared), closed());
    // The same for no one in particular does not open it.
    shared.run(&["import", &tree, "os/2:v1"]).success();
    assert_eq!(access(&shared), closed());
    let seen = |who| run_as(&shared, who, &["run", "os/1", "--", "cat", "/etc/image"]);
    let (member, stranger) = (seen(MEMBER), seen(STRANGER));
    assert_eq!((member.code, member.stdout.trim()), (0, "os"), "{member:?}");
    assert_ne!(stranger.code, 0, "{stranger:?}");
}

/// Starts a pull for the group, and kills it when something has arrived.
fn begin(shared: &Shared) {
    let group = GROUP.to_string();
    let arguments = ["image", "pull", "large/1.0:v1", "--group", &group];
    let mut command = shared.cabane.command(&arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = command.spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let seen = access(shared);
        let partial: Vec<_> = seen.iter().filter(|one| one.0 == "tmp/image.partial").collect();
        for (_, mode, group) in partial {
            // At first for no one, then for the group, and never for others.
            let is_closed = *mode == 0o600 || (*mode, *group) == (0o640, GROUP);
            let directory = seen.contains(&("tmp/".to_owned(), 0o750, GROUP));
            assert!(is_closed && directory, "{seen:?}");
        }
        let tmp = fs::read_dir(repository(shared, "tmp")).into_iter().flatten();
        let marks = |place: PathBuf| fs::read(place.join("image.parts")).unwrap_or_default();
        if tmp.flatten().any(|place| marks(place.path()).contains(&b'+')) {
            break;
        }
        if running.try_wait().unwrap().is_some() {
            return;
        }
        assert!(Instant::now() < end, "nothing arrives");
        sleep(Duration::from_micros(200));
    }
    running.kill().unwrap();
    running.wait().unwrap();
}

#[test]
fn what_arrives_is_closed_from_the_first_byte_and_whichever_member_resumes_it() {
    needs!("docker-registry");
    let Some(shared) = shared() else {
        not_run!("needs root, to have two users");
    };
    pushed_large(&shared);
    begin(&shared);
    // No one says again for whom it is.
    shared.run(&["image", "pull", "large/1.0:v1"]).success();
    assert_eq!(access(&shared), closed());
}

#[test]
fn ten_pulls_for_a_group_get_it_once_and_closed() {
    needs!("docker-registry");
    let Some(shared) = shared() else {
        not_run!("needs root, to have two users");
    };
    pushed_large(&shared);
    let group = GROUP.to_string();
    let arguments = ["image", "pull", "large/1.0:v1", "--group", &group];
    let pulls: Vec<_> = (0..10)
        .map(|_| {
            let mut command = shared.cabane.command(&arguments);
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let ends: Vec<_> = pulls.into_iter().map(|one| one.wait_with_output().unwrap()).collect();
    let printed = |one: &std::process::Output| String::from_utf8_lossy(&one.stderr).into_owned();
    let printed: Vec<String> =
        ends.iter().filter(|one| !one.status.success()).map(printed).collect();
    assert_eq!(printed, Vec::<String>::new());
    assert_eq!(access(&shared), closed());
}

#[test]
fn push_migrate_and_gc_leave_it_closed() {
    needs!("docker-registry");
    let Some(shared) = shared() else {
        not_run!("needs root, to have two users");
    };
    pull(&shared).success();
    shared.run(&["image", "push", "app", "app/2.0:v1"]).success();
    shared.run(&["image", "add", "app/3.0", "app/1.0"]).success();
    shared.run(&["repo", "gc", "--older-than=100d", "--spare=0s"]).success();
    assert_eq!(access(&shared), closed());
    let target = shared.cabane.world.path("home/new");
    let arguments = ["repo", "migrate", &target.to_string_lossy()];
    shared.run(&arguments).success();
    let mode = |path: &Path| fs::metadata(path).map(|one| (one.mode() & 0o777, one.gid()));
    let image = fs::read_dir(target.join("images")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(
        [mode(&image).unwrap(), mode(&image.join("image")).unwrap()],
        [(0o750, GROUP), (0o640, GROUP)]
    );
    let refs = fs::read_dir(target.join("refs")).unwrap();
    let texts = refs.map(|one| fs::read_to_string(one.unwrap().path()).unwrap());
    assert!(texts.into_iter().all(|text| !text.contains("an image of the tests")));
}
