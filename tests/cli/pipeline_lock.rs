// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane pipeline lock`: container images and branches that move are noticed, and rebuild what is built on them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use cabane_testkit::{Finished, RealRegistry, needs, squashfs};
use serde_json::Value;

use crate::cabane::{Cabane, Who};
use crate::export::{STACK, add_base, add_stack};
use crate::import_containers::{content, layout};

/// A pipeline with one cell.
struct Recipes {
    cabane: Cabane,
    registry: RealRegistry,
    skopeo: PathBuf,
}

impl Recipes {
    fn new(skopeo: PathBuf) -> Self {
        let cabane = Cabane::new(Who::OrdinaryUser);
        let registry = RealRegistry::start(&cabane.world.path("registry"));
        cabane.world.file("home/.gitconfig", GIT_CONFIG);
        let recipes = Self { cabane, registry, skopeo };
        recipes.cabane.world.file("work/pipeline.yaml", PIPELINE);
        recipes
    }

    /// Writes the recipe of the cell.
    fn recipe(&self, text: &str) {
        self.cabane.world.file("work/recipes/tool/1/config.yaml", text);
    }

    /// Moves a tag of the registry to another image.
    fn push(&self, tag: &str, text: &str) {
        let to = format!("{}/{tag}", self.registry.url().replace("http://", "docker://"));
        let mut copy = Command::new(&self.skopeo);
        copy.args(["copy", "--insecure-policy", "--dest-tls-verify=false"]);
        let output = copy.args([layout(&self.cabane, text).typed(), to]).output();
        assert!(output.unwrap().status.success());
    }

    fn name(&self, tag: &str) -> String {
        format!("{}/{tag}", self.registry.url())
    }

    fn run(&self, verb: &str, more: &[&str]) -> Finished {
        let file = self.cabane.world.path("work/pipeline.yaml").display().to_string();
        self.cabane.run(&[&["pipeline", verb, "--file", &file], more].concat())
    }

    /// The stages that are left, and why.
    fn plan(&self, more: &[&str]) -> (usize, String) {
        let planned = self.run("plan", &[&["--json", "--offline"], more].concat()).success();
        let planned: Value = serde_json::from_str(&planned.stdout).unwrap();
        let stages = planned[0]["stages"].as_array().unwrap().len();
        (stages, planned[0]["reason"].as_str().unwrap().to_owned())
    }

    fn lock_file(&self) -> String {
        fs::read_to_string(self.cabane.world.path("work/pipeline.lock")).unwrap()
    }

    /// What is in the image that was built last.
    fn built(&self, file: &str) -> String {
        let result = "work/.cabane-pipeline/cells/here/x86_64/tool/1/build.json";
        let result = fs::read(self.cabane.world.path(result)).unwrap();
        let result: Value = serde_json::from_slice(&result).unwrap();
        content(&self.cabane, result["digest"].as_str().unwrap(), file)
    }

    fn git(&self, directory: &str, arguments: &[&str]) {
        let mut command = self.cabane.other("git");
        let directory = self.cabane.world.path(directory);
        Finished::of(command.current_dir(directory).args(arguments)).success();
    }
}

const PIPELINE: &str = "clusters:\n  here: {targets: [{uarch: x86_64}]}\nuenvs:\n  tool:\n    \"1\": {recipes: \
                        {x86_64: \"1\"}, deploy: {here: [x86_64]}}\n";
const GIT_CONFIG: &str = "[safe]\n\tdirectory = *\n[user]\n\tname = a\n\temail = a@b.c\n[init]\n\tdefaultBranch = main\n";

fn container(from: &str, more: &str) -> String {
    format!("name: tool\nengine: container\ncontainer:\n  from: {from}\n{more}")
}

#[test]
fn a_container_image_that_moved_is_a_reason_to_build() {
    let skopeo = needs!("skopeo");
    needs!("docker-registry");
    let recipes = Recipes::new(skopeo);
    recipes.push("tool:1", "first");
    recipes.recipe(&container(&recipes.name("tool:1"), ""));
    let checked = recipes.run("check", &[]).success();
    assert!(checked.stderr.contains("1 base can change under the same name"), "{checked:?}");
    recipes.run("lock", &[]).success();
    let first = recipes.lock_file();
    assert!(first.contains("\"recipes/tool/1\": {"), "{first}");
    let checked = recipes.run("check", &[]).success();
    assert!(!checked.stderr.contains("can change"), "{checked:?}");
    fs::write(recipes.cabane.world.path("work/.gitignore"), ".cabane-pipeline\n").unwrap();
    for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
        recipes.git("work", arguments);
    }
    // The tag moves before the first build: what is locked is built.
    recipes.push("tool:1", "second");
    let ran = recipes.run("run", &["--offline"]);
    assert!(ran.stderr.contains("build PASSED"), "{ran:?}");
    assert_eq!(recipes.built("etc/text"), "first");
    // Its check needs a shell that it does not have.
    assert_eq!(recipes.plan(&[]), (1, "check could not run before".to_owned()));

    let dry = recipes.run("lock", &["--dry-run"]).success();
    assert!(dry.stderr.contains("1 of 1 base changed (1 cell)"), "{dry:?}");
    assert!(dry.stdout.contains("tool:1"), "{dry:?}");
    assert_eq!(recipes.lock_file(), first);
    let locked = recipes.run("lock", &["--json"]).success();
    let locked: Value = serde_json::from_str(&locked.stdout).unwrap();
    assert_eq!(locked[0]["cells"][0], "tool/1@here%x86_64");
    assert_ne!(locked[0]["before"], locked[0]["now"]);
    let second = recipes.lock_file();
    let again = recipes.run("lock", &[]).success();
    assert!(again.stderr.contains("nothing has changed in 1 base"), "{again:?}");
    assert_eq!(recipes.lock_file(), second);

    let base = recipes.name("tool:1");
    assert_eq!(recipes.plan(&[]), (2, format!("its base {base} has changed")));
    let (stages, reason) = recipes.plan(&["--since", "HEAD"]);
    assert_eq!((stages, reason), (2, format!("its base {base} has changed since HEAD")));
    recipes.run("run", &["--offline"]);
    assert_eq!(recipes.built("etc/text"), "second");
    // What was built before can be built again, although the tag means something else now.
    fs::write(recipes.cabane.world.path("work/pipeline.lock"), first).unwrap();
    recipes.run("run", &["--offline"]);
    assert_eq!(recipes.built("etc/text"), "first");
}

