// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Finding, pulling, pushing, copying and deleting with a real registry.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use cabane_testkit::{
    Finished, HostileRegistry, RealRegistry, Tree, needs, only_for_registries, squashfs,
};
use serde_json::Value;

use crate::cabane::{APP, Cabane, Who, everybody};

/// A world with an image and a registry.
pub(crate) struct Shared {
    pub(crate) cabane: Cabane,
    pub(crate) registry: RealRegistry,
}

impl Shared {
    pub(crate) fn new(who: Who) -> Self {
        let cabane = Cabane::with_app(who);
        let registry = RealRegistry::start(&cabane.world.path("registry"));
        let shared = Self { cabane, registry };
        shared.configure(&format!("url = \"{}/uenv\"", shared.registry.url()));
        shared
    }

    pub(crate) fn configure(&self, lines: &str) {
        let text = format!("[registry]\n{lines}\n");
        self.cabane.world.file("site.toml", &text);
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.cabane.run(arguments)
    }

    pub(crate) fn pushed(who: Who) -> Self {
        let shared = Self::new(who);
        shared.run(&["image", "push", APP]).success();
        shared
    }

    /// Leaves nothing of the image but what the registry has.
    pub(crate) fn forget(&self) {
        self.run(&["image", "rm", APP]).success();
    }

    fn found(&self, arguments: &[&str]) -> Vec<Value> {
        let arguments = [&["image", "find", "--json"], arguments].concat();
        let output = self.run(&arguments).success().stdout;
        serde_json::from_str(&output).unwrap()
    }

    pub(crate) fn labels(&self, arguments: &[&str]) -> Vec<String> {
        let label = |image: &Value| image["label"].as_str().unwrap().to_owned();
        self.found(arguments).iter().map(label).collect()
    }
}

#[test]
fn an_image_is_pushed_found_pulled_and_run() {
    needs!("docker-registry");
    for who in everybody() {
        let shared = Shared::pushed(who);
        shared.forget();
        assert_eq!(shared.labels(&["app"]), [APP]);
        shared.run(&["image", "pull", "app"]).success();
        let output = shared.run(&["run", "app", "--", "hello"]).success().stdout;
        assert_eq!(output, "hello from app\n");
    }
}

#[test]
fn what_is_pulled_has_the_metadata_that_were_pushed() {
    needs!("docker-registry");
    let shared = Shared::pushed(Who::OrdinaryUser);
    let arguments = ["image", "inspect", "--format", "{mount} {description} {views}", "app"];
    let before = shared.run(&arguments).success().stdout;
    shared.forget();
    shared.run(&["image", "pull", "app"]).success();
    assert_eq!(shared.run(&arguments).success().stdout, before);
}

#[test]
fn pushing_again_changes_nothing_and_says_so() {
    needs!("docker-registry");
    let shared = Shared::pushed(Who::OrdinaryUser);
    let again = shared.run(&["image", "push", APP]).success();
    assert!(again.stderr.contains("already"), "{}", again.stderr);
}

#[test]
fn a_label_of_another_image_is_taken_by_force_only() {
    needs!("docker-registry");
    let shared = Shared::pushed(Who::OrdinaryUser);
    let point = shared.cabane.mount_point("other");
    let other = shared.cabane.image("other", &point);
    let refused = shared.run(&["image", "push", &other, APP]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("belongs to the image"), "{}", refused.stderr);
    shared.run(&["image", "push", "--force", &other, APP]).success();
    let found = shared.found(&["--refresh", "app"]);
    assert_eq!(found.len(), 1, "{found:?}");
    let pulled = shared.run(&["image", "pull", "app"]);
    assert_eq!(pulled.code, 1, "{}", pulled.stderr);
    shared.run(&["image", "pull", "--force", "app"]).success();
    let output = shared.run(&["run", "app", "--", "hello"]).success().stdout;
    assert_eq!(output, "hello from other\n");
}

#[test]
fn an_image_gets_another_label_in_another_namespace() {
    needs!("docker-registry");
    let shared = Shared::pushed(Who::OrdinaryUser);
    shared.run(&["image", "copy", "app", "build::app/2.0:v7"]).success();
    assert_eq!(shared.labels(&["build::"]), ["app/2.0:v7@here%x86_64"]);
    shared.forget();
    shared.run(&["image", "pull", "build::app"]).success();
    let output = shared.run(&["run", "app/2.0", "--", "hello"]).success().stdout;
    assert_eq!(output, "hello from app\n");
}

