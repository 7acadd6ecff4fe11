// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Signing images in a real registry, and refusing those that are not signed as they must be.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cabane_testkit::{Finished, needs};

use crate::cabane::{APP, Who, everybody};
use crate::registry::Shared;

/// A registry, a repository with an image, and the keys `site` and `other`.
struct Signing(Shared);

const UNTRUSTED: i32 = 12;

impl Signing {
    fn new(who: Who) -> Self {
        let signing = Self(Shared::new(who));
        for name in ["site", "other"] {
            let key = signing.path(name);
            signing.run(&["image", "key", "new", &key]).success();
        }
        signing
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.0.run(arguments)
    }

    fn path(&self, name: &str) -> String {
        let path = self.0.cabane.world.path(&format!("work/{name}"));
        path.to_str().unwrap().to_owned()
    }

    fn public(&self, name: &str) -> String {
        format!("{}.pub", self.path(name))
    }

    /// Adds a rule to the site's configuration.
    fn site_wants(&self, namespace: &str, key: &str) {
        let rule = self.rule(namespace, key);
        let path = self.0.cabane.world.path("site.toml");
        let text = fs::read_to_string(&path).unwrap();
        self.0.cabane.world.file("site.toml", &(text + &rule));
    }

    /// Writes the user's configuration.
    fn user_says(&self, rules: &str) {
        let file = self.0.cabane.world.file("home/.config/cabane/config.toml", rules);
        assert!(file.exists());
    }

    fn rule(&self, namespace: &str, key: &str) -> String {
        let key = self.public(key);
        format!(
            "[[trust]]\nnamespace = \"{namespace}\"\nrequire = \"signature\"\nkeys = [\"{key}\"]\n"
        )
    }

    fn push(&self, sign: Option<&str>) {
        let key = sign.map(|name| self.path(name));
        let mut arguments = vec!["image", "push", APP];
        if let Some(key) = &key {
            arguments.extend(["--sign", key]);
        }
        self.run(&arguments).success();
        // Nothing is left but what the registry has.
        self.run(&["image", "rm", APP]).success();
    }

    /// Pushes the image with its signature, and then metadata of someone else for it.
    fn push_forged(&self, meta: &str, description: &str) {
        self.run(&["image", "push", "--sign", &self.path("site"), APP]).success();
        let meta = meta.strip_prefix("[WORLD]/").unwrap();
        let path = self.0.cabane.world.path(meta).join("env.json");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(description), "{text}");
        let forged = text.replace(description, "of another user");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(&path, forged).unwrap();
        self.run(&["image", "push", "--force", APP]).success();
        self.run(&["image", "rm", APP]).success();
    }

    /// Tries to pull, and checks that nothing of it is kept.
    fn refused(&self, arguments: &[&str]) -> String {
        let refused = self.run(&[&["image", "pull"], arguments].concat());
        assert_eq!(refused.code, UNTRUSTED, "{}", refused.stderr);
        assert_eq!(self.run(&["image", "ls"]).success().stdout, "");
        refused.stderr
    }
}

#[test]
fn a_signed_image_is_pulled_and_run_where_a_signature_is_wanted() {
    needs!("docker-registry");
    for who in everybody() {
        let signing = Signing::new(who);
        signing.site_wants("deploy", "site");
        signing.push(Some("site"));
        signing.run(&["image", "pull", "app"]).success();
        let output = signing.run(&["run", "app", "--", "hello"]).success().stdout;
        assert_eq!(output, "hello from app\n");
    }
}

#[test]
fn an_image_without_the_signature_that_is_wanted_is_refused_with_the_reason() {
    needs!("docker-registry");
    for who in everybody() {
        let signing = Signing::new(who);
        signing.site_wants("deploy", "site");
        signing.push(None);
        let reported = signing.refused(&["app"]);
        assert!(reported.contains("is not trusted: it is not signed"), "{reported}");
        assert!(reported.contains("site.pub"), "{reported}");
        let reported = signing.refused(&["--force", "app"]);
        assert!(reported.contains("it is not signed"), "{reported}");
        let other = signing.path("other");
        signing.run(&["image", "sign", "app", "--key", &other]).success();
        let reported = signing.refused(&["app"]);
        assert!(reported.contains("a key that is not accepted here"), "{reported}");
    }
}

#[test]
fn metadata_alone_are_refused_too() {
    needs!("docker-registry");
    let signing = Signing::new(Who::OrdinaryUser);
    signing.site_wants("*", "site");
    signing.push(None);
    let directory = signing.path("meta");
    signing.refused(&["--meta", &directory, "app"]);
    assert!(!Path::new(&directory).exists());
    let key = signing.path("site");
    signing.run(&["image", "sign", "app", "--key", &key]).success();
    let pulled = signing.run(&["image", "pull", "--meta", &directory, "app"]);
    assert!(pulled.stderr.contains("no signature covers"), "{}", pulled.stderr);
    // In a repository they would be those of the image, which is trusted.
    let link = signing.0.cabane.world.path("uenv");
    std::os::unix::fs::symlink(signing.0.cabane.program(), &link).unwrap();
    let mut command = signing.0.cabane.other(link.to_str().unwrap());
    let refused = signing.0.cabane.finish(command.args(["image", "pull", "--only-meta", "app"]));
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("`uenv image pull deploy::app"), "{}", refused.stderr);
}

