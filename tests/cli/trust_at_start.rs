// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that are not signed as they must be are refused when they are started, too, without
//! a registry.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cabane_testkit::{Finished, is_root, needs, not_run};

use crate::cabane::{APP, Who, everybody};
use crate::registry::Shared;

/// A registry and a repository with an image, keys, and a configuration that grows.
struct Starting(Shared);

const UNTRUSTED: i32 = 12;
const NOT_STARTED: i32 = 125;

impl Starting {
    fn new(who: Who) -> Self {
        let starting = Self(Shared::new(who));
        for name in ["site", "other"] {
            let key = starting.path(name);
            starting.run(&["image", "key", "new", &key]).success();
        }
        starting
    }

    /// The image is in the repository, and has the signature of the site.
    fn pulled(who: Who) -> Self {
        let starting = Self::new(who);
        let key = starting.path("site");
        starting.run(&["image", "push", "--sign", &key, APP]).success();
        starting.run(&["image", "rm", APP]).success();
        starting.run(&["image", "pull", "app"]).success();
        starting
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.0.run(arguments)
    }

    fn start(&self, image: &str) -> Finished {
        self.run(&["run", image, "--", "hello"])
    }

    /// Tries to start an image; returns what was reported.
    fn refused(&self, image: &str) -> String {
        let refused = self.start(image);
        assert_eq!(refused.code, NOT_STARTED, "{}", refused.stderr);
        assert_eq!(refused.stdout, "");
        refused.stderr
    }

    fn path(&self, name: &str) -> String {
        let path = self.0.cabane.world.path(&format!("work/{name}"));
        path.to_str().unwrap().to_owned()
    }

    fn site_says(&self, rule: &str) {
        let path = self.0.cabane.world.path("site.toml");
        let text = fs::read_to_string(&path).unwrap();
        self.0.cabane.world.file("site.toml", &(text + rule));
    }

    fn site_wants(&self, namespace: &str, key: &str, at_start: &str) {
        let key = self.path(key);
        self.site_says(&format!(
            "[[trust]]\nnamespace = \"{namespace}\"\nrequire = \"signature\"\n\
             keys = [\"{key}.pub\"]\nat_start = \"{at_start}\"\n"
        ));
    }

    fn reported(&self, key: &str) -> PathBuf {
        let arguments = ["image", "inspect", "--format", key, "app"];
        let reported = self.run(&arguments).success().stdout;
        let reported = reported.trim();
        let inside = reported.strip_prefix("[WORLD]/").unwrap_or(reported);
        self.0.cabane.world.path(inside)
    }

    fn image(&self) -> PathBuf {
        self.reported("{sqfs}")
    }

    fn signatures(&self) -> PathBuf {
        self.image().with_file_name("signatures")
    }
}

fn overwrite(path: &Path, bytes: &[u8]) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_was_pulled_with_its_signature_is_started_without_the_registry() {
    needs!("docker-registry");
    for who in everybody() {
        let starting = Starting::pulled(who);
        starting.site_wants("*", "site", "all");
        let Shared { cabane, registry } = starting.0;
        drop(registry);
        let output = cabane.run(&["run", "app", "--", "hello"]).success().stdout;
        assert_eq!(output, "hello from app\n");
    }
}

#[test]
fn an_image_that_was_added_by_hand_is_refused_where_all_must_be_signed() {
    needs!("docker-registry");
    for who in everybody() {
        let starting = Starting::new(who);
        starting.site_wants("*", "site", "all");
        let reported = starting.refused("app");
        assert!(reported.contains("is not trusted: its signatures are unknown"), "{reported}");
        assert!(reported.contains("site.pub"), "{reported}");
        assert!(reported.contains("site.toml wants"), "{reported}");
    }
}

#[test]
fn an_image_is_refused_however_it_is_named() {
    needs!("docker-registry");
    let starting = Starting::new(Who::OrdinaryUser);
    let digest = starting.reported("{digest}");
    let image = starting.image();
    let copy = starting.path("copy.squashfs");
    fs::copy(&image, &copy).unwrap();
    starting.site_wants("*", "site", "all");
    for name in [APP, digest.file_name().unwrap().to_str().unwrap(), image.to_str().unwrap(), &copy]
    {
        let reported = starting.refused(name);
        assert!(reported.contains("its signatures are unknown"), "{name}: {reported}");
    }
}

