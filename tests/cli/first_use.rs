// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Container images that are named where images are: they are imported when they are first used,
//! and kept.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cabane_container::digest;
use cabane_testkit::{Finished, RealRegistry, Tree, needs, run_as_root};
use serde_json::json;

use crate::arena::with_helper;
use crate::cabane::{Cabane, Who, everybody, finished};
use crate::import_containers::{Layout, layer, leftovers, sif, skopeo};

/// A root file system with a shell, and a runscript that prints `text` and its arguments.
pub(crate) fn root(cabane: &Cabane, text: &str) -> PathBuf {
    let tree = Tree::new(cabane.world.path(&format!("trees/{text}")));
    let tree = tree.root_file_system(text, "").program("bin/hello", &format!("echo {text} \"$@\""));
    let root = tree.root().to_owned();
    fs::remove_dir_all(root.join("meta")).unwrap();
    let directory = root.join(".singularity.d");
    fs::create_dir_all(&directory).unwrap();
    let script = directory.join("runscript");
    fs::write(&script, "#!/bin/sh\nexec hello runscript \"$@\"\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    root
}

/// A layout with one image that is called `1` and has a shell.
fn layout(cabane: &Cabane, text: &str) -> Layout {
    let layout = Layout::new(cabane, &format!("layout-{text}"));
    let manifest = layout.image(&[layer(&root(cabane, text))], "amd64");
    layout.name(manifest, "1");
    layout
}

/// Writes an image of Apptainer.
pub(crate) fn sif_file(cabane: &Cabane, text: &str, name: &str) -> PathBuf {
    sif_of(cabane, &root(cabane, text), name)
}

fn sif_of(cabane: &Cabane, root: &Path, name: &str) -> PathBuf {
    let image = cabane.world.path(&format!("{name}.sqfs"));
    let mut command = Command::new("mksquashfs");
    command.arg(root).arg(&image).args(["-quiet", "-noappend"]);
    assert!(command.output().unwrap().status.success());
    let file = cabane.world.path(name);
    fs::write(&file, sif(&fs::read(&image).unwrap(), *b"02")).unwrap();
    file
}

/// A world with a registry that is the default one for names without a registry.
struct Site {
    cabane: Cabane,
    registry: RealRegistry,
}

impl Site {
    fn new(who: Who) -> Self {
        let cabane = Cabane::new(who);
        let registry = RealRegistry::start(&cabane.world.path("registry"));
        let text = format!("[container]\ndefault_registry = \"{}\"\n", registry.url());
        cabane.world.file("site.toml", &text);
        Self { cabane, registry }
    }

    fn push(&self, text: &str, name: &str) {
        let target = format!("docker://{}/{name}", self.registry.host());
        let typed = layout(&self.cabane, text).typed();
        skopeo(&["copy", "--dest-tls-verify=false", &typed, &target]);
    }

    /// How many requests of a kind the registry answered with content.
    fn sent(&self, kind: &str) -> usize {
        let log = self.registry.log();
        let is_one = |line: &&str| line.contains("\"GET ") && line.contains(kind);
        log.lines().filter(is_one).count()
    }

    fn hello(&self, image: &str) -> Finished {
        self.cabane.run(&["run", image, "--", "hello"])
    }

    fn put(&self, path: &str, kind: &str, bytes: &[u8]) {
        let file = self.cabane.world.file("sent", "");
        fs::write(&file, bytes).unwrap();
        let url = format!("{}{path}", self.registry.url());
        let mut command = Command::new("curl");
        command.args(["--silent", "--fail", "-X", "PUT", "-H"]);
        command.arg(format!("Content-Type: {kind}")).arg("--data-binary");
        command.arg(format!("@{}", file.display())).arg(url);
        Finished::of(&mut command).success();
    }

    fn put_blob(&self, name: &str, bytes: &[u8]) -> serde_json::Value {
        let begin = format!("{}/v2/{name}/blobs/uploads/", self.registry.url());
        let mut command = Command::new("curl");
        command.args(["--silent", "--fail", "-X", "POST", "-o", "/dev/null", "-w"]);
        let place = Finished::of(command.args(["%header{location}", &begin])).success().stdout;
        let place = place.strip_prefix(&self.registry.url()).unwrap_or(&place);
        let digest = digest::written(&digest::of(bytes));
        self.put(&format!("{place}&digest={digest}"), "application/octet-stream", bytes);
        json!({"digest": digest, "size": bytes.len()})
    }
}

#[test]
fn an_image_of_a_registry_is_imported_at_first_use_and_then_only_described() {
    needs!("docker-registry");
    for who in everybody() {
        let site = Site::new(who);
        site.push("first", "lab/tool:1.0");
        let first = site.hello("docker://lab/tool:1.0");
        let host = site.registry.host().replace(':', "-");
        let expected = format!("imported docker://lab/tool:1.0 as {host}-lab-tool/1.0:");
        assert_eq!(first.stdout, "first\n", "as {who:?}: {}", first.stderr);
        assert!(first.stderr.contains(&expected), "as {who:?}: {}", first.stderr);
        let label = format!("{host}-lab-tool/1.0");
        let before = (site.sent("/blobs/"), site.sent("/manifests/"));
        assert_eq!(site.hello("docker://lab/tool:1.0"), finished(0, "first\n", ""), "as {who:?}");
        let after = (site.sent("/blobs/"), site.sent("/manifests/"));
        assert_eq!(after, (before.0, before.1 + 1), "as {who:?}");
        assert_eq!(site.hello(&label), finished(0, "first\n", ""), "as {who:?}");
        assert_eq!(leftovers(&site.cabane), Vec::<String>::new());
    }
}

#[test]
fn a_tag_that_was_moved_leads_to_the_new_image() {
    needs!("docker-registry");
    let site = Site::new(Who::OrdinaryUser);
    site.push("first", "tool:1");
    assert_eq!(site.hello("docker://tool:1").stdout, "first\n");
    site.push("second", "tool:1");
    assert_eq!(site.hello("docker://tool:1").stdout, "second\n");
    let listed = site.cabane.run(&["image", "ls", "--no-header"]).success().stdout;
    assert_eq!(listed.lines().count(), 1, "{listed}");
}

#[test]
fn without_a_registry_what_is_kept_is_used_with_a_notice() {
    needs!("docker-registry");
    let mut site = Site::new(Who::OrdinaryUser);
    site.push("first", "tool:1");
    assert_eq!(site.hello("docker://tool:1").stdout, "first\n");
    site.registry.stop();
    let seen = site.hello("docker://tool:1");
    assert_eq!(seen.stdout, "first\n", "{}", seen.stderr);
    assert!(seen.stderr.contains("does not answer, so "), "{}", seen.stderr);
    let other = site.hello("docker://other:1");
    assert_eq!((other.code, other.stdout.as_str()), (125, ""), "{}", other.stderr);
}

#[test]
fn what_is_kept_does_not_compete_with_labels_of_the_user() {
    needs!("docker-registry");
    let site = Site::new(Who::OrdinaryUser);
    site.push("first", "tool:1");
    let typed = format!("{}/tool:1", site.registry.url());
    site.cabane.run(&["import", &typed, "tool/1"]).success();
    site.push("second", "tool:1");
    assert_eq!(site.hello(&format!("docker://{typed}")).stdout, "second\n");
    assert_eq!(site.hello("tool/1"), finished(0, "first\n", ""));
    assert_eq!(site.hello("tool"), finished(0, "first\n", ""));
}

#[test]
fn a_directory_does_not_take_the_place_of_an_image_in_a_registry() {
    needs!("docker-registry");
    let site = Site::new(Who::OrdinaryUser);
    site.push("first", "tool:1");
    layout(&site.cabane, "second");
    let planted = site.cabane.world.path("layout-second");
    let name = format!("{}/tool:1", site.registry.url());
    let directory = site.cabane.world.directory("project");
    for typed in [format!("docker://{name}"), "docker://tool:1".to_owned()] {
        let place = directory.join(&typed);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        let mut copy = Command::new("cp");
        Finished::of(copy.arg("-r").arg(&planted).arg(&place)).success();
        let mut command = site.cabane.command(&["run", &typed, "--", "hello"]);
        let seen = site.cabane.finish(command.current_dir(&directory));
        assert_eq!(seen.stdout, "first\n", "{typed}: {}", seen.stderr);
    }
}

#[test]
fn an_image_of_another_repository_does_not_take_the_place_of_one_in_a_registry() {
    needs!("docker-registry");
    let site = Site::new(Who::OrdinaryUser);
    site.push("first", "tool:1");
    let name = format!("docker://{}/tool:1", site.registry.url());
    let first = site.hello(&name);
    let label = first.stderr.split(" as ").last().unwrap().trim().to_owned();
    site.cabane.run(&["image", "rm", &label]).success();
    // Somebody else's repository, which this user reads as well.
    let other = site.cabane.world.path("other");
    let planted = layout(&site.cabane, "second").typed();
    site.cabane.run(&["repo", "create", other.to_str().unwrap()]).success();
    let to = format!("--repo={}", other.display());
    site.cabane.run(&[&to, "import", &planted, &label]).success();
    let text = fs::read_to_string(site.cabane.world.path("site.toml")).unwrap();
    let more =
        format!("{text}[[repositories]]\nname = \"other\"\npath = \"{}\"\n", other.display());
    site.cabane.world.file("site.toml", &more);
    let seen = site.hello(&name);
    assert_eq!(seen.stdout, "first\n", "{}", seen.stderr);
}

#[test]
fn a_dry_run_imports_nothing() {
    needs!("docker-registry");
    let site = Site::new(Who::OrdinaryUser);
    site.push("first", "tool:1");
    let seen = site.cabane.run(&["run", "--dry-run", "docker://tool:1", "--", "hello"]);
    assert!(seen.stderr.contains("a dry run imports nothing"), "{}", seen.stderr);
    assert_eq!((seen.code, site.sent("/blobs/")), (125, 0));
    assert_eq!(site.hello("docker://tool:1").stdout, "first\n");
    let seen = site.cabane.run(&["run", "--dry-run", "docker://tool:1", "--", "hello"]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
}

#[test]
fn an_environment_file_names_no_registry_without_encryption() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let text = "images = [\"docker://http://192.0.2.2:5000/a/tool:1\"]\n";
    let file = cabane.world.file("one.toml", text);
    let seen = cabane.run(&["run", "-e", file.to_str().unwrap(), "--", "hello"]);
    assert!(seen.stderr.contains("a registry without encryption"), "{}", seen.stderr);
}

#[test]
fn a_digest_is_asked_for_once() {
    needs!("docker-registry");
    let mut site = Site::new(Who::OrdinaryUser);
    site.push("first", "tool:1");
    let target = format!("docker://{}/tool:1", site.registry.host());
    let mut command = Command::new("skopeo");
    command.args(["inspect", "--tls-verify=false", "--format={{.Digest}}", &target]);
    let digest = Finished::of(&mut command).success().stdout;
    let typed = format!("docker://tool@{}", digest.trim());
    assert_eq!(site.hello(&typed).stdout, "first\n");
    site.registry.stop();
    assert_eq!(site.hello(&typed), finished(0, "first\n", ""));
}

#[test]
fn a_tag_that_was_deleted_is_an_error_that_names_what_is_kept() {
    needs!("docker-registry");
    let site = Site::new(Who::OrdinaryUser);
    site.push("first", "tool:1");
    assert_eq!(site.hello("docker://tool:1").stdout, "first\n");
    let tags = site.registry.data().join("docker/registry/v2/repositories/tool/_manifests/tags/1");
    fs::remove_dir_all(tags).unwrap();
    let seen = site.hello("docker://tool:1");
    assert_eq!(seen.code, 125, "{}", seen.stderr);
    assert!(seen.stderr.contains("names the image that was imported before"), "{}", seen.stderr);
}

#[test]
fn of_those_who_want_the_same_at_once_one_imports_it() {
    needs!("docker-registry");
    let site = Site::new(Who::OrdinaryUser);
    site.push("first", "tool:1");
    let file = sif_file(&site.cabane, "second", "tool.sif");
    // The repository itself is made before, so that only imports compete.
    site.cabane.run(&["repo", "create"]).success();
    for image in ["docker://tool:1", file.to_str().unwrap()] {
        let start = || {
            let mut command = site.cabane.command(&["run", image, "--", "hello"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let running: Vec<_> = (0..4).map(|_| start()).collect();
        let ended = running.into_iter().map(|one| one.wait_with_output().unwrap());
        let texts: Vec<_> = ended
            .map(|one| String::from_utf8_lossy(&[one.stdout, one.stderr].concat()).into_owned())
            .collect();
        let imported = texts.iter().filter(|text| text.contains("imported ")).count();
        let greeted =
            texts.iter().filter(|text| text.contains("first\n") || text.contains("second\n"));
        assert_eq!((imported, greeted.count()), (1, 4), "{texts:#?}");
    }
    let manifests = site.sent("/blobs/");
    assert!(manifests <= 2 + 3, "a layer was fetched more than once: {manifests} blobs");
}

#[test]
fn a_name_without_a_registry_says_how_to_name_one() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let seen = cabane.run(&["run", "docker://debian:12", "--", "true"]);
    let expected = "error: `debian:12` does not say in which registry it is\n\
                    hint: put the registry in front of it, as in \
                    `registry.example.org/tool:1.0`; one that was not named gets no request\n\
                    hint: `default_registry = \"docker.io\"` below `[container]` in the \
                    configuration makes it a name of that registry\n";
    assert_eq!(seen, finished(125, "", expected));
}

#[test]
fn a_file_of_apptainer_is_imported_once_and_again_when_it_changes() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let file = sif_file(&cabane, "first", "tool.sif");
        let file = file.to_str().unwrap();
        let scheme = format!("sif:{file}");
        assert_eq!(cabane.run(&["run", file, "--", "hello"]).stdout, "first\n", "as {who:?}");
        let again = cabane.run(&["run", &scheme, "--", "hello"]);
        assert_eq!(again, finished(0, "first\n", ""), "as {who:?}");
        sif_file(&cabane, "second", "tool.sif");
        assert_eq!(cabane.run(&["run", file, "--", "hello"]).stdout, "second\n", "as {who:?}");
        assert_eq!(leftovers(&cabane), Vec::<String>::new());
    }
}

#[test]
fn a_runscript_is_what_a_file_of_apptainer_runs() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let file = sif_file(&cabane, "first", "tool.sif");
    let file = file.to_str().unwrap();
    assert_eq!(cabane.run(&["run", file]).stdout, "first runscript\n");
    let seen = cabane.run(&["run", "--entrypoint", file, "--", "a", "b"]);
    assert_eq!(seen, finished(0, "first runscript a b\n", ""));
}

