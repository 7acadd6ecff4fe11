// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane repo deduplicate`: versions of a stack keep once what they share, from adding to removing.

use std::fs::{self, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Instant;

use cabane_testkit::{Finished, Tree, erofs, is_root, needs, noise, not_run, squashfs};
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody};
use crate::registry::Shared;

const REPOSITORY: &str = "home/.local/share/cabane/repository";
/// The files of a version, of 40 kB each; one of them differs.
const FILES: u32 = 60;

/// Packs a version of a stack, and returns the image.
fn version(cabane: &Cabane, number: u32, format: &str) -> String {
    let mount_point = cabane.mount_point("stack");
    let root = cabane.world.path(&format!("trees/stack-{number}"));
    let tree = Tree::new(&root)
        .program("bin/hello", &format!("echo hello from {number}"))
        .meta("stack", &mount_point);
    for file in 0..FILES {
        let is_other = file == number;
        let seed = u64::from(file) + if is_other { 1000 + u64::from(number) } else { 1 };
        fs::write(root.join(format!("file-{file:02}")), noise(seed, 40_000)).unwrap();
    }
    let image = cabane.world.path(&format!("stack-{number}.{format}"));
    let _ = fs::remove_file(&image);
    if format == "erofs" {
        erofs(tree.root(), &image);
    } else {
        squashfs(tree.root(), &image);
    }
    image.to_string_lossy().into_owned()
}

fn label(number: u32) -> String {
    format!("stack/{number}.0:v1@here%x86_64")
}

/// Adds versions from 1 on.
fn with_versions(who: Who, count: u32, format: &str) -> Cabane {
    let cabane = Cabane::new(who);
    for number in 1..=count {
        add(&cabane, number, format).success();
    }
    cabane
}

fn add(cabane: &Cabane, number: u32, format: &str) -> Finished {
    cabane.run(&["image", "add", &label(number), &version(cabane, number, format)])
}

fn deduplicate(cabane: &Cabane) -> Finished {
    cabane.run(&["repo", "deduplicate", "--older-than=0s"])
}

fn status(cabane: &Cabane) -> Value {
    let status = cabane.run(&["repo", "status", "--verify", "--json"]).stdout;
    let status: Value = serde_json::from_str(&status).unwrap();
    status[0].clone()
}

fn starts(cabane: &Cabane, number: u32) {
    let label = label(number);
    let said = cabane.run(&["run", &label, "--", "hello"]).success().stdout;
    assert_eq!(said, format!("hello from {number}\n"));
}

/// The image directory of a version.
fn place(cabane: &Cabane, number: u32) -> PathBuf {
    let id = cabane.run(&["image", "ls", "--format={digest}", &label(number)]).success().stdout;
    cabane.world.path(REPOSITORY).join("images").join(id.trim())
}

fn packs(cabane: &Cabane) -> Vec<PathBuf> {
    let packs = fs::read_dir(cabane.world.path(REPOSITORY).join("packs"));
    packs.map_or_else(|_| Vec::new(), |all| all.map(|one| one.unwrap().path()).collect())
}

/// Makes another byte of the middle of a file.
fn damage(path: &Path) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let (mut byte, at) = ([0], file.metadata().unwrap().len() / 2);
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
}

#[test]
fn versions_that_share_most_take_little_more_than_one() {
    // The metadata in an EROFS image are read by the kernel, for root, or by erofsfuse.
    let erofs = [(Who::Root, "erofs")].into_iter().filter(|_| is_root());
    for (who, format) in everybody().into_iter().map(|who| (who, "squashfs")).chain(erofs) {
        let cabane = with_versions(who, 5, format);
        let before = status(&cabane);
        let said = deduplicate(&cabane).success().stderr;
        let after = status(&cabane);
        let number = |status: &Value, key: &str| status[key].as_u64().unwrap();
        assert!(said.contains("images deduplicated: 4"), "{said}");
        assert_eq!(number(&after, "deduplicated"), 4);
        assert_eq!(number(&after, "bytes"), number(&before, "bytes"));
        assert_eq!(after["damaged"], Value::Array(Vec::new()));
        let one = number(&before, "bytes") / 5;
        assert!(number(&after, "stored") < one * 16 / 10, "{format}: {after}, one has {one}");
    }
}

