// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Finding images by what is in them, with what was kept, and with those who signed them.

use std::fs;

use cabane_testkit::{Finished, Tree, needs, only_for_registries, squashfs};
use serde_json::{Value, json};

use crate::cabane::{APP, Cabane, Who, everybody};
use crate::registry::Shared;

/// A registry with three images: two stacks of Spack, and an environment of Python.
struct Stacks(Shared);

const SOLVER: &str = "solver/1.0:v1@here%x86_64";
const TOOLS: &str = "tools/2.0:v1@here%x86_64";
const NOTEBOOK: &str = "notebook/3.0:v1@here%x86_64";

impl Stacks {
    fn new(who: Who) -> Self {
        let stacks = Self(Shared::new(who));
        let hdf5 = |version: &str, variants: &str| {
            json!({"name": "hdf5", "version": version, "hash": format!("abc{}", version.replace('.', "")),
                "manager": "spack", "variants": variants, "compilers": ["gcc@13.2.0"], "target": "zen3"})
        };
        let zlib = json!({"name": "zlib", "version": "1.3", "manager": "spack"});
        let mpi =
            json!({"name": "cray-mpich", "version": "8.1", "manager": "spack", "external": true});
        stacks.push(SOLVER, &json!([hdf5("1.14.3", "+mpi~cxx api=v110"), zlib, mpi]));
        stacks.push(TOOLS, &json!([hdf5("1.12.2", "~mpi"), zlib]));
        let numpy = json!({"name": "NumPy", "version": "2.4.6", "manager": "python"});
        stacks.push(NOTEBOOK, &json!([numpy]));
        stacks
    }

    fn push(&self, label: &str, packages: &Value) {
        let file = packages_file(packages);
        push_image(&self.0, label, &[("meta/packages.json", &file)]);
    }

    fn found(&self, specs: &[&str]) -> Vec<String> {
        let mut arguments = Vec::new();
        for spec in specs {
            arguments.extend(["--package", spec]);
        }
        self.0.labels(&arguments)
    }

    fn find(&self, arguments: &[&str]) -> Finished {
        self.0.run(&[&["image", "find"], arguments].concat())
    }

    /// How many requests the registry has answered.
    fn requests(&self) -> usize {
        requests(&self.0)
    }
}

fn packages_file(packages: &Value) -> String {
    json!({"version": 1, "packages": packages}).to_string()
}

fn requests(shared: &Shared) -> usize {
    let log = shared.registry.log();
    log.lines().filter(|line| line.contains("HTTP/1.1\"")).count()
}

/// Makes an image, adds it to the repository and pushes it.
fn push_image(shared: &Shared, label: &str, files: &[(&str, &str)]) {
    let name = label.split('/').next().unwrap();
    let world = &shared.cabane.world;
    let mut tree = Tree::new(world.path(&format!("trees/{name}")))
        .meta(name, &shared.cabane.mount_point(name));
    for (path, content) in files {
        tree = tree.file(path, content);
    }
    let image = world.path(&format!("{name}.squashfs"));
    squashfs(tree.root(), &image);
    let image = image.to_str().unwrap();
    shared.run(&["image", "add", label, image]).success();
    shared.run(&["image", "push", label]).success();
}

#[test]
fn images_are_found_by_the_packages_in_them() {
    needs!("docker-registry");
    for who in everybody() {
        let stacks = Stacks::new(who);
        let cases: [(&[&str], &[&str]); 9] = [
            (&["hdf5"], &[SOLVER, TOOLS]),
            (&["hdf5@1.14: +mpi"], &[SOLVER]),
            (&["hdf5@:1.12"], &[TOOLS]),
            (&["hdf5%gcc@13 target=zen3", "zlib@1"], &[SOLVER, TOOLS]),
            (&["hdf5~mpi", "zlib"], &[TOOLS]),
            (&["hdf5/abc1143"], &[SOLVER]),
            (&["numpy@2:"], &[NOTEBOOK]),
            (&["cray-mpich", "hdf5 api=v110"], &[SOLVER]),
            (&["numpy", "hdf5"], &[]),
        ];
        for (specs, labels) in cases {
            assert_eq!(stacks.found(specs), labels, "{specs:?}");
            // The second time from what is kept.
            assert_eq!(stacks.found(specs), labels, "{specs:?}");
        }
    }
}