#[test]
fn archives_and_layouts_are_imported_at_first_use() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = layout(&cabane, "first");
    let archive = cabane.world.path("saved.tar");
    skopeo(&["copy", &layout.typed(), &format!("docker-archive:{}:lab/tool:1", archive.display())]);
    let other = cabane.world.path("layout.tar");
    skopeo(&["copy", &layout.typed(), &format!("oci-archive:{}", other.display())]);
    for typed in [
        layout.typed(),
        format!("docker-archive:{}", archive.display()),
        format!("oci-archive:{}", other.display()),
    ] {
        assert_eq!(cabane.run(&["run", &typed, "--", "hello"]).stdout, "first\n", "{typed}");
        let again = cabane.run(&["run", &typed, "--", "hello"]);
        assert_eq!(again, finished(0, "first\n", ""), "{typed}");
    }
}

#[test]
fn an_environment_file_names_container_images_beside_it() {
    needs!("docker-registry");
    let site = Site::new(Who::OrdinaryUser);
    site.push("first", "tool:1");
    sif_file(&site.cabane, "second", "tool.sif");
    site.cabane.world.file("one.toml", "images = [\"docker://tool:1\"]\n");
    site.cabane.world.file("other.toml", "images = [\"tool.sif\"]\n");
    for (name, expected) in [("one.toml", "first\n"), ("other.toml", "second\n")] {
        let path = site.cabane.world.path(name);
        let arguments = ["run", "-e", path.to_str().unwrap(), "--", "hello"];
        let seen = site.cabane.run(&arguments);
        assert_eq!(seen.stdout, expected, "{}", seen.stderr);
    }
}

