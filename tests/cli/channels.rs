// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Channels: release managers promote, roll back, and retire images; users follow.

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use cabane_testkit::{Finished, needs};
use serde_json::Value;

use crate::cabane::{APP, Who, everybody};
use crate::registry::Shared;

pub(crate) const NEW: &str = "app/2.0:v1@here%x86_64";
const REJECTED: i32 = 13;

/// A registry whose releases are signed, with two images in it.
pub(crate) struct Bed {
    pub(crate) shared: Shared,
    /// The key of the release managers.
    pub(crate) key: String,
}

impl Bed {
    /// With more lines for the channel `stable`, and more sections. `KEY` in them is the file of
    /// the key.
    pub(crate) fn new(who: Who, stable: &str, more: &str) -> Self {
        let shared = Shared::new(who);
        let key = shared.cabane.world.path("work/release").to_str().unwrap().to_owned();
        shared.run(&["image", "key", "new", &key]).success();
        let bed = Self { shared, key };
        bed.configure(stable, more);
        bed.run(&["image", "push", APP]).success();
        bed.run(&["image", "push", &bed.image("other"), NEW]).success();
        bed
    }

    pub(crate) fn configure(&self, stable: &str, more: &str) {
        let (url, key) = (self.shared.registry.url(), &self.key);
        let text = format!(
            "[registry]\nurl = \"{url}/uenv\"\n[[channel]]\nname = \"stable\"\nkeys = [\"{key}.pub\"]\n\
             {stable}\n{more}\n"
        );
        self.shared.cabane.world.file("site.toml", &text.replace("KEY", key));
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.shared.run(arguments)
    }

    /// Changes a channel as a release manager.
    pub(crate) fn change(&self, arguments: &[&str]) -> Finished {
        self.run(&[&["channel"], arguments, &["--key", &self.key]].concat())
    }

    pub(crate) fn image(&self, name: &str) -> String {
        self.shared.cabane.image(name, &self.shared.cabane.mount_point(name))
    }

    pub(crate) fn show(&self, channel: &str) -> Value {
        let output = self.run(&["channel", "show", channel, "--json"]).success().stdout;
        serde_json::from_str(&output).unwrap()
    }

    fn labels(&self, channel: &str) -> Vec<String> {
        let shown = self.show(channel);
        let entries = shown["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["label"].as_str().unwrap().to_owned()).collect()
    }

    fn pull(&self, label: &str) -> Finished {
        self.run(&["image", "pull", "--force", label])
    }

    pub(crate) fn hello(&self, label: &str) -> String {
        self.run(&["run", label, "--", "hello"]).success().stdout
    }
}

#[test]
fn an_image_is_promoted_and_users_get_it_by_the_name_of_the_channel() {
    needs!("docker-registry");
    for who in everybody() {
        let bed = Bed::new(who, "", "");
        bed.shared.forget();
        let promoted = bed.change(&["promote", "stable", APP, "--by", "ada"]).success();
        let said = format!("deploy::stable@here, number 1, releases {APP} (");
        assert!(promoted.stderr.contains(&said), "{}", promoted.stderr);
        assert!(promoted.stderr.contains("; app:stable means it"), "{}", promoted.stderr);
        assert_eq!(bed.shared.labels(&["app:stable"]), [APP]);
        bed.pull("app:stable").success();
        assert_eq!(bed.hello("app:stable"), "hello from app\n");
        assert_eq!(bed.hello("app/1.0:v1"), "hello from app\n");
        // A newer version becomes what the name means; the older one stays.
        bed.change(&["promote", "stable", NEW, "--reason", "faster"]).success();
        bed.pull("app:stable").success();
        assert_eq!(bed.hello("app/2.0:stable"), "hello from other\n");
        assert_eq!(bed.labels("stable"), [APP, NEW]);
        assert_eq!(bed.labels("stable.1"), [APP]);
        let log = bed.run(&["channel", "log", "stable"]).success().stdout;
        let words = ["+ app/2.0", "~ app means 2.0 instead of 1.0", "faster", "ada"];
        assert!(words.iter().all(|word| log.contains(word)), "{log}");
        let diff = bed.run(&["channel", "diff", "stable.1", "stable"]).success().stdout;
        assert_eq!(diff, format!("+ {NEW}\n~ app means 2.0 instead of 1.0\n"));
        bed.run(&["channel", "diff", "stable.1", "stable", "--json"]).success();
        bed.run(&["channel", "ls", "--json"]).success();
    }
}

#[test]
fn an_older_version_does_not_become_what_the_name_means() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    bed.change(&["promote", "stable", NEW]).success();
    bed.change(&["promote", "stable", APP]).success();
    let remote = |label: &str| {
        let arguments = ["image", "inspect", "--remote", "--format", "{label}", label];
        bed.run(&arguments).success().stdout.trim().to_owned()
    };
    assert_eq!(remote("app:stable"), NEW);
    assert_eq!(remote("app/1.0:stable"), APP);
    bed.change(&["promote", "stable", APP, "--default", "true"]).success();
    assert_eq!(remote("app:stable"), APP);
    bed.change(&["promote", "stable", NEW, "--default", "false"]).success();
    assert_eq!(remote("app:stable"), APP);
    let missing = bed.pull("app/3.0:stable");
    assert_eq!(missing.code, 4);
    assert!(missing.stderr.contains("cabane channel show"), "{}", missing.stderr);
}

