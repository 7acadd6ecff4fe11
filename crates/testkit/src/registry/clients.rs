// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Clients that others wrote find both registries in order.

use std::fs;
use std::path::Path;

use super::{Bearer, HostileRegistry, RealRegistry, digest_of};
use crate::{Finished, World, needs};

/// Pushes a file with what belongs to it, finds both again, and pulls the file.
fn push_and_pull(oras: &Path, host: &str) {
    let world = World::new();
    world.file("work/image", "the content of an image");
    world.file("work/meta", "what belongs to it");
    let run = |arguments: &[&str]| {
        let mut command = world.command(oras);
        Finished::of(command.args(arguments)).success().stdout
    };
    let name = format!("{host}/deploy/app:v1");
    let image = "application/x-squashfs";
    run(&["push", "--plain-http", "--artifact-type", image, &name, "image"]);
    run(&["attach", "--plain-http", "--artifact-type", "uenv/meta", &name, "meta"]);
    let found = run(&["discover", "--plain-http", "--format", "json", &name]);
    assert!(found.contains("uenv/meta"), "{found}");
    run(&["pull", "--plain-http", "--output", "pulled", &name]);
    let pulled = fs::read_to_string(world.path("work/pulled/image"));
    assert_eq!(pulled.unwrap(), "the content of an image");
    let tags = run(&["repo", "tags", "--plain-http", &format!("{host}/deploy/app")]);
    // Older ones also report what replaces the list of referrers.
    assert!(tags.lines().any(|tag| tag == "v1"), "{tags}");
}

#[test]
fn oras_pushes_and_pulls_with_the_real_registry() {
    needs!("docker-registry");
    let oras = needs!("oras");
    let world = World::new();
    let registry = RealRegistry::start(&world.path("registry"));
    push_and_pull(&oras, &registry.host());
}

#[test]
fn oras_pushes_and_pulls_with_the_registry_in_memory() {
    let oras = needs!("oras");
    let registry = HostileRegistry::start();
    push_and_pull(&oras, &registry.host());
    assert!(registry.uploads().is_empty());
}

#[test]
fn oras_finds_referrers_where_there_is_no_list_of_them() {
    let oras = needs!("oras");
    let registry = HostileRegistry::start();
    registry.change(|settings| settings.referrers = false);
    let world = World::new();
    world.file("work/image", "the content of an image");
    let name = format!("{}/deploy/app:v1", registry.host());
    let run = |arguments: &[&str]| {
        let mut command = world.command(&oras);
        Finished::of(command.args(arguments)).success().stdout
    };
    run(&["push", "--plain-http", &name, "image"]);
    run(&["attach", "--plain-http", "--artifact-type", "uenv/meta", &name, "image"]);
    let tags = registry.tags("deploy/app");
    let fallback = tags.iter().find(|(tag, _)| tag.starts_with("sha256-"));
    assert!(fallback.is_some(), "{tags:?}");
}

/// Copies a container image into a registry and lists, describes and deletes it.
fn copy_and_delete(skopeo: &Path, host: &str) {
    let world = World::new();
    layout(&world);
    let run = |arguments: &[&str]| {
        let mut command = world.command(skopeo);
        Finished::of(command.args(arguments)).success().stdout
    };
    let name = format!("docker://{host}/images/tiny:v1");
    let copied = ["copy", "--insecure-policy", "--dest-tls-verify=false", "oci:layout", &name];
    run(&copied);
    let tags = format!("docker://{host}/images/tiny");
    let tags = run(&["list-tags", "--tls-verify=false", &tags]);
    assert!(tags.contains("\"v1\""), "{tags}");
    let output = run(&["inspect", "--tls-verify=false", &name]);
    assert!(output.contains("\"Digest\": \"sha256:"), "{output}");
    run(&["delete", "--tls-verify=false", &name]);
    let mut again = world.command(skopeo);
    let again = Finished::of(again.args(["inspect", "--tls-verify=false", &name]));
    assert_ne!(again.code, 0, "{again:?}");
}

/// A container image of one layer with nothing in it, as a directory.
fn layout(world: &World) {
    let blob = |content: &str| {
        let digest = digest_of(content.as_bytes());
        world.file(&format!("work/layout/blobs/{}", digest.replace(':', "/")), content);
        serde_json::json!({"digest": digest, "size": content.len()})
    };
    // The end of an archive is a kilobyte of zeros.
    let mut layer = blob(&"\0".repeat(1024));
    let config = serde_json::json!({
        "architecture": "amd64",
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    });
    let mut config = blob(&config.to_string());
    layer["mediaType"] = "application/vnd.oci.image.layer.v1.tar".into();
    config["mediaType"] = "application/vnd.oci.image.config.v1+json".into();
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = serde_json::json!({
        "schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer],
    });
    let mut manifest = blob(&manifest.to_string());
    manifest["mediaType"] = kind.into();
    let index = serde_json::json!({"schemaVersion": 2, "manifests": [manifest]});
    world.file("work/layout/index.json", &index.to_string());
    world.file("work/layout/oci-layout", r#"{"imageLayoutVersion": "1.0.0"}"#);
}

#[test]
fn skopeo_copies_into_the_real_registry_and_deletes() {
    needs!("docker-registry");
    let skopeo = needs!("skopeo");
    let world = World::new();
    let registry = RealRegistry::start(&world.path("registry"));
    copy_and_delete(&skopeo, &registry.host());
}

#[test]
fn skopeo_copies_into_the_registry_in_memory_and_deletes() {
    let skopeo = needs!("skopeo");
    let registry = HostileRegistry::start();
    copy_and_delete(&skopeo, &registry.host());
}

/// Logs in with a password, and pushes what is in `image`.
fn log_in_and_push(oras: &Path, host: &str, how: &[&str]) -> World {
    let world = World::new();
    world.file("work/image", "the content of an image");
    let name = format!("{host}/deploy/app:v1");
    let run = |arguments: &[&str]| {
        let mut command = world.command(oras);
        Finished::of(command.args(arguments).args(how)).success();
    };
    run(&["login", "--username", "me", "--password", "swordfish", host]);
    run(&["push", &name, "image"]);
    run(&["pull", "--output", "pulled", &name]);
    world
}

#[test]
fn oras_gets_a_token_from_the_registry_in_memory() {
    let oras = needs!("oras");
    let registry = HostileRegistry::start();
    registry.want_token(Bearer::account("me", "swordfish"));
    log_in_and_push(&oras, &registry.host(), &["--plain-http"]);
    assert_eq!(registry.tags("deploy/app").len(), 1);
}

#[test]
fn oras_gives_a_password_to_the_registry_in_memory() {
    let oras = needs!("oras");
    let registry = HostileRegistry::start();
    registry.want_password("me", "swordfish");
    log_in_and_push(&oras, &registry.host(), &["--plain-http"]);
    assert_eq!(registry.tags("deploy/app").len(), 1);
}

#[test]
fn oras_gives_a_password_to_the_real_registry_over_tls() {
    needs!("docker-registry");
    let oras = needs!("oras");
    let world = World::new();
    let options = RealRegistry::options(&world.path("registry"));
    let registry = options.with_tls().with_password("me", "swordfish").start();
    let authority = registry.authority().to_string_lossy();
    let client = log_in_and_push(&oras, &registry.host(), &["--ca-file", &authority]);
    assert!(client.path("work/pulled/image").exists());
}
