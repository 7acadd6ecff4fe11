// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane export`: what is written, and what is refused. What other tools make of it is in
//! `export_peers`, and what happens to one that is cut off in `export_faults`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_testkit::{Tree, erofs, is_root, needs, not_run, squashfs};
use serde_json::Value;

use crate::arena::with_helper;
use crate::cabane::{Cabane, Who, everybody};
use crate::import_containers::{Layout, TOOL, image_file, layer};
use crate::import_peers::{Names, walk};

pub(crate) const STACK: &str = "stack/1.0:v1@here%x86_64";
pub(crate) const BASE: &str = "os/1:v1@here%x86_64";
const PLACE: &str = "/user-environment";

/// The tree of a stack with all kinds of files there are, and what gives rights.
pub(crate) fn stack_tree(cabane: &Cabane, glibc: &str) -> PathBuf {
    let tree = Tree::new(cabane.world.path("trees/stack"))
        .program("bin/hello", "echo \"hello from $CABANE_TEST\"")
        .file("lib/text", "some text")
        .file(&format!("lib/{}/deep", "long".repeat(40)), "deep");
    let root = tree.root();
    fs::hard_link(root.join("bin/hello"), root.join("bin/other")).unwrap();
    symlink("hello", root.join("bin/link")).unwrap();
    symlink("/etc/passwd", root.join("lib/outside")).unwrap();
    fs::set_permissions(root.join("lib/text"), fs::Permissions::from_mode(0o664)).unwrap();
    fs::copy("/bin/bash", root.join("bin/program")).unwrap();
    let mode = fs::Permissions::from_mode(0o6755);
    fs::set_permissions(root.join("bin/program"), mode).unwrap();
    let sparse = fs::File::create(root.join("lib/sparse")).unwrap();
    sparse.set_len(20_000_000).unwrap();
    let needs = match glibc {
        "" => String::new(),
        glibc => format!(r#","cabane":{{"version":1,"needs":{{"glibc":"{glibc}"}}}}"#),
    };
    let meta = format!(
        r#"{{"name":"stack","description":"a stack of the tests","mount":"{PLACE}","default-view":"default","views":{{
"default":{{"env":{{"version":1,"values":{{"list":{{"PATH":[{{"op":"prepend","value":["{PLACE}/bin"]}}]}},
"scalar":{{"CABANE_TEST":"stack","CACHE":"${{@HOME@}}/cache"}}}}}}}},
"other":{{"env":{{"version":1,"values":{{"list":{{}},"scalar":{{"OTHER":"1"}}}}}}}}}}{needs}}}"#
    );
    tree.file("meta/env.json", &meta).root().to_owned()
}

/// Adds a stack that needs a version of the C library, or does not say so.
pub(crate) fn add_stack(cabane: &Cabane, glibc: &str) -> PathBuf {
    let tree = stack_tree(cabane, glibc);
    let image = cabane.world.path("stack.squashfs");
    squashfs(&tree, &image);
    let typed = image.to_str().unwrap();
    cabane.run(&["image", "add", STACK, typed]).success();
    tree
}

/// Adds a root image with a shell.
pub(crate) fn add_base(cabane: &Cabane, glibc: &str) {
    let container = format!(
        r#""entrypoint":["/bin/sh","-c"],"command":["hello"],"working-directory":"/home",
"labels":{{"author":"me"}},"glibc":"{glibc}""#
    );
    let tree = Tree::new(cabane.world.path("trees/os")).root_file_system("os", &container);
    let image = cabane.world.path("os.squashfs");
    squashfs(tree.root(), &image);
    let typed = image.to_str().unwrap();
    cabane.run(&["image", "add", BASE, typed]).success();
}

/// Where something is written, as it is typed.
pub(crate) fn typed(cabane: &Cabane, scheme: &str, name: &str) -> String {
    format!("{scheme}:{}", cabane.world.path(name).display())
}

/// Exports, and returns what was done.
pub(crate) fn exported(cabane: &Cabane, arguments: &[&str]) -> Value {
    let arguments = [&["export", "--json"], arguments].concat();
    serde_json::from_str(&cabane.run(&arguments).success().stdout).unwrap()
}

/// The files of an image, by their names.
pub(crate) fn names_in(cabane: &Cabane, image: &Path, below: &str) -> Names {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let target = cabane.world.path(&format!("unpacked-{number}"));
    let mut unpack = Command::new("unsquashfs");
    unpack.args(["-no-progress", "-quiet", "-dest"]).arg(&target);
    let output = unpack.arg(image).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut names = Names::new();
    walk(&target.join(below), "", &mut names);
    names
}

