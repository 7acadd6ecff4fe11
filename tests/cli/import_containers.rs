// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane import`: container images in layouts, archives, directories and SIF. What layers
//! can do to each other is tested in `crates/container`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cabane_container::digest;
use cabane_testkit::{Finished, needs};
use serde_json::{Value, json};

use crate::cabane::{Cabane, Who, everybody, finished};

pub(crate) const TOOL: &str = "tool/1.0:v1@here%x86_64";

/// A layout of OCI that is written by hand.
pub(crate) struct Layout {
    pub(crate) path: PathBuf,
}

impl Layout {
    pub(crate) fn new(cabane: &Cabane, name: &str) -> Self {
        let path = cabane.world.directory(name);
        fs::create_dir_all(path.join("blobs/sha256")).unwrap();
        fs::write(path.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        Self { path }
    }

    fn put(&self, bytes: &[u8]) -> Value {
        let digest = digest::of(bytes);
        let path = self.path.join("blobs/sha256").join(digest.as_str());
        fs::write(path, bytes).unwrap();
        json!({"mediaType": "", "digest": digest::written(&digest), "size": bytes.len()})
    }

    /// Puts an image of layers that are not compressed.
    pub(crate) fn image(&self, layers: &[Vec<u8>], architecture: &str) -> Value {
        self.image_with(layers, architecture, &json!({"Env": ["GREETING=hello"], "Cmd": ["hello"]}))
    }

    /// The same, with what it says about running it.
    pub(crate) fn image_with(&self, layers: &[Vec<u8>], architecture: &str, run: &Value) -> Value {
        let ids: Vec<_> = layers.iter().map(|one| digest::written(&digest::of(one))).collect();
        let config = json!({
            "os": "linux", "architecture": architecture,
            "config": run,
            "rootfs": {"type": "layers", "diff_ids": ids},
        });
        let mut config = self.put(config.to_string().as_bytes());
        config["mediaType"] = "application/vnd.oci.image.config.v1+json".into();
        let layers: Vec<_> = layers
            .iter()
            .map(|one| {
                let mut layer = self.put(one);
                layer["mediaType"] = "application/vnd.oci.image.layer.v1.tar".into();
                layer
            })
            .collect();
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let manifest =
            json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers});
        let mut manifest = self.put(manifest.to_string().as_bytes());
        manifest["mediaType"] = kind.into();
        manifest
    }

    pub(crate) fn index(&self, manifests: &[Value]) {
        let index = json!({"schemaVersion": 2, "manifests": manifests});
        fs::write(self.path.join("index.json"), index.to_string()).unwrap();
    }

    /// Gives an image the name by which it is found.
    pub(crate) fn name(&self, mut manifest: Value, name: &str) {
        manifest["annotations"] = json!({"org.opencontainers.image.ref.name": name});
        self.index(&[manifest]);
    }

    pub(crate) fn typed(&self) -> String {
        format!("oci:{}:1", self.path.display())
    }
}