#[test]
fn ones_own_images_are_started_where_only_those_of_others_must_be_signed() {
    needs!("docker-registry");
    for who in everybody() {
        let starting = Starting::new(who);
        starting.site_wants("*", "site", "others");
        starting.start("app").success();
    }
}

/// An ordinary user and a repository of the site, with an image that root has put there.
fn stranger(sign: bool) -> Starting {
    let starting = Starting::new(Who::Root);
    let site = starting.0.cabane.world.directory("site");
    fs::set_permissions(&site, fs::Permissions::from_mode(0o755)).unwrap();
    let path = site.to_str().unwrap();
    let (key, image) = (starting.path("site"), starting.image());
    let of_site =
        |arguments: &[&str]| starting.run(&[&["--repo", path], arguments].concat()).success();
    of_site(&["repo", "create"]);
    of_site(&["image", "add", APP, image.to_str().unwrap()]);
    if sign {
        of_site(&["image", "push", "--sign", &key, APP]);
    }
    starting.site_says(&format!("[[repositories]]\nname = \"site\"\npath = \"{path}\"\n"));
    starting.site_wants("*", "site", "others");
    Starting(Shared {
        cabane: starting.0.cabane.for_ordinary_user(),
        registry: starting.0.registry,
    })
}

#[test]
fn an_image_of_another_user_is_started_if_it_is_signed() {
    needs!("docker-registry");
    if !is_root() {
        not_run!("needs root, to have two users");
    }
    stranger(true).start("app").success();
}

#[test]
fn an_image_of_another_user_is_refused_if_it_is_not_signed() {
    needs!("docker-registry");
    if !is_root() {
        not_run!("needs root, to have two users");
    }
    let reported = stranger(false).refused("app");
    assert!(reported.contains("its signatures are unknown"), "{reported}");
}

#[test]
fn a_rule_that_is_not_for_starts_is_not_checked_then() {
    needs!("docker-registry");
    let starting = Starting::new(Who::OrdinaryUser);
    starting.site_wants("*", "site", "never");
    starting.start("app").success();
}

#[test]
fn a_key_that_is_not_accepted_any_more_counts_at_the_next_start() {
    needs!("docker-registry");
    let starting = Starting::pulled(Who::OrdinaryUser);
    starting.site_wants("*", "other", "all");
    let reported = starting.refused("app");
    assert!(reported.contains("a key that is not accepted here"), "{reported}");
    assert!(reported.contains("cabane image pull app/1.0"), "{reported}");
}

#[test]
fn a_signature_that_was_added_later_comes_with_another_pull() {
    needs!("docker-registry");
    let starting = Starting::pulled(Who::OrdinaryUser);
    starting.site_wants("*", "other", "all");
    starting.refused("app");
    let key = starting.path("other");
    // From elsewhere: nothing is noted here.
    let kept = fs::read(starting.signatures()).unwrap();
    starting.run(&["image", "sign", "app", "--key", &key]).success();
    overwrite(&starting.signatures(), &kept);
    starting.refused("app");
    starting.run(&["image", "pull", "app"]).success();
    starting.start("app").success();
}

#[test]
fn what_was_built_here_is_started_once_it_was_pushed_with_a_signature() {
    needs!("docker-registry");
    for who in everybody() {
        let starting = Starting::new(who);
        starting.site_wants("*", "site", "all");
        starting.refused("app");
        let key = starting.path("site");
        starting.run(&["image", "push", "--sign", &key, APP]).success();
        starting.start("app").success();
    }
}