/// The configuration of an image in a layout that has only this one.
fn config_of(layout: &Path) -> Value {
    let read =
        |path: PathBuf| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let blob = |value: &Value| {
        let digest = value["digest"].as_str().unwrap();
        layout.join("blobs/sha256").join(&digest["sha256:".len()..])
    };
    let index = read(layout.join("index.json"));
    let manifest = read(blob(&index["manifests"][0]));
    read(blob(&manifest["config"]))
}

#[test]
fn what_is_exported_is_imported_again_with_the_same_files() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        add_stack(&cabane, "");
        let mut before = names_in(&cabane, &image_file(&cabane, STACK), "");
        // What gives rights is left out.
        before.get_mut("bin/program").unwrap().1 &= 0o777;
        for (scheme, compression) in
            [("oci", "gzip"), ("oci-archive", "zstd"), ("docker-archive", "gzip")]
        {
            let target = typed(&cabane, scheme, &format!("out-{scheme}"));
            exported(&cabane, &[STACK, &target, "--compression", compression]);
            let label = format!("{scheme}/1.0:v1");
            cabane.run(&["import", &target, &label]).success();
            let image = image_file(&cabane, &label);
            let after = names_in(&cabane, &image, &PLACE[1..]);
            assert!(before == after, "as {who:?} to {scheme}: {after:?}");
        }
    }
}

#[test]
fn holes_are_no_larger_when_they_come_back() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    add_stack(&cabane, "");
    let target = typed(&cabane, "oci", "out");
    let seen = exported(&cabane, &[STACK, &target]);
    cabane.run(&["import", &target, TOOL]).success();
    let before = fs::metadata(image_file(&cabane, STACK)).unwrap().len();
    let after = fs::metadata(image_file(&cabane, TOOL)).unwrap().len();
    let sent = seen["layers"][0]["size"].as_u64().unwrap();
    // Twenty million zeros are in it.
    assert!(sent < 19_000_000 && after < before * 2, "{sent} {before} {after}");
}

#[test]
fn an_image_of_erofs_gives_the_same_layer() {
    needs!("mkfs.erofs");
    if !is_root() {
        not_run!("needs root to mount EROFS where there is no erofsfuse");
    }
    let cabane = Cabane::new(Who::Root);
    let tree = add_stack(&cabane, "");
    let image = cabane.world.path("stack.erofs");
    erofs(&tree, &image);
    let of = |image: &str, name: &str| {
        let seen = exported(&cabane, &[image, &typed(&cabane, "oci", name)]);
        seen["layers"].clone()
    };
    let squashfs = of(STACK, "squashfs");
    assert_eq!(of(image.to_str().unwrap(), "erofs"), squashfs);
}

#[test]
fn what_the_helper_mounts_gives_the_same_layer() {
    with_helper(|cabane| {
        let of = |options: &[&str], name: &str| {
            let target = typed(cabane, "oci", name);
            let arguments = [options, &["export", "--json", "app", &target]].concat();
            let seen = cabane.run(&arguments).success().stdout;
            let seen: Value = serde_json::from_str(&seen).unwrap();
            seen["layers"].clone()
        };
        let helped = of(&["--backend=helper"], "helped");
        assert_eq!(helped, of(&["--backend=user-namespace"], "alone"));
    });
}

#[test]
fn the_same_image_has_the_same_digest_for_every_user_and_way_of_export() {
    let mut digests = Vec::new();
    for who in everybody() {
        let cabane = Cabane::new(who);
        add_stack(&cabane, "");
        let path = cabane.world.path("stack.squashfs");
        for (number, arguments) in
            [[STACK, "--jobs=1"], [STACK, "--jobs=5"], [path.to_str().unwrap(), "--jobs=2"]]
                .iter()
                .enumerate()
        {
            let target = typed(&cabane, "oci", &format!("out-{number}"));
            let seen = exported(&cabane, &[arguments[0], &target, arguments[1]]);
            digests.push(seen["config"].clone());
        }
        // Times of files are those of the moment in which the tests wrote them.
        digests.dedup();
        assert_eq!(digests.len(), 1, "{who:?}");
        digests.clear();
    }
}