#[test]
fn the_gate_shows_its_evidence_and_promotes_nothing_that_fails_a_rule() {
    needs!("docker-registry");
    let testing = "[[channel]]\nname = \"testing\"\nkeys = [\"KEY.pub\"]";
    let rules = "signed_by = [\"KEY.pub\"]\nfrom = \"testing\"\nage = \"2s\"";
    let bed = Bed::new(Who::OrdinaryUser, rules, testing);
    let other = bed.run(&["channel", "promote", "stable", APP, "--dry-run"]);
    assert_eq!(other.code, 4, "{}", other.stderr);
    bed.change(&["promote", "testing", NEW]).success();
    let rules = |images: &[&str]| {
        let arguments = [&["channel", "promote", "stable", "--dry-run", "--json"], images].concat();
        let finished = bed.run(&arguments);
        let shown: Value = serde_json::from_str(&finished.stdout).unwrap();
        let rules = shown[0]["rules"].as_array().unwrap().clone();
        let outcome = |name: &str| {
            let rule = rules.iter().find(|rule| rule["rule"] == name).unwrap();
            rule["outcome"].as_str().unwrap().to_owned()
        };
        (finished.code, ["signed_by", "from", "age"].map(outcome))
    };
    assert_eq!(rules(&[APP]), (REJECTED, ["failed"; 3].map(str::to_owned)));
    let refused = bed.change(&["promote", "stable", APP]);
    assert_eq!(refused.code, REJECTED, "{}", refused.stderr);
    assert!(refused.stdout.contains("not in testing"), "{}", refused.stdout);
    assert_eq!(bed.run(&["channel", "show", "stable"]).code, 4);
    bed.change(&["promote", "testing", APP]).success();
    bed.run(&["image", "sign", APP, "--key", &bed.key]).success();
    sleep(Duration::from_secs(2));
    assert_eq!(rules(&[APP]), (0, ["passed"; 3].map(str::to_owned)));
    // The name of the other channel is enough to name the image.
    bed.change(&["promote", "stable", "app/1.0:testing"]).success();
    assert_eq!(bed.labels("stable"), [APP]);
}

#[test]
fn the_signature_of_another_label_is_no_evidence() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "signed_by = [\"KEY.pub\"]", "");
    bed.run(&["image", "sign", APP, "--key", &bed.key]).success();
    bed.run(&["image", "copy", "--force", APP, NEW]).success();
    let refused = bed.change(&["promote", "stable", NEW]);
    assert_eq!(refused.code, REJECTED);
    assert!(refused.stdout.contains("the signature is for another label"), "{}", refused.stdout);
    bed.change(&["promote", "stable", APP]).success();
}

