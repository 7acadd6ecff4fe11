// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane impact`, `cabane doctor IMAGE`, and the warning before a start.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cabane_testkit::{RealRegistry, Tree, compile, needs, squashfs};
use serde_json::{Value, json};

use crate::cabane::{Cabane, Who, everybody};
use crate::import_containers;
use crate::registry::Shared;

/// A host with a library that images need, and images that are built on it.
struct Site {
    cabane: Cabane,
    /// Where the libraries of the host are.
    host: PathBuf,
}

/// The stand-in for the library of a fabric, with two versions of symbols.
const VERBS: &str = "libcabaneverbs.so.1";
const VERSIONS: &str = "VERBS_1.0 { global: verbs_open; local: *; };\n\
                        VERBS_1.1 { global: verbs_post; } VERBS_1.0;\n";
const OPENS: &str = "int verbs_open(void); int fabric(void) { return verbs_open(); }";
const POSTS: &str = "int verbs_post(void); int main(void) { return verbs_post(); }";

impl Site {
    fn new(who: Who) -> Self {
        let cabane = Cabane::new(who);
        let host = cabane.world.path("host");
        let map = cabane.world.file("verbs.map", VERSIONS);
        compile(
            "int verbs_open(void) { return 0; } int verbs_post(void) { return 0; }",
            &host.join(VERBS),
            [
                "-shared".to_owned(),
                format!("-Wl,-soname,{VERBS}"),
                format!("-Wl,--version-script,{}", map.display()),
            ],
        );
        Self { cabane, host }
    }

    /// Makes the directory of a tree that becomes an image.
    fn tree(&self, name: &str) -> PathBuf {
        self.cabane.world.directory(&format!("recipes/{name}/files"))
    }

    fn verbs(&self) -> PathBuf {
        self.host.join(VERBS)
    }

    /// Builds an image of a tree.
    fn build(&self, name: &str) {
        let config = format!(
            "name: {name}\nversion: 3\nengine: tree\nstore: /cabane-built\ntree:\n  source: files\n"
        );
        let recipe = self.cabane.world.file(&format!("recipes/{name}/config.yaml"), &config);
        let recipe = recipe.parent().unwrap().to_string_lossy().into_owned();
        self.cabane.run(&["build", &recipe, &format!("{name}/1.0")]).success();
    }

    fn impact(&self, arguments: &[&str]) -> Value {
        let arguments = [&["impact", "--json"], arguments].concat();
        let seen = self.cabane.run(&arguments).success();
        serde_json::from_str(&seen.stdout).unwrap()
    }

