// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Provenance: what a builder signs about a build, and where it counts.

use std::fs;

use cabane_testkit::{Finished, Program, belongs_to, needs};
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody};
use crate::channels::Bed;

const LABEL: &str = "built/1.0:v1@here%x86_64";
const RECIPES: &str = "home/recipes";
const SOURCE: &str = "https://github.com/eth-cscs/alps-uenv";

/// A registry and a builder with a recipe in a Git repository.
struct Builder {
    bed: Bed,
    key: String,
}

impl Builder {
    fn new(stable: &str) -> Self {
        let more = "[evidence]\nbuilders = [\"KEY.build.pub\"]\n\
                    builder_id = \"https://example.org/builders/here\"";
        let bed = Bed::new(Who::OrdinaryUser, stable, more);
        let key = format!("{}.build", bed.key);
        bed.run(&["image", "key", "new", &key]).success();
        recipes(&bed.shared.cabane);
        Self { bed, key }
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.bed.run(arguments)
    }

    fn build(&self, engine: &str, key: &str) -> Finished {
        let recipe = self.bed.shared.cabane.world.path(&format!("{RECIPES}/{engine}"));
        self.run(&["build", recipe.to_str().unwrap(), LABEL, "--key", key])
    }

    fn push(&self) {
        self.run(&["image", "push", LABEL, "--force"]).success();
    }

    fn rule(&self) -> (i32, String) {
        let run = self.run(&["channel", "promote", "stable", LABEL, "--dry-run"]);
        let line = run.stdout.lines().find(|line| line.contains("built_from")).unwrap_or_default();
        (run.code, line.to_owned())
    }
}

/// Two recipes, of which one has its files in the repository, and one packs a directory.
fn recipes(cabane: &Cabane) {
    let world = &cabane.world;
    let store = cabane.mount_point("built");
    world.file("tree/bin/hello", "#!/bin/sh\necho hello\n");
    let tree = world.path("tree").display().to_string();
    world.file(
        "given/tree/config.yaml",
        &format!("name: built\nengine: tree\nstore: {store}\ntree: {{source: {tree}}}\n"),
    );
    world.file("given/container/root/etc/motd", "hello\n");
    world.file(
        "given/container/config.yaml",
        "name: built\nengine: container\ncontainer: {from: 'dir:root'}\n",
    );
    // Git reads only repositories of the same user.
    let mut copy = cabane.other("cp");
    copy.arg("-r").args([world.path("given"), world.path(RECIPES)]);
    cabane.finish(&mut copy).success();
    git(cabane, &["init", "--quiet"]);
    git(cabane, &["add", "--all"]);
    git(cabane, &["commit", "--quiet", "--message=recipes"]);
    let origin = SOURCE.replace("https://", "https://alice:secret@") + ".git";
    git(cabane, &["remote", "add", "origin", &origin]);
}

fn git(cabane: &Cabane, arguments: &[&str]) {
    let mut command = cabane.other("git");
    command.args(["-c", "user.name=ada", "-c", "user.email=ada@example.org"]).args(arguments);
    command.current_dir(cabane.world.path(RECIPES));
    cabane.finish(&mut command).success();
}

#[test]
fn a_build_says_from_what_the_image_was_made() {
    needs!("git");
    for who in everybody() {
        let cabane = Cabane::new(who);
        cabane.world.file("site.toml", "");
        recipes(&cabane);
        let key = cabane.world.path("work/build");
        let key = key.to_str().unwrap();
        cabane.run(&["image", "key", "new", key]).success();
        let recipe = cabane.world.path("home/recipes/tree");
        let build = ["build", recipe.to_str().unwrap(), LABEL, "--key", key];
        let first = cabane.run(&build).success();
        assert!(first.stderr.contains("kept the provenance "), "{}", first.stderr);
        let text = cabane.run(&["evidence", "show", "built"]).success().stdout;
        for secret in ["alice", "secret", "[WORLD]", "/home", "/tmp"] {
            // The file of the key is no part of the statement.
            let statement = text.split("\"statement\": {").nth(1).unwrap();
            assert!(!statement.contains(secret), "{secret}: {text}");
        }
        let shown: Value = serde_json::from_str(&text).unwrap();
        let predicate = &shown["statement"]["predicate"];
        let (definition, run) = (&predicate["buildDefinition"], &predicate["runDetails"]);
        assert_eq!(definition["buildType"], "https://cabane.dev/buildtypes/image/v1");
        let parameters = &definition["externalParameters"];
        assert_eq!((&parameters["label"], &parameters["system"]), (&LABEL.into(), &"here".into()));
        assert_eq!(parameters["recipe"]["path"], "tree");
        let recipe = &definition["resolvedDependencies"][0];
        assert_eq!(recipe["uri"], format!("git+{SOURCE}.git"));
        assert_eq!(recipe["annotations"]["modified"], false);
        let length = |name: &str| recipe["digest"][name].as_str().unwrap().len();
        assert_eq!((length("gitCommit"), length("dirHash1")), (40, 64));
        let id = run["builder"]["id"].as_str().unwrap();
        assert!(id.starts_with("https://cabane.dev/builder/"), "{id}");
        assert!(run["metadata"]["startedOn"].is_string(), "{run}");
        assert_eq!(run["byproducts"][0]["name"], "meta/configure.json");
        // Again, when everything is there already: it began before.
        let predicates = || -> Vec<Value> {
            let listed = cabane.run(&["evidence", "ls", "built", "--json"]).success();
            let listed: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
            listed.iter().map(|one| one["statement"]["predicate"].clone()).collect()
        };
        cabane.run(&build).success();
        let all = predicates();
        let metadata = |one: &Value| one["runDetails"]["metadata"].clone();
        let is_later = |one: &&Value| metadata(one)["startedOn"].is_null();
        assert_eq!((all.len(), all.iter().filter(is_later).count()), (2, 1), "{all:?}");
        assert!(all.iter().all(|one| metadata(one)["finishedOn"].is_string()), "{all:?}");
        // A file that is not in the commit.
        cabane.world.file("home/recipes/tree/more", "");
        cabane.run(&build).success();
        let all = predicates();
        let is_modified = |one: &&Value| {
            let recipe = &one["buildDefinition"]["resolvedDependencies"][0];
            recipe["annotations"]["modified"] == true
        };
        // It is another image, since the recipe is in it.
        assert_eq!((all.len(), all.iter().filter(is_modified).count()), (1, 1), "{all:?}");
        // An image that is a file has it in a file beside it.
        let output = cabane.world.path("home/built.squashfs");
        let output = output.to_str().unwrap();
        cabane.run(&["build", build[1], "--output", output, "--key", key]).success();
        let bundle = fs::read_to_string(format!("{output}.sigstore.json")).unwrap();
        assert!(bundle.contains("dsseEnvelope"), "{bundle}");
    }
}