#[test]
fn a_rule_is_waived_with_a_reason_and_until_a_day() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "signed_by = [\"KEY.pub\"]", "");
    let waive =
        ["waive", "stable", APP, "--rule", "signed_by", "--reason", "old build", "--by", "ada"];
    let late = bed.change(&[&waive[..], &["--until", "2020-01-01"]].concat());
    assert_eq!(late.code, 2, "{}", late.stderr);
    assert!(late.stderr.contains("the day 2020-01-01 is over"), "{}", late.stderr);
    bed.change(&[&waive[..], &["--until", "2999-12-31"]].concat()).success();
    let shown = bed.run(&["channel", "promote", "stable", APP, "--dry-run"]).success().stdout;
    assert!(shown.contains("waived by ada until 2999-12-31: old build"), "{shown}");
    assert_eq!(bed.change(&["promote", "stable", NEW]).code, REJECTED);
    bed.change(&["promote", "stable", APP]).success();
    let log = bed.run(&["channel", "log", "stable"]).success().stdout;
    assert!(log.contains("signed_by is waived"), "{log}");
    let shown = bed.run(&["channel", "show", "stable"]).success().stdout;
    assert!(shown.contains("until 2999-12-31, by ada: old build"), "{shown}");
    let wrong = bed.change(&[
        "waive",
        "stable",
        APP,
        "--rule",
        "x",
        "--reason",
        "r",
        "--until",
        "2999-01-01",
    ]);
    assert_eq!(wrong.code, 2);
    let names = "use `signed_by`, `from`, `age`, `tested_within`, `built_from`, `suites`, \
                 `regressions`, or `runs_on`";
    assert!(wrong.stderr.contains(names), "{}", wrong.stderr);
}

#[test]
fn a_rollback_publishes_earlier_images_under_a_new_number() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    bed.change(&["promote", "stable", APP]).success();
    bed.change(&["promote", "stable", NEW]).success();
    bed.change(&["rollback", "stable", "--reason", "it crashes"]).success();
    assert_eq!(bed.labels("stable"), [APP]);
    assert_eq!(bed.show("stable")["serial"], 3);
    bed.change(&["rollback", "stable", "--to", "2"]).success();
    assert_eq!(bed.labels("stable"), [APP, NEW]);
    for number in ["0", "4", "17"] {
        let refused = bed.change(&["rollback", "stable", "--to", number]);
        assert_eq!(refused.code, 4, "{number}: {}", refused.stderr);
    }
}

#[test]
fn a_retired_image_is_announced_and_then_withdrawn() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    bed.change(&["promote", "stable", APP]).success();
    let retire = ["retire", "stable", "app/1.0", "--use", "app/2.0", "--reason", "no longer built"];
    bed.change(&[&retire[..], &["--on", "2999-01-01"]].concat()).success();
    let pulled = bed.pull("app/1.0:stable").success();
    for word in ["2999-01-01", "no longer built", "use `app/2.0` instead"] {
        assert!(pulled.stderr.contains(word), "{}", pulled.stderr);
    }
    bed.change(&retire).success();
    let pulled = bed.pull("app/1.0:stable");
    assert_eq!(pulled.code, 4, "{}", pulled.stderr);
    for word in ["was retired", "no longer built", "use `app/2.0` instead"] {
        assert!(pulled.stderr.contains(word), "{}", pulled.stderr);
    }
    // The image itself stays.
    bed.pull(APP).success();
    // A new tag of the version does not take the announcement back.
    bed.run(&["image", "copy", NEW, "app/1.0:v2"]).success();
    let again = bed.change(&["promote", "stable", "app/1.0:v2"]).success();
    assert!(again.stderr.contains("app/1.0 stays retired on"), "{}", again.stderr);
    assert_eq!(bed.pull("app/1.0:stable").code, 4);
    let other = bed.change(&["retire", "stable", "app/1.0:v1"]);
    assert_eq!(other.code, 4, "{}", other.stderr);
    bed.change(&["retire", "stable", "app/1.0", "--cancel"]).success();
    bed.pull("app/1.0:stable").success();
}

