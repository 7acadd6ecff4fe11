// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Lists, and the index.

use std::fs;
use std::path::Path;

use cabane_registry::{ErrorKind, Format, Listing, Place, PushRequest, Registry, Wanted, sum};
use cabane_testkit::Fault;

use crate::bed::{Bed, place};

#[test]
fn lists_of_many_pages_are_read_to_their_end() {
    let (bed, _) = Bed::pushed(100);
    bed.server.change(|settings| settings.page_size = 1);
    let to = place("app/1.0:latest@daint%gh200");
    let from = place("app/1.0:v1@daint%gh200");
    bed.registry.copy(&from, &to, false).unwrap();
    let labels = ["app/1.0:latest@daint%gh200", "app/1.0:v1@daint%gh200"];
    assert_eq!(bed.labels(Listing::Catalog).unwrap(), labels);
    assert_eq!(bed.labels(Listing::Index).unwrap(), labels);
}

#[test]
fn where_the_registry_does_not_list_the_index_does() {
    let (bed, _) = Bed::pushed(100);
    for status in [401, 403, 404, 405] {
        bed.server.disarm();
        bed.server.on("GET", "_catalog").does(Fault::answer(status));
        let labels = bed.labels(Listing::Auto).unwrap();
        assert_eq!(labels, ["app/1.0:v1@daint%gh200"], "{status}");
    }
}

#[test]
fn a_registry_without_a_list_is_reported() {
    let bed = Bed::new();
    bed.server.on("GET", "_catalog").does(Fault::answer(403));
    let error = bed.labels(Listing::Auto).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoListing, "{error}");
}

#[test]
fn the_index_is_right_after_pushes_at_the_same_time() {
    let bed = Bed::new();
    let place = |number: usize| place(&format!("app/1.0:v{number}@daint%gh200"));
    let push = |number: usize| {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        fs::write(&image, format!("image {number}")).unwrap();
        push_file(&bed.registry, &place(number), &image);
    };
    std::thread::scope(|scope| {
        for number in 0..8 {
            let push = &push;
            scope.spawn(move || push(number));
        }
    });
    assert_eq!(bed.labels(Listing::Index).unwrap().len(), 8);
    assert_eq!(bed.labels(Listing::Index).unwrap(), bed.labels(Listing::Catalog).unwrap());
}

pub(crate) fn push_file(registry: &Registry, place: &Place, image: &Path) {
    let request = PushRequest {
        place,
        image,
        digest: sum::file(image, &mut |_, _| ()).unwrap(),
        size: fs::metadata(image).unwrap().len(),
        format: Format::Squashfs,
        meta: None,
        packages: None,
        created: "2026-11-21T10:00:00Z".parse().unwrap(),
        replace: true,
        notes: None,
        root_signature: None,
        sign: None,
    };
    registry.push(&request, &mut |_, _| ()).unwrap();
}

#[test]
fn the_last_of_several_pushes_of_a_label_is_in_the_index() {
    let bed = Bed::new();
    let place = place("app/1.0:v1@daint%gh200");
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (bed, place) = (&bed, &place);
            scope.spawn(move || {
                let directory = tempfile::tempdir().unwrap();
                let image = directory.path().join("image");
                fs::write(&image, format!("image {number}")).unwrap();
                push_file(&bed.registry, place, &image);
            });
        }
    });
    let namespace = "deploy".parse().unwrap();
    let wanted =
        Wanted { namespace: &namespace, pattern: None, how: cabane_label::NameMatch::Prefix };
    let found = bed.registry.find(&wanted, Listing::Index).unwrap();
    let image = bed.registry.image(&place).unwrap();
    assert_eq!(found.iter().map(|found| &found.digest).collect::<Vec<_>>(), [&image.digest]);
}