#[test]
fn copying_leaves_the_manifest_as_it_is_and_sends_no_image() {
    only_for_registries!("docker-registry", "distribution");
    needs!("docker-registry");
    let shared = Shared::pushed(Who::OrdinaryUser);
    // Images are sent with PATCH, and nothing else is.
    let sent = || shared.registry.log().matches("\"PATCH ").count();
    let before = sent();
    assert!(before > 0, "{}", shared.registry.log());
    shared.run(&["image", "copy", "app", "build::app/2.0:v7"]).success();
    assert_eq!(sent(), before);
    let digest = |label: &str| {
        let arguments = ["image", "inspect", "--remote", "--format", "{digest}", label];
        shared.run(&arguments).success().stdout
    };
    assert_eq!(digest("app"), digest("build::app"));
}

#[test]
fn a_deleted_label_is_gone_and_others_stay() {
    needs!("docker-registry");
    let shared = Shared::pushed(Who::OrdinaryUser);
    shared.run(&["image", "copy", "app", "app/1.0:latest"]).success();
    shared.run(&["image", "delete", "app/1.0:v1"]).success();
    assert_eq!(shared.labels(&["app"]), ["app/1.0:latest@here%x86_64"]);
    shared.forget();
    shared.run(&["image", "pull", "app"]).success();
    shared.run(&["image", "delete", "app/1.0:latest"]).success();
    assert_eq!(shared.labels(&["app"]), [""; 0]);
    let gone = shared.run(&["image", "pull", "app/1.0:latest@here%x86_64"]);
    assert_eq!(gone.code, 4, "{}", gone.stderr);
}

#[test]
fn a_registry_that_does_not_delete_is_left_as_it_is() {
    only_for_registries!("docker-registry");
    needs!("docker-registry");
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let directory = cabane.world.path("registry");
    let registry = RealRegistry::options(&directory).without_deletion().start();
    let shared = Shared { cabane, registry };
    shared.configure(&format!("url = \"{}/uenv\"", shared.registry.url()));
    shared.run(&["image", "push", APP]).success();
    shared.run(&["image", "copy", "app", "app/1.0:latest"]).success();
    for label in ["app/1.0:v1", "app/1.0:latest"] {
        let refused = shared.run(&["image", "delete", label]);
        assert_eq!(refused.code, 11, "{}", refused.stderr);
        assert!(refused.stderr.contains("does not let anything be deleted"));
    }
    assert_eq!(shared.labels(&["app"]).len(), 2);
}

#[test]
fn the_index_shows_what_the_registry_does() {
    needs!("docker-registry");
    let shared = Shared::pushed(Who::OrdinaryUser);
    shared.run(&["image", "copy", "app", "app/1.0:latest"]).success();
    let by_catalog = shared.found(&["--refresh"]);
    let url = format!("url = \"{}/uenv\"\nlisting = \"index\"", shared.registry.url());
    shared.configure(&url);
    let without_dates = |found: Vec<Value>| -> Vec<Value> {
        let strip = |mut image: Value| {
            image["date"] = Value::Null;
            image
        };
        found.into_iter().map(strip).collect()
    };
    assert_eq!(without_dates(shared.found(&["--refresh"])), without_dates(by_catalog));
    shared.run(&["image", "delete", "app/1.0:v1"]).success();
    assert_eq!(shared.labels(&[]), ["app/1.0:latest@here%x86_64"]);
}

#[test]
fn an_image_in_the_registry_is_looked_at_without_getting_it() {
    needs!("docker-registry");
    let shared = Shared::pushed(Who::OrdinaryUser);
    shared.forget();
    let reported = shared.run(&["image", "inspect", "--remote", "app"]).success().stdout;
    assert!(reported.contains("an image of the tests"), "{reported}");
    assert!(reported.contains("view default (default)"), "{reported}");
    assert_eq!(shared.run(&["image", "ls"]).success().stdout, "");
}