#[test]
fn a_deduplicated_image_is_listed_and_starts_as_before() {
    for who in everybody() {
        let cabane = with_versions(who, 3, "squashfs");
        let file = place(&cabane, 2).join("image");
        let (content, modified) = (fs::read(&file).unwrap(), fs::metadata(&file).unwrap().mtime());
        deduplicate(&cabane).success();
        assert!(!file.exists());
        let listed = cabane.run(&["image", "ls"]).success().stdout;
        let stored = |number: u32| {
            let line = listed.lines().find(|line| line.contains(&format!("stack/{number}.0")));
            line.unwrap().contains("deduplicated")
        };
        assert_eq!([1, 2, 3].map(stored), [false, true, true], "{listed}");
        let json = cabane.run(&["image", "ls", "--json", &label(2)]).success().stdout;
        assert!(json.contains("\"deduplicated\": true"), "{json}");
        starts(&cabane, 2);
        assert!(fs::read(&file).unwrap() == content);
        assert_eq!(fs::metadata(&file).unwrap().mtime(), modified);
        assert!(!place(&cabane, 3).join("image").exists());
        starts(&cabane, 2);
        starts(&cabane, 1);
        // Its parts are still there, so that nothing is written again.
        let said = deduplicate(&cabane).success().stderr;
        assert!(said.contains("0 B of"), "{said}");
        assert!(!file.exists());
    }
}

#[test]
fn what_was_used_a_short_while_ago_and_what_is_in_use_stay_files() {
    let cabane = with_versions(Who::OrdinaryUser, 2, "squashfs");
    let said = cabane.run(&["repo", "deduplicate"]).success().stderr;
    assert!(said.contains("images deduplicated: 0"), "{said}");
    let label = label(2);
    let mut command = cabane.command(&["run", &label, "--", "sh", "-c", "echo in; read x; hello"]);
    let mut running = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 3];
    std::io::Read::read_exact(running.stdout.as_mut().unwrap(), &mut line).unwrap();
    let said = deduplicate(&cabane).success().stderr;
    assert!(said.contains("in use on this host") && said.contains("deduplicated: 0"), "{said}");
    drop(running.stdin.take());
    running.wait().unwrap();
    let said = deduplicate(&cabane).success().stderr;
    assert!(said.contains("deduplicated: 1"), "{said}");
}

#[test]
fn images_that_not_everyone_may_read_stay_files() {
    for who in everybody() {
        let cabane = with_versions(who, 3, "squashfs");
        let close = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let (closed, open) = (place(&cabane, 2), place(&cabane, 3));
        close(&closed.join("image"), 0o640);
        close(&closed, 0o750);
        deduplicate(&cabane).success();
        assert!(closed.join("image").exists() && !open.join("image").exists());
        starts(&cabane, 2);
    }
}