#[test]
fn packages_and_a_label_are_looked_for_together() {
    needs!("docker-registry");
    let stacks = Stacks::new(Who::OrdinaryUser);
    let labels = stacks.0.labels(&["tools", "--package", "zlib"]);
    assert_eq!(labels, [TOOLS]);
}

#[test]
fn what_was_found_in_an_image_is_shown() {
    needs!("docker-registry");
    let stacks = Stacks::new(Who::OrdinaryUser);
    let table = stacks.find(&["--package", "hdf5@1.14", "--package", "cray-mpich"]);
    let table = table.success().stdout;
    assert!(table.contains("packages\n"), "{table}");
    assert!(table.contains("cray-mpich@8.1 (of the system), hdf5@1.14.3\n"), "{table}");
    let output = stacks.find(&["--json", "--package", "hdf5@1.14"]).success();
    let found: Value = serde_json::from_str(&output.stdout).unwrap();
    let package = &found[0]["packages"][0];
    assert_eq!(package["version"], "1.14.3");
    assert_eq!(package["variants"], "+mpi~cxx api=v110");
    assert_eq!(found[0]["packages"].as_array().unwrap().len(), 1);
    let arguments = ["--package", "numpy", "--format", "{name} {packages}"];
    assert_eq!(stacks.find(&arguments).success().stdout, "notebook NumPy@2.4.6\n");
}

#[test]
fn what_images_contain_is_requested_once() {
    only_for_registries!("docker-registry", "distribution");
    needs!("docker-registry");
    let stacks = Stacks::new(Who::OrdinaryUser);
    fs::write(
        stacks.0.cabane.world.path("site.toml"),
        format!("[registry]\nurl = \"{}/uenv\"\nlisting = \"index\"\n", stacks.0.registry.url()),
    )
    .unwrap();
    let before = stacks.requests();
    assert_eq!(stacks.found(&["hdf5@1.14:"]), [SOLVER]);
    let first = stacks.requests() - before;
    // The state, the lines twice, and what each of the three images says.
    assert!(first <= 6, "{first} requests");
    let before = stacks.requests();
    assert_eq!(stacks.found(&["numpy"]), [NOTEBOOK]);
    assert_eq!(stacks.requests() - before, 1);
}

#[test]
fn the_packages_of_an_image_that_others_pushed_are_read_from_its_metadata() {
    only_for_registries!("docker-registry", "distribution");
    needs!("docker-registry");
    let stacks = Stacks::new(Who::OrdinaryUser);
    // What is known without the list: as if another tool had pushed it.
    let data = stacks.0.registry.data();
    let index = data.join("docker/registry/v2/repositories/uenv/deploy/cabane-index");
    fs::remove_dir_all(index).unwrap();
    assert_eq!(stacks.found(&["hdf5@1.14: +mpi"]), [SOLVER]);
    assert_eq!(stacks.found(&["numpy"]), [NOTEBOOK]);
}

#[test]
fn a_copy_is_found_by_its_packages_too() {
    needs!("docker-registry");
    let stacks = Stacks::new(Who::OrdinaryUser);
    stacks.0.run(&["image", "copy", "solver", "build::solver/1.0:new"]).success();
    let cache = stacks.0.cabane.world.path("home/.cache");
    let _ = fs::remove_dir_all(cache);
    let labels = stacks.0.labels(&["build::", "--package", "hdf5+mpi"]);
    assert_eq!(labels, ["solver/1.0:new@here%x86_64"]);
}

#[test]
fn an_image_that_does_not_say_what_is_in_it_is_named() {
    needs!("docker-registry");
    let stacks = Stacks::new(Who::OrdinaryUser);
    stacks.0.run(&["image", "push", APP]).success();
    for _ in 0..2 {
        let found = stacks.find(&["--package", "numpy"]).success();
        assert!(found.stdout.contains("notebook"), "{}", found.stdout);
        assert_eq!(found.stderr, format!("1 image does not say which packages they have: {APP}\n"));
    }
}

