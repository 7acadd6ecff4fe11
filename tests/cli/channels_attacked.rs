// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a user with write access to a registry and without a key can do to a channel: replay, freeze, swap,
//! or remove documents and images. All of it is named, and nothing of it is accepted.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use cabane_testkit::{Finished, needs};

use crate::cabane::{APP, Who};
use crate::channels::{Bed, NEW};

const UNTRUSTED: i32 = 12;

/// The attacker has a client of their own.
struct Attacker<'a> {
    bed: &'a Bed,
    oras: PathBuf,
}

impl<'a> Attacker<'a> {
    fn new(bed: &'a Bed, oras: &Path) -> Self {
        Self { bed, oras: oras.to_owned() }
    }

    fn oras(&self, arguments: &[&str]) -> Finished {
        let mut command = self.bed.shared.cabane.world.command(&self.oras);
        Finished::of(command.args(arguments)).success()
    }

    fn channel(&self, system: &str, tag: &str) -> String {
        let host = self.bed.shared.registry.host();
        format!("{host}/uenv/deploy/cabane-channel/{system}:{tag}")
    }

    /// Lets a tag of the channel be another document.
    fn tag(&self, from: &str, to: &str) {
        self.oras(&["tag", "--plain-http", &self.channel("here", from), to]);
    }

    fn copy(&self, from: &str, to: &str) {
        self.oras(&["cp", "--from-plain-http", "--to-plain-http", from, to]);
    }

    /// Takes all documents of the channel away.
    fn delete_channel(&self) {
        for tag in ["stable", "stable.1", "stable.2"] {
            let name = self.channel("here", tag);
            let mut command = self.bed.shared.cabane.world.command(&self.oras);
            // Two tags may have one document.
            Finished::of(command.args(["manifest", "delete", "--plain-http", "--force", &name]));
        }
    }

    /// Writes a document that is signed by nobody.
    fn write(&self, tag: &str, content: &str) {
        let world = &self.bed.shared.cabane.world;
        let file = world.file("work/forged.json", content);
        let kind = "application/vnd.cabane.channel.v1";
        let layer = "./forged.json:application/vnd.dsse.envelope.v1+json";
        let mut command = world.command(&self.oras);
        command.current_dir(file.parent().unwrap());
        let arguments =
            ["push", "--plain-http", "--artifact-type", kind, &self.channel("here", tag), layer];
        Finished::of(command.args(arguments)).success();
    }
}

fn refused(bed: &Bed, words: &str) {
    let pulled = bed.run(&["image", "pull", "app:stable"]);
    assert_eq!(pulled.code, UNTRUSTED, "{words}: {}", pulled.stderr);
    assert!(pulled.stderr.contains(words), "{words}: {}", pulled.stderr);
    assert!(pulled.stderr.contains("release.pub"), "{}", pulled.stderr);
}

/// Forgets what was seen of channels, as a user at the first time.
fn forget(bed: &Bed) {
    let seen = bed.shared.cabane.world.path("home/.local/state/cabane/channels");
    fs::remove_dir_all(seen).unwrap();
}

#[test]
fn an_old_document_that_is_put_back_is_refused() {
    needs!("docker-registry");
    let oras = needs!("oras");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let attacker = Attacker::new(&bed, &oras);
    bed.change(&["promote", "stable", APP]).success();
    bed.change(&["promote", "stable", NEW]).success();
    bed.run(&["image", "pull", "app:stable"]).success();
    // The tag alone does not hide the newer document from anyone.
    attacker.tag("stable.1", "stable");
    sleep(Duration::from_secs(10));
    assert_eq!(bed.show("stable")["serial"], 2);
    forget(&bed);
    assert_eq!(bed.show("stable")["serial"], 2);
    // With both tags, a client that has seen the newer one finds out.
    attacker.tag("stable.1", "stable.2");
    refused(&bed, "went back from number 2 to 1");
    // The others, if the site names a number.
    forget(&bed);
    bed.configure("minimum_serial = 2", "");
    refused(&bed, "it is at number 1, and the configuration wants 2");
    // A release manager who has seen nothing does not continue with the old state either.
    let renewed = bed.change(&["renew", "stable"]);
    assert_eq!(renewed.code, UNTRUSTED, "{}", renewed.stderr);
    assert!(renewed.stderr.contains("registry mirror"), "{}", renewed.stderr);
}