#[test]
fn the_variables_are_those_of_the_views_that_are_requested() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    add_stack(&cabane, "");
    let usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let cases: [(&[&str], Vec<String>); 3] = [
        (&[], vec![format!("PATH={PLACE}/bin:{usual}"), "CABANE_TEST=stack".to_owned()]),
        (&["--view=other"], vec![format!("PATH={usual}"), "OTHER=1".to_owned()]),
        (&["--no-default-view"], vec![format!("PATH={usual}")]),
    ];
    for (number, (options, expected)) in cases.into_iter().enumerate() {
        let name = format!("out-{number}");
        let target = typed(&cabane, "oci", &name);
        let arguments = [&[STACK, target.as_str()], options].concat();
        let seen = exported(&cabane, &arguments);
        let config = config_of(&cabane.world.path(&name));
        assert_eq!(config["config"]["Env"], Value::from(expected), "{options:?}");
        let is_told = seen["left_out"] == serde_json::json!(["CACHE"]);
        assert_eq!(is_told, options.is_empty());
    }
}

#[test]
fn the_time_is_that_of_the_variable_or_always_the_same() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    add_stack(&cabane, "");
    let arguments =
        |name: &str| ["export".to_owned(), STACK.to_owned(), typed(&cabane, "oci", name)];
    let created = |name: &str, epoch: Option<&str>| {
        let arguments = arguments(name);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = cabane.command(&arguments);
        if let Some(epoch) = epoch {
            command.env("SOURCE_DATE_EPOCH", epoch);
        }
        cabane.finish(&mut command).success();
        config_of(&cabane.world.path(name))["created"].clone()
    };
    assert_eq!(
        [created("a", None), created("b", Some("1000"))],
        ["1980-01-01T00:00:00Z", "1970-01-01T00:16:40Z"]
    );
}

#[test]
fn a_stack_on_a_base_runs_with_the_variables_of_the_container() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        add_stack(&cabane, "2.10");
        add_base(&cabane, "2.17");
        let target = typed(&cabane, "oci", "out");
        exported(&cabane, &[STACK, &target, "--base", "os"]);
        let config = config_of(&cabane.world.path("out"))["config"].clone();
        assert_eq!(
            (
                config["Entrypoint"][0].as_str(),
                config["WorkingDir"].as_str(),
                config["Labels"]["author"].as_str(),
                config["Labels"]["org.opencontainers.image.title"].as_str(),
                config["Labels"]["org.cabane.views"].as_str(),
            ),
            (
                Some("/bin/sh"),
                Some("/home"),
                Some("me"),
                Some("stack"),
                Some("os:default,stack:default")
            )
        );
        cabane.run(&["import", &target, TOOL]).success();
        let seen = cabane.run(&["run", "tool", "--", "hello"]).success();
        assert_eq!(seen.stdout, "hello from stack\n", "{who:?}");
        // What it starts by itself is found by the same variables.
        let seen = cabane.run(&["run", "tool"]).success();
        assert_eq!(seen.stdout, "hello from stack\n", "{who:?}");
    }
}

#[test]
fn a_root_image_is_exported_without_the_metadata_of_ours() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    add_base(&cabane, "2.17");
    let target = typed(&cabane, "oci", "out:os");
    exported(&cabane, &["os", &target]);
    cabane.run(&["import", &target, TOOL]).success();
    let of = |label: &str| {
        let mut names = names_in(&cabane, &image_file(&cabane, label), "");
        names.retain(|name, _| name != "meta" && !name.starts_with("meta/"));
        names
    };
    let (before, after) = (of(BASE), of(TOOL));
    let lost: Vec<_> =
        before.iter().filter(|(name, file)| after.get(*name) != Some(*file)).collect();
    assert_eq!(lost, Vec::new());
    let seen = cabane.run(&["run", "tool", "--", "sh", "-c", "echo $CABANE_TEST"]);
    assert_eq!(seen.success().stdout, "os\n");
}

/// A layout with one image: `etc/base` in a layer.
fn base_layout(cabane: &Cabane) -> Layout {
    let directory = cabane.world.directory("of-base");
    fs::create_dir_all(directory.join("etc")).unwrap();
    fs::write(directory.join("etc/base"), "base").unwrap();
    let layout = Layout::new(cabane, "base");
    let manifest = layout.image(&[layer(&directory)], "amd64");
    layout.name(manifest, "1");
    layout
}

#[test]
fn the_layers_of_a_container_image_below_it_are_kept_as_they_are() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    add_stack(&cabane, "");
    let layout = base_layout(&cabane);
    let target = typed(&cabane, "oci", "out");
    let seen = exported(&cabane, &[STACK, &target, "--base", &layout.typed()]);
    let base = layer(&cabane.world.path("of-base"));
    let base = cabane_container::digest::written(&cabane_container::digest::of(&base));
    let layers = seen["layers"].as_array().unwrap();
    assert_eq!((layers.len(), layers[0]["digest"].as_str()), (2, Some(base.as_str())));
    let config = config_of(&cabane.world.path("out"));
    assert_eq!(
        (config["config"]["Cmd"][0].as_str(), config["config"]["Env"][0].as_str()),
        (Some("hello"), Some("GREETING=hello"))
    );
    cabane.run(&["import", &target, TOOL]).success();
    let names = names_in(&cabane, &image_file(&cabane, TOOL), "");
    assert!(names.contains_key("etc/base") && names.contains_key("user-environment/bin/hello"));
}

