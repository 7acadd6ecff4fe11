// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What comes out of a build with Spack, and where it goes: metadata, bill of material,
//! build caches with keys, cleaning up, a directory. Spack is the stand-in of `spack.rs`.

use std::fs;
use std::path::Path;
use std::process::Command;

use cabane_testkit::{Finished, belongs_to, not_run};
use serde_json::json;

use crate::cabane::{Who, everybody};
use crate::spack::{STAND_IN, Stack};

#[test]
fn an_image_says_what_is_in_it_and_how_it_was_built() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.build(&["stack/1.0"]).success();
    let list = ["image", "inspect", "--packages", "stack"];
    let seen = stack.cabane.run(&list).success().stdout;
    let lines: Vec<Vec<&str>> =
        seen.lines().map(|line| line.split_whitespace().collect()).collect();
    let hello = &lines[1];
    assert_eq!(
        ([hello[0], hello[1], hello[2]], &hello[5..]),
        (["*", "hello", "1.0"], &["abc", "gcc@12.2.0", "x86_64_v3", "~loud", "greeting=short"][..]),
    );
    assert_eq!(lines[3][..3], ["slurm", "23", "/opt/slurm"]);
}

#[test]
fn an_image_says_what_it_needs_of_the_system() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.build(&["stack/1.0"]).success();
    let needs = &stack.meta("env.json")["cabane"]["needs"];
    assert_eq!(needs["processor"]["targets"], json!(["x86_64_v3"]));
    let outside = needs["outside"].as_array().unwrap();
    let expected =
        [json!({"path": "/opt/slurm", "package": "slurm@23"}), json!({"path": "/usr/bin/gcc"})];
    assert!(expected.iter().all(|one| outside.contains(one)), "{outside:?}");
}

#[test]
fn the_bill_of_material_names_source_licence_and_what_is_needed() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.build(&["stack/1.0"]).success();
    let bill = stack.meta("sbom.spdx.json");
    let packages = bill["packages"].as_array().unwrap();
    let hello = packages.iter().find(|one| one["name"] == "hello").unwrap();
    let reference = &hello["externalRefs"][0]["referenceLocator"];
    let reported = [&hello["licenseDeclared"], &hello["downloadLocation"], reference];
    let sha256 = "1f".repeat(32);
    let url = format!(
        "pkg:generic/hello@1.0?checksum=sha256:{sha256}&download_url=\
         https%3A%2F%2Fexample.org%2Fhello-1.0.tar.gz"
    );
    assert_eq!(reported, ["MIT", "https://example.org/hello-1.0.tar.gz", &url]);
    let relations = bill["relationships"].as_array().unwrap().iter();
    let relations: Vec<_> = relations
        .map(|one| {
            let part = |key: &str| one[key].as_str().unwrap().to_owned();
            let [from, kind, to] =
                ["spdxElementId", "relationshipType", "relatedSpdxElement"].map(part);
            format!("{from} {kind} {to}").replace("SPDXRef-", "")
        })
        .collect();
    let expected = [
        "DOCUMENT DESCRIBES Image",
        "Image CONTAINS Package-hello-1.0-abc",
        "Package-gcc-12.2.0-def BUILD_DEPENDENCY_OF Package-hello-1.0-abc",
        "Package-hello-1.0-abc DEPENDS_ON Package-slurm-23-ghi",
    ];
    assert_eq!(relations, expected);
}

#[test]
fn the_bill_of_material_is_what_other_programs_expect() {
    let Some(validator) = std::env::var_os("CABANE_TEST_SPDX") else {
        belongs_to!("make test-spack");
    };
    let stack = Stack::new(Who::OrdinaryUser);
    stack.build(&["stack/1.0"]).success();
    let bill = stack.cabane.world.path("build/meta/sbom.spdx.json");
    Finished::of(Command::new(validator).arg("--infile").arg(bill)).success();
}

#[test]
fn a_key_that_is_not_there_is_named() {
    let stack = Stack::new(Who::OrdinaryUser);
    let mirrors = "buildcache: {url: \"file:///srv/cache\", public_key: site.gpg}\n";
    stack.cabane.world.file("system/mirrors.yaml", mirrors);
    let refused = stack.build(&["stack/1.0"]);
    let expected = "error: the `public_key` of the mirror `buildcache` does not exist: \
                    [WORLD]/system/site.gpg\nhint: name a file, relative to mirrors.yaml";
    assert!(refused.stderr.starts_with(expected), "{refused:?}");
}

