// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image trust`, and `sign --kernel-key`: what vouches for the content of images. What a kernel
//! makes of it is tested with the set-uid helper.

use std::fs;
use std::path::PathBuf;

use cabane_testkit::needs;
use serde_json::Value;

use crate::cabane::{APP, Cabane, Who};
use crate::registry::Shared;

fn root_hash(cabane: &Cabane) -> String {
    let seen = cabane.run(&["image", "inspect", "--json", "app"]).success().stdout;
    let image: Value = serde_json::from_str(&seen).unwrap();
    image["root_hash"].as_str().unwrap().to_owned()
}

/// The files beside the image of a repository.
fn beside(cabane: &Cabane, suffix: &str) -> PathBuf {
    beside_image(cabane, "app", suffix)
}

fn beside_image(cabane: &Cabane, name: &str, suffix: &str) -> PathBuf {
    let path = cabane.run(&["image", "inspect", "--format={sqfs}", name]).success().stdout;
    let path = path.trim().strip_prefix("[WORLD]/").unwrap().to_owned();
    cabane.world.path(&(path + suffix))
}

#[test]
fn each_image_that_is_added_has_a_hash_tree_that_veritysetup_accepts() {
    needs!("veritysetup");
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let (image, tree, root) = (beside(&cabane, ""), beside(&cabane, ".verity"), root_hash(&cabane));
    let mut verify = cabane.other("veritysetup");
    verify.arg("verify").args([image, tree]).arg(&root);
    cabane.finish(&mut verify).success();
    let shown = cabane.run(&["image", "inspect", "app"]).success().stdout;
    assert!(shown.contains(&format!("  root hash    {root}\n  mount point")), "{shown}");
}

#[test]
fn an_image_is_added_to_the_list_once_and_removed() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let list = cabane.world.path("list");
    let trust = |more: &[&str]| {
        let list = format!("--list={}", list.display());
        cabane.run(&[&["image", "trust", &list], more].concat()).success().stderr
    };
    let root = root_hash(&cabane);
    assert!(trust(&["app"]).contains(&format!("is added to [WORLD]/list: root hash {root}")));
    let text = fs::read_to_string(&list).unwrap();
    assert!(text.starts_with(&root) && text.ends_with(&format!(" {APP}\n")), "{text}");
    assert!(trust(&["app"]).contains("is already in "));
    assert_eq!(fs::read_to_string(&list).unwrap(), text);
    fs::write(&list, format!("# ours\n{text}{} other\n", "0".repeat(64))).unwrap();
    assert!(trust(&["--remove", "app"]).contains("is removed from "));
    let rest = format!("# ours\n{} other\n", "0".repeat(64));
    assert_eq!(fs::read_to_string(&list).unwrap(), rest);
}

#[test]
fn administrators_who_change_the_list_at_the_same_time_lose_nothing() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let images: Vec<String> =
        (0..8).map(|number| cabane.image(&format!("own{number}"), "/mnt/own")).collect();
    let list = format!("--list={}", cabane.world.path("list").display());
    std::thread::scope(|scope| {
        for image in &images {
            scope.spawn(|| cabane.run(&["image", "trust", &list, image]).success());
        }
    });
    let text = fs::read_to_string(cabane.world.path("list")).unwrap();
    assert_eq!(text.lines().count(), images.len(), "{text}");
}

#[test]
fn the_root_hash_is_that_of_the_image_and_not_what_lies_beside_it() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let other = cabane.image("other", "/mnt/other");
    cabane.run(&["image", "add", "other/1.0:v1@here%x86_64", &other]).success();
    let print = || cabane.run(&["image", "trust", "--print", "app"]).success().stdout;
    let before = print();
    let tree = beside_image(&cabane, "other", ".verity");
    fs::copy(tree, beside(&cabane, ".verity")).unwrap();
    assert_eq!(print(), before);
}

#[test]
fn a_list_that_cannot_be_written_is_an_error_with_its_name() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let refused = cabane.run(&["image", "trust", "--list=/proc/list", "app"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("cannot write /proc/list"), "{}", refused.stderr);
}

/// Makes a key and a certificate.
fn key(cabane: &Cabane) {
    let mut shell = cabane.other("sh");
    shell.args([
        "-c",
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout site.key -out site.pem -subj /CN=site 2>&1",
    ]);
    cabane.finish(&mut shell).success();
}

const SIGN: [&str; 4] = ["image", "sign", "--kernel-key=site.key", "--certificate=site.pem"];

#[test]
fn a_signature_of_the_root_hash_is_one_and_travels_through_a_registry() {
    needs!("docker-registry");
    let shared = Shared::new(Who::OrdinaryUser);
    let cabane = &shared.cabane;
    key(cabane);
    let signed = cabane.run(&[&SIGN[..], &["app"]].concat()).success();
    assert!(signed.stderr.contains(&root_hash(cabane)), "{}", signed.stderr);
    let signature = fs::read(beside(cabane, ".verity.p7s")).unwrap();
    fs::write(cabane.world.path("root"), root_hash(cabane)).unwrap();
    fs::write(cabane.world.path("signature"), &signature).unwrap();
    let mut verify = cabane.other("sh");
    verify.args([
        "-c",
        "openssl cms -verify -binary -inform DER -in \"$0/signature\" -content \"$0/root\" \
             -certfile site.pem -CAfile site.pem -purpose any 2>&1",
    ]);
    verify.arg(cabane.world.path(""));
    cabane.finish(&mut verify).success();
    shared.run(&["image", "push", APP]).success();
    shared.forget();
    shared.run(&["image", "pull", "app"]).success();
    assert_eq!(fs::read(beside(cabane, ".verity.p7s")).unwrap(), signature);
}

#[test]
fn an_image_that_is_signed_later_is_pushed_and_pulled_again() {
    needs!("docker-registry");
    let shared = Shared::pushed(Who::OrdinaryUser);
    let cabane = &shared.cabane;
    key(cabane);
    cabane.run(&[&SIGN[..], &["app"]].concat()).success();
    shared.run(&["image", "push", APP]).success();
    let signature = beside(cabane, ".verity.p7s");
    let bytes = fs::read(&signature).unwrap();
    fs::remove_file(&signature).unwrap();
    shared.run(&["image", "pull", "app"]).success();
    assert_eq!(fs::read(&signature).unwrap(), bytes);
}

#[test]
fn a_key_that_is_none_is_an_error_that_says_how_to_make_one() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let refused = cabane.run(&[&SIGN[..], &["app"]].concat());
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.stderr.contains("cannot sign with site.key: "), "{}", refused.stderr);
    assert!(refused.stderr.contains("hint: `openssl req -x509 "), "{}", refused.stderr);
    assert!(!beside(&cabane, ".verity.p7s").exists());
}

#[test]
fn a_plain_file_gets_a_hash_tree_when_it_is_signed() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    key(&cabane);
    let image = cabane.image("plain", "/mnt/plain");
    cabane.run(&[&SIGN[..], &[image.as_str()]].concat()).success();
    let seen = cabane.run(&["image", "inspect", "--json", &image]).success().stdout;
    let seen: Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(seen["root_hash"].as_str().map(str::len), Some(64), "{seen}");
    assert!(fs::metadata(format!("{image}.verity.p7s")).unwrap().len() > 100);
}
