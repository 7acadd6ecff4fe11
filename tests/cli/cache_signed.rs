// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A build cache of a site: an account pushes signed packages, and builds of users trust no others.
//!
//! In the place of Spack stands a script; what Spack itself makes of such a cache is in `spack_cache.rs`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_testkit::Finished;

use crate::cabane::everybody;
use crate::spack::{STAND_IN, Stack};

/// The cache directory of the account that builds for all users.
const SERVICE: &str = "home/service";
/// Where it pushes packages.
const SITE: &str = "home/site";
/// The package that the stand-in decides on.
const HELLO: &str = "hello-1.0-abc";

struct Site {
    stack: Stack,
}

impl Site {
    /// Makes a package of the service account for the mount point of the stack, and a stack whose builds
    /// show which packages of the shared cache they see.
    fn new() -> Self {
        let site = Self { stack: Stack::new(everybody()[0]) };
        let mount_point = site.mount_point();
        let seen = "install)\n    (cd /cabane/shared && find . -type f && cat ./*/blobs/*/*/*) >/tmp/shared";
        let script = STAND_IN.replace("$MOUNT", &mount_point).replacen("install)", seen, 1);
        site.file("spack/bin/spack", &script);
        site.stack.commit("spack");
        site.file(&format!("{SERVICE}/trees/0/bin/spack"), "#!/bin/sh\nexit 0\n");
        let mut chmod = Command::new("chmod");
        let trees = site.path(&format!("{SERVICE}/trees"));
        Finished::of(chmod.args(["-R", "+x"]).arg(trees)).success();
        site.package(&mount_point, HELLO, "the files of hello");
        for key in ["site", "other"] {
            site.run(&["image", "key", "new", &site.text(&format!("home/{key}.key"))]).success();
        }
        site
    }

    fn mount_point(&self) -> String {
        self.stack.cabane.mount_point("stack")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.stack.cabane.world.path(name)
    }

    fn text(&self, name: &str) -> String {
        self.stack.path(name)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        self.stack.cabane.world.file(name, text)
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.stack.cabane.run(arguments)
    }

    /// Adds a package to the cache of the service account.
    fn package(&self, mount_point: &str, id: &str, content: &str) {
        let cache = format!("{SERVICE}/spack/packages/{}", mount_point.replace('/', "+"));
        let file = self.file("content", content);
        let sum = Finished::of(Command::new("sha256sum").arg(file)).success().stdout;
        let (sum, _) = sum.split_once(' ').unwrap();
        self.file(&format!("{cache}/blobs/sha256/{}/{sum}", &sum[..2]), content);
        self.file(&format!("{cache}/v3/layout.json"), "{\"signing\": \"gpg\"}");
        let manifest = format!(
            "{{\"version\": 3, \"data\": [{{\"contentLength\": {}, \"checksumAlgorithm\": \"sha256\", \
             \"checksum\": \"{sum}\"}}]}}",
            content.len()
        );
        let (name, _) = id.split_once('-').unwrap();
        let place = format!("{cache}/v3/manifests/spec/{name}/{id}.spec.manifest.json");
        self.file(&place, &manifest);
    }

    /// Pushes all packages of the service account.
    fn push(&self, key: &str) -> Finished {
        let (service, site) = (self.text(SERVICE), self.text(SITE));
        let key = self.text(&format!("home/{key}.key"));
        self.run(&["cache", "push", "--cache", &service, &site, "--key", &key])
    }

    /// Names the shared cache and the public key `site` in the configuration.
    fn configure(&self, keys: &str) {
        let text = format!("[build]\nshared_cache = \"{}\"\n{keys}", self.text(SITE));
        self.file("home/.config/cabane/config.toml", &text);
    }

    fn require_signatures(&self) {
        self.configure(&format!("shared_cache_keys = [\"{}\"]\n", self.text("home/site.key.pub")));
    }

    /// Builds the stack; returns the messages, and what the installation saw of the shared cache.
    fn build(&self) -> (String, String) {
        // What is installed already needs no cache.
        let _ = fs::remove_dir_all(self.path("build"));
        let built = self.stack.build(&["stack/1.0"]).success();
        let seen = fs::read_to_string(self.path("build/tmp/shared")).unwrap_or_default();
        (built.stderr, seen)
    }

    /// Asserts that a build does not see the package, and says why.
    fn assert_refused(&self, reason: &str) {
        let (errors, seen) = self.build();
        let warning = format!(
            "warning: packages of the shared cache [WORLD]/{SITE} are not used: hello@1.0: {reason}\n"
        );
        assert_eq!(errors.matches("are not used").count(), 1, "{errors}");
        assert!(errors.contains(&warning), "{warning}\n{errors}");
        assert!(!seen.contains(".spec.manifest.json"), "{seen}");
    }