/// Packs a directory as a layer.
pub(crate) fn layer(directory: &Path) -> Vec<u8> {
    let mut command = Command::new("tar");
    command.args(["--sort=name", "--owner=0", "--group=0", "--mtime=@1000", "-C"]);
    command.arg(directory).args(["-cf", "-", "."]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// A root file system with a program, a file of its own, and what users may not have.
pub(crate) fn root(cabane: &Cabane, text: &str) -> PathBuf {
    let root = cabane.world.directory(&format!("root-{text}"));
    for directory in ["bin", "etc", "tmp"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::write(root.join("bin/hello"), format!("#!/bin/sh\necho {text}\n")).unwrap();
    fs::set_permissions(root.join("bin/hello"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::write(root.join("etc/text"), text).unwrap();
    fs::set_permissions(root.join("etc/text"), fs::Permissions::from_mode(0o600)).unwrap();
    root
}

/// A layout with one image that is called `1`.
pub(crate) fn layout(cabane: &Cabane, text: &str) -> Layout {
    let layout = Layout::new(cabane, &format!("layout-{text}"));
    let manifest = layout.image(&[layer(&root(cabane, text))], "amd64");
    layout.name(manifest, "1");
    layout
}

pub(crate) fn image_file(cabane: &Cabane, label: &str) -> PathBuf {
    let arguments = ["image", "inspect", "--format={digest}", label];
    let digest = cabane.run(&arguments).success().stdout;
    let images = "home/.local/share/cabane/repository/images";
    cabane.world.path(images).join(digest.trim()).join("image")
}

/// Reads a file of an image.
pub(crate) fn content(cabane: &Cabane, label: &str, path: &str) -> String {
    let image = image_file(cabane, label);
    let mut command = Command::new("unsquashfs");
    let output = command.arg("-cat").arg(image).arg(path).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What is in the temporary directory of the repository.
pub(crate) fn leftovers(cabane: &Cabane) -> Vec<String> {
    let tmp = cabane.world.path("home/.local/share/cabane/repository/tmp");
    let entries = fs::read_dir(tmp).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name != ".lock").collect()
}

#[test]
fn an_image_of_a_layout_is_imported_and_what_was_changed_is_reported() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let layout = layout(&cabane, "first");
        let seen = cabane.run(&["import", &layout.typed(), TOOL]).success();
        assert!(
            seen.stderr.contains("added tool/1.0:v1@here%x86_64")
                && seen.stderr.contains("1 file lost its set-user-id")
                && seen.stderr.contains("1 file can now be read by everybody"),
            "{}",
            seen.stderr
        );
        assert_eq!(content(&cabane, TOOL, "etc/text"), "first");
    }
}

#[test]
fn an_imported_image_is_mounted_at_the_root_and_says_from_where_it_came() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = layout(&cabane, "first");
    cabane.run(&["import", &layout.typed(), TOOL]).success();
    let meta = content(&cabane, TOOL, "meta/env.json");
    let meta: Value = serde_json::from_str(&meta).unwrap();
    let source = &meta["cabane"]["container"]["source"];
    assert_eq!(
        [&meta["mount"], &source["platform"], &meta["cabane"]["container"]["command"][0]],
        ["/", "linux/amd64", "hello"]
    );
}

#[test]
fn the_same_image_under_another_label_is_made_once() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = layout(&cabane, "first");
    cabane.run(&["import", &layout.typed(), TOOL]).success();
    let arguments = ["import", "--json", &layout.typed(), "tool/2.0:v1"];
    let seen: Value = serde_json::from_str(&cabane.run(&arguments).success().stdout).unwrap();
    assert_eq!(seen["shared"], true);
}

#[test]
fn a_label_moves_to_another_image_by_force_only_and_both_are_named() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let (first, second) = (layout(&cabane, "first"), layout(&cabane, "second"));
    cabane.run(&["import", &first.typed(), TOOL]).success();
    let refused = cabane.run(&["import", &second.typed(), TOOL]);
    assert!(
        refused.code == 1 && refused.stderr.matches("sha256:").count() == 2,
        "{}",
        refused.stderr
    );
    cabane.run(&["import", "--force", &second.typed(), TOOL]).success();
    assert_eq!(content(&cabane, TOOL, "etc/text"), "second");
}

#[test]
fn of_several_images_in_a_layout_one_must_be_named() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = Layout::new(&cabane, "two");
    let images: Vec<Value> = ["one", "other"]
        .iter()
        .map(|text| {
            let mut manifest = layout.image(&[layer(&root(&cabane, text))], "amd64");
            manifest["annotations"] = json!({"org.opencontainers.image.ref.name": text});
            manifest
        })
        .collect();
    layout.index(&images);
    let path = layout.path.display();
    let refused = cabane.run(&["import", &format!("oci:{path}"), TOOL]);
    assert!(refused.stderr.contains("hint: it has: one, other"), "{}", refused.stderr);
    cabane.run(&["import", &format!("oci:{path}:other"), TOOL]).success();
    assert_eq!(content(&cabane, TOOL, "etc/text"), "other");
}

#[test]
fn of_an_index_the_platform_is_chosen_and_blobs_of_others_may_be_absent() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = Layout::new(&cabane, "many");
    let mut own = layout.image(&[layer(&root(&cabane, "own"))], "amd64");
    own["platform"] = json!({"os": "linux", "architecture": "amd64"});
    let absent = digest::written(&digest::of(b"nowhere"));
    let foreign = json!({
        "mediaType": "", "digest": absent, "size": 7,
        "platform": {"os": "linux", "architecture": "arm64", "variant": "v8"},
    });
    layout.index(&[foreign, own]);
    let path = layout.path.to_string_lossy().into_owned();
    cabane.run(&["import", "--platform=linux/amd64", &path, TOOL]).success();
    assert_eq!(content(&cabane, TOOL, "etc/text"), "own");
    let refused = cabane.run(&["import", "--platform=linux/s390x", &path, "tool/2.0"]);
    let expected = "error: the image is not there for linux/s390x; it is for linux/arm64/v8, \
                    linux/amd64\nhint: `--platform linux/arm64/v8` imports what there is\n";
    assert_eq!(refused, finished(4, "", expected));
}

