// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The list of images in a registry that other tools and killed commands write to, too.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use cabane_testkit::{Finished, needs, only_for_registries, squashfs};
use serde_json::Value;

use crate::cabane::{APP, Who};
use crate::registry::{Shared, large};

const REPOSITORY: &str = "uenv/deploy/here/x86_64/app/1.0";
const OTHER: &str = "app/1.0:v2@here%x86_64";

/// A registry with an image that Cabane has pushed, and another client of it.
struct Bed {
    shared: Shared,
    oras: PathBuf,
}

impl Bed {
    fn new(oras: &Path, listing: &str) -> Self {
        let shared = Shared::new(Who::OrdinaryUser);
        let url = shared.registry.url();
        shared.configure(&format!("url = \"{url}/uenv\"\nlisting = \"{listing}\""));
        shared.run(&["image", "push", APP]).success();
        Self { shared, oras: oras.to_owned() }
    }

    fn oras(&self, arguments: &[&str]) {
        let mut command = self.shared.cabane.world.command(&self.oras);
        Finished::of(command.args(arguments)).success();
    }

    fn name(&self, tag: &str) -> String {
        format!("{}/{REPOSITORY}:{tag}", self.shared.registry.host())
    }

    /// Gives a label to the image of another, as another client does.
    fn tag(&self, from: &str, to: &str) {
        self.oras(&["tag", "--plain-http", &self.name(from), to]);
    }

    /// Pushes another image under a label, and says nothing of it in the list.
    fn push_by_oras(&self, tag: &str) -> String {
        let name = format!("of-oras-{tag}");
        let image = self.shared.cabane.image(&name, &self.shared.cabane.mount_point(&name));
        self.push_file_by_oras(&image, tag)
    }

    fn push_file_by_oras(&self, image: &str, tag: &str) -> String {
        let work = self.shared.cabane.world.directory("work");
        std::fs::copy(image, work.join("store.squashfs")).unwrap();
        let kind = "application/x-squashfs";
        let file = "./store.squashfs";
        self.oras(&["push", "--plain-http", "--artifact-type", kind, &self.name(tag), file]);
        cabane_registry::sum::file(image.as_ref(), &mut |_, _| ()).unwrap().to_string()
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.shared.run(arguments)
    }

    fn check(&self) -> Value {
        let output = self.run(&["registry", "check", "--json"]);
        let check: Value = serde_json::from_str(&output.stdout).unwrap();
        let is_right = check["differences"].as_array().unwrap().is_empty();
        assert_eq!(output.code, if is_right { 0 } else { 11 }, "{check}");
        check
    }

    fn digest_of(&self, arguments: &[&str]) -> String {
        let arguments = [&["image", "find", "--format", "{digest}"], arguments].concat();
        self.run(&arguments).success().stdout.trim().to_owned()
    }
}

#[test]
fn what_another_client_pushes_is_in_the_list_after_a_repair() {
    needs!("docker-registry");
    let oras = needs!("oras");
    for listing in ["auto", "catalog"] {
        let bed = Bed::new(&oras, listing);
        bed.tag("v1", "v2");
        assert_eq!(bed.shared.labels(&["--refresh"]), [APP, OTHER], "{listing}");
        let check = bed.check();
        assert_eq!(check["differences"][0]["label"], OTHER, "{check}");
        assert_eq!(check["differences"][0]["listed"], Value::Null, "{check}");
        let reported = bed.run(&["registry", "reindex"]).success();
        assert!(reported.stderr.contains("repaired 1 label"), "{}", reported.stderr);
        assert!(reported.stdout.contains("app/1.0:v2"), "{}", reported.stdout);
        assert_eq!(bed.shared.labels(&[]), [APP, OTHER], "{listing}");
        assert_eq!(bed.check()["differences"], Value::Array(Vec::new()));
    }
}

