// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Recipes on what is in a file or a directory: whatever `cabane import` takes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use cabane_testkit::needs;
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody};
use crate::import_containers::{TOOL, content, layer, layout, leftovers, root, sif, skopeo};

const BUILT: &str = "built/1.0:v1@here%x86_64";

/// Writes a recipe in a directory of its own.
fn recipe(cabane: &Cabane, from: &str, section: &str) -> String {
    let text = format!("name: tool\nengine: container\ncontainer:\n  from: {from}\n{section}");
    cabane.world.file("recipe/config.yaml", &text);
    cabane.world.path("recipe").display().to_string()
}

fn digest_of(cabane: &Cabane, label: &str) -> String {
    let arguments = ["image", "inspect", "--format={digest}", label];
    cabane.run(&arguments).success().stdout.trim().to_owned()
}

/// A root file system whose files everyone may read.
fn open_root(cabane: &Cabane, text: &str) -> PathBuf {
    let root = root(cabane, text);
    let mode = fs::Permissions::from_mode(0o644);
    fs::set_permissions(root.join("etc/text"), mode).unwrap();
    root
}

/// Writes an image of Apptainer.
fn write_sif(cabane: &Cabane, text: &str, name: &str) {
    let squashfs = cabane.world.path(&format!("{name}.squashfs"));
    let packed = Command::new("mksquashfs")
        .arg(root(cabane, text))
        .arg(&squashfs)
        .args(["-quiet", "-noappend"])
        .output();
    assert!(packed.unwrap().status.success());
    let architecture = match std::env::consts::ARCH {
        "aarch64" => *b"04",
        _ => *b"02",
    };
    let bytes = sif(&fs::read(squashfs).unwrap(), architecture);
    fs::write(cabane.world.path(name), bytes).unwrap();
}

/// Builds a recipe on a path that is relative to it, imports the same, and compares.
fn is_as_imported(cabane: &Cabane, scheme: &str, path: &str, name: &str) {
    let recipe = recipe(cabane, &format!("{scheme}:../{path}{name}"), "");
    let there = cabane.world.path(path).display().to_string();
    let typed = format!("{scheme}:{there}{name}");
    // The directory in which it is typed is another one.
    cabane.run(&["build", &recipe, BUILT]).success();
    cabane.run(&["import", "--force", &typed, TOOL]).success();
    assert_eq!(digest_of(cabane, BUILT), digest_of(cabane, TOOL), "{typed}");
    assert_eq!(leftovers(cabane), Vec::<String>::new(), "{typed}");
}

#[test]
fn whatever_is_imported_can_be_built_on_and_gives_the_same_bytes() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let layout = layout(&cabane, "first");
        fs::write(cabane.world.path("layout.tar"), layer(&layout.path)).unwrap();
        write_sif(&cabane, "second", "image.sif");
        is_as_imported(&cabane, "oci", "layout-first", ":1");
        is_as_imported(&cabane, "oci-archive", "layout.tar", ":1");
        is_as_imported(&cabane, "sif", "image.sif", "");
        assert_eq!(content(&cabane, BUILT, "etc/text"), "second", "{who:?}");
        open_root(&cabane, "first");
        is_as_imported(&cabane, "dir", "root-first", "");
        assert_eq!(content(&cabane, BUILT, "etc/text"), "first", "{who:?}");
    }
}

#[test]
fn what_docker_saves_can_be_built_on() {
    needs!("skopeo");
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = layout(&cabane, "first");
    let archive = cabane.world.path("saved.tar");
    let target = format!("docker-archive:{}:tool:7", archive.display());
    skopeo(&["copy", &layout.typed(), &target]);
    is_as_imported(&cabane, "docker-archive", "saved.tar", ":tool:7");
}

#[test]
fn a_path_with_a_colon_is_looked_for_beside_the_recipe() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = layout(&cabane, "first");
    let recipe = recipe(&cabane, "oci:tool:7", "");
    fs::rename(&layout.path, cabane.world.path("recipe/tool:7")).unwrap();
    cabane.run(&["build", &recipe, BUILT]).success();
    assert_eq!(content(&cabane, BUILT, "etc/text"), "first");
}

#[test]
fn files_are_put_on_a_directory() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        open_root(&cabane, "first");
        cabane.world.file("recipe/one.conf", "one file");
        let section = "  files:\n    /etc/one.conf: one.conf\n";
        let recipe = recipe(&cabane, "dir:../root-first", section);
        cabane.run(&["build", &recipe, BUILT]).success();
        let seen = ["etc/text", "etc/one.conf"].map(|path| content(&cabane, BUILT, path));
        assert_eq!(seen, ["first", "one file"], "{who:?}");
    }
}

/// The digest that a build has locked.
fn locked(cabane: &Cabane, recipe: &str) -> String {
    cabane.run(&["build", "--until=lock", recipe]).success();
    let arguments = ["build", "--dry-run", "--json", recipe, BUILT];
    let plan: Value = serde_json::from_str(&cabane.run(&arguments).success().stdout).unwrap();
    let steps = plan["steps"].as_array().unwrap();
    let pack = steps.iter().find(|step| step["name"] == "pack").unwrap();
    pack["inputs"]["image"].as_str().unwrap().to_owned()
}

#[test]
fn the_lock_of_an_image_of_apptainer_is_the_sum_of_its_file() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    write_sif(&cabane, "first", "image.sif");
    let recipe = recipe(&cabane, "sif:../image.sif", "");
    let sum = cabane_container::digest::of(&fs::read(cabane.world.path("image.sif")).unwrap());
    let sum = cabane_container::digest::written(&sum);
    assert_eq!(locked(&cabane, &recipe), sum);
}

#[test]
fn a_directory_that_changed_after_it_was_locked_is_refused() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let root = open_root(&cabane, "first");
        let recipe = recipe(&cabane, "dir:../root-first", "");
        cabane.run(&["build", "--until=lock", &recipe]).success();
        fs::write(root.join("etc/text"), "other").unwrap();
        let seen = cabane.run(&["build", &recipe, BUILT]);
        let says = seen.stderr.contains("is another image now")
            && seen.stderr.contains("`cabane build --from lock`");
        assert!(seen.code == 7 && says, "{seen:?}");
        cabane.run(&["build", "--from=lock", &recipe, BUILT]).success();
        assert_eq!(content(&cabane, BUILT, "etc/text"), "other", "{who:?}");
    }
}

#[test]
fn what_is_not_there_or_something_else_is_refused() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.world.file("text", "a text");
    for from in ["sif:../nowhere", "dir:../nowhere", "sif:../text", "dir:../text"] {
        let recipe = recipe(&cabane, from, "");
        let seen = cabane.run(&["build", &recipe, BUILT]);
        let name = &from[from.len() - 4..];
        assert!(seen.code == 7 && seen.stderr.contains(name), "{seen:?}");
    }
}
