// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Lists that are kept, and registries that change.

use std::fs::{self, File};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use cabane_label::NameMatch;
use cabane_registry::{Address, Error, Listing, Options, Registry, Wanted};
use cabane_testkit::Fault;

use crate::bed::{Bed, options, place};
use crate::lists::push_file;

const LABEL: &str = "app/1.0:v1@daint%gh200";
const OTHER: &str = "app/1.0:v2@daint%gh200";

/// Another client of the registry, which keeps lists.
struct Reader {
    registry: Registry,
    cache: tempfile::TempDir,
}

impl Reader {
    fn new(bed: &Bed) -> Self {
        let cache = tempfile::tempdir().unwrap();
        let options = Options { cache: Some(cache.path().to_owned()), ..options() };
        let address: Address = format!("{}/uenv", bed.server.url()).parse().unwrap();
        Self { registry: Registry::new(address, &options).unwrap(), cache }
    }

    /// Lets time pass.
    fn age(&self, seconds: u64) {
        for entry in fs::read_dir(self.cache.path()).unwrap() {
            let file = File::options().write(true).open(entry.unwrap().path());
            let then = SystemTime::now() - Duration::from_secs(seconds);
            file.unwrap().set_modified(then).unwrap();
        }
    }

    fn labels(&self, listing: Listing) -> Vec<String> {
        labels(&self.registry, listing).unwrap()
    }
}

fn labels(registry: &Registry, listing: Listing) -> Result<Vec<String>, Error> {
    let namespace = "deploy".parse().unwrap();
    let wanted = Wanted { namespace: &namespace, pattern: None, how: NameMatch::Prefix };
    let found = registry.find(&wanted, listing)?;
    Ok(found.iter().map(|image| image.label.to_string()).collect())
}

fn push(registry: &Registry, label: &str, content: &str) {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    fs::write(&image, content).unwrap();
    push_file(registry, &place(label), &image);
}

#[test]
fn what_did_not_change_is_not_sent_again() {
    let (bed, _) = Bed::pushed(100);
    let reader = Reader::new(&bed);
    for listing in [Listing::Index, Listing::Catalog] {
        assert_eq!(reader.labels(listing), [LABEL]);
        bed.server.forget_requests();
        assert_eq!(reader.labels(listing), [LABEL]);
        assert_eq!(bed.server.requests_of("GET", "/manifests/").len(), 1, "{listing:?}");
        assert_eq!(bed.server.sent("GET", "/manifests/"), 0, "{listing:?}");
    }
    assert_eq!(bed.server.requests_of("", "cabane-index").len(), 0);
}

#[test]
fn a_registry_that_sends_everything_again_is_understood() {
    let (bed, _) = Bed::pushed(100);
    bed.server.change(|settings| settings.validation = false);
    let reader = Reader::new(&bed);
    for listing in [Listing::Index, Listing::Catalog] {
        reader.labels(listing);
        bed.server.forget_requests();
        assert_eq!(reader.labels(listing), [LABEL]);
        let lists = bed.server.requests_of("GET", "/cabane-index/tags/");
        assert_eq!(lists.len(), 0, "{listing:?}");
    }
}

#[test]
fn a_list_is_right_while_others_write() {
    let bed = Bed::new();
    let reader = Reader::new(&bed);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..6)
            .map(|number| {
                let registry = &bed.registry;
                let label = format!("app/1.0:v{number}@daint%gh200");
                scope.spawn(move || push(registry, &label, &label))
            })
            .collect();
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let _ = labels(&reader.registry, Listing::Index);
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(reader.labels(Listing::Index).len(), 6);
    bed.registry.delete(&place("app/1.0:v3@daint%gh200")).unwrap();
    assert_eq!(reader.labels(Listing::Index).len(), 5);
}

#[test]
fn a_push_that_was_cut_off_before_its_end_is_seen_once_it_is_repeated() {
    let (bed, _) = Bed::pushed(100);
    let reader = Reader::new(&bed);
    assert_eq!(reader.labels(Listing::Index), [LABEL]);
    bed.server.on("PUT", "cabane-state").does(Fault::answer(403));
    let to = place(OTHER);
    let cut = bed.registry.copy(&place(LABEL), &to, false);
    assert!(cut.is_err());
    bed.server.disarm();
    bed.registry.copy(&place(LABEL), &to, false).unwrap();
    assert_eq!(reader.labels(Listing::Index), [LABEL, OTHER]);
}

#[test]
fn a_push_that_was_cut_off_before_its_end_and_never_repeated_is_seen_after_a_while() {
    let (bed, _) = Bed::pushed(100);
    let reader = Reader::new(&bed);
    reader.labels(Listing::Index);
    bed.server.on("PUT", "cabane-state").does(Fault::answer(403));
    let cut = bed.registry.copy(&place(LABEL), &place(OTHER), false);
    assert!(cut.is_err());
    reader.age(300);
    assert_eq!(reader.labels(Listing::Index), [LABEL]);
    reader.age(700);
    assert_eq!(reader.labels(Listing::Index), [LABEL, OTHER]);
}

#[test]
fn an_index_without_a_state_is_read_each_time() {
    let (bed, _) = Bed::pushed(100);
    let reader = Reader::new(&bed);
    bed.server.on("GET", "cabane-state").does(Fault::answer(404));
    assert_eq!(reader.labels(Listing::Index), [LABEL]);
    push(&bed.registry, OTHER, "other");
    assert_eq!(reader.labels(Listing::Index), [LABEL, OTHER]);
}

#[test]
fn of_the_states_of_a_list_only_the_last_one_is_left() {
    let (bed, _) = Bed::pushed(100);
    for number in 2..6 {
        let to = place(&format!("app/1.0:v{number}@daint%gh200"));
        bed.registry.copy(&place(LABEL), &to, false).unwrap();
    }
    let deleted = bed.server.requests_of("DELETE", "cabane-state/manifests/");
    assert_eq!(deleted.len(), 4);
}

#[test]
fn who_may_write_and_not_delete_can_push() {
    let (bed, _) = Bed::pushed(100);
    let reader = Reader::new(&bed);
    reader.labels(Listing::Index);
    for status in [401, 403, 405, 409] {
        bed.server.disarm();
        bed.server.on("DELETE", "").does(Fault::answer(status));
        let label = format!("app/1.0:w{status}@daint%gh200");
        push(&bed.registry, &label, &label);
        assert!(reader.labels(Listing::Index).contains(&label), "{status}");
    }
}