#[test]
fn metadata_are_got_alone() {
    needs!("docker-registry");
    let shared = Shared::pushed(Who::OrdinaryUser);
    let directory = shared.cabane.world.path("work/got");
    let directory = directory.to_str().unwrap();
    shared.run(&["image", "pull", "--meta", directory, "app"]).success();
    let text = fs::read_to_string(Path::new(directory).join("env.json")).unwrap();
    assert!(text.contains("an image of the tests"), "{text}");
}

#[test]
fn without_a_password_access_is_denied_and_with_one_everything_works() {
    needs!("docker-registry");
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let directory = cabane.world.path("registry");
        let options = RealRegistry::options(&directory);
        let registry = options.with_tls().with_password("alice", "se:cret").start();
        let shared = Shared { cabane, registry };
        let authority = shared.registry.authority();
        shared.configure(&format!(
            "url = \"{}/uenv\"\nca = \"{}\"",
            shared.registry.url(),
            authority.display()
        ));
        let refused = shared.run(&["image", "push", APP]);
        assert_eq!(refused.code, 11);
        assert!(refused.stderr.contains("requires you to log in"), "{}", refused.stderr);
        assert!(refused.stderr.contains("podman login"), "{}", refused.stderr);
        let token = shared.cabane.world.file("work/token", "se:cret\n");
        let token = token.to_str().unwrap();
        let given = ["--token", token, "--username", "alice"];
        shared.run(&[&["image", "push", APP], &given[..]].concat()).success();
        let wrong = ["--token", token, "--username", "bob"];
        let refused = shared.run(&[&["image", "find"], &wrong[..]].concat());
        assert_eq!(refused.code, 11);
        assert!(!refused.stderr.contains("se:cret"), "{}", refused.stderr);
    }
}

#[test]
fn the_token_of_the_configuration_is_not_shown_to_another_registry() {
    let registry = HostileRegistry::start();
    registry.want_password("alice", "se:cret");
    let cabane = Cabane::new(Who::OrdinaryUser);
    let token = cabane.world.file("work/token", "se:cret\n");
    let settings = format!(
        "[registry]\nurl = \"https://registry.example/uenv\"\ntoken = \"{}\"\nusername = \"alice\"\n",
        token.to_str().unwrap()
    );
    cabane.world.file("site.toml", &settings);
    let seen = cabane.run(&["image", "find", "--registry", &registry.url()]);
    let requests = registry.requests();
    let showed = requests.iter().filter(|one| one.header("authorization").is_some());
    assert_eq!((seen.code, requests.is_empty(), showed.count()), (11, false, 0), "{seen:?}");
}