#[test]
fn a_revoked_image_leaves_the_channel_and_does_not_come_back() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    bed.change(&["promote", "stable", APP, NEW]).success();
    // Which image the tag has does not matter, if the channel has one of that name.
    bed.run(&["image", "copy", APP, "app/1.0:kept"]).success();
    bed.run(&["image", "copy", "--force", NEW, APP]).success();
    bed.change(&["revoke", "stable", APP, "--reason", "CVE-2026-1"]).success();
    bed.run(&["image", "copy", "--force", "app/1.0:kept", APP]).success();
    assert_eq!(bed.labels("stable"), [NEW]);
    let refused = bed.change(&["promote", "stable", APP]);
    assert_eq!(refused.code, REJECTED);
    assert!(refused.stdout.contains("CVE-2026-1"), "{}", refused.stdout);
    bed.change(&["rollback", "stable", "--to", "1"]).success();
    assert_eq!(bed.labels("stable"), [NEW]);
    // A start of it warns, however it is named.
    let started = bed.run(&["run", APP, "--", "true"]).success().stderr;
    assert!(started.contains("revoked app/1.0:v1@here%x86_64 on"), "{started}");
    assert!(started.contains("CVE-2026-1"), "{started}");
    // Nobody gets it under its own label either.
    bed.shared.forget();
    let pulled = bed.pull(APP);
    assert_eq!(pulled.code, 12, "{}", pulled.stderr);
    assert!(pulled.stderr.contains("CVE-2026-1"), "{}", pulled.stderr);
    // Nor its metadata alone.
    let meta = bed.shared.cabane.world.path("work/meta");
    let pulled = bed.run(&["image", "pull", "--meta", meta.to_str().unwrap(), APP]);
    assert!(pulled.code == 12 && !meta.exists(), "{}", pulled.stderr);
}

#[test]
fn what_the_default_was_and_is_revoked_makes_room_for_the_next_version() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let candidate = "app/2.0-rc1:v1@here%x86_64";
    bed.run(&["image", "copy", APP, candidate]).success();
    bed.change(&["promote", "stable", candidate]).success();
    // A release is newer than its candidate.
    let promoted = bed.change(&["promote", "stable", NEW]).success();
    assert!(promoted.stderr.contains("app:stable means it"), "{}", promoted.stderr);
    bed.change(&["revoke", "stable", NEW, "--reason", "broken"]).success();
    let remote = ["image", "inspect", "--remote", "--format", "{label}", "app:stable"];
    assert_eq!(bed.run(&remote).success().stdout.trim(), candidate);
}

#[test]
fn the_name_of_a_channel_is_no_tag_to_write() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    bed.change(&["promote", "stable", APP]).success();
    for arguments in [
        &["image", "push", APP, "app/1.0:stable"][..],
        &["image", "copy", NEW, "app/1.0:stable"],
        &["image", "delete", "app/1.0:stable"],
    ] {
        let refused = bed.run(arguments);
        assert_eq!(refused.code, 2, "{arguments:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("`stable` is a channel"), "{}", refused.stderr);
    }
    bed.pull("app:stable").success();
}

#[test]
fn release_managers_at_the_same_time_lose_nothing() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let labels: Vec<String> =
        (0..6).map(|number| format!("app/{number}.1:v1@here%x86_64")).collect();
    for label in &labels {
        bed.run(&["image", "copy", APP, label]).success();
    }
    let children: Vec<_> = labels
        .iter()
        .map(|label| {
            let arguments = ["channel", "promote", "stable", label, "--key", &bed.key];
            let mut command = bed.shared.cabane.command(&arguments);
            command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(bed.labels("stable"), labels);
    assert_eq!(bed.show("stable")["serial"], 6);
    let log = bed.run(&["channel", "log", "stable", "--json"]).success().stdout;
    let log: Value = serde_json::from_str(&log).unwrap();
    assert_eq!(log.as_array().unwrap().len(), 6, "{log}");
}

#[test]
fn a_promotion_that_is_killed_leaves_one_state_or_the_other() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    bed.change(&["promote", "stable", APP]).success();
    let arguments = ["channel", "promote", "stable", NEW, "--key", &bed.key];
    for milliseconds in [20, 60, 200, 900, 1100, 1300] {
        let mut command = bed.shared.cabane.command(&arguments);
        let mut child = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(milliseconds));
        let _ = child.kill();
        child.wait().unwrap();
        let labels = bed.labels("stable");
        assert!(labels == [APP] || labels == [APP, NEW], "{labels:?}");
    }
    bed.change(&["promote", "stable", NEW]).success();
    assert_eq!(bed.labels("stable"), [APP, NEW]);
    // Every state can be read, and names the one before.
    let log = bed.run(&["channel", "log", "stable", "--json"]).success();
    assert!(!log.stderr.contains("is gone"), "{}", log.stderr);
}

