// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Downloads that something goes wrong with.

use std::fs;
use std::time::{Duration, Instant};

use cabane_registry::ErrorKind;
use cabane_testkit::Fault;

use crate::bed::{Bed, MIB};

#[test]
fn what_was_pushed_is_pulled() {
    for size in [1, 4096, 8 * MIB, 8 * MIB + 1, 20 * MIB] {
        let (bed, content) = Bed::pushed(size);
        assert!(bed.fetch().unwrap() == content, "{size}");
        assert!(bed.is_clean());
    }
}

#[test]
fn a_download_that_is_cut_anywhere_goes_on() {
    let (bed, content) = Bed::pushed_for_one_stream(40 * MIB);
    for offset in [0, 1, 1000, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 20 * MIB - 1] {
        bed.server.on("GET", "/blobs/").once().does(Fault::CutSending(offset));
        assert!(bed.fetch().unwrap() == content, "{offset}");
    }
}

#[test]
fn what_came_before_a_cut_is_not_requested_again() {
    let (bed, content) = Bed::pushed_for_one_stream(64 * MIB);
    bed.server.on("GET", "/blobs/").times(1).does(Fault::CutSending(17 * MIB));
    assert!(bed.fetch().unwrap() == content);
    let sent = bed.server.sent("GET", "/blobs/");
    assert!(sent < 64 * MIB + 8 * MIB, "{sent}");
}

#[test]
fn another_process_goes_on_with_what_one_left() {
    let (bed, content) = Bed::pushed_for_one_stream(64 * MIB);
    // Nothing but the first two parts comes through.
    bed.server.on("GET", "/blobs/").does(Fault::CutSending(17 * MIB));
    bed.server.on("GET", "/blobs/").after(1).does(Fault::CutHead(0));
    let error = bed.fetch().unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Unreachable(_)), "{error}");
    bed.server.disarm();
    bed.server.forget_requests();
    assert!(bed.fetch().unwrap() == content);
    let sent = bed.server.sent("GET", "/blobs/");
    assert!(sent <= 48 * MIB, "{sent}");
}

#[test]
fn a_registry_that_knows_no_ranges_serves_as_well() {
    let (bed, content) = Bed::pushed(80 * MIB);
    bed.server.on("GET", "/blobs/").does(Fault::IgnoreRange);
    assert!(bed.fetch().unwrap() == content);
}

#[test]
fn a_cut_without_ranges_begins_anew() {
    let (bed, content) = Bed::pushed(80 * MIB);
    bed.server.on("GET", "/blobs/").does(Fault::IgnoreRange);
    bed.server.on("GET", "/blobs/").times(2).does(Fault::CutSending(50 * MIB));
    assert!(bed.fetch().unwrap() == content);
}

#[test]
fn a_registry_that_sends_something_else_is_not_believed() {
    let (bed, _) = Bed::pushed(20 * MIB);
    bed.server.on("GET", "/blobs/").does(Fault::CorruptByte(9 * MIB));
    let error = bed.fetch().unwrap_err();
    assert_eq!(error.kind, ErrorKind::WrongContent, "{error}");
    assert!(bed.is_clean());
}

#[test]
fn lies_about_lengths_and_ranges_are_noticed() {
    for fault in [Fault::WrongContentRange, Fault::AnnounceLess(1), Fault::AnnounceMore(7)] {
        let (bed, content) = Bed::pushed(80 * MIB);
        bed.server.on("GET", "/blobs/").does(fault.clone());
        let outcome = bed.fetch();
        assert!(outcome.as_ref().is_err(), "{fault:?}");
        bed.server.disarm();
        assert!(bed.fetch().unwrap() == content, "{fault:?}");
    }
}

#[test]
fn a_damaged_beginning_on_disk_is_got_again() {
    let (bed, content) = Bed::pushed_for_one_stream(64 * MIB);
    bed.server.on("GET", "/blobs/").does(Fault::CutSending(17 * MIB));
    bed.server.on("GET", "/blobs/").after(1).does(Fault::CutHead(0));
    bed.fetch().unwrap_err();
    bed.server.disarm();
    let partial = bed.path("into/image.partial");
    let mut bytes = fs::read(&partial).unwrap();
    bytes[5] ^= 1;
    fs::write(&partial, bytes).unwrap();
    assert!(bed.fetch().unwrap() == content);
}

#[test]
fn a_registry_that_hangs_is_given_up() {
    for fault in [Fault::Hang, Fault::HangSending(1000)] {
        let (bed, _) = Bed::pushed(MIB);
        bed.server.on("GET", "/blobs/").does(fault);
        let started = Instant::now();
        let error = bed.fetch().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Silent, "{error}");
        assert!(started.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn a_registry_that_is_busy_gets_another_request() {
    for status in [429, 500, 502, 503, 504] {
        let (bed, content) = Bed::pushed(MIB);
        bed.server.on("GET", "/").times(3).does(Fault::answer(status));
        assert!(bed.fetch().unwrap() == content, "{status}");
    }
}

#[test]
fn the_pause_that_a_registry_requests_is_made() {
    let (bed, _) = Bed::pushed(MIB);
    bed.server.on("GET", "/blobs/").once().does(Fault::answer_later(429, 1));
    let started = Instant::now();
    bed.fetch().unwrap();
    assert!(started.elapsed() >= Duration::from_secs(1));
}

#[test]
fn a_registry_that_stays_busy_is_named_with_its_message() {
    let (bed, _) = Bed::pushed(MIB);
    bed.server.on("GET", "/manifests/").does(Fault::answer(503));
    let error = bed.image().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Status(503), "{error}");
}

#[test]
fn refusals_are_distinguished() {
    let (bed, _) = Bed::pushed(MIB);
    let refused = |status: u16| {
        bed.server.disarm();
        bed.server.on("GET", "/manifests/").does(Fault::answer(status));
        bed.image().unwrap_err()
    };
    assert_eq!(refused(401).kind, ErrorKind::Unauthorized);
    assert_eq!(refused(403).kind, ErrorKind::Forbidden);
    assert_eq!(refused(404).kind, ErrorKind::NoSuchImage);
}

#[test]
fn a_page_for_people_is_no_manifest() {
    let (bed, _) = Bed::pushed(MIB);
    let page = Fault::Answer {
        status: 200,
        headers: vec![("Content-Type".to_owned(), "text/html".to_owned())],
        body: "<html>Welcome</html>".to_owned(),
    };
    bed.server.on("GET", "/manifests/").does(page);
    let error = bed.image().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Document, "{error}");
}

#[test]
fn a_manifest_with_another_digest_is_refused() {
    let (bed, _) = Bed::pushed(MIB);
    bed.server.on("GET", "/manifests/").does(Fault::WrongDigest);
    let error = bed.image().unwrap_err();
    assert_eq!(error.kind, ErrorKind::WrongContent, "{error}");
}

#[test]
fn metadata_of_hostile_people_are_refused() {
    let (bed, _) = Bed::pushed(MIB);
    let image = bed.image().unwrap();
    bed.server.on("GET", "/blobs/").does(Fault::CorruptByte(20));
    let into = tempfile::tempdir().unwrap();
    let error = bed.registry.fetch_meta(&image, into.path()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::WrongContent, "{error}");
}