#[test]
fn release_managers_continue_with_the_newest_state_that_they_know() {
    needs!("docker-registry");
    let oras = needs!("oras");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let attacker = Attacker::new(&bed, &oras);
    bed.change(&["promote", "stable", APP]).success();
    bed.change(&["promote", "stable", NEW]).success();
    attacker.tag("stable.1", "stable");
    attacker.tag("stable.1", "stable.2");
    let renewed = bed.change(&["renew", "stable"]).success();
    assert!(renewed.stderr.contains("went back from number 2 to 1"), "{}", renewed.stderr);
    let shown = bed.show("stable");
    assert_eq!(shown["serial"], 3);
    assert_eq!(shown["entries"].as_array().unwrap().len(), 2, "{shown}");
}

#[test]
fn a_document_of_another_channel_namespace_or_system_is_refused() {
    needs!("docker-registry");
    let oras = needs!("oras");
    let others = "[[channel]]\nname = \"testing\"\nkeys = [\"KEY.pub\"]";
    let bed = Bed::new(Who::OrdinaryUser, "", others);
    let attacker = Attacker::new(&bed, &oras);
    bed.change(&["promote", "stable", NEW]).success();
    bed.change(&["promote", "testing", APP]).success();
    bed.change(&["promote", "testing", NEW]).success();
    bed.run(&["image", "copy", APP, "app/1.0:v1@there%x86_64"]).success();
    bed.change(&["promote", "stable@there", "app/1.0:v1@there%x86_64"]).success();
    bed.run(&["image", "pull", "app:stable"]).success();
    let keep = attacker.channel("here", "kept");
    attacker.copy(&attacker.channel("here", "stable"), &keep);
    let ignored = |words: &str| {
        let pulled = bed.run(&["image", "pull", "app:stable"]).success();
        assert!(pulled.stderr.contains("`stable` is ignored"), "{}", pulled.stderr);
        assert!(pulled.stderr.contains(words), "{}", pulled.stderr);
    };
    attacker.tag("testing", "stable");
    ignored("signed for the channel deploy::testing@here");
    attacker.copy(&attacker.channel("there", "stable"), &attacker.channel("here", "stable"));
    ignored("signed for the channel deploy::stable@there");
    // Where the document itself is gone, nothing counts.
    attacker.tag("testing", "stable.1");
    refused(&bed, "signed for the channel");
    attacker.tag("kept", "stable");
    let pulled = bed.run(&["image", "pull", "app:stable"]).success();
    assert!(!pulled.stderr.contains("is ignored"), "{}", pulled.stderr);
}

#[test]
fn a_document_without_the_right_signature_is_refused_and_a_next_one_ignored() {
    needs!("docker-registry");
    let oras = needs!("oras");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let attacker = Attacker::new(&bed, &oras);
    bed.change(&["promote", "stable", APP]).success();
    // Junk under the next number is named, and ignored.
    let unsigned = "{\"payloadType\":\"application/vnd.cabane.channel.v1+json\",\"payload\":\"e30=\",\"signatures\":[]}";
    for junk in ["{}", "no JSON", unsigned] {
        attacker.write("stable.2", junk);
        let pulled = bed.run(&["image", "pull", "app:stable"]).success();
        assert!(pulled.stderr.contains("`stable.2` is ignored"), "{}", pulled.stderr);
    }
    bed.change(&["promote", "stable", NEW]).success();
    assert_eq!(bed.show("stable")["serial"], 2);
    let large = format!("{{\"payloadType\":\"{}\"}}", "x".repeat(5 << 20));
    for (junk, words) in [
        (unsigned, "it is not signed"),
        ("{}", "is not the document of a channel"),
        (&large, "is not the document of a channel"),
    ] {
        for tag in ["stable", "stable.3"] {
            attacker.write(tag, junk);
            let pulled = bed.run(&["image", "pull", "app:stable"]).success();
            assert!(pulled.stderr.contains(&format!("`{tag}` is ignored")), "{}", pulled.stderr);
            assert!(pulled.stderr.contains(words), "{}", pulled.stderr);
        }
    }
    // A release manager replaces it.
    bed.change(&["renew", "stable"]).success();
    let shown = bed.run(&["channel", "show", "stable"]).success();
    assert!(!shown.stderr.contains("is ignored"), "{}", shown.stderr);
    assert_eq!(bed.show("stable")["serial"], 3);
}

