// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane search` and `cabane info`: images of the repositories and of the registry.

use cabane_testkit::{Tree, needs, squashfs};
use serde_json::{Value, json};

use crate::cabane::{Cabane, Who};
use crate::registry::Shared;

const SOLVER: &str = "solver/1.0:v1@here%x86_64";
const OLDER: &str = "solver/0.9:v1@here%x86_64";
const TOOLS: &str = "tools/2.0:v1@here%x86_64";
const AWAY: &str = "tools/3.0:v1@there%gh200";

/// Adds an image with packages, written as `hdf5@1.14.3`, to the repository.
fn add(cabane: &Cabane, label: &str, description: &str, packages: &[&str]) {
    let (name, version) = label.split(':').next().unwrap().split_once('/').unwrap();
    let list: Vec<Value> = packages
        .iter()
        .map(|package| {
            let (name, version) = package.split_once('@').unwrap();
            let (version, variants) = version.split_once('+').unwrap_or((version, "mpi"));
            json!({"name": name, "version": version, "manager": "spack", "variants": format!("+{variants}"),
                "compilers": ["gcc@13.2.0"]})
        })
        .collect();
    let env = json!({"name": name, "mount": cabane.mount_point(name), "description": description, "views": {}});
    let tree = Tree::new(cabane.world.path(&format!("trees/{name}-{version}")))
        .file("meta/env.json", &env.to_string())
        .file("meta/packages.json", &json!({"version": 1, "packages": list}).to_string());
    let image = cabane.world.path(&format!("{name}-{version}.squashfs"));
    squashfs(tree.root(), &image);
    cabane.run(&["image", "add", label, image.to_str().unwrap()]).success();
}

/// A repository and a registry, each with images that the other has not.
fn shared() -> Shared {
    let shared = Shared::new(Who::OrdinaryUser);
    let cabane = &shared.cabane;
    add(cabane, SOLVER, "Solves equations", &["hdf5@1.14.3", "zlib@1.3.1"]);
    add(cabane, OLDER, "Solves equations", &["hdf5@1.12.2", "zlib@1.3.1"]);
    add(cabane, TOOLS, "Plots what the solver has written", &["py-hdf5plugin@4.1", "zlib-ng@2.1"]);
    add(cabane, AWAY, "Plots", &["hdf5@1.14.5+cuda"]);
    for label in [SOLVER, OLDER, TOOLS, AWAY] {
        shared.run(&["image", "push", label]).success();
    }
    for label in [OLDER, AWAY] {
        shared.run(&["image", "rm", label]).success();
    }
    shared
}

fn labels(shared: &Shared, arguments: &[&str]) -> Vec<String> {
    let output = shared.run(&[&["search", "--json"], arguments].concat()).success();
    let found: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
    found.iter().map(|one| one["label"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn images_are_found_by_words_the_best_first() {
    needs!("docker-registry");
    let shared = shared();
    let cases: [(&[&str], &[&str]); 12] = [
        // A name, then a description.
        (&["solver"], &[SOLVER, OLDER, TOOLS]),
        (&["SOLV"], &[SOLVER, OLDER, TOOLS]),
        // A package, then a part of the name of one.
        (&["hdf5"], &[SOLVER, OLDER, TOOLS]),
        (&["hdf5", "equations"], &[SOLVER, OLDER]),
        (&["hdf5", "1.12"], &[OLDER]),
        (&["solver", "0.9"], &[OLDER]),
        // The version of an image, or of any package if no other word is there.
        (&["1.3"], &[SOLVER, OLDER]),
        (&["hdf5", "2.1"], &[]),
        (&["hdf5@1.14:+mpi"], &[SOLVER]),
        (&["plugin"], &[TOOLS]),
        (&["--local", "solver"], &[SOLVER, TOOLS]),
        (&["--system=*", "hdf5@1.14:"], &[SOLVER, AWAY]),
    ];
    for (words, expected) in cases {
        let found = labels(&shared, words);
        assert_eq!(found, expected, "{words:?}");
    }
}

#[test]
fn what_was_found_and_where_it_is_are_shown() {
    needs!("docker-registry");
    let shared = shared();
    let seen = shared.run(&["search", "hdf5", "equations"]).success();
    let expected = "\
uenv           system  uarch   where              has
solver/1.0:v1  here    x86_64  default, registry  hdf5@1.14.3
solver/0.9:v1  here    x86_64  registry           hdf5@1.12.2
";
    assert_eq!(seen.stdout, expected);
    assert_eq!(seen.stderr, "hint: `cabane start solver/1.0:v1` starts the first one\n");
    let seen = shared.run(&["search", "solver/", "0.9"]);
    assert_eq!((seen.stdout.as_str(), seen.code), ("", 0), "{seen:?}");
    let hint = "no image matches\nhint: `--system '*'` searches the images of all systems\n";
    assert_eq!(seen.stderr, hint);
    let seen = shared.run(&["search", "1.12", "hdf5"]).success();
    assert_eq!(seen.stderr, "hint: `cabane image pull solver/0.9:v1` downloads the first one\n");
    let seen = shared.run(&["search", " "]);
    assert_eq!((seen.code, seen.stderr.as_str()), (2, "error: a word to search for is empty\n"));
}

#[test]
fn a_package_is_shown_with_the_images_of_all_systems() {
    needs!("docker-registry");
    let shared = shared();
    let seen = shared.run(&["info", "hdf5"]).success();
    let expected = "\
package      compiler    uenv           system  uarch   where
hdf5@1.14.5  gcc@13.2.0  tools/3.0:v1   there   gh200   registry
hdf5@1.14.3  gcc@13.2.0  solver/1.0:v1  here    x86_64  default, registry
hdf5@1.12.2  gcc@13.2.0  solver/0.9:v1  here    x86_64  registry
";
    assert_eq!(seen.stdout, expected);
    // The first one that is for this system.
    assert_eq!(seen.stderr, "hint: `cabane start solver/1.0:v1` starts the first one\n");
    let seen = shared.run(&["info", "hdf5@1.14: +cuda", "--json"]).success();
    let found: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(found[0]["package"]["variants"], "+cuda");
    assert_eq!(found[0]["images"][0]["label"], AWAY);
    let seen = shared.run(&["info", "hdf5@1.14.9"]);
    let hint = "hint: `cabane search WORD` also looks for parts of names\n";
    let expected = format!("error: no image has the package `hdf5@1.14.9`\n{hint}");
    assert_eq!((seen.code, seen.stderr), (4, expected));
    let seen = shared.run(&["info", "hdf6"]);
    let expected = "error: no image has the package `hdf6`\nhint: did you mean `hdf5`?\n";
    assert_eq!(seen.stderr, expected);
    let seen = shared.run(&["info", "solver"]);
    let hint = "hint: `cabane image inspect solver` shows the image `solver`\n";
    assert_eq!(seen.stderr, format!("error: no image has the package `solver`\n{hint}"));
}

#[test]
fn without_a_registry_the_repositories_are_searched() {
    needs!("docker-registry");
    let mut shared = shared();
    // One that does not answer is left out with a warning, unless it was named.
    shared.registry.stop();
    let seen = shared.run(&["search", "solver", "--refresh"]).success();
    assert!(seen.stdout.contains("solver/1.0:v1  here    x86_64  default "), "{seen:?}");
    assert!(seen.stderr.starts_with("warning: the registry is left out: "), "{seen:?}");
    let url = format!("{}/uenv", shared.registry.url());
    let named = shared.run(&["search", "solver", "--refresh", "--registry", &url]);
    assert!(named.code != 0 && named.stdout.is_empty(), "{named:?}");
}