#[test]
fn a_layout_that_was_tampered_with_is_refused_and_nothing_is_left() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = layout(&cabane, "first");
    let blobs = fs::read_dir(layout.path.join("blobs/sha256")).unwrap();
    let largest =
        blobs.map(|blob| blob.unwrap().path()).max_by_key(|blob| blob.metadata().unwrap().len());
    let largest = largest.unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    let place = bytes.windows(5).position(|window| window == b"first").unwrap();
    bytes[place] = b'F';
    fs::write(&largest, bytes).unwrap();
    let refused = cabane.run(&["import", &layout.typed(), TOOL]);
    assert!(
        refused.code == 3 && refused.stderr.contains("its bytes should have the digest"),
        "{}",
        refused.stderr
    );
    assert_eq!(leftovers(&cabane), Vec::<String>::new());
}

#[test]
fn nothing_is_done_in_a_dry_run() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = layout(&cabane, "first");
    let seen = cabane.run(&["import", "--dry-run", &layout.typed(), TOOL]).success();
    let has_repository = cabane.world.path("home/.local/share/cabane/repository").exists();
    assert!(seen.stderr.contains("would import") && !has_repository, "{}", seen.stderr);
    let shown = cabane.run(&["import", "--dry-run", "--json", &layout.typed(), TOOL]);
    let shown: Value = serde_json::from_str(&shown.success().stdout).unwrap();
    assert_eq!(
        [&shown["label"], &shown["platform"], &shown["layers"]],
        [&json!(TOOL), &json!("linux/amd64"), &json!(1)]
    );
    let manifest = shown["manifest"].as_str().unwrap();
    let blob = manifest.strip_prefix("sha256:").unwrap();
    assert!(layout.path.join("blobs/sha256").join(blob).exists());
}

#[test]
fn an_archive_of_a_layout_is_imported_as_it_is_and_compressed() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = layout(&cabane, "first");
    let plain = cabane.world.path("layout.tar");
    fs::write(&plain, layer(&layout.path)).unwrap();
    let packed = cabane.world.path("layout.tar.gz");
    let output = Command::new("gzip").arg("-c").arg(&plain).output().unwrap();
    fs::write(&packed, output.stdout).unwrap();
    for (number, archive) in [plain, packed].iter().enumerate() {
        let label = format!("tool/{number}:v1");
        cabane.run(&["import", archive.to_str().unwrap(), &label]).success();
        assert_eq!(content(&cabane, &label, "etc/text"), "first");
    }
}

#[test]
fn what_docker_saves_is_imported() {
    needs!("skopeo");
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = layout(&cabane, "first");
    let archive = cabane.world.path("saved.tar");
    let target = format!("docker-archive:{}:tool:7", archive.display());
    skopeo(&["copy", &layout.typed(), &target]);
    let typed = archive.to_str().unwrap();
    cabane.run(&["import", typed, TOOL]).success();
    assert_eq!(content(&cabane, TOOL, "etc/text"), "first");
    let named = format!("docker-archive:{typed}:tool:8");
    let refused = cabane.run(&["import", &named, "tool/2.0"]);
    assert_eq!((refused.code, refused.stderr.contains("tool:7")), (4, true), "{}", refused.stderr);
}

