// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Places for downloads, and images that are added from there.

use std::fs::{self, File, FileTimes};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use cabane_label::Digest;
use cabane_repository::{Access, Added, Claim, Error, Incoming, Repository, VerifiedRequest};
use sha2::{Digest as _, Sha256};

use crate::support::{
    World, again, assert_tidy, image_bytes, incoming_at, inside, label, meta_in, names,
    this_program,
};

fn digest(content: u8) -> Digest {
    let sum: [u8; 32] = Sha256::digest(image_bytes(content)).into();
    Digest::from_bytes(sum)
}

fn downloaded(world: &World, content: u8) -> Incoming {
    let incoming = incoming_at(&world.repository, &digest(content)).unwrap();
    fs::write(incoming.image(), image_bytes(content)).unwrap();
    incoming
}

fn add(world: &World, name: &str, incoming: Incoming) -> Result<Added, Error> {
    let found = fs::read(incoming.image()).unwrap();
    let sum: [u8; 32] = Sha256::digest(found).into();
    world.repository.add_verified(VerifiedRequest {
        label: label(name),
        incoming,
        digest: &Digest::from_bytes(sum),
        meta: &world.meta(),
        access: Access::AsNewFiles,
        replace: false,
    })
}

/// Makes everything in a place look as if it had been written days ago.
fn age(place: &Path, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
    let times = FileTimes::new().set_modified(then);
    let set = |path: PathBuf| File::open(path).unwrap().set_times(times).unwrap();
    for name in names(place) {
        set(place.join(name));
    }
    set(place.to_owned());
}

#[test]
fn a_download_becomes_an_image() {
    let world = World::new();
    add(&world, "a", downloaded(&world, 1)).unwrap();
    assert_eq!(world.labels(), [("a".to_owned(), 1)].into());
}

#[test]
fn a_download_is_not_copied_again() {
    let world = World::new();
    let incoming = downloaded(&world, 1);
    let inode = fs::metadata(incoming.image()).unwrap().ino();
    let added = add(&world, "a", incoming).unwrap();
    let image = world.repository.image_path(&added.record.digest);
    assert_eq!(fs::metadata(image).unwrap().ino(), inode);
}

#[test]
fn nothing_is_left_of_a_download_that_became_an_image() {
    let world = World::new();
    add(&world, "a", downloaded(&world, 1)).unwrap();
    assert_tidy(&world.repository);
}

#[test]
fn what_is_not_the_awaited_image_is_refused() {
    let world = World::new();
    let incoming = downloaded(&world, 1);
    fs::write(incoming.image(), image_bytes(2)).unwrap();
    let error = add(&world, "a", incoming).unwrap_err();
    assert!(matches!(error, Error::OtherImage { .. }), "{error}");
}

#[test]
fn what_is_cut_off_is_refused() {
    let world = World::new();
    let incoming = downloaded(&world, 1);
    fs::write(incoming.image(), &image_bytes(1)[..4000]).unwrap();
    let error = world.repository.add_verified(VerifiedRequest {
        label: label("a"),
        incoming,
        digest: &digest(1),
        meta: &world.meta(),
        access: Access::AsNewFiles,
        replace: false,
    });
    assert!(matches!(error, Err(Error::Image { .. })), "{error:?}");
}

#[test]
fn a_download_stays_when_its_label_is_taken() {
    let world = World::new();
    world.add("a", 2).unwrap();
    add(&world, "a", downloaded(&world, 1)).unwrap_err();
    let again = incoming_at(&world.repository, &digest(1)).unwrap();
    assert_eq!(fs::read(again.image()).unwrap(), image_bytes(1));
}

#[test]
fn a_download_of_an_image_that_came_another_way_changes_nothing() {
    let world = World::new();
    let incoming = downloaded(&world, 1);
    world.add("a", 1).unwrap();
    assert!(add(&world, "a", incoming).unwrap().unchanged);
    assert_tidy(&world.repository);
}

#[test]
fn a_download_repairs_an_image_that_is_damaged() {
    let world = World::new();
    world.add("a", 1).unwrap();
    let image = world.repository.image_path(&digest(1));
    File::options().write(true).open(&image).unwrap().set_len(9).unwrap();
    let is_whole = world.repository.has_whole_image(&digest(1), 5000);
    add(&world, "b", downloaded(&world, 1)).unwrap();
    let both = [("a".to_owned(), 1), ("b".to_owned(), 1)];
    assert_eq!((is_whole, world.labels()), (false, both.into()));
}

#[test]
fn a_download_that_is_given_up_leaves_nothing() {
    let world = World::new();
    world.add("a", 2).unwrap();
    downloaded(&world, 1).discard().unwrap();
    assert_tidy(&world.repository);
}