#[test]
fn a_git_repository_runs_no_programs() {
    needs!("git");
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.world.file("site.toml", "");
    recipes(&cabane);
    let ran = cabane.world.path("home/ran");
    let evil = format!("touch {}", ran.display());
    for key in ["core.fsmonitor", "filter.x.clean", "remote.origin.uploadpack", "core.sshCommand"] {
        git(&cabane, &["config", key, &evil]);
    }
    cabane.world.file("home/recipes/.git/info/attributes", "* filter=x\n");
    let key = cabane.world.path("work/build");
    let key = key.to_str().unwrap();
    cabane.run(&["image", "key", "new", key]).success();
    cabane.world.file("home/recipes/tree/config.yaml.orig", "");
    let recipe = cabane.world.path("home/recipes/tree");
    cabane.run(&["build", recipe.to_str().unwrap(), LABEL, "--key", key]).success();
    assert!(!ran.exists());
    git(&cabane, &["status"]);
    assert!(ran.exists(), "the trap does not work");
}

#[test]
fn the_gate_wants_builds_of_certain_recipes() {
    needs!("docker-registry");
    needs!("git");
    let builder = Builder::new(&format!("built_from = [\"{SOURCE}\"]"));
    let refused = |expected: &str| {
        let (code, rule) = builder.rule();
        assert_eq!(code, 13, "{rule}");
        assert!(rule.contains("failed") && rule.contains(expected), "{rule}");
    };
    let verify = |url: &str| builder.run(&["evidence", "verify", LABEL, "--built-from", url]);
    let recipe = builder.bed.shared.cabane.world.path("home/recipes/container");
    builder.run(&["build", recipe.to_str().unwrap(), LABEL]).success();
    builder.push();
    refused("no provenance");
    assert_eq!(verify("*").code, 12, "{}", verify("*").stderr);
    // Signed by someone else.
    let other = format!("{}.other", builder.key);
    builder.run(&["image", "key", "new", &other]).success();
    builder.build("container", &other).success();
    builder.push();
    refused("no provenance with the signature of a builder");
    builder.build("container", &builder.key).success();
    builder.push();
    let (code, rule) = builder.rule();
    assert_eq!(code, 0, "{rule}");
    assert!(rule.contains("by https://example.org/builders/here on "), "{rule}");
    let verified = verify(SOURCE).success();
    assert!(
        verified.stdout.contains(&format!(": built from git+{SOURCE}.git ")),
        "{}",
        verified.stdout
    );
    assert_eq!(verify("https://github.com/eth-cscs/other").code, 12);
    builder.bed.change(&["promote", "stable", LABEL]).success();
    let listed = builder.run(&["evidence", "ls", LABEL, "--remote", "--json"]).success();
    let listed: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
    let counts = listed.iter().find(|one| one["standing"]["standing"] == "counts").unwrap();
    let entry = &builder.bed.show("stable")["entries"][0]["evidence"];
    assert_eq!(*entry, Value::Array(vec![counts["id"].clone()]));
    // What is packed from somewhere is from nowhere.
    builder.build("tree", &builder.key).success();
    builder.push();
    refused("packed from a directory, which the provenance does not describe");
}

#[test]
fn cosign_verifies_provenance_of_a_build() {
    needs!("docker-registry");
    needs!("git");
    let Some(cosign) = Program::find("cosign").path() else {
        belongs_to!("CABANE_TEST_COSIGN=PROGRAM make test");
    };
    let builder = Builder::new("");
    builder.build("tree", &builder.key).success();
    // Nothing is signed again at a push.
    builder.push();
    let cabane = &builder.bed.shared.cabane;
    let image =
        format!("{}/uenv/deploy/here/x86_64/built/1.0:v1", builder.bed.shared.registry.host());
    let root = r#"{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}"#;
    let root = cabane.world.file("home/root.json", root);
    let verify = |key: &str| {
        let mut command = cabane.other(cosign.to_str().unwrap());
        command.args(["verify-attestation", "--new-bundle-format", "--trusted-root"]).arg(&root);
        command.args(["--key", &format!("{key}.pub"), "--type", "slsaprovenance1"]);
        command.args(["--insecure-ignore-tlog", "--allow-http-registry", &image]);
        cabane.finish(&mut command)
    };
    let verified = verify(&builder.key).success();
    assert!(verified.stdout.contains("\"payload\""), "{}", verified.stdout);
    assert_ne!(verify(&builder.bed.key).code, 0);
}