#[test]
fn what_podman_login_keeps_is_used() {
    needs!("docker-registry");
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let directory = cabane.world.path("registry");
    let registry = RealRegistry::options(&directory).with_password("alice", "secret").start();
    let shared = Shared { cabane, registry };
    shared.configure(&format!("url = \"{}/uenv\"", shared.registry.url()));
    // `alice:secret`
    let text =
        format!(r#"{{"auths":{{"{}":{{"auth":"YWxpY2U6c2VjcmV0"}}}}}}"#, shared.registry.host());
    let file = shared.cabane.world.file("work/auth.json", &text);
    let mut command = shared.cabane.command(&["image", "push", APP]);
    command.env("REGISTRY_AUTH_FILE", file);
    shared.cabane.finish(&mut command).success();
}

#[test]
fn an_unknown_certificate_is_refused() {
    needs!("docker-registry");
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let directory = cabane.world.path("registry");
    let registry = RealRegistry::options(&directory).with_tls().start();
    let shared = Shared { cabane, registry };
    shared.configure(&format!("url = \"{}/uenv\"", shared.registry.url()));
    let refused = shared.run(&["image", "find"]);
    assert_eq!(refused.code, 11);
    assert!(refused.stderr.contains("certificate"), "{}", refused.stderr);
    assert!(refused.stderr.contains("`ca`"), "{}", refused.stderr);
}

#[test]
fn ten_pulls_at_once_get_an_image_once() {
    needs!("docker-registry");
    let shared = Shared::new(Who::OrdinaryUser);
    let image = large(&shared, "large", 24);
    shared.run(&["image", "push", &image, "large/1.0"]).success();
    let pulls: Vec<Child> = (0..10)
        .map(|_| {
            let mut command = shared.cabane.command(&["image", "pull", "large"]);
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for pull in pulls {
        let output = pull.wait_with_output().unwrap();
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{shown}");
    }
    let log = shared.registry.log();
    let gets = log.lines().filter(|line| line.contains("GET /v2/") && line.contains("/blobs/"));
    let bytes: u64 = gets.filter_map(bytes_in).sum();
    let size = fs::metadata(&image).unwrap().len();
    assert!(bytes < size + size / 2, "{bytes} bytes were sent of an image of {size}");
    shared.run(&["run", "large", "--", "true"]).success();
}

#[test]
fn a_second_version_is_got_without_what_the_first_has() {
    needs!("docker-registry");
    let shared = Shared::new(Who::OrdinaryUser);
    let first = large(&shared, "large", 24);
    shared.run(&["image", "push", &first, "large/1.0"]).success();
    // The same, with a small program more that changes where everything else lies.
    let tree = shared.cabane.world.path("trees/large");
    fs::write(tree.join("a-program"), vec![7; 300_000]).unwrap();
    let second = shared.cabane.world.path("second.squashfs");
    squashfs(&tree, &second);
    let second = second.to_str().unwrap();
    shared.run(&["image", "push", second, "large/2.0"]).success();
    shared.run(&["image", "pull", "large/1.0"]).success();
    let pulled = shared.run(&["image", "pull", "large/2.0"]).success();
    assert!(pulled.stderr.contains("MB were in other images of that name"), "{}", pulled.stderr);
    let size = fs::metadata(second).unwrap().len();
    let digest = shared.run(&["image", "inspect", "--format", "{digest}", "large/2.0"]);
    let digest = digest.success().stdout.trim().to_owned();
    let log = shared.registry.log();
    let gets = log.lines().filter(|line| line.contains("GET /v2/") && line.contains(&digest));
    let bytes: u64 = gets.filter_map(bytes_in).sum();
    assert!(bytes < size / 10, "{bytes} of {size}");
    shared.run(&["run", "large/2.0", "--", "true"]).success();
}

/// The bytes of the body of an answer, in a line of an access log:
/// `"GET /v2/… HTTP/1.1" 206 8388608 "" "cabane/…"`.
fn bytes_in(line: &str) -> Option<u64> {
    let rest = line.rsplit_once("HTTP/1.1\" ")?.1;
    rest.split(' ').nth(1)?.parse().ok()
}

/// An image of so many megabytes that cannot be made smaller.
pub(crate) fn large(shared: &Shared, name: &str, megabytes: usize) -> String {
    let world = &shared.cabane.world;
    let tree = Tree::new(world.path(&format!("trees/{name}")))
        .meta(name, &shared.cabane.mount_point(name));
    let noise = tree.root().join("noise");
    let mut from = fs::File::open("/dev/urandom").unwrap();
    let mut content = vec![0; megabytes << 20];
    std::io::Read::read_exact(&mut from, &mut content).unwrap();
    fs::write(noise, content).unwrap();
    let image = world.path(&format!("{name}.squashfs"));
    squashfs(tree.root(), &image);
    image.to_str().unwrap().to_owned()
}

#[test]
fn without_a_registry_there_is_a_hint() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let refused = cabane.run(&["image", "find"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("no registry is configured"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--registry URL"), "{}", refused.stderr);
}

#[test]
fn a_registry_that_is_not_there_is_named() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let arguments = ["image", "find", "--registry", "http://127.0.0.1:1/uenv"];
    let refused = cabane.run(&arguments);
    assert_eq!(refused.code, 11);
    assert!(refused.stderr.contains("cannot reach the registry 127.0.0.1:1"), "{}", refused.stderr);
}

#[test]
fn a_password_in_an_address_is_refused_and_not_shown() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    for address in ["https://alice:secret@127.0.0.1/uenv", "ftp://alice:secret@127.0.0.1/uenv"] {
        let refused = cabane.run(&["image", "find", "--registry", address]);
        assert_eq!(refused.code, 2, "{address}");
        assert!(!refused.stderr.contains("secret"), "{}", refused.stderr);
    }
}

#[test]
fn upper_case_letters_are_refused_before_anything_is_sent() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let arguments = ["image", "push", "--registry", "http://127.0.0.1:1", APP, "App/1.0"];
    let refused = cabane.run(&arguments);
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("`app`"), "{}", refused.stderr);
}