#[test]
fn a_branch_that_moved_is_a_reason_to_build() {
    let skopeo = needs!("skopeo");
    needs!("docker-registry");
    let recipes = Recipes::new(skopeo);
    let world = &recipes.cabane.world;
    recipes.git("work", &["init", "-q", "clone"]);
    for arguments in [
        &["commit", "-q", "--allow-empty", "-m", "first"][..],
        &["tag", "-m", "signed or not", "v1.3"],
    ] {
        recipes.git("work/clone", arguments);
    }
    let clone = world.path("work/clone").display().to_string();
    let text = format!(
        "name: tool\nversion: 3\nstore: /user-environment\nspack:\n  repo: {clone}\n  commit: main\n  \
         packages: {{repo: {clone}, commit: v1.3}}\n"
    );
    recipes.recipe(&text);
    recipes.run("lock", &[]).success();
    let first: Value = serde_json::from_str(&recipes.lock_file()).unwrap();
    let pins = first["recipes"]["recipes/tool/1"].as_object().unwrap();
    let commit = &pins[&format!("{clone}@main")];
    assert_eq!(commit.as_str().unwrap().len(), 40);
    // An annotated tag is an object of its own.
    assert_eq!(commit, &pins[&format!("{clone}@v1.3")]);
    recipes.git("work/clone", &["commit", "-q", "--allow-empty", "-m", "second"]);
    let locked = recipes.run("lock", &[]).success();
    assert!(locked.stderr.contains("1 of 2 bases changed"), "{locked:?}");
    let second: Value = serde_json::from_str(&recipes.lock_file()).unwrap();
    assert_ne!(commit, &second["recipes"]["recipes/tool/1"][&format!("{clone}@main")]);
    // Without the branch nothing is written.
    recipes.recipe(&text.replace("main", "gone"));
    let before = recipes.lock_file();
    let failed = recipes.run("lock", &[]);
    assert_eq!(failed.code, 4, "{failed:?}");
    assert!(failed.stderr.contains("a base of tool/1@here%x86_64"), "{failed:?}");
    assert!(failed.stderr.contains("has no branch or tag `gone`"), "{failed:?}");
    assert_eq!(recipes.lock_file(), before);
}

#[test]
fn what_the_lock_file_lacks_is_named_and_a_label_that_moved_is_refused() {
    let skopeo = needs!("skopeo");
    needs!("docker-registry");
    let recipes = Recipes::new(skopeo);
    let cabane = &recipes.cabane;
    add_base(cabane, "2.17");
    let tree = add_stack(cabane, "");
    let more = format!("  images: ['{STACK}']\n");
    recipes.push("tool:1", "first");
    recipes.push("tool:2", "second");
    recipes.recipe(&container(&recipes.name("tool:1"), &more));
    recipes.run("lock", &[]).success();
    recipes.recipe(&container(&recipes.name("tool:2"), &more));
    let (stages, _) = recipes.plan(&[]);
    assert_eq!(stages, 2);
    let planned = recipes.run("plan", &["--offline"]).success();
    let warning = format!("pipeline.lock does not have `{}`", recipes.name("tool:2"));
    assert!(planned.stderr.contains(&warning), "{planned:?}");

    recipes.run("lock", &[]).success();
    fs::write(tree.join("lib/text"), "another text").unwrap();
    let image = cabane.world.path("other.squashfs");
    squashfs(&tree, &image);
    cabane.run(&["image", "add", "--force", STACK, image.to_str().unwrap()]).success();
    let ran = recipes.run("run", &["--offline"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    let log = recipes.run("logs", &["tool/1@here%x86_64", "build"]);
    assert!(log.stdout.contains("has changed: the lock file pins sha256:"), "{log:?}");
    assert!(log.stdout.contains("`cabane pipeline lock`"), "{log:?}");
    recipes.run("lock", &[]).success();
    let ran = recipes.run("run", &["--offline"]);
    assert!(ran.stderr.contains("build PASSED"), "{ran:?}");

    for wrong in [
        "{",
        r#"{"version": 2, "recipes": {}}"#,
        r#"{"version": 1, "more": 1}"#,
        r#"{"version": 1, "recipes": {"recipes/tool/1": {"a": "--upload-pack=touch"}}}"#,
    ] {
        cabane.world.file("work/pipeline.lock", wrong);
        let refused = recipes.run("plan", &["--offline"]);
        assert_eq!(refused.code, 3, "{refused:?}");
        assert!(refused.stderr.contains("pipeline.lock is malformed"), "{refused:?}");
        assert!(refused.stderr.contains("run `cabane pipeline lock`"), "{refused:?}");
    }
}
