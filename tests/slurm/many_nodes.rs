// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! One stack that several nodes build, with real Spack: `cabane build --on slurm --nodes N`.
//!
//! The variables are those of `tests/cli/spack_real.rs`.

use std::env;
use std::process::Stdio;

use cabane_testkit::{belongs_to, say};

use crate::arena::{Account, Cluster, in_cluster};

/// What Spack needs, by the names of the variables.
const NEEDED: [&str; 4] = [
    "CABANE_TEST_SPACK",
    "CABANE_TEST_SPACK_PACKAGES",
    "CABANE_TEST_SPACK_MIRROR",
    "CABANE_TEST_SPACK_PYTHON",
];

/// A system, and a recipe with some small packages. Git reads a clone of another user only if its
/// configuration allows it.
const SCENE: &str = r#"rm -rf /shared/many ~/.cache/cabane; mkdir -p /shared/many/recipe; cd /shared/many; set -e
cat >variables <<END
export CABANE_SPACK_PYTHON=$CABANE_TEST_SPACK_PYTHON GIT_CONFIG_GLOBAL=/shared/many/gitconfig
END
export GIT_CONFIG_GLOBAL=/shared/many/gitconfig
git config --global safe.directory '*'
git config --global url.$CABANE_TEST_SPACK.insteadOf https://github.com/spack/spack.git
git config --global url.$CABANE_TEST_SPACK_PACKAGES.insteadOf https://github.com/spack/spack-packages.git
cabane repo create repo
cabane system probe --output system
printf 'sourcemirror:\n  here:\n    url: file://%s\n' "$CABANE_TEST_SPACK_MIRROR" >system/mirrors.yaml
cp $EXAMPLE/config.yaml $EXAMPLE/compilers.yaml recipe/
printf 'tools:\n  compiler: [gcc]\n  specs: [%s]\n  views: {tools: {}}\n' "$SPECS" >recipe/environments.yaml
"#;

/// A package that cannot be built.
const BROKEN: &str = r#"mkdir -p /shared/many/recipe/repo/packages/broken; cd /shared/many/recipe
printf 'namespace: recipe\n' >repo/repo.yaml
cat >repo/packages/broken/package.py <<END
from spack.package import *
from spack_repo.builtin.build_systems.generic import Package

class Broken(Package):
    has_code = False
    version("1.0")

    def install(self, spec, prefix):
        Executable("/bin/sh")("-c", "echo this cannot work; exit 3")
END"#;

const BUILD: &str = "cd /shared/many; . ./variables; cabane --repo /shared/many/repo build --on slurm --system ./system";
/// Forgets everything but the concretization.
const FORGET: &str = "rm -rf ~/.cache/cabane/builds ~/.cache/cabane/spack/packages";

/// Makes a scene; nothing if there is no Spack.
fn scene(alice: Account<'_>, specs: &str) -> Option<()> {
    let mut script = String::new();
    for name in NEEDED {
        let value = env::var(name).ok()?;
        script.push_str(&format!("{name}='{value}'\n"));
    }
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tools");
    script.push_str(&format!("EXAMPLE='{example}' SPECS='{specs}'\n{SCENE}"));
    alice.sh(&script).success();
    Some(())
}

fn remove(cluster: &Cluster, alice: Account<'_>) {
    alice.sh("rm -rf /shared/many ~/.cache/cabane").success();
    // What a killed worker had in memory.
    cluster.on_node("n2", "alice").sh("rm -rf /dev/shm/cabane-build-*").success();
}

fn digest(alice: Account<'_>, label: &str) -> String {
    let script = format!("cabane --repo /shared/many/repo image ls '--format={{digest}}' {label}");
    alice.sh(&script).success().stdout
}

#[test]
fn a_stack_is_built_by_two_nodes_although_one_dies_and_is_the_same_image() {
    in_cluster!(|cluster: &Cluster| {
        let alice = cluster.user("alice").patient();
        if scene(alice, "lz4@1.10.0, bzip2@1.0.8, tree@2.1.0").is_none() {
            belongs_to!("make test-spack");
        }
        let mut command = alice.command(&format!("{BUILD} --nodes 2 --jobs 1 recipe many/2"));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The worker on the second node is in the middle of a package.
        let log = "~/.cache/cabane/workers/*/1/build/logs/install.log";
        let begins = "'^\\[ \\] .* \\(lz4\\|bzip2\\|tree\\)@.* \\(edit\\|build\\|install\\)'";
        alice.sh(&format!("until grep -qs {begins} {log}; do sleep 0.1; done")).success();
        let there = cluster.on_node("n2", "alice");
        there.sh("pkill -9 -x cabane").success();
        let built = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&built.stderr);
        say(&errors);
        assert!(built.status.success(), "{errors}");
        let (_, lost) = errors.split_once("lost the worker on n2 with ").expect(&errors);
        let (lost, _) = lost.split_once(": ").unwrap();
        let again =
            |line: &str| line.contains(&format!("✓ {lost}  built")) && line.contains(" on n1 ");
        assert!(errors.lines().any(again), "{lost}: {errors}");
        // One node builds everything again.
        alice.sh(FORGET).success();
        let one = alice.sh(&format!("{BUILD} --jobs 2 recipe many/1")).success();
        say(&one.stderr);
        assert!(
            one.stderr.contains("  built ") && !one.stderr.contains(" on n1 "),
            "{}",
            one.stderr
        );
        assert_eq!(digest(alice, "many/2"), digest(alice, "many/1"));
        remove(cluster, alice);
    });
}

#[test]
fn a_package_that_fails_on_a_node_fails_the_build_with_its_log() {
    in_cluster!(|cluster: &Cluster| {
        let alice = cluster.user("alice").patient();
        if scene(alice, "bzip2@1.0.8, broken").is_none() {
            belongs_to!("make test-spack");
        }
        alice.sh(BROKEN).success();
        let failed = alice.sh(&format!("{BUILD} --nodes 2 recipe many/3"));
        assert_eq!(failed.code, 7, "{}", failed.stderr);
        let says = ["✗ broken@1.0 on n", "broken@1.0 was not built", "this cannot work"];
        assert!(says.iter().all(|text| failed.stderr.contains(text)), "{}", failed.stderr);
        remove(cluster, alice);
    });
}
