// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What other tools and registries make of an exported image.

use std::fs;
use std::path::Path;
use std::process::Command;

use cabane_testkit::{RealRegistry, needs, only_for_registries};
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody};
use crate::export::{STACK, add_base, add_stack, exported, names_in, typed};
use crate::import_containers::{TOOL, image_file};
use crate::import_peers::{Names, walk};

fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn umoci_unpacks_the_same_files() {
    let umoci = needs!("umoci");
    for who in everybody() {
        let cabane = Cabane::new(who);
        add_stack(&cabane, "");
        exported(&cabane, &[STACK, &typed(&cabane, "oci", "out:1")]);
        let bundle = cabane.world.path("bundle");
        let mut unpack = Command::new(&umoci);
        unpack.args(["unpack", "--rootless", "--image"]);
        unpack.arg(format!("{}:1", cabane.world.path("out").display()));
        let output = unpack.arg(&bundle).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let mut theirs = Names::new();
        walk(&bundle.join("rootfs/user-environment"), "", &mut theirs);
        let mut ours = names_in(&cabane, &image_file(&cabane, STACK), "");
        ours.get_mut("bin/program").unwrap().1 &= 0o777;
        assert!(ours == theirs, "{who:?}: {theirs:?}");
    }
}

#[test]
fn skopeo_reads_every_form_and_copies_it_with_the_same_digests() {
    let skopeo = needs!("skopeo");
    let skopeo = skopeo.to_str().unwrap();
    let cabane = Cabane::new(Who::OrdinaryUser);
    add_stack(&cabane, "");
    for scheme in ["oci", "oci-archive", "docker-archive"] {
        for compression in ["gzip", "zstd"] {
            let name = format!("{scheme}-{compression}");
            let target = typed(&cabane, scheme, &format!("{name}:site/stack:1"));
            let seen = exported(&cabane, &[STACK, &target, "--compression", compression]);
            let config = output_of(skopeo, &["inspect", "--config", &target]);
            let config: Value = serde_json::from_str(&config).unwrap();
            let title = &config["config"]["Labels"]["org.opencontainers.image.title"];
            assert_eq!((title, &config["architecture"]), (&"stack".into(), &"amd64".into()));
            let copy = format!("dir:{}", cabane.world.path(&format!("copy-{name}")).display());
            // Every digest of what is read is compared.
            output_of(skopeo, &["copy", "--insecure-policy", &target, &copy]);
            if scheme != "docker-archive" {
                let inspected = output_of(skopeo, &["inspect", &target]);
                let inspected: Value = serde_json::from_str(&inspected).unwrap();
                assert_eq!(inspected["Digest"], seen["digest"], "{name}");
                assert_eq!(inspected["Layers"][0], seen["layers"][0]["digest"], "{name}");
            }
        }
    }
}

#[test]
fn bubblewrap_runs_it_as_it_is_unpacked() {
    let (umoci, bwrap) = (needs!("umoci"), needs!("bwrap"));
    let cabane = Cabane::new(Who::OrdinaryUser);
    add_stack(&cabane, "");
    add_base(&cabane, "2.17");
    exported(&cabane, &[STACK, &typed(&cabane, "oci", "out:1"), "--base", "os"]);
    let bundle = cabane.world.path("bundle");
    let image = format!("{}:1", cabane.world.path("out").display());
    let arguments = ["unpack", "--rootless", "--image", &image];
    let arguments = [&arguments[..], &[bundle.to_str().unwrap()]].concat();
    output_of(umoci.to_str().unwrap(), &arguments);
    let config: Value =
        serde_json::from_slice(&fs::read(bundle.join("config.json")).unwrap()).unwrap();
    let mut run = Command::new(bwrap);
    run.args(["--bind", bundle.join("rootfs").to_str().unwrap(), "/"]);
    run.env_clear();
    for text in config["process"]["env"].as_array().unwrap() {
        let (name, value) = text.as_str().unwrap().split_once('=').unwrap();
        run.env(name, value);
    }
    let arguments = config["process"]["args"].as_array().unwrap();
    run.arg("--").args(arguments.iter().map(|argument| argument.as_str().unwrap()));
    let output = run.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello from stack\n", "{output:?}");
}

/// How many uploads the registry was to begin.
fn uploads(registry: &RealRegistry) -> (usize, usize) {
    let log = registry.log();
    let begun = log.lines().filter(|line| line.contains("\"POST "));
    let (mounted, sent): (Vec<&str>, Vec<&str>) = begun.partition(|line| line.contains("mount="));
    (mounted.len(), sent.len())
}