#[test]
fn a_find_that_asks_for_each_image_says_that_the_list_is_wrong() {
    needs!("docker-registry");
    let oras = needs!("oras");
    let bed = Bed::new(&oras, "auto");
    assert_eq!(bed.shared.labels(&[]), [APP]);
    let other = bed.push_by_oras("v1");
    assert_ne!(bed.digest_of(&["app"]), other);
    let found = bed.run(&["image", "find", "--refresh", "--format", "{digest}"]).success();
    assert_eq!(found.stdout.trim(), other);
    assert!(found.stderr.contains("wrong about 1 label"), "{}", found.stderr);
    assert!(found.stderr.contains("cabane registry reindex"), "{}", found.stderr);
}

#[test]
fn a_pull_takes_the_label_where_the_list_says_something_else_and_corrects_the_list() {
    needs!("docker-registry");
    let oras = needs!("oras");
    for listing in ["auto", "index"] {
        let bed = Bed::new(&oras, listing);
        bed.shared.forget();
        let other = bed.push_by_oras("v1");
        let pulled = bed.run(&["image", "pull", "app"]).success();
        assert!(pulled.stderr.contains("the list of the registry had"), "{}", pulled.stderr);
        assert!(pulled.stderr.contains("the list is corrected"), "{}", pulled.stderr);
        assert_eq!(bed.digest_of(&["app"]), other);
        let here = bed.run(&["image", "ls", "--format", "{digest}"]).success().stdout;
        assert_eq!(here.trim(), other);
        assert_eq!(bed.check()["differences"], Value::Array(Vec::new()));
    }
}

#[test]
fn a_digest_is_not_pulled_under_labels_that_have_another_image_now() {
    needs!("docker-registry");
    let oras = needs!("oras");
    let bed = Bed::new(&oras, "index");
    bed.run(&["image", "copy", "app", "app/1.0:v2"]).success();
    let digest = bed.digest_of(&["app/1.0:v1"]);
    bed.shared.forget();
    bed.push_by_oras("v2");
    bed.run(&["image", "pull", &digest]).success();
    let here = bed.run(&["image", "ls", "--format", "{label}"]).success().stdout;
    assert_eq!(here.trim(), APP);
}

#[test]
fn what_another_client_deletes_leaves_the_list_with_the_next_command() {
    needs!("docker-registry");
    let oras = needs!("oras");
    for command in
        [&["image", "pull", "app"][..], &["image", "delete", APP], &["image", "pull", APP]]
    {
        let bed = Bed::new(&oras, "index");
        bed.shared.forget();
        assert_eq!(bed.shared.labels(&[]), [APP]);
        bed.oras(&["manifest", "delete", "--force", "--plain-http", &bed.name("v1")]);
        assert_eq!(bed.check()["differences"][0]["registry"], Value::Null);
        let refused = bed.run(command);
        assert_eq!(refused.code, 4, "{}", refused.stderr);
        assert!(refused.stderr.contains("list"), "{}", refused.stderr);
        assert_eq!(bed.shared.labels(&[]), Vec::<String>::new(), "{command:?}");
    }
}

#[test]
fn where_there_is_no_list_the_registry_is_asked_and_a_list_can_be_made() {
    only_for_registries!("docker-registry", "distribution");
    needs!("docker-registry");
    let oras = needs!("oras");
    let shared = Shared::new(Who::OrdinaryUser);
    let bed = Bed { shared, oras };
    let other = bed.push_by_oras("v1");
    assert_eq!(bed.digest_of(&[]), other);
    let reported = bed.run(&["registry", "check"]);
    assert_eq!(reported.code, 11);
    assert!(reported.stderr.contains("there is no list"), "{}", reported.stderr);
    bed.run(&["registry", "reindex"]).success();
    let before = requests(&bed.shared);
    assert_eq!(bed.digest_of(&[]), other);
    // The state, and the lines.
    assert!(requests(&bed.shared) - before <= 3);
    let before = requests(&bed.shared);
    assert_eq!(bed.digest_of(&[]), other);
    assert_eq!(requests(&bed.shared) - before, 1);
}