#[test]
fn two_documents_with_one_number_are_named_and_a_release_manager_leaves_a_number_out() {
    needs!("docker-registry");
    let oras = needs!("oras");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let attacker = Attacker::new(&bed, &oras);
    bed.change(&["promote", "stable", APP]).success();
    attacker.copy(&attacker.channel("here", "stable"), &attacker.channel("here", "kept"));
    bed.change(&["promote", "stable", NEW]).success();
    let seen = bed.shared.cabane.world.path("home/.local/state/cabane/channels");
    let aside = bed.shared.cabane.world.path("home/aside");
    fs::rename(&seen, &aside).unwrap();
    // The registry was restored, and someone without a memory continued.
    for tag in ["stable", "stable.2"] {
        attacker.tag("kept", tag);
    }
    bed.change(&["renew", "stable"]).success();
    assert_eq!(bed.show("stable")["serial"], 2);
    fs::remove_dir_all(&seen).unwrap();
    fs::rename(&aside, &seen).unwrap();
    refused(&bed, "there are two documents with the number 2");
    let renewed = bed.change(&["renew", "stable"]).success();
    assert!(renewed.stderr.contains("has another document than number 2"), "{}", renewed.stderr);
    assert_eq!(bed.show("stable")["serial"], 4);
    let log = bed.run(&["channel", "log", "stable"]).success();
    assert!(!log.stderr.contains("is gone"), "{}", log.stderr);
}

#[test]
fn a_key_is_replaced_and_the_old_one_no_longer_counts() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    bed.change(&["promote", "stable", APP]).success();
    let new = bed.shared.cabane.world.path("work/new").to_str().unwrap().to_owned();
    bed.run(&["image", "key", "new", &new]).success();
    let keys = |keys: &str| {
        let path = bed.shared.cabane.world.path("site.toml");
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(|line| {
            let is_meant = line.starts_with("keys = ");
            if is_meant { format!("keys = [{keys}]\n") } else { format!("{line}\n") }
        });
        fs::write(&path, lines.collect::<String>()).unwrap();
    };
    keys(&format!("\"{}.pub\", \"{new}.pub\"", bed.key));
    bed.run(&["channel", "renew", "stable", "--key", &new]).success();
    keys(&format!("\"{new}.pub\""));
    bed.run(&["image", "pull", "app:stable"]).success();
    let old = bed.change(&["renew", "stable"]);
    assert_eq!(old.code, UNTRUSTED, "{}", old.stderr);
    bed.run(&["channel", "promote", "stable", NEW, "--key", &new]).success();
    assert_eq!(bed.show("stable")["serial"], 3);
}

#[test]
fn the_channel_releases_its_image_whatever_the_tags_are() {
    needs!("docker-registry");
    let oras = needs!("oras");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let attacker = Attacker::new(&bed, &oras);
    bed.change(&["promote", "stable", APP]).success();
    let host = bed.shared.registry.host();
    let name =
        |version: &str, tag: &str| format!("{host}/uenv/deploy/here/x86_64/app/{version}:{tag}");
    bed.shared.forget();
    for tag in ["v1", "stable"] {
        attacker.copy(&name("2.0", "v1"), &name("1.0", tag));
    }
    bed.run(&["image", "pull", "app/1.0:stable"]).success();
    assert_eq!(bed.hello("app/1.0:stable"), "hello from app\n");
}

#[test]
fn a_channel_that_is_frozen_or_gone_is_named() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    bed.change(&["promote", "stable", APP, "--lifetime", "1s"]).success();
    sleep(Duration::from_secs(1));
    let pulled = bed.run(&["image", "pull", "app:stable"]).success();
    assert!(pulled.stderr.contains("its document expired on"), "{}", pulled.stderr);
    assert!(pulled.stderr.contains("cabane channel renew"), "{}", pulled.stderr);
    bed.configure("expired = \"refuse\"", "");
    refused(&bed, "its document expired on");
    bed.change(&["renew", "stable"]).success();
    bed.run(&["image", "pull", "app:stable"]).success();
    let oras = needs!("oras");
    let attacker = Attacker::new(&bed, &oras);
    attacker.delete_channel();
    refused(&bed, "it is gone, and was at number 2");
    // Another registry is another memory, and has no channel.
    let host = bed.shared.registry.host();
    let url = format!("http://{host}/empty");
    let missing = bed.run(&["image", "pull", "app:stable", "--registry", &url]);
    assert_eq!(missing.code, 4, "{}", missing.stderr);
}
