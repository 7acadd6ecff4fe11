// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Copying and deleting.

use cabane_registry::{ErrorKind, Listing, Place};
use cabane_testkit::Fault;

use crate::bed::{Bed, MIB, REPOSITORY, place};

#[test]
fn what_is_deleted_leaves_nothing() {
    for (referrers, tag_deletion) in [(true, true), (false, true), (false, false), (true, false)] {
        let bed = Bed::new();
        bed.server.change(|settings| {
            settings.referrers = referrers;
            settings.tag_deletion = tag_deletion;
        });
        bed.push_content(MIB);
        bed.delete().unwrap();
        assert_eq!(bed.server.tags(REPOSITORY), []);
        assert_eq!(bed.labels(Listing::Index).unwrap_or_default(), [""; 0]);
    }
}

#[test]
fn a_registry_that_ignores_a_deletion_is_an_error() {
    let (bed, _) = Bed::pushed(MIB);
    bed.server.on("DELETE", "/manifests/").does(Fault::answer(202));
    let error = bed.delete().unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoDeletion);
    assert!(error.to_string().contains("accepted the deletion of"), "{error}");
    assert_ne!(bed.labels(Listing::Index).unwrap(), [""; 0]);
}

#[test]
fn a_label_is_deleted_and_the_image_stays_under_the_other() {
    for tag_deletion in [true, false] {
        let (bed, _) = Bed::pushed(MIB);
        bed.server.change(|settings| settings.tag_deletion = tag_deletion);
        let to = place("app/1.0:latest@daint%gh200");
        bed.registry.copy(&place("app/1.0:v1@daint%gh200"), &to, false).unwrap();
        let deleted = bed.delete().unwrap();
        assert!(deleted.remains);
        let image = bed.registry.image(&to).unwrap();
        let into = tempfile::tempdir().unwrap();
        assert!(bed.registry.fetch_meta(&image, into.path()).unwrap());
    }
}

#[test]
fn copying_between_repositories_sends_no_blob_and_takes_everything_along() {
    for referrers in [true, false] {
        let bed = Bed::new();
        bed.server.change(|settings| settings.referrers = referrers);
        bed.push_content(MIB);
        bed.server.forget_requests();
        let to = Place {
            namespace: "build".parse().unwrap(),
            label: "app/2.0:v1@daint%gh200".parse().unwrap(),
        };
        bed.registry.copy(&place("app/1.0:v1@daint%gh200"), &to, false).unwrap();
        assert!(bed.server.received("PATCH", "/app/2.0/") < 100);
        let image = bed.registry.image(&to).unwrap();
        let into = tempfile::tempdir().unwrap();
        assert!(bed.registry.fetch_meta(&image, into.path()).unwrap());
    }
}