#[test]
fn what_docker_saves_is_made_once_wherever_the_archive_is() {
    needs!("skopeo");
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = layout(&cabane, "first");
    let archive = |name: &str| cabane.world.path(name).display().to_string();
    let target = format!("docker-archive:{}:tool:7", archive("saved.tar"));
    skopeo(&["copy", &layout.typed(), &target]);
    fs::copy(archive("saved.tar"), archive("other.tar")).unwrap();
    let import = |from: &str, label: &str| {
        let seen = cabane.run(&["import", "--json", from, label]).success();
        let seen: Value = serde_json::from_str(&seen.stdout).unwrap();
        seen["shared"].as_bool()
    };
    let archives = [("saved.tar", "a/1"), ("other.tar", "b/1")];
    let shared = archives.map(|(name, label)| import(&archive(name), label));
    assert_eq!(shared, [Some(false), Some(true)]);
    // One whose manifest is known is checked later for a change.
    assert_eq!(import(&layout.typed(), "c/1"), Some(false));
    assert_eq!(cabane.run(&["import", "--check", "c/1"]).code, 0);
}

pub(crate) fn skopeo(arguments: &[&str]) {
    let output = Command::new("skopeo")
        .arg("--insecure-policy")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn what_docker_saved_long_ago_is_imported() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let tree = cabane.world.directory("old");
    let put = |path: &str, bytes: &[u8]| {
        let path = tree.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    put("repositories", br#"{"example/tool": {"7": "bbb"}}"#);
    put("aaa/json", br#"{"id": "aaa", "os": "linux", "architecture": "amd64"}"#);
    put("aaa/layer.tar", &layer(&root(&cabane, "lower")));
    let config = br#"{"id": "bbb", "parent": "aaa", "os": "linux", "architecture": "amd64",
                      "config": {"Env": ["A=b"]}}"#;
    put("bbb/json", config);
    put("bbb/layer.tar", &layer(&root(&cabane, "upper")));
    let archive = cabane.world.path("old.tar");
    fs::write(&archive, layer(&tree)).unwrap();
    let typed = format!("docker-archive:{}:example/tool:7", archive.display());
    cabane.run(&["import", &typed, TOOL]).success();
    assert_eq!(content(&cabane, TOOL, "etc/text"), "upper");
}

#[test]
fn a_directory_is_imported_as_it_is() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let root = root(&cabane, "dir");
        // In a directory this hides nothing.
        fs::write(root.join("etc/.wh.text"), "a file").unwrap();
        fs::hard_link(root.join("bin/hello"), root.join("bin/again")).unwrap();
        if who == Who::OrdinaryUser {
            let mode = |path: &str| {
                fs::set_permissions(root.join(path), fs::Permissions::from_mode(0o644)).unwrap();
            };
            mode("etc/text");
        }
        cabane.run(&["import", root.to_str().unwrap(), TOOL]).success();
        let seen = ["etc/text", "etc/.wh.text"].map(|path| content(&cabane, TOOL, path));
        assert_eq!(seen, ["dir", "a file"], "as {who:?}");
    }
}

#[test]
fn a_directory_with_a_file_without_any_read_permission_is_refused() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let root = root(&cabane, "dir");
    fs::set_permissions(root.join("etc/text"), fs::Permissions::from_mode(0o000)).unwrap();
    let refused = cabane.run(&["import", root.to_str().unwrap(), TOOL]);
    assert!(
        refused.stderr.contains("/root-dir cannot be used\ncause: ")
            && refused
                .stderr
                .contains("etc/text: Permission denied (os error 13)\nhint: no file is left out"),
        "{}",
        refused.stderr
    );
    assert_eq!(leftovers(&cabane), Vec::<String>::new());
}

/// Writes an image as Apptainer writes it: a header, one descriptor, a squashfs.
pub(crate) fn sif(squashfs: &[u8], architecture: [u8; 2]) -> Vec<u8> {
    let start: u64 = 4096;
    let mut bytes = vec![0; 4096];
    let mut put =
        |place: usize, what: &[u8]| bytes[place..place + what.len()].copy_from_slice(what);
    put(0, b"#!/usr/bin/env run-singularity\n");
    put(32, b"SIF_MAGIC\0");
    put(42, b"01\0");
    put(88, &1_u64.to_le_bytes());
    put(96, &128_u64.to_le_bytes());
    put(128, &0x4004_u32.to_le_bytes());
    put(132, &[1]);
    put(128 + 17, &start.to_le_bytes());
    put(128 + 25, &(squashfs.len() as u64).to_le_bytes());
    put(128 + 201, &1_u32.to_le_bytes());
    put(128 + 205, &2_u32.to_le_bytes());
    put(128 + 209, &architecture);
    bytes.extend_from_slice(squashfs);
    bytes
}