fn requests(shared: &Shared) -> usize {
    shared.registry.log().lines().filter(|line| line.contains("HTTP/1.1\"")).count()
}

#[test]
fn packages_of_what_another_client_pushed_are_read_once() {
    needs!("docker-registry");
    let oras = needs!("oras");
    let bed = Bed { shared: Shared::new(Who::OrdinaryUser), oras };
    bed.push_by_oras("v1");
    let packages =
        r#"{"version":1,"packages":[{"name":"hdf5","version":"1.14.3","manager":"spack"}]}"#;
    bed.shared.cabane.world.file("work/meta/packages.json", packages);
    let kind = "uenv/meta";
    bed.oras(&["attach", "--plain-http", "--artifact-type", kind, &bed.name("v1"), "./meta"]);
    bed.run(&["registry", "reindex"]).success();
    let added = bed.run(&["registry", "enrich"]).success();
    assert!(added.stderr.contains("added the packages of 1 of 1 label"), "{}", added.stderr);
    let again = bed.run(&["registry", "enrich"]).success();
    assert!(again.stderr.contains("added the packages of 0 of 1 label"), "{}", again.stderr);
    // A user who knows nothing yet: the state, the lines twice, the packages.
    let before = requests(&bed.shared);
    assert_eq!(bed.shared.labels(&["--package", "hdf5@1.14"]), [APP]);
    assert!(requests(&bed.shared) - before <= 4);
}

#[test]
fn what_another_client_pushes_gets_a_chunk_list_and_is_then_pulled_in_part() {
    needs!("docker-registry");
    let oras = needs!("oras");
    let bed = Bed { shared: Shared::new(Who::OrdinaryUser), oras };
    let first = large(&bed.shared, "large", 24);
    bed.push_file_by_oras(&first, "v1");
    let tree = bed.shared.cabane.world.path("trees/large");
    std::fs::write(tree.join("a-program"), vec![7; 300_000]).unwrap();
    let second = bed.shared.cabane.world.path("second.squashfs");
    squashfs(&tree, &second);
    bed.push_file_by_oras(second.to_str().unwrap(), "v2");
    bed.run(&["registry", "reindex"]).success();
    bed.run(&["image", "pull", "--force", APP]).success();
    let added = bed.run(&["registry", "enrich", "--chunks"]).success();
    assert_eq!(added.stderr.matches("attached a chunk list").count(), 2, "{}", added.stderr);
    let again = bed.run(&["registry", "enrich", "--chunks"]).success();
    assert!(!again.stderr.contains("chunk list"), "{}", again.stderr);
    let pulled = bed.run(&["image", "pull", OTHER]).success();
    assert!(pulled.stderr.contains("MB were in other images of that name"), "{}", pulled.stderr);
    let left = bed.shared.cabane.world.path("home/.cache/cabane/chunk-lists");
    assert_eq!(std::fs::read_dir(left).map_or(0, Iterator::count), 0);
}

#[test]
fn after_pushes_that_were_killed_the_next_command_makes_the_list_right() {
    needs!("docker-registry");
    let oras = needs!("oras");
    let bed = Bed::new(&oras, "index");
    let shared = &bed.shared;
    let images: Vec<String> = (0..2)
        .map(|number| {
            let name = format!("image-{number}");
            shared.cabane.image(&name, &shared.cabane.mount_point(&name))
        })
        .collect();
    let push = |image: &str| {
        let mut command = shared.cabane.command(&["image", "push", "--force", image, "app/1.0:v1"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let started = Instant::now();
    push(&images[0]).status().unwrap();
    let whole = started.elapsed();
    for number in 0..40_u32 {
        let mut child = push(&images[(number % 2) as usize]).spawn().unwrap();
        std::thread::sleep(whole * (number % 20) / 20 + Duration::from_millis(1));
        let _ = child.kill();
        child.wait().unwrap();
        if number % 8 == 7 {
            bed.run(&["registry", "reindex"]).success();
            assert_eq!(bed.check()["differences"], Value::Array(Vec::new()), "{number}");
        }
    }
}