#[test]
fn metadata_that_were_exchanged_in_the_registry_are_not_used() {
    needs!("docker-registry");
    let signing = Signing::new(Who::OrdinaryUser);
    let reported = |key: &str, image: &str| {
        let arguments = ["image", "inspect", "--format", key, image];
        signing.run(&arguments).success().stdout.trim().to_owned()
    };
    let description = reported("{description}", "app");
    signing.push_forged(&reported("{meta}", "app"), &description);
    signing.run(&["image", "pull", "app"]).success();
    assert_eq!(reported("{description}", "app"), "of another user");
    signing.run(&["image", "rm", APP]).success();
    signing.site_wants("deploy", "site");
    signing.run(&["image", "pull", "app"]).success();
    assert_eq!(reported("{description}", "app"), description);
}

#[test]
fn the_file_of_a_user_takes_nothing_away_from_that_of_the_site() {
    needs!("docker-registry");
    let signing = Signing::new(Who::OrdinaryUser);
    signing.site_wants("deploy", "site");
    signing.push(Some("other"));
    let nothing = "[[trust]]\nnamespace = \"deploy\"\nrequire = \"nothing\"\n";
    signing.user_says(nothing);
    signing.refused(&["app"]);
    signing.user_says(&signing.rule("deploy", "other"));
    signing.refused(&["app"]);
    let key = signing.path("site");
    signing.run(&["image", "sign", "app", "--key", &key]).success();
    signing.run(&["image", "pull", "app"]).success();
}

#[test]
fn a_user_may_want_more_than_the_site() {
    needs!("docker-registry");
    let signing = Signing::new(Who::OrdinaryUser);
    signing.push(Some("site"));
    signing.user_says(&signing.rule("*", "other"));
    let reported = signing.refused(&["app"]);
    assert!(reported.contains(".config/cabane/config.toml wants"), "{reported}");
}

#[test]
fn a_namespace_without_a_rule_is_pulled_from_as_before() {
    needs!("docker-registry");
    let signing = Signing::new(Who::OrdinaryUser);
    signing.site_wants("build", "site");
    signing.push(None);
    signing.run(&["image", "pull", "app"]).success();
}

#[test]
fn a_key_that_cannot_be_read_lets_nothing_through() {
    needs!("docker-registry");
    let signing = Signing::new(Who::OrdinaryUser);
    signing.site_wants("deploy", "gone");
    signing.push(Some("site"));
    let refused = signing.run(&["image", "pull", "app"]);
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("gone.pub"), "{}", refused.stderr);
    assert_eq!(signing.run(&["image", "ls"]).success().stdout, "");
}

#[test]
fn a_copy_in_another_namespace_has_the_signature_too() {
    needs!("docker-registry");
    let signing = Signing::new(Who::OrdinaryUser);
    signing.site_wants("deploy", "site");
    signing.push(Some("site"));
    signing.run(&["image", "copy", "app", "deploy::app/2.0:v7"]).success();
    assert_eq!(signing.0.labels(&["app/2.0"]), ["app/2.0:v7@here%x86_64"]);
    signing.run(&["image", "pull", "app/2.0"]).success();
}

#[test]
fn verifying_shows_whose_signature_an_image_has() {
    needs!("docker-registry");
    let signing = Signing::new(Who::OrdinaryUser);
    signing.push(Some("site"));
    let (site, other) = (signing.public("site"), signing.public("other"));
    let verify = |arguments: &[&str]| {
        signing.run(&[&["image", "verify", "--remote", "app"], arguments].concat())
    };
    let reported = verify(&["--key", &other, "--key", &site]).success().stderr;
    assert!(reported.contains("is signed with"), "{reported}");
    assert!(reported.contains("site.pub"), "{reported}");
    assert_eq!(verify(&["--key", &other]).code, UNTRUSTED);
    let reported = verify(&[]);
    assert_eq!(reported.code, 2, "{}", reported.stderr);
    signing.site_wants("*", "site");
    verify(&[]).success();
}

#[test]
fn a_private_key_that_others_can_read_is_used_with_a_warning() {
    needs!("docker-registry");
    let signing = Signing::new(Who::OrdinaryUser);
    signing.push(None);
    let key = signing.path("site");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let signed = signing.run(&["image", "sign", "app", "--key", &key]);
    let reported = signed.success().stderr;
    assert!(reported.contains("others can read the private key"), "{reported}");
    assert!(reported.contains("chmod 600"), "{reported}");
}

#[test]
fn a_new_key_takes_the_place_of_no_file() {
    needs!("docker-registry");
    for who in everybody() {
        let signing = Signing::new(who);
        let key = signing.path("site");
        let before = fs::read(&key).unwrap();
        let refused = signing.run(&["image", "key", "new", &key]);
        assert_eq!(refused.code, 3, "{}", refused.stderr);
        assert!(refused.stderr.contains("is not overwritten"));
        assert_eq!(fs::read(&key).unwrap(), before);
    }
}

#[test]
fn pushing_with_a_key_that_is_none_sends_nothing() {
    needs!("docker-registry");
    let signing = Signing::new(Who::OrdinaryUser);
    let public = signing.public("site");
    let refused = signing.run(&["image", "push", "--sign", &public, APP]);
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("a private one is wanted"), "{}", refused.stderr);
    assert_eq!(signing.0.labels(&[]), [""; 0]);
}