#[test]
fn an_image_of_apptainer_is_imported_with_what_it_sets_and_runs() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let root = root(&cabane, "sif");
        fs::create_dir_all(root.join(".singularity.d/env")).unwrap();
        let script = root.join(".singularity.d/env/90-environment.sh");
        fs::write(script, "export GREETING=\"from sif\"\nexport NOW=$(date)\n").unwrap();
        fs::write(root.join(".singularity.d/runscript"), "#!/bin/sh\nhello\n").unwrap();
        fs::write(root.join(".singularity.d/labels.json"), r#"{"org.label": "x"}"#).unwrap();
        let image = cabane.world.path("image.sqfs");
        let packed = Command::new("mksquashfs").arg(&root).arg(&image).arg("-quiet").output();
        assert!(packed.unwrap().status.success());
        let file = cabane.world.path("image.sif");
        fs::write(&file, sif(&fs::read(&image).unwrap(), *b"02")).unwrap();
        cabane.run(&["import", "--platform=amd64", file.to_str().unwrap(), TOOL]).success();
        let meta: Value = serde_json::from_str(&content(&cabane, TOOL, "meta/env.json")).unwrap();
        let scalars = &meta["views"]["default"]["env"]["values"]["scalar"];
        assert_eq!(
            (
                content(&cabane, TOOL, "etc/text").as_str(),
                &scalars["GREETING"],
                scalars["NOW"].is_null(),
                &meta["cabane"]["container"]["entrypoint"][0]
            ),
            ("sif", &json!("from sif"), true, &json!("/.singularity.d/runscript")),
            "as {who:?}"
        );
        assert_eq!(leftovers(&cabane), Vec::<String>::new());
    }
}

#[test]
fn an_image_of_apptainer_for_another_machine_is_refused() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let file = cabane.world.path("image.sif");
    fs::write(&file, sif(b"hsqs", *b"04")).unwrap();
    let refused = cabane.run(&["import", "--platform=amd64", file.to_str().unwrap(), TOOL]);
    let expected = "error: the image is not there for linux/amd64; it is for linux/arm64\n\
                    hint: `--platform linux/arm64` imports what there is\n";
    assert_eq!(refused, finished(4, "", expected));
}

#[test]
fn what_holds_no_container_image_is_refused() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let mut file = fs::File::create(cabane.world.path("text")).unwrap();
    file.write_all(b"a text").unwrap();
    let path = cabane.world.path("text");
    let refused = cabane.run(&["import", path.to_str().unwrap(), TOOL]);
    assert_eq!(refused, finished(3, "", "error: [WORLD]/text holds no container image\n"));
}

#[test]
fn a_registry_that_was_not_named_gets_no_request() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let refused = cabane.run(&["import", "debian:12", TOOL]);
    let expected = "error: `debian:12` does not say in which registry it is\n\
                    hint: put the registry in front of it, as in \
                    `registry.example.org/tool:1.0`; one that was not named gets no request\n\
                    hint: `default_registry = \"docker.io\"` below `[container]` in the \
                    configuration makes it a name of that registry\n";
    assert_eq!(refused, finished(3, "", expected));
}

#[test]
fn the_label_and_the_directory_of_a_layout_do_not_change_the_image() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = layout(&cabane, "first");
    let other = cabane.world.directory("other");
    let mut copy = cabane.other("cp");
    Finished::of(copy.arg("-r").arg(cabane.world.path("layout-first")).arg(&other)).success();
    let typed = layout.typed().replace("layout-first", "other/layout-first");
    cabane.run(&["import", &layout.typed(), "one/1:v1"]).success();
    // A user who has a repository of their own.
    let repository = cabane.world.path("theirs").display().to_string();
    cabane.run(&["--repo", &repository, "repo", "create", &repository]).success();
    cabane.run(&["--repo", &repository, "import", &typed, "two/2:v1"]).success();
    let digest = |options: &[&str], label: &str| {
        let words = ["image", "inspect", "--format={digest}", label];
        cabane.run(&[options, &words].concat()).success().stdout
    };
    assert_eq!(digest(&[], "one/1:v1"), digest(&["--repo", &repository], "two/2:v1"));
    // The layout of each label is known by its directory all the same.
    let checked = cabane.run(&["--repo", &repository, "import", "--check", "--json", "two/2:v1"]);
    assert!(checked.success().stdout.contains("other/layout-first:1\""));
}