#[test]
fn a_file_of_apptainer_in_a_registry_is_imported_at_first_use() {
    needs!("docker-registry");
    let site = Site::new(Who::OrdinaryUser);
    let file = sif_file(&site.cabane, "first", "tool.sif");
    put_sif(&site, "lab/tool", &file);
    let typed = format!("oras://{}/lab/tool:1", site.registry.url());
    let plain = format!("oras://{}/lab/tool:1", site.registry.host());
    let refused = site.hello(&plain);
    assert!(refused.stderr.contains("answers without encryption"), "{}", refused.stderr);
    let seen = site.hello(&typed);
    assert_eq!(seen.stdout, "first\n", "{}", seen.stderr);
    let before = site.sent("/blobs/");
    assert_eq!(site.hello(&typed), finished(0, "first\n", ""));
    assert_eq!(site.sent("/blobs/"), before);
}

/// Puts a file into a registry as Apptainer does.
fn put_sif(site: &Site, name: &str, file: &Path) {
    let mut layer = site.put_blob(name, &fs::read(file).unwrap());
    layer["mediaType"] = "application/vnd.sylabs.sif.layer.v1.sif".into();
    layer["annotations"] = json!({"org.opencontainers.image.title": "tool.sif"});
    let mut config = site.put_blob(name, b"{}");
    config["mediaType"] = "application/vnd.sylabs.sif.config.v1+json".into();
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest =
        json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer]});
    site.put(&format!("/v2/{name}/manifests/1"), kind, manifest.to_string().as_bytes());
}