#[test]
fn one_image_is_downloaded_once_however_many_want_it() {
    let world = World::new();
    let pull = |number: usize| {
        let incoming = incoming_at(&world.repository, &digest(1)).unwrap();
        let name = format!("a{number}");
        if world.repository.has_image(&digest(1)) {
            incoming.discard().unwrap();
            let added = world.repository.tag(&digest(1), label(&name), false);
            added.map(drop).unwrap();
            return 0;
        }
        fs::write(incoming.image(), image_bytes(1)).unwrap();
        add(&world, &name, incoming).map(drop).unwrap();
        1
    };
    let pull = &pull;
    let downloads: usize = thread::scope(|scope| {
        let all: Vec<_> = (0..10).map(|number| scope.spawn(move || pull(number))).collect();
        all.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!((downloads, world.labels().len()), (1, 10));
}

const KILLED: &str = "incoming::what_a_killed_download_has_is_there_for_the_next";

/// Downloads a half in another process, which then waits to be killed.
fn download_a_half(place: &Path) -> ! {
    let repository = Repository::open(&place.join("repository")).unwrap();
    let incoming = incoming_at(&repository, &digest(1)).unwrap();
    fs::write(incoming.image(), &image_bytes(1)[..2500]).unwrap();
    std::io::stdout().write_all(b"a half is there\n").unwrap();
    loop {
        thread::park();
    }
}

fn another_process_downloads(world: &World) -> Child {
    let place = world.place.path().to_str().unwrap();
    let mut child = again(&mut this_program(), KILLED, place)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut seen = String::new();
    while !seen.contains("a half is there") {
        let mut some = [0; 100];
        let count = child.stdout.as_mut().unwrap().read(&mut some).unwrap();
        assert_ne!(count, 0, "{seen}");
        seen.push_str(std::str::from_utf8(&some[..count]).unwrap());
    }
    child
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_a_killed_download_has_is_there_for_the_next() {
    if let Some(place) = inside() {
        download_a_half(Path::new(&place));
    }
    let world = World::new();
    kill(another_process_downloads(&world));
    // Other writers come by and sweep.
    world.add("b", 2).unwrap();
    let incoming = incoming_at(&world.repository, &digest(1)).unwrap();
    assert_eq!(fs::metadata(incoming.image()).unwrap().len(), 2500);
}

#[test]
fn a_download_that_is_under_way_is_neither_shared_nor_swept() {
    let world = World::new();
    let child = another_process_downloads(&world);
    let claim = world.repository.queue(&digest(1)).try_take().unwrap();
    let place = world.file(&format!("tmp/pull-{}", digest(1)));
    age(&place, 30);
    world.repository.update().unwrap();
    let is_there = place.join("image.partial").exists();
    kill(child);
    assert!(matches!(claim, Claim::Busy) && is_there, "{claim:?}");
}

#[test]
fn a_download_is_kept_for_some_days() {
    let world = World::new();
    let place = downloaded(&world, 1).path().to_owned();
    age(&place, 6);
    world.repository.update().unwrap();
    assert!(place.exists());
}

#[test]
fn an_abandoned_download_is_swept() {
    let world = World::new();
    let place = downloaded(&world, 1).path().to_owned();
    age(&place, 8);
    world.repository.update().unwrap();
    assert!(!place.exists());
}

#[test]
fn a_download_is_swept_when_its_image_is_there() {
    let world = World::new();
    drop(downloaded(&world, 1));
    world.add("a", 1).unwrap();
    world.repository.update().unwrap();
    assert_tidy(&world.repository);
}

#[test]
fn the_download_of_a_host_that_is_gone_is_swept_when_it_is_old() {
    let world = World::new();
    let name = format!("tmp/pull-{}-{}", digest(1), "0123456789abcdef".repeat(2));
    let place = world.file(&name);
    fs::create_dir(&place).unwrap();
    world.repository.update().unwrap();
    let before = place.exists();
    age(&place, 8);
    world.repository.update().unwrap();
    assert_eq!((before, place.exists()), (true, false));
}

#[test]
fn the_status_counts_what_has_arrived() {
    let world = World::new();
    let incoming = incoming_at(&world.repository, &digest(1)).unwrap();
    let file = File::create(incoming.image()).unwrap();
    file.set_len(1 << 30).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[1; 4096], 0).unwrap();
    let status = world.repository.status(false).unwrap();
    let (count, bytes) = (status.downloads, status.download_bytes);
    assert!(
        count == 1 && (4096..65536).contains(&bytes) && status.damaged.is_empty(),
        "{status:?}"
    );
}

#[test]
fn a_place_can_be_closed_before_anything_arrives() {
    let world = World::new();
    let incoming = incoming_at(&world.repository, &digest(1)).unwrap();
    let group = rustix::process::getegid().as_raw();
    incoming.restrict(Access::Group(group)).unwrap();
    let mode = fs::metadata(incoming.path()).unwrap().mode() & 0o777;
    assert_eq!(mode, 0o750);
}

#[test]
fn a_download_for_a_group_becomes_an_image_for_that_group() {
    let world = World::new();
    let (incoming, meta) = (downloaded(&world, 1), meta_in(world.place.path()));
    let group = rustix::process::getegid().as_raw();
    let added = world.repository.add_verified(VerifiedRequest {
        label: label("a"),
        incoming,
        digest: &digest(1),
        meta: &meta,
        access: Access::Group(group),
        replace: false,
    });
    let image = world.repository.image_path(&added.unwrap().record.digest);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!([mode(&image), mode(image.parent().unwrap())], [0o640, 0o750]);
}