#[test]
fn the_key_that_signs_is_shown_to_the_command_that_signs_and_to_no_other() {
    if !Path::new("/usr/bin/gpg").exists() {
        not_run!("needs gpg");
    }
    let stack = Stack::new(Who::OrdinaryUser);
    let script = "export GNUPGHOME=$(mktemp -d $HOME/gpg.XXXX); cd $HOME\n\
                  gpg --batch --passphrase '' --quick-gen-key 'site <a@b>' ed25519 sign never\n\
                  gpg --armor --export >site.pub; gpg --armor --export-secret-keys | base64 -w0\n\
                  gpgconf --kill all; rm -rf $GNUPGHOME";
    let mut shell = stack.cabane.other("sh");
    let secret = Finished::of(shell.args(["-e", "-c", script])).success().stdout;
    let (cache, public) = (stack.path("home/cache"), stack.path("home/site.pub"));
    let mirrors = format!(
        "buildcache: {{url: 'file://{cache}', public_key: '{public}', private_key: '{secret}'}}\n"
    );
    stack.cabane.world.file("system/mirrors.yaml", &mirrors);
    stack.build(&["stack/1.0"]).success();
    let keys = |of: &str| {
        let path = stack.path(&format!("build/tmp/keys-of-{of}"));
        fs::read_to_string(path).unwrap()
    };
    let reported = (keys("install").contains("sec "), keys("push").contains("sec "));
    assert_eq!(reported, (false, true), "{}", keys("install"));
    assert!(!keys("install").contains("PRIVATE"));
    let mut search = stack.cabane.other("grep");
    search.args(["-rlaE", "PRIVATE KEY|private-key", &stack.path("build")]);
    assert_eq!(Finished::of(&mut search).stdout, "");
}

#[test]
fn what_only_builds_need_is_removed_where_the_recipe_says_so() {
    let stack = Stack::new(Who::OrdinaryUser);
    let config = fs::read_to_string(stack.cabane.world.path("recipe/config.yaml")).unwrap();
    let mut seen = Vec::new();
    for word in ["none", "build", "runtime"] {
        let text = format!("{config}cleanup: {word}\n");
        stack.cabane.world.file("recipe/config.yaml", &text);
        stack.build(&["stack/1.0"]).success();
        let path = stack.cabane.world.path("build/tmp/cleaned");
        let cleaned = fs::read_to_string(&path).unwrap_or_default();
        seen.push((stack.called().join(" "), cleaned));
    }
    let kept = "--except-environment /cabane/work/spack/env/stack\n";
    let expected = [
        ("concretize install env".to_owned(), String::new()),
        ("install gc env".to_owned(), format!("--yes-to-all --keep-build-dependencies {kept}")),
        ("install gc env".to_owned(), format!("--yes-to-all {kept}")),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_stack_is_installed_into_a_directory_and_knows_its_place() {
    for who in everybody() {
        let stack = Stack::new(who);
        let target = stack.path("home/apps/stack/1.0");
        // What stands in the place of Spack knows one place only.
        let script = STAND_IN.replace("$MOUNT", &target);
        stack.cabane.world.file("spack/bin/spack", &script);
        stack.commit("spack");
        stack.build(&["--install", &target]).success();
        let script = ". $1/env/default/activate.sh; hello; echo $STACK; echo $PATH";
        let mut shell = stack.cabane.other("sh");
        shell.args(["-c", script, "sh", &target]).env("PATH", "/my/bin:/usr/bin:/bin");
        let seen = Finished::of(&mut shell).success().stdout;
        let path = format!("{target}/env/default/bin:/my/bin:/usr/bin:/bin");
        let expected = format!("hello from a stack\n{target}\n{path}\n");
        assert_eq!(seen, expected, "as {who:?}");
        let upstreams = fs::read_to_string(format!("{target}/config/upstreams.yaml")).unwrap();
        assert!(upstreams.contains(&format!("install_tree: {target}")), "{upstreams}");
        assert!(!Path::new(&stack.path("build/image.squashfs")).exists());
    }
}

#[test]
fn what_is_put_into_a_build_cache_is_installed_although_it_is_removed_again() {
    let stack = Stack::new(Who::OrdinaryUser);
    let config = fs::read_to_string(stack.cabane.world.path("recipe/config.yaml")).unwrap();
    let config = config + "cleanup: runtime\n";
    stack.cabane.world.file("recipe/config.yaml", &config);
    let cache = stack.path("home/cache");
    let mirrors = format!("buildcache: {{url: 'file://{cache}', signed: false}}\n");
    stack.cabane.world.file("system/mirrors.yaml", &mirrors);
    stack.build(&["stack/1.0"]).success();
    let called = fs::read_to_string(stack.cabane.world.path("build/tmp/called")).unwrap();
    let called: Vec<_> = called.lines().skip(2).take(3).collect();
    let expected = [
        "spack install --include-build-deps --fail-fast",
        "spack buildcache push --with-build-dependencies buildcache",
        "spack gc --yes-to-all --except-environment /cabane/work/spack/env/stack",
    ];
    assert!(called[0].starts_with(expected[0]), "{called:?}");
    assert_eq!(called[1..], expected[1..]);
}