#[test]
fn an_image_goes_into_a_registry_and_comes_back() {
    needs!("docker-registry");
    for who in everybody() {
        let cabane = Cabane::new(who);
        let registry = RealRegistry::start(&cabane.world.path("registry"));
        add_stack(&cabane, "");
        let target = format!("{}/site/stack:1", registry.url());
        let first = exported(&cabane, &[STACK, &target]);
        let again = exported(&cabane, &[STACK, &target]);
        assert_eq!(
            (&first["unchanged"], &again["unchanged"], &first["digest"]),
            (&false.into(), &true.into(), &again["digest"])
        );
        cabane.run(&["import", &target, TOOL]).success();
        let mut before = names_in(&cabane, &image_file(&cabane, STACK), "");
        let after = names_in(&cabane, &image_file(&cabane, TOOL), "user-environment");
        before.get_mut("bin/program").unwrap().1 &= 0o777;
        assert!(before == after, "{who:?}: {after:?}");
    }
}

#[test]
fn a_tag_that_another_image_has_is_taken_only_by_force() {
    needs!("docker-registry");
    let cabane = Cabane::new(Who::OrdinaryUser);
    let registry = RealRegistry::start(&cabane.world.path("registry"));
    add_stack(&cabane, "");
    let target = format!("{}/site/stack:1", registry.url());
    exported(&cabane, &[STACK, &target]);
    let other = ["export", STACK, target.as_str(), "--view=other"];
    let seen = cabane.run(&other);
    assert!(
        seen.code == 1
            && seen.stderr.contains("is another image already")
            && seen.stderr.contains("--force"),
        "{seen:?}"
    );
    let seen = cabane.run(&[&other[..], &["--force"]].concat()).success();
    assert!(seen.stderr.contains("the tag was taken from"), "{seen:?}");
}

#[test]
fn layers_of_a_base_in_the_same_registry_are_not_sent() {
    only_for_registries!("docker-registry", "distribution");
    let skopeo = needs!("skopeo");
    needs!("docker-registry");
    let cabane = Cabane::new(Who::OrdinaryUser);
    let registry = RealRegistry::start(&cabane.world.path("registry"));
    add_stack(&cabane, "");
    add_base(&cabane, "2.17");
    exported(&cabane, &["os", &typed(&cabane, "oci", "os:1")]);
    let there = registry.url().replace("http://", "docker://");
    let arguments = ["copy", "--insecure-policy", "--dest-tls-verify=false"];
    let from = typed(&cabane, "oci", "os:1");
    let to = format!("{there}/base/os:1");
    output_of(skopeo.to_str().unwrap(), &[&arguments[..], &[&from, &to]].concat());
    let before = uploads(&registry);
    let base = format!("{}/base/os:1", registry.url());
    let target = format!("{}/site/stack:1", registry.url());
    let seen = exported(&cabane, &[STACK, &target, "--base", &base]);
    let after = uploads(&registry);
    assert_eq!(seen["layers"].as_array().unwrap().len(), 2);
    // Requested from there: the layer of the base, and in vain the new layer and configuration.
    assert_eq!((after.0 - before.0, after.1 - before.1), (3, 2));
    let sent = Path::new("site/stack/_layers/sha256");
    let kept = fs::read_dir(registry.data().join("docker/registry/v2/repositories").join(sent));
    assert_eq!(kept.unwrap().count(), 3);
    cabane.run(&["import", &target, TOOL]).success();
    let seen = cabane.run(&["run", "tool", "--", "hello"]).success();
    assert_eq!(seen.stdout, "hello from stack\n");
}

#[test]
fn a_token_is_for_the_registry_to_which_it_goes_and_no_other() {
    let skopeo = needs!("skopeo");
    needs!("docker-registry");
    let cabane = Cabane::new(Who::OrdinaryUser);
    let open = RealRegistry::start(&cabane.world.path("open"));
    let closed = RealRegistry::options(&cabane.world.path("closed"))
        .with_password("alice", "secret")
        .start();
    add_stack(&cabane, "");
    add_base(&cabane, "2.17");
    exported(&cabane, &["os", &typed(&cabane, "oci", "os:1")]);
    let to = format!("{}/os:1", closed.url().replace("http://", "docker://"));
    let arguments = ["copy", "--insecure-policy", "--dest-tls-verify=false"];
    let from = typed(&cabane, "oci", "os:1");
    let rest = ["--dest-creds=alice:secret", &from, &to];
    output_of(skopeo.to_str().unwrap(), &[&arguments[..], &rest].concat());
    let token = cabane.world.file("token", "secret");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(&token, mode).unwrap();
    let base = format!("{}/os:1", closed.url());
    let code = |target: &str| {
        let path = token.to_str().unwrap();
        let arguments = ["export", STACK, target, "--base", &base, "--token", path];
        let arguments = [&arguments[..], &["--username=alice"]].concat();
        cabane.run(&arguments).code
    };
    let elsewhere = format!("{}/stack:1", open.url());
    let same = format!("{}/stack:1", closed.url());
    let file = typed(&cabane, "oci", "out");
    assert_eq!([code(&elsewhere), code(&same), code(&file)], [11, 0, 0]);
}
