// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane repo migrate`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::cabane::{APP, Cabane, Who, everybody};

fn images(repository: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(repository.join("images")).unwrap();
    entries.map(|entry| entry.unwrap().path().join("image")).collect()
}

fn labels(cabane: &Cabane, repository: &Path) -> String {
    let repository = repository.to_string_lossy();
    let list = ["--repo", &repository, "image", "ls", "--format={label}"];
    cabane.run(&list).stdout
}

fn own(cabane: &Cabane) -> PathBuf {
    cabane.world.path("home/.local/share/cabane/repository")
}

#[test]
fn everything_is_at_the_other_place() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let target = cabane.world.path("home/new");
        cabane.run(&["repo", "migrate", &target.to_string_lossy()]).success();
        let list = format!("{},default", target.display());
        let ran = cabane.run(&["--repo", &list, "run", "app", "--", "hello"]);
        let seen = (labels(&cabane, &target), ran.stdout);
        assert_eq!(seen, (format!("{APP}\n"), "hello from app\n".to_owned()), "as {who:?}");
    }
}

#[test]
fn what_is_there_is_not_copied_again() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let target = cabane.world.path("home/new");
    let migrate = || {
        let target = target.to_string_lossy();
        cabane.run(&["repo", "migrate", &target]).success()
    };
    migrate();
    let inode = fs::metadata(&images(&target)[0]).unwrap().ino();
    let seen = migrate();
    let again = fs::metadata(&images(&target)[0]).unwrap().ino();
    let reported =
        seen.stderr.contains("images copied: 0, labels given: 0, labels that were there: 1");
    assert!(reported && again == inode, "{seen:?}");
}

#[test]
fn on_one_file_system_no_bytes_are_copied() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let target = cabane.world.path("home/new");
    cabane.run(&["repo", "migrate", &target.to_string_lossy()]).success();
    let [one, two] = [own(&cabane), target].map(|one| fs::metadata(&images(&one)[0]).unwrap());
    // The file with two names, unless the file system can share blocks.
    let shares_blocks = one.ino() != two.ino() && two.nlink() == 1;
    assert!(one.ino() == two.ino() || shares_blocks);
}

#[test]
fn a_label_of_another_image_is_kept_unless_it_is_taken() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let target = cabane.world.path("home/new");
    let text = target.to_string_lossy();
    let other = cabane.image("other", &cabane.mount_point("other"));
    cabane.run(&["repo", "create", &text]).success();
    cabane.run(&["--repo", &text, "image", "add", APP, &other]).success();
    let hello = || {
        let run = ["--repo", &text, "run", "app", "--", "hello"];
        cabane.run(&run).stdout
    };
    let kept = cabane.run(&["repo", "migrate", &text]).success();
    let before = hello();
    cabane.run(&["repo", "migrate", "--force", &text]).success();
    assert!(kept.stderr.contains("kept the label"), "{kept:?}");
    assert_eq!([before, hello()], ["hello from other\n", "hello from app\n"]);
}

#[test]
fn a_repository_with_labels_of_its_own_is_added_to_only_on_request() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let target = cabane.world.path("home/new");
    let text = target.to_string_lossy();
    let other = cabane.image("other", &cabane.mount_point("other"));
    cabane.run(&["repo", "create", &text]).success();
    cabane.run(&["--repo", &text, "image", "add", "other/1.0", &other]).success();
    let refused = cabane.run(&["repo", "migrate", &text]);
    cabane.run(&["repo", "migrate", "--sync", &text]).success();
    let count = labels(&cabane, &target).lines().count();
    assert_eq!((refused.code, count), (6, 2), "{refused:?}");
}

#[test]
fn an_image_whose_content_has_changed_is_left_out() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let image = &images(&own(&cabane))[0];
    let mut bytes = fs::read(image).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(image, bytes).unwrap();
    let target = cabane.world.path("home/new");
    let seen = cabane.run(&["repo", "migrate", &target.to_string_lossy()]);
    assert_eq!((seen.code, labels(&cabane, &target).as_str()), (6, ""), "{seen:?}");
}

#[test]
fn a_pinned_label_is_pinned_at_the_other_place() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    cabane.run(&["repo", "pin", "app"]).success();
    let target = cabane.world.path("home/new");
    let text = target.to_string_lossy();
    cabane.run(&["repo", "migrate", &text]).success();
    let seen = cabane.run(&["--repo", &text, "repo", "pin"]);
    assert_eq!(seen.stdout, format!("{APP}\n"));
}

#[test]
fn a_repository_is_not_copied_into_itself() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let own = own(&cabane);
    let seen = cabane.run(&["repo", "migrate", &own.to_string_lossy()]);
    assert_eq!(seen.code, 6, "{seen:?}");
}

/// Another file system than that of the world, so that bytes are copied.
fn elsewhere() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let place = tempfile::tempdir_in(memory).unwrap();
    fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    place
}

#[test]
fn killed_in_the_middle_it_goes_on_where_it_was() {
    const IMAGES: usize = 6;
    let cabane = Cabane::new(Who::OrdinaryUser);
    for number in 0..IMAGES {
        let image = cabane.image(&number.to_string(), &cabane.mount_point("app"));
        // Something to copy for a while; what lies behind the file system does no harm.
        let file = fs::OpenOptions::new().append(true).open(&image).unwrap();
        let size = file.metadata().unwrap().len();
        file.set_len(size + 10_000_000).unwrap();
        let label = format!("app/{number}");
        cabane.run(&["image", "add", &label, &image]).success();
    }
    let place = elsewhere();
    let target = place.path().join("repository");
    let arguments = ["repo", "migrate", &target.to_string_lossy()];
    let mut kills = 0;
    let mut inodes = Vec::new();
    for wanted in 1..IMAGES {
        let mut running =
            cabane.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        let count = || fs::read_dir(target.join("refs")).map_or(0, Iterator::count);
        while count() < wanted && running.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "nothing is copied");
            sleep(Duration::from_millis(1));
        }
        kills += usize::from(running.try_wait().unwrap().is_none());
        running.kill().unwrap();
        running.wait().unwrap();
        let now = || images(&target).into_iter().map(|one| (one.clone(), one));
        let now: Vec<_> =
            now().map(|(path, one)| (path, fs::metadata(one).unwrap().ino())).collect();
        // An image that had its label is not made again.
        assert!(inodes.iter().all(|one| now.contains(one)), "after kill {wanted}");
        let named = count();
        inodes = if now.len() == named { now } else { Vec::new() };
    }
    cabane.run(&arguments).success();
    let status = cabane.run(&["repo", "status", "--verify", &target.to_string_lossy()]);
    let left = fs::read_dir(target.join("tmp")).unwrap().count();
    let seen = (labels(&cabane, &target).lines().count(), status.code, left);
    assert!(kills > 0 && seen == (IMAGES, 0, 1), "{kills} kills, {seen:?}");
}
