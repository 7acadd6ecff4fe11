// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Container images whose sizes are made up, or are too large.

use std::fs;
use std::process::Command;

use cabane_testkit::HostileRegistry;
use serde_json::json;

use crate::cabane::{Cabane, Who};
use crate::import_containers::{TOOL, leftovers, sif};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

#[test]
fn a_layer_of_a_size_that_nothing_has_is_refused_with_its_name() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let registry = HostileRegistry::start();
    let layer = format!("sha256:{}", "a".repeat(64));
    let config = json!({
        "os": "linux",
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "rootfs": {"type": "layers", "diff_ids": [layer]},
    })
    .to_string();
    let digest = registry.put_blob("tool", config.as_bytes());
    let manifest = json!({
        "schemaVersion": 2,
        "config": {"mediaType": "", "digest": digest, "size": config.len()},
        "layers": [{"mediaType": "", "digest": layer, "size": 1_u64 << 62}],
    })
    .to_string();
    registry.put_manifest("tool", "1", MANIFEST, manifest.as_bytes());
    let typed = format!("{}/tool:1", registry.url());
    let seen = cabane.run(&["import", &typed, TOOL]);
    let expected = format!("{layer} has 4611686018427387904 bytes");
    assert!(
        seen.code == 11 && seen.stderr.contains(&typed) && seen.stderr.contains(&expected),
        "{seen:?}"
    );
}

#[test]
fn an_image_that_unpacks_to_more_than_the_limit_is_refused_and_nothing_is_left() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.world.file("root/large", &"x".repeat(3_000_000));
    let directory = cabane.world.path("root");
    let typed = format!("dir:{}", directory.display());
    let seen = cabane.run(&["import", &typed, TOOL, "--max-unpacked", "2M"]);
    let is_told = seen.stderr.contains("and the limit is 2000000")
        && seen.stderr.contains("hint: ")
        && seen.stderr.contains("--max-unpacked SIZE");
    assert!(seen.code != 0 && is_told, "{seen:?}");
    assert!(leftovers(&cabane).is_empty());
}

#[test]
fn an_image_of_apptainer_that_unpacks_to_more_than_the_limit_is_refused_before_anything_is_written()
{
    let cabane = Cabane::new(Who::OrdinaryUser);
    let large = cabane.world.file("root/large", "");
    // A hole, of which nothing is in the image but its length.
    let file = fs::File::options().write(true).open(&large).unwrap();
    file.set_len(1 << 28).unwrap();
    let (root, squashfs) = (cabane.world.path("root"), cabane.world.path("squashfs"));
    let mut program = Command::new("mksquashfs");
    program.arg(root).arg(&squashfs).args(["-quiet", "-b", "1M"]);
    assert!(program.output().unwrap().status.success());
    let image = cabane.world.path("image.sif");
    let bytes = sif(&fs::read(squashfs).unwrap(), *b"02");
    assert!(bytes.len() < 1 << 20);
    fs::write(&image, bytes).unwrap();
    let typed = format!("sif:{}", image.display());
    let limit = "--max-unpacked=100M";
    let seen = cabane.run(&["import", "--platform=amd64", limit, &typed, TOOL]);
    let is_told = seen.stderr.contains("it unpacks to at least 268435456 bytes")
        && seen.stderr.contains("--max-unpacked SIZE");
    assert!(seen.code != 0 && is_told, "{seen:?}");
    assert!(leftovers(&cabane).is_empty());
}