#[test]
fn what_is_typed_wrong_is_explained() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let unknown = bed.run(&["channel", "show", "nightly"]);
    assert_eq!(unknown.code, 4);
    assert!(unknown.stderr.contains("[[channel]]"), "{}", unknown.stderr);
    let none = bed.run(&["channel", "show", "stable"]);
    assert_eq!(none.code, 4);
    assert!(none.stderr.contains("cabane channel promote"), "{}", none.stderr);
    let listed = bed.run(&["channel", "ls"]).success().stdout;
    assert!(listed.contains("not in the registry yet"), "{listed}");
    bed.run(&["channel", "ls", "--json"]).success();
    let elsewhere = bed.change(&["promote", "stable@there", APP]);
    assert_eq!(elsewhere.code, 3, "{}", elsewhere.stderr);
    let other = bed.shared.cabane.world.path("work/other").to_str().unwrap().to_owned();
    bed.run(&["image", "key", "new", &other]).success();
    let stranger = bed.run(&["channel", "promote", "stable", APP, "--key", &other]);
    assert_eq!(stranger.code, 12, "{}", stranger.stderr);
    assert!(stranger.stderr.contains("add the public key to `keys`"), "{}", stranger.stderr);
    // A user adds channels of their own, and cannot replace that of the site.
    let user = bed.shared.cabane.world.path("home/.config/cabane");
    fs::create_dir_all(&user).unwrap();
    let text = format!("[[channel]]\nname = \"stable\"\nkeys = [\"{other}.pub\"]\n");
    fs::write(user.join("config.toml"), text).unwrap();
    let stranger = bed.run(&["channel", "promote", "stable", APP, "--key", &other]);
    assert_eq!(stranger.code, 12, "{}", stranger.stderr);
}

