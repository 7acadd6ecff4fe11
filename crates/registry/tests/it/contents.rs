// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What images say about their packages.

use std::fs;

use cabane_label::NameMatch;
use cabane_registry::{
    Content, Error, ErrorKind, Format, Listed, Listing, PushRequest, Wanted, sum,
};
use cabane_testkit::Fault;

use crate::bed::{Bed, place};

const LABEL: &str = "app/1.0:v1@daint%gh200";
const LINES: &str = "hdf5\t1.14.3\n";

fn push(bed: &Bed, label: &str, packages: Option<&str>) {
    let (image, meta) = (bed.path(&label.replace('/', "-")), bed.path("meta"));
    fs::write(&image, label).unwrap();
    fs::create_dir_all(&meta).unwrap();
    fs::write(meta.join("packages.json"), "of the metadata").unwrap();
    fs::write(meta.join("env.json"), "{}").unwrap();
    let request = PushRequest {
        place: &place(label),
        image: &image,
        digest: sum::file(&image, &mut |_, _| ()).unwrap(),
        size: label.len() as u64,
        format: Format::Squashfs,
        meta: Some(&meta),
        packages,
        created: "2026-11-21T10:00:00Z".parse().unwrap(),
        replace: false,
        notes: None,
        root_signature: None,
        sign: None,
    };
    bed.registry.push(&request, &mut |_, _| ()).unwrap();
}

fn listed(bed: &Bed) -> Vec<Listed> {
    let namespace = "deploy".parse().unwrap();
    let wanted = Wanted { namespace: &namespace, pattern: None, how: NameMatch::Prefix };
    bed.registry.find(&wanted, Listing::Index).unwrap()
}

fn output(bed: &Bed) -> Vec<Result<Content, Error>> {
    let files = ["packages.json", "lock/requirements.txt"];
    bed.registry.contents(&listed(bed), &files).unwrap()
}

fn of_metadata() -> Content {
    let content = b"of the metadata".to_vec();
    Content::Files([("packages.json".to_owned(), content)].into())
}

#[test]
fn what_was_handed_over_at_push_comes_with_one_request() {
    let bed = Bed::new();
    push(&bed, LABEL, Some(LINES));
    let images = listed(&bed);
    bed.server.forget_requests();
    let output = bed.registry.contents(&images, &["packages.json"]).unwrap();
    assert_eq!(output[0].as_ref().unwrap(), &Content::Lines(LINES.to_owned()));
    // The list of the lines, and one of them.
    assert_eq!(bed.server.requests().len(), 2);
}

#[test]
fn without_it_the_metadata_are_read() {
    let bed = Bed::new();
    push(&bed, LABEL, None);
    assert_eq!(output(&bed)[0].as_ref().unwrap(), &of_metadata());
}

#[test]
fn pushing_again_adds_what_the_line_lacks() {
    let bed = Bed::new();
    push(&bed, LABEL, None);
    push(&bed, LABEL, Some(LINES));
    assert_eq!(output(&bed)[0].as_ref().unwrap(), &Content::Lines(LINES.to_owned()));
    bed.server.forget_requests();
    push(&bed, LABEL, Some(LINES));
    let lines = bed.server.requests_of("PUT", "cabane-index/manifests/app");
    assert_eq!(lines.len(), 0);
}

#[test]
fn a_copy_in_another_part_of_the_registry_says_the_same() {
    let bed = Bed::new();
    push(&bed, LABEL, Some(LINES));
    let mut to = place(LABEL);
    to.namespace = "build".parse().unwrap();
    bed.registry.copy(&place(LABEL), &to, false).unwrap();
    let image = Listed { namespace: to.namespace, ..listed(&bed).remove(0) };
    let output = bed.registry.contents(&[image], &[]).unwrap();
    assert_eq!(output[0].as_ref().unwrap(), &Content::Lines(LINES.to_owned()));
}

#[test]
fn one_image_that_cannot_be_read_does_not_hide_the_others() {
    let bed = Bed::new();
    push(&bed, LABEL, None);
    push(&bed, "other/1.0:v1@daint%gh200", Some(LINES));
    bed.server.on("GET", "/app/1.0/").does(Fault::answer(403));
    let output = output(&bed);
    let kind = output[0].as_ref().unwrap_err().kind;
    assert_eq!(kind, ErrorKind::Forbidden, "{output:?}");
    assert_eq!(output[1].as_ref().unwrap(), &Content::Lines(LINES.to_owned()));
}

#[test]
fn a_registry_that_is_gone_is_one_error_and_not_many() {
    let bed = Bed::new();
    push(&bed, LABEL, None);
    let images = listed(&bed);
    bed.server.on("", "").does(Fault::Hang);
    let outcome = bed.registry.contents(&images, &[]);
    assert_eq!(outcome.unwrap_err().kind, ErrorKind::Silent);
}