#[test]
fn gc_deduplicates_if_the_configuration_says_so_and_removes_packs_that_no_image_needs() {
    for who in everybody() {
        let cabane = with_versions(who, 3, "squashfs");
        let path = cabane.world.path(REPOSITORY);
        let path = path.display();
        let config = format!(
            "[[repositories]]\nname = \"mine\"\npath = \"{path}\"\n[repositories.retention]\ndeduplicate = \"0s\"\n"
        );
        fs::write(cabane.world.path("site.toml"), config).unwrap();
        let path = path.to_string();
        let said = cabane.run(&["repo", "gc", &path]).success().stderr;
        assert!(said.contains("images deduplicated: 2"), "{said}");
        let remove = |number: u32| {
            cabane.run(&["image", "rm", &label(number)]).success();
            cabane.run(&["repo", "gc", &path]).success();
            packs(&cabane).len()
        };
        // When the base goes, what the others need of it stays.
        assert_eq!((packs(&cabane).len(), remove(3), remove(1)), (3, 2, 2));
        starts(&cabane, 2);
        remove(2);
        assert_eq!(packs(&cabane), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_damaged_pack_is_one_clear_error_and_a_pull_repairs_the_image() {
    needs!("docker-registry");
    for who in everybody() {
        let shared = Shared::new(who);
        for number in 1..=3 {
            let image = version(&shared.cabane, number, "squashfs");
            shared.run(&["image", "push", &image, &label(number)]).success();
            shared.run(&["image", "pull", &label(number)]).success();
        }
        deduplicate(&shared.cabane).success();
        let base = place(&shared.cabane, 1);
        let base =
            shared.cabane.world.path(REPOSITORY).join("packs").join(base.file_name().unwrap());
        damage(&base.join("pack"));
        let failed = shared.run(&["run", &label(2), "--", "hello"]);
        let pull = format!("hint: `cabane image pull {}`", label(2));
        assert!(
            failed.code != 0
                && failed.stderr.contains("is damaged: its sha256 is")
                && failed.stderr.contains(&pull),
            "{failed:?}"
        );
        assert!(!place(&shared.cabane, 2).join("image").exists());
        let report = shared.run(&["repo", "status", "--verify"]);
        assert!(report.code == 6 && report.stdout.contains("is damaged"), "{report:?}");
        // The base is the same file, and damaged, too: it is removed and pulled again.
        shared.run(&["image", "rm", &label(1)]).success();
        for number in 1..=3 {
            shared.run(&["image", "pull", &label(number)]).success();
            starts(&shared.cabane, number);
        }
        assert_eq!(status(&shared.cabane)["damaged"], Value::Array(Vec::new()));
        // The damaged pack serves no one any more.
        shared.run(&["repo", "update"]).success();
        assert_eq!(packs(&shared.cabane).iter().filter(|one| **one == base).count(), 1);
        deduplicate(&shared.cabane).success();
        assert_eq!(status(&shared.cabane)["damaged"], Value::Array(Vec::new()));
        starts(&shared.cabane, 3);
    }
}

#[test]
fn a_neighbor_of_a_deduplicated_image_is_downloaded_without_what_they_share() {
    needs!("docker-registry");
    let shared = Shared::new(Who::OrdinaryUser);
    for number in 1..=3 {
        let tree = version(&shared.cabane, number, "squashfs");
        // Smaller images are downloaded whole.
        shared.run(&["image", "push", &padded(&tree), &label(number)]).success();
    }
    for number in 1..=2 {
        shared.run(&["image", "pull", &label(number)]).success();
    }
    deduplicate(&shared.cabane).success();
    let base = place(&shared.cabane, 1).join("image");
    let said = shared.run(&["image", "pull", &label(3)]).success().stderr;
    assert!(said.contains("were in other images of that name"), "{said}");
    assert!(base.exists() && !place(&shared.cabane, 2).join("image").exists());
    starts(&shared.cabane, 3);
}

/// Appends so much to an image that chunks of it are worth comparing.
fn padded(image: &str) -> String {
    let mut bytes = fs::read(image).unwrap();
    bytes.extend(noise(7, 17 << 20));
    fs::write(image, bytes).unwrap();
    image.to_owned()
}

#[test]
fn users_who_may_not_write_assemble_in_their_caches() {
    if !is_root() {
        not_run!("another user is needed");
    }
    let cabane = with_versions(Who::Root, 2, "squashfs");
    let site = cabane.world.path(REPOSITORY);
    let config = format!("[[repositories]]\nname = \"site\"\npath = \"{}\"\n", site.display());
    deduplicate(&cabane).success();
    fs::write(cabane.world.path("site.toml"), config).unwrap();
    for directory in ["home", "home/.local", "home/.local/share", "home/.local/share/cabane"] {
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(cabane.world.path(directory), mode).unwrap();
    }
    let home = cabane.world.directory("home-of-user");
    let file = place(&cabane, 2).join("image");
    let cabane = cabane.for_ordinary_user();
    let run = |number: u32| {
        let label = label(number);
        let mut command = cabane.command(&["run", &label, "--", "hello"]);
        command.env("HOME", &home).env("CABANE_CACHE_DIR", home.join("cache"));
        cabane.finish(&mut command).success().stdout
    };
    assert_eq!(run(2), "hello from 2\n");
    assert!(!file.exists());
    let assembled = home.join("cache/assembled/images");
    let names = || fs::read_dir(&assembled).unwrap().count();
    assert_eq!((run(2), run(1), names()), ("hello from 2\n".into(), "hello from 1\n".into(), 1));
}

#[test]
fn hostile_lists_of_parts_are_errors_and_write_nothing_elsewhere() {
    let cabane = with_versions(Who::OrdinaryUser, 2, "squashfs");
    deduplicate(&cabane).success();
    let directory = place(&cabane, 2);
    let (parts, good) =
        (directory.join("parts"), fs::read_to_string(directory.join("parts")).unwrap());
    let size = good.split(' ').nth(2).unwrap();
    let base = good.lines().nth(1).unwrap();
    let huge = good.replacen(size, "18446744073709551615", 1);
    let beyond =
        format!("cabane-parts 1 {size} squashfs 1.000000000\n{base}\n0 99999999999 {size}\n");
    let no_pack = format!(
        "cabane-parts 1 {size} squashfs 1.000000000\npack {}\n0 0 {size}\n",
        "0".repeat(64)
    );
    let other = format!("cabane-parts 1 {size} squashfs 1.000000000\n{base}\n0 0 {size}\n");
    for text in [&huge, &beyond, &no_pack, &other, "", "../../x", "cabane-parts 2 1 squashfs 1.1\n"]
    {
        fs::write(&parts, text).unwrap();
        let failed = cabane.run(&["run", &label(2), "--", "hello"]);
        assert!(
            failed.code != 0 && failed.stderr.contains("cannot be assembled"),
            "{text}: {failed:?}"
        );
        assert!(failed.stderr.contains("hint: `cabane image pull"), "{failed:?}");
        assert!(!directory.join("image").exists());
    }
    // What a link leads to is read, and found not to be the image.
    fs::write(&parts, &good).unwrap();
    let pack = cabane.world.path(REPOSITORY).join("packs").join(&base[5..]).join("pack");
    fs::rename(&pack, pack.with_extension("away")).unwrap();
    symlink("/dev/zero", &pack).unwrap();
    let failed = cabane.run(&["run", &label(2), "--", "hello"]);
    assert!(failed.code != 0 && failed.stderr.contains("cannot be assembled"), "{failed:?}");
    fs::remove_file(&pack).unwrap();
    fs::rename(pack.with_extension("away"), &pack).unwrap();
    starts(&cabane, 2);
}

#[test]
fn commands_that_are_killed_at_any_instant_lose_nothing() {
    let cabane = with_versions(Who::OrdinaryUser, 4, "squashfs");
    let whole = Instant::now();
    deduplicate(&cabane).success();
    let whole = whole.elapsed().mul_f64(1.2);
    for kill in 0..40 {
        let label = label(2 + kill % 3);
        let command: &[&str] = if kill % 2 == 0 {
            &["run", &label, "--", "hello"]
        } else {
            &["repo", "deduplicate", "--older-than=0s"]
        };
        let mut command = cabane.command(command);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let share = RandomState::new().hash_one(child.id()) % 1000;
        sleep(whole.mul_f64(f64::from(u32::try_from(share).unwrap()) / 1000.0));
        let _ = child.kill();
        child.wait().unwrap();
    }
    for number in 1..=4 {
        starts(&cabane, number);
    }
    deduplicate(&cabane).success();
    cabane.run(&["repo", "update"]).success();
    assert_eq!(status(&cabane)["damaged"], Value::Array(Vec::new()));
    for number in 1..=4 {
        starts(&cabane, number);
    }
}

#[test]
fn many_starts_at_once_assemble_an_image_once() {
    let cabane = with_versions(Who::OrdinaryUser, 2, "squashfs");
    deduplicate(&cabane).success();
    let label = label(2);
    let start = || {
        let mut command = cabane.command(&["run", &label, "--", "hello"]);
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let running: Vec<_> = (0..8).map(|_| start()).collect();
    for one in running {
        let output = one.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "hello from 2\n");
    }
    assert_eq!(status(&cabane)["damaged"], Value::Array(Vec::new()));
}