/// Puts the policy in place that is installed unless a site chooses otherwise.
fn ship_policy() {
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/mount.policy");
    run_as_root(&format!(
        "sed -e 's|@MOUNT_POINTS@|mount-point /mnt/a|' -e 's|@IMAGE_OWNERS@|root|' {policy} \\
             >/etc/cabane/mount.policy"
    ));
}

#[test]
fn under_the_shipped_policy_users_run_what_they_import() {
    needs!("docker-registry");
    with_helper(|cabane| {
        ship_policy();
        let registry = RealRegistry::start(&cabane.world.path("registry"));
        let target = format!("docker://{}/tool:1", registry.host());
        skopeo(&["copy", "--dest-tls-verify=false", &layout(cabane, "first").typed(), &target]);
        let typed = format!("{}/tool:1", registry.url());
        let file = sif_file(cabane, "second", "tool.sif");
        for (image, expected) in [(&*typed, "first\n"), (file.to_str().unwrap(), "second\n")] {
            for arguments in [&["-v", "run", image, "--"][..], &["-v", "exec", image]] {
                let seen = cabane.run(&[arguments, &["hello"]].concat());
                assert_eq!(seen.stdout, expected, "{}", seen.stderr);
                // Root would have to look into it through FUSE to mount it for others.
                assert!(seen.stderr.contains("in a user namespace"), "{}", seen.stderr);
            }
        }
    });
}