    /// The names of the images with a verdict.
    fn with_verdict(&self, arguments: &[&str], verdict: &str) -> Vec<String> {
        let seen = self.impact(arguments);
        let images = seen["images"].as_array().unwrap().iter();
        let names = images
            .filter(|image| image["verdict"] == verdict)
            .map(|image| image["label"].as_str().unwrap().split('/').next().unwrap().to_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    fn needs(&self, name: &str) -> Value {
        let seen = self.cabane.run(&["image", "inspect", name, "--format", "{meta}"]).success();
        let path = seen.stdout.trim().strip_prefix("[WORLD]/").unwrap().to_owned();
        let text = fs::read(self.cabane.world.path(&path).join("needs.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}

/// Compiles a library or program into a tree, linked with libraries of the host.
fn link(text: &str, file: &Path, options: &[&str], libraries: &[PathBuf]) {
    let options = options.iter().map(ToString::to_string);
    let libraries = libraries.iter().map(|path| path.display().to_string());
    let unresolved = ["-Wl,--unresolved-symbols=ignore-in-shared-libs".to_owned()];
    compile(text, file, options.chain(libraries).chain(unresolved));
}

/// Builds ten images of which four need the library of the host.
fn ten_images(site: &Site) {
    // Its program is linked with it.
    link(POSTS, &site.tree("direct").join("bin/post"), &[], &[site.verbs()]);
    // A library of its own is linked with it, and a program with that.
    let tree = site.tree("through");
    let fabric = tree.join("lib/libfabric.so.1");
    let shared = ["-shared", "-Wl,-soname,libfabric.so.1"];
    link(OPENS, &fabric, &shared, &[site.verbs()]);
    let main = "int fabric(void); int main(void) { return fabric(); }";
    link(main, &tree.join("bin/app"), &[], &[fabric]);
    // Only a plugin is linked with it.
    let plugin = site.tree("plugin").join("lib/plugins/verbs.so");
    link(OPENS, &plugin, &["-shared"], &[site.verbs()]);
    // It has a link of that name, which leads to the host.
    let tree = site.tree("linked");
    link(OPENS, &tree.join("lib/libfabric.so.1"), &["-shared"], &[site.verbs()]);
    symlink(format!("/usr/lib64/{VERBS}"), tree.join("lib").join(VERBS)).unwrap();
    // It brings the library itself.
    let tree = site.tree("own");
    link(OPENS, &tree.join("lib/libfabric.so.1"), &["-shared"], &[site.verbs()]);
    fs::copy(site.verbs(), tree.join("lib/libverbs-bundled.so")).unwrap();
    // Another one has a similar name.
    let other = site.host.join("libcabaneverbs.so.2");
    compile(
        "int verbs_open(void) { return 0; }",
        &other,
        ["-shared", "-Wl,-soname,libcabaneverbs.so.2"],
    );
    let file = site.tree("similar").join("lib/libfabric.so.1");
    link(OPENS, &file, &["-shared"], &[other]);
    link("int main(void) { return 0; }", &site.tree("plain").join("bin/true"), &[], &[]);
    fs::write(site.tree("script").join("note"), VERBS).unwrap();
    // Files that are none, or were cut off.
    let tree = site.tree("hostile");
    let whole = fs::read(site.verbs()).unwrap();
    for (number, end) in (0..whole.len()).step_by(whole.len() / 40).enumerate() {
        fs::write(tree.join(format!("lib{number}.so")), &whole[..end]).unwrap();
    }
    for name in
        ["direct", "through", "plugin", "linked", "own", "similar", "plain", "script", "hostile"]
    {
        site.build(name);
    }
    // An image that no list of needs came with.
    let tree = Tree::new(site.cabane.world.path("trees/old")).meta("old", "/cabane-built");
    let image = site.cabane.world.path("old.squashfs");
    squashfs(tree.root(), &image);
    site.cabane.run(&["image", "add", "old/1.0", image.to_str().unwrap()]).success();
}

#[test]
fn exactly_those_of_ten_images_break_that_link_a_library_that_is_removed() {
    let site = Site::new(Who::OrdinaryUser);
    ten_images(&site);
    let change = ["--remove", VERBS];
    assert_eq!(site.with_verdict(&change, "breaks"), ["direct", "linked", "plugin", "through"]);
    assert_eq!(
        site.with_verdict(&change, "unaffected"),
        ["hostile", "own", "plain", "script", "similar"]
    );
    assert_eq!(site.with_verdict(&change, "unknown"), ["old"]);
    let text = site.cabane.run(&["impact", "--remove", VERBS, "direct"]).success().stdout;
    assert_eq!(
        text,
        format!(
            "breaks           direct/1.0:v1@here%x86_64\n                 {VERBS} is removed: \
             needed by bin/post\n\n1 image breaks\n"
        )
    );
    let needs = site.needs("direct");
    let library = needs["libraries"].as_array().unwrap().iter().find(|one| one["name"] == VERBS);
    assert_eq!(
        library,
        Some(&json!({"name": VERBS, "versions": ["VERBS_1.1"], "users": ["bin/post"], "count": 1}))
    );
    let needs = site.needs("plugin");
    let library = needs["libraries"].as_array().unwrap().iter().find(|one| one["name"] == VERBS);
    assert_eq!(library.unwrap()["later"], true);
}

#[test]
fn a_second_assessment_reads_what_was_kept() {
    let site = Site::new(Who::OrdinaryUser);
    link(POSTS, &site.tree("direct").join("bin/post"), &[], &[site.verbs()]);
    site.build("direct");
    let first = site.impact(&["--remove", VERBS]);
    let kept = site.cabane.world.path("home/.cache/cabane/needs");
    assert_eq!(fs::read_dir(kept).unwrap().count(), 1);
    assert_eq!(site.impact(&["--remove", VERBS]), first);
}

#[test]
fn a_host_without_the_library_is_noticed_before_a_start() {
    for who in everybody() {
        let site = Site::new(who);
        link(POSTS, &site.tree("direct").join("bin/post"), &[], &[site.verbs()]);
        fs::write(site.tree("direct").join("bin/hello"), "#!/bin/sh\necho hello\n").unwrap();
        site.build("direct");
        let start = ["run", "direct", "--", "true"];
        let seen = site.cabane.run(&start).success();
        let expected = format!(
            "warning: the image direct/1.0:v1@here%x86_64 needs {VERBS}, and this system does not \
             have that: programs that are linked with it will not start\nhint: `cabane doctor \
             direct/1.0:v1@here%x86_64` shows which files need it\n"
        );
        assert_eq!(seen.stderr, expected, "as {who:?}");
        assert_eq!(site.cabane.run(&["doctor", "direct", "--json"]).code, 10);
        let seen = site.cabane.run(&["doctor", "direct"]);
        let expected = format!(
            "breaks  direct/1.0:v1@here%x86_64\n  the host has no {VERBS}: needed by bin/post\n"
        );
        assert_eq!((seen.code, seen.stdout), (10, expected), "as {who:?}");
        // It starts, and fails one check.
        let seen = site.cabane.run(&["check", "direct", "--only", "libraries"]);
        assert_eq!(seen.code, 16, "as {who:?}: {}", seen.stderr);
        assert!(seen.stdout.contains("FAILED "), "{}", seen.stdout);
        let reason = format!("the host has no {VERBS}: needed by bin/post\n");
        assert!(seen.stdout.contains(&reason), "{}", seen.stdout);
    }
}

#[test]
fn a_host_with_the_library_is_fine_and_one_with_an_older_one_is_not() {
    let site = Site::new(Who::OrdinaryUser);
    link(POSTS, &site.tree("direct").join("bin/post"), &[], &[site.verbs()]);
    site.build("direct");
    let with = |arguments: &[&str]| {
        let mut command = site.cabane.command(arguments);
        site.cabane.finish(command.env("LD_LIBRARY_PATH", &site.host))
    };
    let seen = with(&["run", "direct", "--", "true"]).success();
    assert_eq!(seen.stderr, "");
    let seen = with(&["doctor", "direct"]);
    let expected = "ok  direct/1.0:v1@here%x86_64: this host has what it needs\n";
    assert_eq!((seen.code, seen.stdout.as_str()), (0, expected));
    // The same library, as it was before the second version.
    let map = site.cabane.world.file("old.map", "VERBS_1.0 { global: verbs_*; };\n");
    let map = format!("-Wl,--version-script,{}", map.display());
    let soname = format!("-Wl,-soname,{VERBS}");
    compile("int verbs_post(void) { return 0; }", &site.verbs(), ["-shared", &soname, &map]);
    let seen = with(&["run", "direct", "--", "true"]).success();
    assert!(seen.stderr.contains(&format!("needs {VERBS} with VERBS_1.1")), "{}", seen.stderr);
    let seen = with(&["doctor", "direct"]);
    let reason = format!("{VERBS} of the host lacks VERBS_1.1: needed by bin/post\n");
    assert!(seen.code == 10 && seen.stdout.ends_with(&reason), "{}", seen.stdout);
}

/// A file with facts of a release of Debian, cut down to some libraries.
fn facts(site: &Site, name: &str) -> String {
    let text = match name {
        "debian-11" => include_str!("facts/debian-11.json"),
        _ => include_str!("facts/debian-12.json"),
    };
    site.cabane.world.file(&format!("{name}.json"), text).to_string_lossy().into_owned()
}

/// Adds an image with needs that are known.
fn add(site: &Site, name: &str, cabane: &Value, needs: &Value) {
    let env = json!({"name": name, "mount": "/cabane-built", "views": {}, "cabane": cabane});
    let mut needs = needs.clone();
    needs["version"] = json!(1);
    let tree = Tree::new(site.cabane.world.path(&format!("trees/{name}")))
        .file("meta/env.json", &env.to_string())
        .file("meta/needs.json", &needs.to_string());
    let image = site.cabane.world.path(&format!("{name}.squashfs"));
    squashfs(tree.root(), &image);
    site.cabane.run(&["image", "add", &format!("{name}/1.0"), image.to_str().unwrap()]).success();
}

#[test]
fn the_step_from_one_debian_to_the_next_breaks_what_it_is_known_to_break() {
    let site = Site::new(Who::OrdinaryUser);
    let library = |name: &str, versions: &[&str]| {
        json!({"libraries": [{"name": name,
        "versions": versions, "users": ["bin/app"], "count": 1}]})
    };
    let none = json!({"version": 1});
    let glibc = |version: &str| json!({"version": 1, "needs": {"glibc": version}});
    let python = json!({"version": 1, "needs": {"interpreter":
        {"path": "/usr/bin/python3.9", "version": "3.9.2"}}});
    add(&site, "openssl", &none, &library("libssl.so.1.1", &["OPENSSL_1_1_0"]));
    add(&site, "python", &python, &json!({}));
    add(&site, "verbs", &none, &library("libibverbs.so.1", &["IBVERBS_1.1"]));
    add(&site, "newer-cxx", &none, &library("libstdc++.so.6", &["GLIBCXX_3.4.30"]));
    add(&site, "newer-c", &glibc("2.34"), &json!({}));
    add(&site, "dangling", &none, &library("libmpi.so.12345", &[]));
    let [old, new] = ["debian-11", "debian-12"].map(|name| facts(&site, name));
    let forward = ["--from", &old, "--host", &new];
    assert_eq!(site.with_verdict(&forward, "breaks"), ["openssl", "python"]);
    assert_eq!(
        site.with_verdict(&forward, "unaffected"),
        ["dangling", "newer-c", "newer-cxx", "verbs"]
    );
    let back = ["--from", &new, "--host", &old];
    assert_eq!(site.with_verdict(&back, "breaks"), ["newer-c", "newer-cxx"]);
    assert_eq!(site.with_verdict(&["--host", &new], "breaks"), ["dangling", "openssl", "python"]);
    let seen = site.impact(&["--host", &new, "openssl"]);
    assert_eq!(
        seen["images"][0]["reasons"],
        json!([{"verdict": "breaks", "chain":
            ["the host has no libssl.so.1.1", "needed by bin/app"]}])
    );
}

#[test]
fn a_package_with_a_hole_is_found_with_those_that_use_it() {
    let site = Site::new(Who::OrdinaryUser);
    let packages = |zlib: &str, external: bool| {
        json!({"version": 1, "packages": [
            {"name": "zlib", "version": zlib, "hash": "abc", "manager": "spack", "external": external},
            {"name": "hdf5", "version": "1.14", "manager": "spack", "dependencies": ["abc"]}]})
    };
    for (name, list) in [
        ("old", packages("1.2.13", false)),
        ("new", packages("1.3.1", false)),
        ("host", packages("1.2.13", true)),
    ] {
        let tree = Tree::new(site.cabane.world.path(&format!("trees/{name}")))
            .meta(name, "/cabane-built")
            .file("meta/packages.json", &list.to_string());
        let image = site.cabane.world.path(&format!("{name}.squashfs"));
        squashfs(tree.root(), &image);
        site.cabane.run(&["image", "add", &format!("{name}/1"), image.to_str().unwrap()]).success();
    }
    let tree = Tree::new(site.cabane.world.path("trees/silent")).meta("silent", "/cabane-built");
    let image = site.cabane.world.path("silent.squashfs");
    squashfs(tree.root(), &image);
    site.cabane.run(&["image", "add", "silent/1", image.to_str().unwrap()]).success();
    let seen = site.cabane.run(&["impact", "--package", "zlib@:1.3.0"]).success();
    assert_eq!(
        seen.stdout,
        "rebuild advised  old/1:v1@here%x86_64\n                 zlib@1.2.13 is in the image: \
         hdf5@1.14 use it\nunknown          silent/1:v1@here%x86_64\n                 it does \
         not say which packages it has\n\n1 rebuild advised, 1 unknown, 2 unaffected\n"
    );
}

#[test]
fn images_of_a_registry_are_judged_from_metadata_that_is_kept() {
    needs!("docker-registry");
    let shared = Shared::new(Who::OrdinaryUser);
    let world = &shared.cabane.world;
    for (name, library) in [("fast", "libibverbs.so.1"), ("slow", "libz.so.1")] {
        let needs = json!({"version": 1, "libraries": [{"name": library, "users": ["bin/app"], "count": 1}]});
        let tree = Tree::new(world.path(&format!("trees/{name}")))
            .meta(name, &shared.cabane.mount_point(name))
            .file("meta/needs.json", &needs.to_string());
        let image = world.path(&format!("{name}.squashfs"));
        squashfs(tree.root(), &image);
        let label = format!("{name}/1:v1@here%x86_64");
        shared.run(&["image", "add", &label, image.to_str().unwrap()]).success();
        shared.run(&["image", "push", &label]).success();
        shared.run(&["image", "rm", &label]).success();
    }
    let impact = || {
        let seen = shared.run(&["impact", "--remote", "--json", "--remove", "libibverbs.so.1"]);
        let seen: Value = serde_json::from_str(&seen.success().stdout).unwrap();
        let images = seen["images"].as_array().unwrap().clone();
        let verdict = |image: &Value| {
            let label = image["label"].as_str().unwrap();
            let name = label.split("::").last().unwrap().split('/').next().unwrap().to_owned();
            (name, image["verdict"].as_str().unwrap().to_owned())
        };
        images.iter().map(verdict).collect::<Vec<_>>()
    };
    let blobs = || shared.registry.log().matches("GET /v2/").count();
    let expected = [("fast", "breaks"), ("slow", "unaffected")];
    let expected = expected.map(|(name, verdict)| (name.to_owned(), verdict.to_owned()));
    assert_eq!(impact(), expected);
    let first = blobs();
    assert_eq!(impact(), expected);
    let again = blobs() - first;
    // The list is requested again, the metadata of two images are not.
    assert!(again < 6, "{again} requests");
}

#[test]
fn the_facts_of_this_host_say_that_its_own_programs_run_here() {
    let site = Site::new(Who::OrdinaryUser);
    let tree = site.tree("shell");
    fs::create_dir_all(tree.join("bin")).unwrap();
    fs::copy("/bin/sh", tree.join("bin/sh")).unwrap();
    site.build("shell");
    let facts = site.cabane.world.directory("out").join("facts.json");
    let path = facts.to_str().unwrap();
    site.cabane.run(&["system", "probe", "--facts", path]).success();
    let seen = site.cabane.run(&["impact", "--host", path, "--exit-code", "--all"]);
    let expected = "unaffected       shell/1.0:v1@here%x86_64\n\n1 unaffected\n";
    assert_eq!((seen.code, seen.stdout.as_str()), (0, expected), "{}", seen.stderr);
    let seen = site.cabane.run(&["impact", "--change", "glibc=2.0", "--exit-code"]);
    assert_eq!(seen.code, 9, "{}", seen.stdout);
}

#[test]
fn a_misspelt_name_does_not_leave_everything_unaffected_in_silence() {
    let site = Site::new(Who::OrdinaryUser);
    ten_images(&site);
    let said = |arguments: &[&str]| {
        let seen = site.cabane.run(&[&["impact"], arguments].concat());
        (seen.code, seen.stderr)
    };
    let (code, text) = said(&["--change", "gilbc=2.31"]);
    assert!(code == 0 && text.contains("warning: no image uses `gilbc`"), "{text}");
    assert!(text.contains("did you mean `glibc`?"), "{text}");
    let short = VERBS.trim_end_matches(".1");
    let (_, text) = said(&["--remove", short]);
    assert!(text.contains(&format!("did you mean `{VERBS}`?")), "{text}");
    assert_eq!(said(&["--remove", VERBS]).1, "");
    assert_eq!(said(&["--change", "glibc=2.31", "nothing"]).0, 4);
}

#[test]
fn images_on_a_base_that_is_replaced_are_to_be_built_again() {
    needs!("docker-registry");
    needs!("skopeo");
    let cabane = Cabane::new(Who::OrdinaryUser);
    let registry = RealRegistry::start(&cabane.world.path("registry"));
    let layout = import_containers::layout(&cabane, "first");
    let to = format!("{}/tool:1", registry.url().replace("http://", "docker://"));
    import_containers::skopeo(&["copy", "--dest-tls-verify=false", &layout.typed(), &to]);
    cabane.run(&["import", &format!("{}/tool:1", registry.url()), "on/1.0"]).success();
    let verdict = |more: &[&str]| {
        let seen = cabane.run(&[&["impact", "--json"], more].concat()).success();
        let seen: Value = serde_json::from_str(&seen.stdout).unwrap();
        let image = &seen["images"][0];
        let reasons: Vec<String> = image["reasons"]
            .as_array()
            .unwrap()
            .iter()
            .map(|reason| reason["chain"].to_string())
            .collect();
        (image["verdict"].as_str().unwrap().to_owned(), reasons.join(" "))
    };
    let (found, reason) = verdict(&["--base", "tool:1"]);
    assert!(
        found == "rebuild-advised" && reason.contains("the base tool:1 is replaced"),
        "{reason}"
    );
    let place = reason.find("sha256:").expect("the digest is named");
    let digest = &reason[place..place + 71];
    assert_eq!(verdict(&["--base", digest]).0, "rebuild-advised");
    assert_eq!(verdict(&["--base", &format!("tool:1@{digest}")]).0, "unaffected");
    let newer = format!("tool:1@sha256:{}", "0".repeat(64));
    assert_eq!(verdict(&["--base", &newer]).0, "rebuild-advised");
    // It has its own libraries.
    assert_eq!(verdict(&["--remove", "libz.so.1"]).0, "unaffected");
    let other = cabane.run(&["impact", "--base", "tool:2"]).success();
    assert!(other.stderr.contains("no image uses `tool:2`"), "{}", other.stderr);
}

#[test]
fn what_is_no_change_is_refused() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let refused = |arguments: &[&str]| {
        let seen = cabane.run(&[&["impact"], arguments].concat());
        (seen.code, seen.stderr)
    };
    let usage = |text: &str| (2, text.to_owned());
    assert_eq!(
        refused(&[]),
        usage(
            "error: no change is named\nhint: name a change, such as `--change glibc=2.31` or \
             `--remove libibverbs.so.1`\n"
        )
    );
    assert_eq!(
        refused(&["--remove", "libibverbs"]),
        usage(
            "error: `libibverbs` in `--remove` is not the name of a shared library\nhint: write \
             the name that programs need, such as `--remove libibverbs.so.1`\n"
        )
    );
    let facts = cabane.world.file("facts.json", r#"{"version": 9}"#);
    let (code, text) = refused(&["--host", facts.to_str().unwrap()]);
    assert!(code == 3 && text.contains("version 9 of facts is not known"), "{code} {text}");
}
