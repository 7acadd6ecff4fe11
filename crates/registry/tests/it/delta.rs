// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Getting only what an image here does not have.

use std::fs;
use std::path::PathBuf;

use cabane_registry::{Error, Fetched};
use cabane_testkit::Fault;

use crate::bed::{Bed, MIB, noise};

/// A second version of an image: some bytes are more, some are others, some are gone.
fn changed(old: &[u8]) -> Vec<u8> {
    let new = noise(MIB + 300_000);
    [&old[..9 * MIB], &new[..MIB], &old[10 * MIB..20 * MIB], &new[MIB..], &old[21 * MIB..]].concat()
}

/// A bed with the second version in the registry, and a file with the first.
fn bed() -> (Bed, Vec<u8>, PathBuf) {
    let bed = Bed::new();
    let old = noise(40 * MIB);
    let new = changed(&old);
    bed.push(&new, true).unwrap();
    bed.server.forget_requests();
    let base = bed.path("base");
    fs::write(&base, &old).unwrap();
    (bed, new, base)
}

fn fetch(bed: &Bed, base: &PathBuf) -> Result<(Fetched, Vec<u8>), Error> {
    let into = bed.path("into");
    fs::create_dir_all(&into).unwrap();
    let image = bed.image()?;
    let bases = std::slice::from_ref(base);
    let fetched = bed.registry.fetch_image(&image, &into, bases, &mut |_, _| ())?;
    let content = fs::read(&fetched.path).unwrap();
    Ok((fetched, content))
}

#[test]
fn only_what_has_changed_is_got() {
    let (bed, new, base) = bed();
    let (fetched, content) = fetch(&bed, &base).unwrap();
    assert!(content == new);
    let digest = format!("sha256:{}", bed.image().unwrap().digest);
    let sent = bed.server.sent("GET", &digest);
    assert!(sent < 3 * MIB, "{sent}");
    assert!(fetched.reused > 36 * MIB as u64, "{}", fetched.reused);
}

#[test]
fn it_goes_on_after_a_cut() {
    let (bed, new, base) = bed();
    bed.server.on("GET", "/blobs/").times(3).does(Fault::CutSending(100_000));
    assert!(fetch(&bed, &base).unwrap().1 == new);
}

#[test]
fn a_registry_that_knows_no_ranges_sends_everything() {
    let (bed, new, base) = bed();
    bed.server.on("GET", "/blobs/").does(Fault::IgnoreRange);
    assert!(fetch(&bed, &base).unwrap().1 == new);
}

#[test]
fn a_file_that_has_changed_meanwhile_is_noticed() {
    let (bed, new, base) = bed();
    let into = bed.path("into");
    fs::create_dir_all(&into).unwrap();
    // The attempt is cut off after what is known was copied, and that is spoilt then.
    bed.server
        .on("GET", "/blobs/")
        .if_request(|request| request.header("range").is_some())
        .times(20)
        .does(Fault::CutSending(0));
    fetch(&bed, &base).unwrap_err();
    bed.server.disarm();
    let partial = into.join("image.partial");
    let mut bytes = fs::read(&partial).unwrap();
    bytes[12 * MIB] ^= 1;
    fs::write(&partial, bytes).unwrap();
    let (fetched, content) = fetch(&bed, &base).unwrap();
    assert!(content == new);
    assert_eq!(fetched.reused, 0);
}

#[test]
fn a_list_that_lies_costs_time_and_nothing_else() {
    let (bed, new, base) = bed();
    // Another byte of the list: a chunk that is in the file is taken for one that is not,
    // or the list is none.
    bed.server.on("GET", "/blobs/").once().does(Fault::CorruptByte(60));
    assert!(fetch(&bed, &base).unwrap().1 == new);
}

#[test]
fn a_base_that_cannot_be_read_is_left_out() {
    let (bed, new, _) = bed();
    let (fetched, content) = fetch(&bed, &bed.path("no-such-file")).unwrap();
    assert!(content == new);
    assert_eq!(fetched.reused, 0);
}