#[test]
fn a_base_whose_c_library_is_too_old_or_missing_is_refused() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    add_stack(&cabane, "2.36");
    add_base(&cabane, "2.17");
    let layout = base_layout(&cabane);
    for (base, found) in [("os", "2.17"), (&layout.typed(), "none")] {
        let target = typed(&cabane, "oci", "out");
        let seen = cabane.run(&["export", STACK, &target, "--base", base]);
        let printed = format!("`stack` needs the GNU C library 2.36, and the base has {found}\n");
        assert!(seen.code == 3 && seen.stderr.contains(&printed), "{seen:?}");
        assert!(!cabane.world.path("out").exists());
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    add_stack(&cabane, "");
    add_base(&cabane, "2.17");
    let layout = base_layout(&cabane);
    let target = typed(&cabane, "oci", "out");
    let root = cabane.world.path("trees/os").display().to_string();
    let cases: [(&[&str], i32, &str); 7] = [
        (&["os", &target, "--base", &layout.typed()], 2, "a root file system of its own"),
        (&[STACK, &target, "--base", STACK], 3, ""),
        (&[STACK, &target, "--base", &format!("dir:{root}")], 3, "it has no layers"),
        (&[STACK, &target, "--base", "nothing/1.0"], 4, "nothing/1.0"),
        (&[STACK, &target, "--platform=linux/arm64"], 3, "is for amd64"),
        (&[STACK, "./out.tar"], 3, "does not say what is to be written"),
        (&[STACK, "tool:1"], 3, "does not say in which registry"),
    ];
    for (arguments, code, printed) in cases {
        let arguments = [&["export"], arguments].concat();
        let seen = cabane.run(&arguments);
        assert!(seen.code == code && seen.stderr.contains(printed), "{arguments:?}: {seen:?}");
        assert!(!cabane.world.path("out").exists(), "{arguments:?}");
    }
}

#[test]
fn a_name_or_a_file_is_taken_only_by_force() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    add_stack(&cabane, "");
    let layout = typed(&cabane, "oci", "out:one");
    let archive = typed(&cabane, "oci-archive", "out.tar");
    for target in [&layout, &archive] {
        cabane.run(&["export", STACK, target]).success();
        let again = ["export", STACK, target, "--view=other"];
        let seen = cabane.run(&again);
        assert!(seen.code == 1 && seen.stderr.contains("--force"), "{seen:?}");
        let arguments = [&again[..], &["--force"]].concat();
        cabane.run(&arguments).success();
    }
    // Another name is another image.
    cabane.run(&["export", STACK, &typed(&cabane, "oci", "out:two")]).success();
    let index = fs::read(cabane.world.path("out/index.json")).unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    assert_eq!(index["manifests"].as_array().unwrap().len(), 2);
    let other = typed(&cabane, "oci", "trees");
    let seen = cabane.run(&["export", STACK, &other]);
    assert!(seen.code == 1 && seen.stderr.contains("something else"), "{seen:?}");
}

#[test]
fn a_file_that_its_user_may_not_read_is_an_error_and_not_left_out() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let tree = stack_tree(&cabane, "");
    let closed = fs::Permissions::from_mode(0o600);
    fs::set_permissions(tree.join("lib/text"), closed).unwrap();
    let image = cabane.world.path("closed.squashfs");
    squashfs(&tree, &image);
    let target = typed(&cabane, "oci", "out");
    let seen = cabane.run(&["export", image.to_str().unwrap(), &target]);
    let printed = "cause: /user-environment/lib/text: Permission denied";
    assert!(seen.code == 3 && seen.stderr.contains(printed), "{seen:?}");
    assert!(!cabane.world.path("out").exists());
}

#[test]
fn a_file_that_would_hide_another_one_is_an_error() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let tree = stack_tree(&cabane, "");
    fs::write(tree.join("lib/.wh.text"), "").unwrap();
    let image = cabane.world.path("odd.squashfs");
    squashfs(&tree, &image);
    let target = typed(&cabane, "oci", "out");
    let seen = cabane.run(&["export", image.to_str().unwrap(), &target]);
    assert!(seen.code == 3 && seen.stderr.contains("user-environment/lib/.wh.text"), "{seen:?}");
    assert!(!cabane.world.path("out").exists());
}