#[test]
fn names_that_follow_a_channel_are_upgraded_and_rolled_back() {
    needs!("docker-registry");
    for who in everybody() {
        let bed = Bed::new(who, "", "");
        bed.shared.forget();
        let nothing = bed.run(&["upgrade"]).success();
        assert!(nothing.stderr.contains("nothing here follows a channel"), "{}", nothing.stderr);
        bed.change(&["promote", "stable", APP]).success();
        bed.pull("app:stable").success();
        bed.pull("app/1.0:stable").success();
        let current = bed.run(&["upgrade"]).success().stdout;
        assert!(current.contains(&format!("app%x86_64:stable: {APP} is up to date")), "{current}");
        bed.change(&["promote", "stable", NEW]).success();
        let planned = bed.run(&["upgrade", "--dry-run", "app"]).success().stdout;
        assert!(planned.contains(&format!("app%x86_64:stable: {APP} -> {NEW}")), "{planned}");
        assert_eq!(bed.hello("app:stable"), "hello from app\n");
        let upgraded = bed.run(&["upgrade"]).success();
        assert!(upgraded.stderr.contains(&format!("is {NEW} now")), "{}", upgraded.stderr);
        assert_eq!(bed.hello("app:stable"), "hello from other\n");
        let limits = ["repo", "gc", "--keep-last", "1", "--spare", "0s", "--dry-run"];
        let kept = bed.run(&limits).success().stdout;
        assert_eq!(kept.matches("follows a channel").count(), 2, "{kept}");
        // A version that was named stays.
        let other = bed.run(&["run", "app/3.0:stable", "--", "true"]);
        assert_eq!(other.code, 125, "{}", other.stderr);
        assert!(!other.stderr.contains("from its channel"), "{}", other.stderr);
        assert_eq!(bed.hello("app/1.0:stable"), "hello from app\n");
        let back = bed.run(&["rollback", "app"]).success();
        assert!(
            back.stderr.contains(&format!("is {APP} again, instead of {NEW}")),
            "{}",
            back.stderr
        );
        assert_eq!(bed.hello("app:stable"), "hello from app\n");
        bed.run(&["upgrade", "app:stable"]).success();
        assert_eq!(bed.hello("app:stable"), "hello from other\n");
        let nothing = bed.run(&["rollback", "app/1.0"]);
        assert_eq!(nothing.code, 4, "{}", nothing.stderr);
        let unknown = bed.run(&["upgrade", "nothing"]);
        assert_eq!(unknown.code, 4, "{}", unknown.stderr);
        bed.run(&["image", "rm", NEW]).success();
        let gone = bed.run(&["run", "app:stable", "--", "true"]);
        assert_eq!(gone.code, 125, "{}", gone.stderr);
        let hint = "`cabane image pull app:stable` gets it from its channel";
        assert!(gone.stderr.contains(hint), "{}", gone.stderr);
        let left = bed.run(&["upgrade"]).success().stdout;
        assert!(left.contains("was removed here"), "{left}");
        bed.pull("app:stable").success();
        assert_eq!(bed.hello("app:stable"), "hello from other\n");
    }
}

#[test]
fn an_upgrade_follows_a_channel_to_another_image_under_the_same_label() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    bed.shared.forget();
    bed.change(&["promote", "stable", APP]).success();
    bed.pull("app:stable").success();
    bed.run(&["image", "push", "--force", &bed.image("again"), APP]).success();
    // Nobody has promoted it.
    bed.run(&["upgrade"]).success();
    assert_eq!(bed.hello("app:stable"), "hello from app\n");
    bed.change(&["promote", "stable", APP]).success();
    bed.run(&["upgrade"]).success();
    assert_eq!(bed.hello("app:stable"), "hello from again\n");
    bed.run(&["rollback", "app"]).success();
    assert_eq!(bed.hello("app:stable"), "hello from app\n");
}

#[test]
fn an_upgrade_says_what_is_retired_or_gone() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    bed.change(&["promote", "stable", APP]).success();
    bed.pull("app:stable").success();
    bed.change(&["retire", "stable", "app", "--on", "2999-01-01", "--use", "app/2.0"]).success();
    let upgraded = bed.run(&["upgrade"]).success().stdout;
    assert!(upgraded.contains("which is retired on 2999-01-01; use app/2.0"), "{upgraded}");
    // A start says so once a day, and not about an image that is named by its digest.
    let start = |image: &str| bed.run(&["run", image, "--", "true"]).success().stderr;
    let listed = ["image", "ls", "--no-header", "--format", "{digest}", "app/1.0"];
    let digest = bed.run(&listed).success().stdout.trim().to_owned();
    assert_eq!(start(&digest), "");
    let said = start("app:stable");
    assert!(said.contains("will be retired from stable on 2999-01-01"), "{said}");
    assert!(said.contains("use `app/2.0` instead"), "{said}");
    assert_eq!(start("app/1.0:v1"), "");
    bed.change(&["retire", "stable", "app"]).success();
    let upgraded = bed.run(&["upgrade", "--json"]).success().stdout;
    let upgraded: Value = serde_json::from_str(&upgraded).unwrap();
    assert!(upgraded[0]["error"].as_str().unwrap().contains("was retired"), "{upgraded}");
    assert_eq!(bed.hello("app:stable"), "hello from app\n");
    fs::remove_dir_all(bed.shared.cabane.world.path("home/.local/state/cabane/notices")).unwrap();
    let said = start("app:stable");
    assert!(said.contains("was retired from stable on"), "{said}");
}
