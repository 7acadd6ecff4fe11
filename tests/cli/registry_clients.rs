// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that go through a real registry from and to clients of others.

use std::fs;

use cabane_testkit::{Finished, RealRegistry, needs};
use serde_json::Value;

use crate::cabane::{APP, Who, everybody};
use crate::registry::Shared;

#[test]
fn what_cabane_pushes_oras_pulls() {
    needs!("docker-registry");
    let oras = needs!("oras");
    let shared = Shared::pushed(Who::OrdinaryUser);
    let name = format!("{}/uenv/deploy/here/x86_64/app/1.0:v1", shared.registry.host());
    let run = |arguments: &[&str]| {
        let mut command = shared.cabane.world.command(&oras);
        Finished::of(command.args(arguments)).success().stdout
    };
    run(&["pull", "--plain-http", "--output", "pulled", &name]);
    let pulled = shared.cabane.world.path("work/pulled/store.squashfs");
    let pushed = shared.cabane.world.path("app.squashfs");
    assert_eq!(fs::read(pulled).unwrap(), fs::read(pushed).unwrap());
    let arguments =
        ["discover", "--plain-http", "--format", "json", "--artifact-type", "uenv/meta"];
    let found: Value = serde_json::from_str(&run(&[&arguments[..], &[&name]].concat())).unwrap();
    let manifests = found.get("manifests").or_else(|| found.get("referrers")).unwrap();
    let digest = manifests[0]["digest"].as_str().unwrap();
    let meta = format!("{}@{digest}", name.rsplit_once(':').unwrap().0);
    run(&["pull", "--plain-http", "--output", "meta-of-oras", &meta]);
    let text = shared.cabane.world.path("work/meta-of-oras/meta/env.json");
    assert!(fs::read_to_string(text).unwrap().contains("an image of the tests"));
}

#[test]
fn what_oras_pushes_cabane_finds_and_pulls() {
    needs!("docker-registry");
    let oras = needs!("oras");
    for who in everybody() {
        let shared = Shared::new(who);
        let name = format!("{}/uenv/deploy/here/x86_64/app/1.0:v1", shared.registry.host());
        let world = &shared.cabane.world;
        let work = world.directory("work");
        fs::copy(world.path("app.squashfs"), work.join("store.squashfs")).unwrap();
        fs::create_dir(work.join("meta")).unwrap();
        fs::copy(world.path("trees/app/meta/env.json"), work.join("meta/env.json")).unwrap();
        let run = |arguments: &[&str]| {
            let mut command = world.command(&oras);
            Finished::of(command.args(arguments)).success();
        };
        let kind = "application/x-squashfs";
        run(&["push", "--plain-http", "--artifact-type", kind, &name, "./store.squashfs"]);
        run(&["attach", "--plain-http", "--artifact-type", "uenv/meta", &name, "./meta"]);
        shared.forget();
        assert_eq!(shared.labels(&["app"]), [APP]);
        let reported = shared.run(&["image", "inspect", "--remote", "app"]).success().stdout;
        assert!(reported.contains("an image of the tests"), "{reported}");
        shared.run(&["image", "pull", "app"]).success();
        let output = shared.run(&["run", "app", "--", "hello"]).success().stdout;
        assert_eq!(output, "hello from app\n");
    }
}

#[test]
fn what_skopeo_copies_to_another_registry_is_pulled_from_there() {
    needs!("docker-registry");
    let skopeo = needs!("skopeo");
    let shared = Shared::pushed(Who::OrdinaryUser);
    let other = RealRegistry::start(&shared.cabane.world.path("other-registry"));
    let path = "uenv/deploy/here/x86_64/app/1.0:v1";
    let name = |registry: &RealRegistry| format!("docker://{}/{path}", registry.host());
    let mut command = shared.cabane.world.command(&skopeo);
    command.args(["copy", "--insecure-policy", "--src-tls-verify=false"]);
    command.args(["--dest-tls-verify=false", &name(&shared.registry), &name(&other)]);
    Finished::of(&mut command).success();
    shared.forget();
    shared.configure(&format!("url = \"{}/uenv\"", other.url()));
    // The metadata are not copied with it: they are in the image as well.
    shared.run(&["image", "pull", "app"]).success();
    let output = shared.run(&["run", "app", "--", "hello"]).success().stdout;
    assert_eq!(output, "hello from app\n");
}
