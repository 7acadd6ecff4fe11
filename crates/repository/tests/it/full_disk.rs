// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A file system of 4 MiB, in a mount namespace of its own.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use cabane_label::Digest;
use cabane_repository::{Error, Repository};

use crate::support::{
    Dice, again, assert_tidy, image_bytes, image_in, inside, labels, meta_in, request, this_program,
};

/// Runs a test again where the directory it is given is a file system of 4 MiB.
fn with_little_space(test: &str) {
    let place = tempfile::tempdir().unwrap();
    let small = place.path().join("small");
    fs::create_dir(&small).unwrap();
    let mut shell = Command::new("unshare");
    let namespaces = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
    let script = r#"mount -t tmpfs -o size=4m none "$CABANE_TEST_INSIDE/small" && exec "$0" "$@""#;
    shell.arg(namespaces).args(["sh", "-c", script]).arg(this_program().get_program());
    let message = place.path().to_str().unwrap();
    let output = again(&mut shell, test, message).output().unwrap();
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && report.contains("1 passed"), "{report}\n{errors}");
}

fn large_image(place: &Path, size: usize) -> std::path::PathBuf {
    let mut bytes = image_bytes(1);
    bytes.resize(size, 1);
    let path = place.join("large");
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn an_image_that_does_not_fit_is_refused_before_it_is_copied() {
    let Some(place) = inside() else {
        return with_little_space(
            "full_disk::an_image_that_does_not_fit_is_refused_before_it_is_copied",
        );
    };
    let place = Path::new(&place);
    let repository = Repository::create(&place.join("small/repository")).unwrap();
    let (image, meta) = (large_image(place, 5_000_000), meta_in(place));
    let error = repository.add(&request("a", &image, &meta)).unwrap_err();
    let Error::NoSpace { need, free: Some(free), .. } = error else { panic!("{error}") };
    assert!(need == Some(5_000_000) && free < 5_000_000, "{need:?} {free}");
}

#[test]
fn a_disk_that_fills_up_anywhere_on_the_way_loses_nothing_and_keeps_nothing() {
    let Some(place) = inside() else {
        return with_little_space(
            "full_disk::a_disk_that_fills_up_anywhere_on_the_way_loses_nothing_and_keeps_nothing",
        );
    };
    let place = Path::new(&place);
    let repository = Repository::create(&place.join("small/repository")).unwrap();
    let meta = meta_in(place);
    repository.add(&request("kept", &image_in(place, 1), &meta)).unwrap();
    let image = image_in(place, 2);
    let ballast = place.join("small/ballast");
    let (mut failures, mut dice) = (0, Dice::new(1));
    // tmpfs counts pages of 4 KiB, and the parts that are written take between 1 and 30 of them;
    // the check for space in advance is outwitted by filling the disk while the image is copied.
    for pages in (0..40).chain((0..20).map(|_| dice.below(40))) {
        let free = || rustix::fs::statvfs(&ballast).map_or(0, |figures| figures.f_bavail * 4096);
        fs::write(&ballast, "").unwrap();
        let mut fill = |_, _| {
            let size = free().saturating_sub(pages * 4096);
            fs::write(&ballast, vec![0; usize::try_from(size).unwrap()]).unwrap();
        };
        let outcome = repository.add_with_progress(&request("new", &image, &meta), &mut fill);
        fs::remove_file(&ballast).unwrap();
        match outcome {
            Ok(_) => {
                repository.remove(&crate::support::label("new")).unwrap();
            }
            Err(Error::NoSpace { .. }) => failures += 1,
            Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
        }
        assert_eq!(labels(&repository), [("kept".to_owned(), 1)].into());
        assert_tidy(&repository);
    }
    assert!(failures > 0, "the disk was never full");
}

#[test]
fn a_full_disk_stops_deduplicating_and_assembling_and_loses_nothing() {
    let Some(place) = inside() else {
        return with_little_space(
            "full_disk::a_full_disk_stops_deduplicating_and_assembling_and_loses_nothing",
        );
    };
    let place = Path::new(&place);
    let repository = Repository::create(&place.join("small/repository")).unwrap();
    let meta = meta_in(place);
    let mut contents = Vec::new();
    for (number, label) in ["a", "b"].into_iter().enumerate() {
        let mut bytes = image_bytes(1);
        let mut dice = Dice::new(7);
        bytes.extend((0..900_000).map(|_| u8::try_from(dice.below(256)).unwrap()));
        // What differs is more than what is left free below.
        let mut dice = Dice::new(100 + number as u64);
        bytes.extend((0..200_000).map(|_| u8::try_from(dice.below(256)).unwrap()));
        let image = place.join(label);
        fs::write(&image, &bytes).unwrap();
        let mut request = request("same", &image, &meta);
        request.label.tag = label.parse().unwrap();
        contents.push((repository.add(&request).unwrap().record.digest, bytes));
    }
    let ballast = place.join("small/ballast");
    let fill = |left: u64| {
        let free = rustix::fs::statvfs(place.join("small")).unwrap().f_bavail * 4096;
        let size = usize::try_from(free.saturating_sub(left)).unwrap();
        fs::write(&ballast, vec![0; size]).unwrap();
    };
    fill(100_000);
    let outcome = repository.deduplicate(Duration::ZERO, &mut |_| ());
    assert!(matches!(outcome, Err(Error::NoSpace { .. })), "{outcome:?}");
    fs::remove_file(&ballast).unwrap();
    let read = |digest: &Digest| fs::read(repository.plain_image(digest).unwrap()).unwrap();
    assert!(contents.iter().all(|(digest, bytes)| read(digest) == *bytes));
    repository.deduplicate(Duration::ZERO, &mut |_| ()).unwrap();
    let (second, bytes) = &contents[1];
    assert!(repository.is_deduplicated(second));
    fill(500_000);
    let outcome = repository.plain_image(second);
    let Err(Error::NoSpace { need: Some(need), .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(need, bytes.len() as u64);
    fs::remove_file(&ballast).unwrap();
    assert!(read(second) == *bytes);
    assert_tidy(&repository);
}