#[test]
fn a_name_as_enroot_writes_it_is_understood() {
    needs!("docker-registry");
    let site = Site::new(Who::OrdinaryUser);
    site.push("first", "lab/tool:1");
    let host = site.registry.host();
    let typed = format!("http://{host}#lab/tool:1");
    assert_eq!(site.hello(&typed).stdout, "first\n");
    let seen = site.cabane.run(&["run", "docker://alice@ghcr.io#lab/tool:1", "--", "true"]);
    let expected = "error: `docker://alice@ghcr.io#lab/tool:1` names a user\n\
                    hint: type `docker://ghcr.io/lab/tool:1`; the password comes from \
                    `podman login ghcr.io`\n";
    assert_eq!(seen, finished(125, "", expected));
}

#[test]
fn what_is_elsewhere_is_refused_with_what_to_type() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let seen = cabane.run(&["run", "library://lab/tool:1", "--", "true"]);
    let expected = "error: `library://lab/tool:1` is in a library of Singularity, which Cabane \
                    cannot read\n\
                    hint: fetch it with `apptainer pull image.sif library://lab/tool:1`, and name the file: \
                    `./image.sif`\n";
    assert_eq!(seen, finished(125, "", expected));
    let seen = cabane.run(&["image", "inspect", "docker://ghcr.io/lab/tool:1"]);
    assert!(seen.stderr.contains("that has not been imported"), "{}", seen.stderr);
}

#[test]
fn variables_that_a_script_of_a_sif_computes_are_named_once() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let root = root(&cabane, "first");
    let scripts = root.join(".singularity.d/env");
    fs::create_dir_all(&scripts).unwrap();
    let text = "export PATH=/opt/bin:$PATH\nexport DATA=$(ls -d /opt/*/data)\nexport KNOWN=yes\n";
    fs::write(scripts.join("90-environment.sh"), text).unwrap();
    let file = sif_of(&cabane, &root, "tool.sif");
    let run = || {
        cabane.run(&["run", file.to_str().unwrap(), "--", "sh", "-c", "echo $PATH,$DATA,$KNOWN"])
    };
    let seen = run().success();
    assert!(seen.stdout.starts_with("/opt/bin:/") && seen.stdout.ends_with(",,yes\n"), "{seen:?}");
    let line = "variables left out, because a script in /.singularity.d/env computes them: DATA \
                (`--env NAME=VALUE` sets one)";
    assert_eq!(seen.stderr.matches(line).count(), 1, "{}", seen.stderr);
    assert!(!run().stderr.contains("DATA"));
    let seen = cabane.run(&["import", file.to_str().unwrap(), "tool/1"]).success();
    assert_eq!(seen.stderr.matches(line).count(), 1, "{}", seen.stderr);
}

#[test]
fn a_container_image_is_inspected_where_it_is_kept_and_else_the_import_is_shown() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let file = sif_file(&cabane, "first", "tool.sif");
    let file = file.to_str().unwrap();
    let seen = cabane.run(&["image", "inspect", file]);
    let expected = "error: `[WORLD]/tool.sif` is a container image that has not been imported\n\
                    hint: import it and use its label: `cabane import [WORLD]/tool.sif tool/1.0`\n";
    assert_eq!(seen, finished(4, "", expected));
    cabane.run(&["run", file, "--", "hello"]).success();
    let seen = cabane.run(&["image", "inspect", "--format", "{label}", file]).success();
    assert!(seen.stdout.starts_with("tool-sif/"), "{seen:?}");
}