#[test]
fn an_image_whose_packages_cannot_be_had_is_named_with_the_reason() {
    only_for_registries!("docker-registry", "distribution");
    needs!("docker-registry");
    let stacks = Stacks::new(Who::OrdinaryUser);
    let data = stacks.0.registry.data();
    let repositories = data.join("docker/registry/v2/repositories/uenv/deploy");
    fs::remove_dir_all(repositories.join("cabane-index")).unwrap();
    // The metadata of one image are gone, but not from the list of what is attached.
    let manifests = repositories.join("here/x86_64/tools/2.0/_manifests");
    let mut tags = Vec::new();
    for entry in fs::read_dir(manifests.join("tags")).unwrap() {
        let link = entry.unwrap().path().join("current/link");
        tags.push(fs::read_to_string(link).unwrap());
    }
    for entry in fs::read_dir(manifests.join("revisions/sha256")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !tags.contains(&format!("sha256:{name}")) {
            fs::remove_dir_all(path).unwrap();
        }
    }
    let found = stacks.find(&["--package", "hdf5"]).success();
    assert!(found.stdout.contains("solver"), "{found:?}");
    let reported = format!("warning: it is not known which packages are in {TOOLS}: ");
    assert!(found.stderr.starts_with(&reported), "{found:?}");
}

#[test]
fn a_damaged_cache_is_nothing_but_slow() {
    needs!("docker-registry");
    let stacks = Stacks::new(Who::OrdinaryUser);
    assert_eq!(stacks.found(&["numpy"]), [NOTEBOOK]);
    let cache = stacks.0.cabane.world.path("home/.cache/cabane/packages");
    let file = fs::read_dir(cache).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&file).unwrap();
    for bytes in [&whole[..whole.len() / 2], b"", b"cabane-packages 9\n"] {
        fs::write(&file, bytes).unwrap();
        assert_eq!(stacks.found(&["numpy"]), [NOTEBOOK]);
    }
    assert_eq!(fs::read(&file).unwrap(), whole);
}

#[test]
fn a_mistake_in_a_package_is_pointed_at() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    for command in ["find", "ls"] {
        let arguments = ["image", command, "--package", "hdf5@1.14:1.12"];
        let refused = cabane.run(&arguments);
        assert_eq!(
            (refused.code, refused.stderr.as_str()),
            (
                3,
                "error: `hdf5@1.14:1.12` is not a package: the range ends before it begins\n  \
                 hdf5@1.14:1.12\n       ^\nhint: write `1.12:1.14`\n"
            ),
            "{command}"
        );
    }
}

#[test]
fn images_of_the_repository_are_found_in_the_same_way() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let packages =
            json!([{"name": "hdf5", "version": "1.14.3", "manager": "spack", "variants": "+mpi"}]);
        let point = cabane.mount_point("solver");
        let tree = Tree::new(cabane.world.path("tree"))
            .meta("solver", &point)
            .file("meta/packages.json", &packages_file(&packages));
        let image = cabane.world.path("solver.squashfs");
        squashfs(tree.root(), &image);
        cabane.run(&["image", "add", SOLVER, image.to_str().unwrap()]).success();
        for _ in 0..2 {
            let arguments =
                ["image", "ls", "--package", "hdf5@1.14:+mpi", "--format", "{label} {packages}"];
            let seen = cabane.run(&arguments).success();
            assert_eq!(seen.stdout, format!("{SOLVER} hdf5@1.14.3\n"), "as {who:?}");
            assert!(
                seen.stderr.contains(&format!("packages they have: {APP}\n")),
                "{}",
                seen.stderr
            );
        }
        let none = cabane.run(&["image", "ls", "--package", "hdf5~mpi", "--json"]);
        assert_eq!(none.success().stdout, "[]\n");
    }
}

/// Another user's view of the same registry: with a cache of their own.
fn other_cache(shared: &Shared, arguments: &[&str]) {
    let mut command = shared.cabane.command(arguments);
    command.env("XDG_CACHE_HOME", shared.cabane.world.path("work/other-cache"));
    shared.cabane.finish(&mut command).success();
}

#[test]
fn what_another_client_pushed_or_deleted_is_seen_at_once() {
    needs!("docker-registry");
    for listing in ["catalog", "index", "auto"] {
        let shared = Shared::pushed(Who::OrdinaryUser);
        let url = shared.registry.url();
        shared.configure(&format!("url = \"{url}/uenv\"\nlisting = \"{listing}\""));
        assert_eq!(shared.labels(&[]), [APP], "{listing}");
        let new = "app/1.0:new@here%x86_64";
        other_cache(&shared, &["image", "copy", "app", "app/1.0:new"]);
        assert_eq!(shared.labels(&[]), [new, APP], "{listing}");
        other_cache(&shared, &["image", "delete", "app/1.0:v1"]);
        assert_eq!(shared.labels(&[]), [new], "{listing}");
        let point = shared.cabane.mount_point("other");
        let other = shared.cabane.image("other", &point);
        other_cache(&shared, &["image", "push", "--force", &other, new]);
        let digest = shared.run(&["image", "find", "--format", "{digest}"]).success().stdout;
        let pushed = ["image", "inspect", "--remote", "--format", "{digest}", new];
        assert_eq!(digest, shared.run(&pushed).success().stdout, "{listing}");
    }
}

