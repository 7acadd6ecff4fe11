// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Writers that are killed at any instant.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use cabane_label::Digest;
use cabane_repository::{Access, Limits, Repository, Transfer, VerifiedRequest};
use sha2::{Digest as _, Sha256};

use crate::support::{
    Dice, World, again, assert_tidy, image_bytes, image_in, incoming_at, inside, label, labels,
    meta_in, request, this_program,
};

const KILLS: u64 = 150;

/// Changes a repository until it is killed. The label `kept` is never touched.
fn change_for_ever(place: &Path, seed: u64) -> ! {
    let repository = Repository::open(&place.join("repository")).unwrap();
    let (mut dice, meta) = (Dice::new(seed), meta_in(place));
    loop {
        let name = ["a", "b", "c"][usize::try_from(dice.below(3)).unwrap()];
        let content = u8::try_from(dice.below(3)).unwrap() + 1;
        match dice.below(10) {
            0..=3 => {
                // What is moved may be gone after a kill, and is made again.
                let image = image_in(place, content);
                let mut request = request(name, &image, &meta);
                request.replace = true;
                request.how = if dice.below(2) == 0 { Transfer::Copy } else { Transfer::Move };
                repository.add(&request).map(drop).unwrap();
            }
            4 => {
                let images = repository.records().unwrap();
                let digest = &images[0].digest;
                repository.tag(digest, label(name), true).map(drop).unwrap();
            }
            5 => drop(repository.update().unwrap()),
            6 => clear(&repository),
            7 | 8 => download(&repository, name, content, &meta),
            _ => drop(repository.remove(&label(name))),
        }
    }
}

fn digest(content: u8) -> Digest {
    let sum: [u8; 32] = Sha256::digest(image_bytes(content)).into();
    Digest::from_bytes(sum)
}

/// Goes on with a download, byte by byte in the order of the image.
fn download(repository: &Repository, name: &str, content: u8, meta: &Path) {
    let (digest, bytes) = (digest(content), image_bytes(content));
    let incoming = incoming_at(repository, &digest).unwrap();
    let mut options = OpenOptions::new();
    let mut file = options.create(true).append(true).open(incoming.image()).unwrap();
    let there = usize::try_from(file.metadata().unwrap().len()).unwrap();
    for part in bytes[there..].chunks(1000) {
        file.write_all(part).unwrap();
    }
    let added = repository.add_verified(VerifiedRequest {
        label: label(name),
        incoming,
        digest: &digest,
        meta,
        access: Access::AsNewFiles,
        replace: true,
    });
    added.map(drop).unwrap();
}

/// Checks that what is there of each download is the beginning of its image, and removes it.
fn give_downloads_up(repository: &Repository) {
    for content in 1..4 {
        let incoming = incoming_at(repository, &digest(content)).unwrap();
        let arrived = fs::read(incoming.image()).unwrap_or_default();
        assert!(image_bytes(content).starts_with(&arrived));
        incoming.discard().unwrap();
    }
}

/// Removes everything that is not pinned.
fn clear(repository: &Repository) {
    let limits = Limits {
        older_than: Some(Duration::ZERO),
        keep_last: None,
        max_size: None,
        spare: Duration::ZERO,
    };
    let retention = repository.retention(&limits).unwrap();
    let cleared = repository.remove_excess(&retention, &mut |_| ());
    drop(cleared.unwrap());
}

#[test]
fn killed_at_any_instant_nothing_is_lost_and_nothing_is_left() {
    const TEST: &str = "killed::killed_at_any_instant_nothing_is_lost_and_nothing_is_left";
    if let Some(message) = inside() {
        let (seed, place) = message.split_once(' ').unwrap();
        change_for_ever(Path::new(place), seed.parse().unwrap());
    }
    let world = World::new();
    let place = world.place.path().to_str().unwrap();
    world.add("kept", 9).unwrap();
    world.repository.pin(&label("kept")).unwrap();
    let mut dice = Dice::new(7);
    for seed in 0..KILLS {
        let mut writer = again(&mut this_program(), TEST, &format!("{seed} {place}"));
        let mut writer = writer.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for_work(&world, seed);
        sleep(Duration::from_micros(dice.below(20_000)));
        assert!(writer.try_wait().unwrap().is_none(), "the writer stopped by itself (seed {seed})");
        writer.kill().unwrap();
        writer.wait().unwrap();
        // First as it was left: every label is complete.
        assert_eq!(labels(&world.repository).get("kept"), Some(&9), "seed {seed}");
        world.repository.update().unwrap();
        assert_eq!(labels(&world.repository).get("kept"), Some(&9), "seed {seed}");
        give_downloads_up(&world.repository);
        assert_tidy(&world.repository);
    }
}

/// Waits until the writer has begun to change something.
fn wait_for_work(world: &World, seed: u64) {
    let index = || {
        std::fs::metadata(world.file("index")).map(|m| std::os::unix::fs::MetadataExt::ino(&m)).ok()
    };
    let (before, end) = (index(), Instant::now() + Duration::from_secs(60));
    while index() == before {
        assert!(Instant::now() < end, "the writer does nothing (seed {seed})");
        sleep(Duration::from_micros(200));
    }
}
