// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a user with write access to a registry and without a key can do: give a label the signed image of
//! another one, or an old one again.

use std::fs;

use cabane_testkit::{Finished, needs};

use crate::cabane::{APP, Who, everybody};
use crate::registry::Shared;

const UNTRUSTED: i32 = 12;
const OTHER: &str = "app/2.0:v1@here%x86_64";

/// A registry from which signed images are wanted, and the key.
struct Bed {
    shared: Shared,
    key: String,
}

impl Bed {
    /// With what the rule says of labels.
    fn new(who: Who, labels: &str) -> Self {
        let shared = Shared::new(who);
        let key = shared.cabane.world.path("work/site").to_str().unwrap().to_owned();
        shared.run(&["image", "key", "new", &key]).success();
        let path = shared.cabane.world.path("site.toml");
        let text = fs::read_to_string(&path).unwrap();
        let rule = format!(
            "[[trust]]\nnamespace = \"deploy\"\nrequire = \"signature\"\nkeys = [\"{key}.pub\"]\n{labels}"
        );
        shared.cabane.world.file("site.toml", &(text + &rule));
        Self { shared, key }
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.shared.run(arguments)
    }

    fn push(&self, image: &str, label: &str) {
        let key = ["--sign", &self.key];
        self.run(&[&["image", "push", "--force", image, label], &key[..]].concat()).success();
    }

    /// Makes another image.
    fn image(&self, name: &str) -> String {
        self.shared.cabane.image(name, &self.shared.cabane.mount_point(name))
    }

    fn pull(&self, label: &str) -> Finished {
        self.run(&["image", "pull", "--force", label])
    }

    fn sign_again(&self, label: &str) {
        self.run(&["image", "sign", "--renew", label, "--key", &self.key]).success();
    }
}

const REFUSE: &str = "labels = \"refuse\"\n";

#[test]
fn a_label_with_the_signed_image_of_another_is_named_and_refused_where_that_is_wanted() {
    needs!("docker-registry");
    for who in everybody() {
        for (rule, code) in [("", 0), (REFUSE, UNTRUSTED)] {
            let bed = Bed::new(who, rule);
            bed.push(APP, APP);
            bed.push(&bed.image("other"), OTHER);
            // Signatures go with the image.
            bed.run(&["image", "copy", "--force", APP, OTHER]).success();
            let pulled = bed.pull(OTHER);
            assert_eq!(pulled.code, code, "{}", pulled.stderr);
            let named = format!("its signature is for deploy::{APP}");
            assert!(pulled.stderr.contains(&named), "{}", pulled.stderr);
            assert!(pulled.stderr.contains("image sign --renew"), "{}", pulled.stderr);
            // Under its own label it is what it was.
            let own = bed.pull(APP).success();
            assert!(!own.stderr.contains("its signature"), "{}", own.stderr);
            bed.sign_again(OTHER);
            let signed = bed.pull(OTHER).success();
            assert!(!signed.stderr.contains("its signature"), "{}", signed.stderr);
        }
    }
}

#[test]
fn a_label_that_goes_back_in_time_is_named_and_refused_where_that_is_wanted() {
    needs!("docker-registry");
    for (rule, code) in [("", 0), (REFUSE, UNTRUSTED)] {
        let bed = Bed::new(Who::OrdinaryUser, rule);
        bed.push(APP, APP);
        bed.run(&["image", "copy", APP, "app/1.0:old"]).success();
        bed.pull(APP).success();
        bed.push(&bed.image("other"), APP);
        bed.pull(APP).success();
        bed.run(&["image", "copy", "--force", "app/1.0:old", APP]).success();
        // Again and again, until it is signed again.
        for _ in 0..2 {
            let pulled = bed.pull(APP);
            assert_eq!(pulled.code, code, "{}", pulled.stderr);
            assert!(pulled.stderr.contains("the label had an image of"), "{}", pulled.stderr);
        }
        bed.sign_again(APP);
        let signed = bed.pull(APP).success();
        assert!(!signed.stderr.contains("the label had"), "{}", signed.stderr);
    }
}

#[test]
fn who_pushes_an_old_image_with_the_key_goes_back_on_purpose() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, REFUSE);
    let other = bed.image("other");
    for image in [APP, other.as_str(), APP] {
        bed.push(image, APP);
        bed.pull(APP).success();
    }
}

#[test]
fn what_is_noted_of_labels_is_for_one_registry_and_survives_damage() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, REFUSE);
    bed.push(APP, APP);
    bed.pull(APP).success();
    let notes = bed.shared.cabane.world.path("home/.local/state/cabane/labels");
    let note = fs::read_dir(notes).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&note).unwrap();
    assert!(text.ends_with(&format!("/uenv deploy::{APP}\n")), "{text}");
    for damaged in ["", "9999 nothing", &text.replace("/uenv", "/other")] {
        fs::write(&note, damaged).unwrap();
        bed.pull(APP).success();
        assert_eq!(fs::read_to_string(&note).unwrap(), text, "{damaged}");
    }
}