#[test]
fn a_second_find_only_revalidates() {
    needs!("docker-registry");
    for (listing, most) in [("index", 1), ("catalog", 4)] {
        let shared = Shared::pushed(Who::OrdinaryUser);
        let url = shared.registry.url();
        shared.configure(&format!("url = \"{url}/uenv\"\nlisting = \"{listing}\""));
        let first = shared.run(&["image", "find"]).success();
        let before = shared.registry.log().lines().count();
        let second = shared.run(&["image", "find"]).success();
        assert_eq!(second, first, "{listing}");
        let log = shared.registry.log();
        let new: Vec<&str> =
            log.lines().skip(before).filter(|line| line.contains("HTTP/1.1\"")).collect();
        assert!(new.len() <= most, "{listing}: {new:#?}");
        let manifests = new.iter().filter(|line| line.contains("/manifests/"));
        for line in manifests {
            assert!(line.contains("HTTP/1.1\" 304 0 "), "{listing}: {line}");
        }
    }
}

#[test]
fn a_list_that_is_damaged_is_got_again() {
    needs!("docker-registry");
    let shared = Shared::pushed(Who::OrdinaryUser);
    assert_eq!(shared.labels(&[]), [APP]);
    let lists = shared.cabane.world.path("home/.cache/cabane/registry");
    let mut count = 0;
    for entry in fs::read_dir(lists).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("app", "bad")).unwrap();
        count += 1;
    }
    assert_eq!(count, 1);
    assert_eq!(shared.labels(&[]), [APP]);
}

/// Adds a rule to the site's configuration.
fn site_wants(shared: &Shared, key: &str) {
    let url = shared.registry.url();
    let text = format!(
        "[registry]\nurl = \"{url}/uenv\"\n[[trust]]\nnamespace = \"*\"\n\
         require = \"signature\"\nkeys = [\"{key}.pub\"]\n"
    );
    shared.cabane.world.file("site.toml", &text);
}

#[test]
fn who_has_signed_an_image_is_shown() {
    needs!("docker-registry");
    for who in everybody() {
        let shared = Shared::pushed(who);
        let key = |name: &str| {
            let path = shared.cabane.world.path(&format!("work/{name}.key"));
            let path = path.to_str().unwrap().to_owned();
            shared.run(&["image", "key", "new", &path]).success();
            path
        };
        let (site, other) = (key("site"), key("other"));
        let reported = || {
            let find = ["image", "find", "--signatures", "--format", "{signed}"];
            let inspected = shared.run(&["image", "inspect", "--remote", "app"]);
            let inspected = inspected.success().stdout;
            let line = inspected.lines().find_map(|line| line.trim().strip_prefix("signed"));
            let inspected = line.unwrap().trim().to_owned();
            (shared.run(&find).success().stdout.trim().to_owned(), inspected)
        };
        let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
        assert_eq!(reported(), pair("no", "no"));
        shared.run(&["image", "sign", "app", "--key", &other]).success();
        assert_eq!(reported(), pair("with an unknown key", "with an unknown key"));
        site_wants(&shared, &site);
        assert_eq!(
            reported(),
            pair(
                "with an unknown key",
                "with an unknown key; a signature is wanted, and it is not pulled"
            )
        );
        shared.run(&["image", "sign", "app", "--key", &site]).success();
        let (found, inspected) = reported();
        assert!(found.starts_with("site.key.pub ("), "{found}");
        assert_eq!(found, inspected);
        let output = shared.run(&["image", "find", "--signatures", "--json"]).success().stdout;
        let json: Value = serde_json::from_str(&output).unwrap();
        let signature = &json[0]["signature"];
        assert_eq!(signature["state"], "known");
        assert_eq!(signature["accepted"], true);
        let key = signature["signers"][0]["key"].as_str().unwrap();
        assert!(key.ends_with("/work/site.key.pub"), "{key}");
        let table = shared.run(&["image", "find", "--signatures"]).success().stdout;
        assert!(table.contains("  signed\n"), "{table}");
    }
}