#[test]
fn no_byte_of_the_record_can_be_forged_into_a_signature() {
    needs!("docker-registry");
    let starting = Starting::pulled(Who::OrdinaryUser);
    starting.site_wants("*", "site", "all");
    let path = starting.signatures();
    let whole = fs::read_to_string(&path).unwrap();
    let text = whole.split(r#""text":""#).nth(1).unwrap();
    let text = text.split('"').next().unwrap();
    let forged = whole.replace(text, &text.replace('Y', "Z"));
    overwrite(&path, forged.as_bytes());
    let reported = starting.refused("app");
    assert!(reported.contains("is not trusted"), "{reported}");
}

#[test]
fn the_record_of_one_image_does_not_serve_another() {
    needs!("docker-registry");
    let starting = Starting::pulled(Who::OrdinaryUser);
    starting.site_wants("*", "site", "all");
    let record = fs::read(starting.signatures()).unwrap();
    let image = starting.image();
    let other = image.ancestors().nth(2).unwrap().join("0".repeat(64));
    fs::create_dir(&other).unwrap();
    fs::copy(&image, other.join("image")).unwrap();
    fs::write(other.join("signatures"), record).unwrap();
    let reported = starting.refused(other.join("image").to_str().unwrap());
    assert!(reported.contains("that of another image"), "{reported}");
}

#[test]
fn a_file_that_was_changed_is_refused_until_it_was_read_and_found_right() {
    needs!("docker-registry");
    for who in everybody() {
        let starting = Starting::pulled(who);
        starting.site_wants("*", "site", "all");
        let image = starting.image();
        let bytes = fs::read(&image).unwrap();
        overwrite(&image, &bytes);
        let reported = starting.refused("app");
        assert!(reported.contains("was changed after its signatures"), "{reported}");
        starting.run(&["image", "verify", "app"]).success();
        starting.start("app").success();
    }
}

#[test]
fn verifying_reads_the_whole_image() {
    needs!("docker-registry");
    let starting = Starting::pulled(Who::OrdinaryUser);
    let key = format!("{}.pub", starting.path("site"));
    let verify = || starting.run(&["image", "verify", "app", "--key", &key]);
    let reported = verify().success().stderr;
    assert!(reported.contains("is what was signed with"), "{reported}");
    let seen = starting.run(&["image", "verify", "app", "--key", &key, "--json"]).success();
    let seen: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
    assert!(
        seen[0]["signers"][0].as_str().is_some_and(|file| file.ends_with("site.pub")),
        "{seen}"
    );
    let image = starting.image();
    let mut bytes = fs::read(&image).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    overwrite(&image, &bytes);
    let refused = verify();
    assert_eq!(refused.code, UNTRUSTED, "{}", refused.stderr);
    assert!(refused.stderr.contains("has changed"), "{}", refused.stderr);
}

#[test]
fn an_image_that_everybody_may_change_is_refused() {
    needs!("docker-registry");
    let starting = Starting::pulled(Who::OrdinaryUser);
    starting.site_wants("*", "site", "all");
    let image = starting.image();
    fs::set_permissions(&image, fs::Permissions::from_mode(0o666)).unwrap();
    let reported = starting.refused("app");
    assert!(reported.contains("everybody may write to its file"), "{reported}");
}

#[test]
fn a_note_of_ones_own_leads_to_no_weaker_rule() {
    needs!("docker-registry");
    let starting = Starting::new(Who::OrdinaryUser);
    starting.run(&["image", "push", APP, "build::app/1.0:v1"]).success();
    starting.site_wants("*", "site", "all");
    starting.site_says("[[trust]]\nnamespace = \"build\"\nrequire = \"nothing\"\n");
    let reported = starting.refused("app");
    assert!(reported.contains("it is not signed"), "{reported}");
}

#[test]
fn migrating_a_repository_takes_the_signatures_along() {
    needs!("docker-registry");
    let starting = Starting::pulled(Who::OrdinaryUser);
    starting.site_wants("*", "site", "all");
    let elsewhere = starting.path("elsewhere");
    starting.run(&["repo", "create", &elsewhere]).success();
    starting.run(&["repo", "migrate", &elsewhere]).success();
    starting.run(&["--repo", &elsewhere, "run", "app", "--", "hello"]).success();
}