    fn assert_used(&self) {
        let (errors, seen) = self.build();
        assert!(!errors.contains("are not used"), "{errors}");
        assert!(seen.contains(&format!("{HELLO}.spec.manifest.json")), "{seen}");
        assert!(seen.contains("the files of hello"), "{seen}");
    }

    fn manifest(&self) -> PathBuf {
        self.path(&format!("{SITE}/v3/manifests/spec/hello/{HELLO}.spec.manifest.json"))
    }

    fn signature(&self, id: &str) -> PathBuf {
        self.path(&format!("{SITE}/signatures/hello/{id}.json"))
    }
}

fn append(path: &Path, text: &str) {
    let before = fs::read_to_string(path).unwrap();
    fs::write(path, before + text).unwrap();
}

#[test]
fn signed_packages_of_the_site_are_used_and_no_others() {
    let site = Site::new();
    let pushed = site.push("site").success().stderr;
    assert!(pushed.contains("already there: 0; signed: 1\n"), "{pushed}");
    site.require_signatures();
    site.assert_used();
    let again = site.push("site").success().stderr;
    assert!(again.contains(": 0 (0 B); already there: 1; signed: 0\n"), "{again}");

    let manifest = fs::read(site.manifest()).unwrap();
    let signature = fs::read(site.signature(HELLO)).unwrap();
    append(&site.manifest(), "\n");
    site.assert_refused("its signature is that of another manifest");
    fs::write(site.manifest(), &manifest).unwrap();

    append(&site.signature(HELLO), "x");
    site.assert_refused("its signature is damaged: it is not an envelope");

    fs::remove_file(site.signature(HELLO)).unwrap();
    site.assert_refused("it is not signed");

    // A directory that everybody may write changes nothing.
    fs::set_permissions(site.path(SITE), fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(site.signature(HELLO), &signature).unwrap();
    site.assert_used();
}

#[test]
fn the_signature_of_another_key_or_another_package_does_not_count() {
    let site = Site::new();
    site.require_signatures();
    site.push("other").success();
    site.assert_refused("it is signed with a key that is not accepted here");
    // The account signs again what it has compared with its own packages.
    let pushed = site.push("site").success().stderr;
    assert!(pushed.contains(": 0 (0 B); already there: 1; signed: 1\n"), "{pushed}");
    site.assert_used();

    // An older package in the place of a new one, with its signature.
    site.package(&site.mount_point(), "hello-0.9-old", "with a hole");
    site.push("site").success();
    let older = site.manifest().with_file_name("hello-0.9-old.spec.manifest.json");
    fs::copy(older, site.manifest()).unwrap();
    fs::copy(site.signature("hello-0.9-old"), site.signature(HELLO)).unwrap();
    site.assert_refused("its signature is that of another package");
}

/// The service account signs what it builds, and the site what it releases: builds can trust either key.
#[test]
fn a_package_can_have_the_signatures_of_two_keys() {
    let site = Site::new();
    for key in ["other", "site"] {
        let pushed = site.push(key).success().stderr;
        assert!(pushed.contains("signed: 1\n"), "{pushed}");
    }
    for key in ["site", "other"] {
        let public = site.text(&format!("home/{key}.key.pub"));
        site.configure(&format!("shared_cache_keys = [\"{public}\"]\n"));
        site.assert_used();
        // Each key finds its own signature.
        let again = site.push(key).success().stderr;
        assert!(again.contains("already there: 1; signed: 0\n"), "{again}");
    }
}

/// A neighbor has put a package there; the account replaces it by its own, and does not sign that of others.
#[test]
fn a_package_of_a_stranger_is_replaced_and_not_signed() {
    let site = Site::new();
    site.require_signatures();
    site.push("site").success();
    let own = fs::read_to_string(site.manifest()).unwrap();
    fs::remove_file(site.signature(HELLO)).unwrap();
    fs::write(site.manifest(), "{\"version\": 3, \"data\": []}").unwrap();
    let blobs = format!("{SITE}/blobs/sha256");
    let find = |name: &Path| name.read_dir().unwrap().next().unwrap().unwrap().path();
    let blob = find(&find(&site.path(&blobs)));
    fs::write(&blob, "other files, hello").unwrap();
    let pushed = site.push("site").success().stderr;
    assert!(pushed.contains("already there: 0; signed: 1\n"), "{pushed}");
    assert_eq!(fs::read_to_string(site.manifest()).unwrap(), own);
    assert_eq!(fs::read_to_string(&blob).unwrap(), "the files of hello");
    site.assert_used();
}

#[test]
fn damaged_packages_are_not_pushed() {
    let site = Site::new();
    let packages = format!("{SERVICE}/spack/packages");
    let find = Command::new("find")
        .arg(site.path(&packages))
        .args(["-path", "*blobs*", "-type", "f"])
        .output();
    let blob = String::from_utf8(find.unwrap().stdout).unwrap();
    fs::write(blob.trim(), "the files of hell!").unwrap();
    let refused = site.push("site");
    assert_eq!(refused.code, 7, "{refused:?}");
    let says = "cannot push a package: its checksum does not match: ";
    assert!(refused.stderr.contains(says), "{refused:?}");
    assert!(!site.manifest().exists() && !site.signature(HELLO).exists());
}

#[test]
fn packages_that_cannot_be_moved_to_the_mount_point_are_not_offered() {
    let site = Site::new();
    fs::remove_dir_all(site.path(&format!("{SERVICE}/spack"))).unwrap();
    site.package("/u", HELLO, "the files of hello");
    site.push("site").success();
    site.require_signatures();
    let (errors, seen) = site.build();
    assert!(
        !errors.contains("are not used") && !seen.contains(".spec.manifest.json"),
        "{errors} {seen}"
    );
}

#[test]
fn without_keys_the_permissions_of_the_shared_cache_decide() {
    let site = Site::new();
    site.push("site").success();
    site.configure("");
    let set =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    // The directory of the cache could be exchanged where others can write.
    set(&site.path(""), 0o777);
    site.assert_refused("others can change [WORLD]");
    set(&site.path(""), 0o1777);
    set(&site.path("home"), 0o755);
    site.assert_used();
    set(&site.path(SITE), 0o777);
    site.assert_refused(&format!("others can change [WORLD]/{SITE}"));
    let refused = site.push("site");
    assert_eq!(refused.code, 7, "{refused:?}");
    assert!(refused.stderr.contains("all users can write there"), "{refused:?}");
    set(&site.path(SITE), 0o755);
    set(&site.manifest(), 0o666);
    site.assert_refused(&format!(
        "others can change [WORLD]/{SITE}/v3/manifests/spec/hello/{HELLO}.spec.manifest.json"
    ));
    set(&site.manifest(), 0o644);
    site.assert_used();
}

#[test]
fn a_link_or_a_named_pipe_in_the_place_of_a_file_stops_nothing() {
    let site = Site::new();
    site.push("site").success();
    site.require_signatures();
    let signature = site.signature(HELLO);
    let elsewhere = site.path("home/elsewhere");
    fs::rename(&signature, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &signature).unwrap();
    let (errors, _) = site.build();
    assert!(errors.contains("hello@1.0: its signature cannot be read: "), "{errors}");
    fs::remove_file(&signature).unwrap();
    Finished::of(Command::new("mkfifo").arg(&signature)).success();
    site.assert_refused("its signature cannot be read: it is not a file");
}

#[test]
fn signatures_are_verified_with_the_contents() {
    let site = Site::new();
    site.package(&site.mount_point(), "hello-0.9-old", "old files");
    site.push("site").success();
    let directory = site.text(SITE);
    let public = site.text("home/site.key.pub");
    let verify = ["cache", "verify", "--cache", &directory, "--key", &public];
    let seen = site.run(&verify).success().stderr;
    assert_eq!(seen, "packages: 2, damaged: 0, without a valid signature: 0\n");
    append(&site.manifest(), " ");
    // The keys of the configuration are those of the shared cache.
    site.require_signatures();
    let seen = site.run(&["cache", "verify", "--cache", &directory]);
    assert_eq!(seen.code, 1, "{seen:?}");
    let expected = "untrusted hello@1.0: its signature is that of another manifest\n\
                    packages: 2, damaged: 0, without a valid signature: 1\n";
    assert!(seen.stderr.starts_with(expected), "{seen:?}");
    // It removes no package that is not damaged.
    site.run(&["cache", "verify", "--cache", &directory, "--repair"]);
    assert!(site.manifest().exists());
    let seen = site.run(&["cache", "verify", "--cache", &directory, "--json"]);
    assert!(
        seen.stdout.contains("\"reason\": \"its signature is that of another manifest\""),
        "{seen:?}"
    );
    // What goes, goes with its signature.
    site.run(&["cache", "gc", "--cache", &directory, "--max-size", "0"]).success();
    assert!(!site.manifest().exists() && !site.signature(HELLO).exists());
}

#[test]
fn a_key_that_is_missing_is_an_error_with_its_file() {
    let site = Site::new();
    site.configure("shared_cache_keys = [\"/nonexistent/site.pub\"]\n");
    let failed = site.stack.build(&["stack/1.0"]);
    assert!(failed.code != 0 && failed.stderr.contains("/nonexistent/site.pub"), "{failed:?}");
}
