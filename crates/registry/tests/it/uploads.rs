// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Uploads that something goes wrong with.

use std::time::{Duration, Instant};

use cabane_registry::ErrorKind;
use cabane_testkit::Fault;

use crate::bed::{Bed, MIB, REPOSITORY, noise};

#[test]
fn an_upload_that_is_cut_goes_on() {
    for after in [0, 1, 5 * MIB, 20 * MIB - 1] {
        let bed = Bed::new();
        let cut = Fault::CutReceiving { after, kept: after };
        bed.server.on("PATCH", "/uploads/").once().does(cut);
        let content = bed.push_content(20 * MIB);
        assert!(bed.fetch().unwrap() == content, "{after}");
    }
}

#[test]
fn what_the_registry_has_is_not_sent_again() {
    let bed = Bed::new();
    let cut = Fault::CutReceiving { after: 15 * MIB, kept: 14 * MIB };
    bed.server.on("PATCH", "/uploads/").once().does(cut);
    bed.push_content(20 * MIB);
    let received = bed.server.received("PATCH", "/uploads/");
    assert!(received <= 21 * MIB + 4096, "{received}");
}

#[test]
fn a_registry_that_forgets_an_upload_gets_it_from_the_beginning() {
    let bed = Bed::new();
    bed.server.change(|settings| settings.cut_uploads = false);
    let cut = Fault::CutReceiving { after: 5 * MIB, kept: 5 * MIB };
    bed.server.on("PATCH", "/uploads/").once().does(cut);
    let content = bed.push_content(20 * MIB);
    assert!(bed.fetch().unwrap() == content);
}

#[test]
fn a_front_end_that_limits_sizes_gets_smaller_parts() {
    let bed = Bed::new();
    let is_large = |request: &cabane_testkit::Request| {
        let length = request.header("content-length");
        length.is_some_and(|length| length.parse::<usize>().unwrap() > 5 * MIB)
    };
    let too_large = Fault::AnswerEarly { status: 413 };
    bed.server.on("PATCH", "/uploads/").if_request(is_large).does(too_large);
    let content = bed.push_content(20 * MIB);
    assert!(bed.fetch().unwrap() == content);
}

#[test]
fn an_answer_that_is_lost_at_the_end_is_no_failure() {
    let bed = Bed::new();
    bed.server.on("PUT", "/uploads/").once().does(Fault::LoseAnswer);
    let content = bed.push_content(20 * MIB);
    assert!(bed.fetch().unwrap() == content);
}

#[test]
fn a_label_appears_when_everything_is_there() {
    let bed = Bed::new();
    bed.server.on("PUT", "/manifests/v1").does(Fault::answer(403));
    let error = bed.push(&noise(MIB), false).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Forbidden, "{error}");
    assert_eq!(bed.image().unwrap_err().kind, ErrorKind::NoSuchImage);
    bed.server.disarm();
    bed.server.forget_requests();
    bed.push(&noise(MIB), false).unwrap();
    assert_eq!(bed.server.received("PATCH", "/uploads/") / MIB, 0);
}

#[test]
fn an_image_that_is_there_is_not_sent() {
    let (bed, content) = Bed::pushed(MIB);
    let pushed = bed.push(&content, false).unwrap();
    assert!(pushed.unchanged);
    assert_eq!(bed.server.received("PATCH", "/uploads/"), 0);
}

#[test]
fn a_label_of_another_image_is_not_taken_without_force() {
    let (bed, _) = Bed::pushed(MIB);
    let error = bed.push(&noise(100), false).unwrap_err();
    assert_eq!(error.kind, ErrorKind::LabelTaken, "{error}");
    let pushed = bed.push(&noise(100), true).unwrap();
    assert!(pushed.replaced.is_some());
}

#[test]
fn a_registry_that_is_busy_is_sent_everything_again() {
    for (method, path) in [("POST", "/uploads/"), ("PATCH", "/uploads/"), ("PUT", "/")] {
        let bed = Bed::new();
        bed.server.on(method, path).times(2).does(Fault::answer(503));
        let content = bed.push_content(MIB);
        assert!(bed.fetch().unwrap() == content, "{method}");
    }
}

#[test]
fn a_registry_that_stays_busy_during_an_upload_is_named_with_its_answer() {
    for method in ["POST", "PATCH", "PUT"] {
        let bed = Bed::new();
        bed.server.on(method, "/uploads/").does(Fault::answer(429));
        let error = bed.push(&noise(MIB), false).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Status(429), "{method}: {error}");
        let message = format!("answers 429 to the attempt to write {REPOSITORY}");
        assert!(error.to_string().contains(&message), "{method}: {error}");
    }
}

#[test]
fn the_pause_that_a_registry_requests_is_made_during_an_upload() {
    for method in ["PATCH", "PUT"] {
        let bed = Bed::new();
        bed.server.on(method, "/uploads/").once().does(Fault::answer_later(429, 1));
        let started = Instant::now();
        bed.push_content(MIB);
        assert!(started.elapsed() >= Duration::from_secs(1), "{method}");
    }
}
