// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane lock` and `cabane update` with recipes for Spack, and builds that follow a lock file.

use std::fs;
use std::os::unix::fs::symlink;

use cabane_testkit::Finished;
use serde_json::Value;

use crate::cabane::{Who, everybody, finished};
use crate::spack::Stack;
use crate::spack_real::{small_recipe, with_spack};

const LOCK: &str = "recipe/locks/system/lock.json";

impl Stack {
    fn packages(&self, more: &[&str]) -> Finished {
        let (recipe, system) = (self.path("recipe"), self.path("system"));
        let options = ["--recipe", &recipe, "--system", &system];
        let mut command = self.cabane.command(&[more, &options].concat());
        command.env("CABANE_SPACK_PYTHON", "/usr/bin/python3");
        self.cabane.finish(&mut command)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.cabane.world.path(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.cabane.world.path(name), text).unwrap();
    }

    fn edit(&self, name: &str, from: &str, to: &str) {
        let text = self.read(name);
        assert!(text.contains(from), "{text}");
        self.write(name, &text.replace(from, to));
    }

    /// The commit of Spack in the lock file.
    fn locked_commit(&self) -> String {
        let head: Value = serde_json::from_str(&self.read(LOCK)).unwrap();
        head["sources"]["spack"]["commit"].as_str().unwrap().to_owned()
    }

    /// Makes another commit of Spack, which decides for another version.
    fn new_spack(&self, version: &str) {
        self.cabane.world.file("spack/version", version);
        self.commit("spack");
    }
}

/// A stack whose lock file is written; the recipe belongs to the user.
fn locked(who: Who) -> Stack {
    let stack = unlocked(who);
    stack.packages(&["lock"]).success();
    stack
}

fn unlocked(who: Who) -> Stack {
    let stack = Stack::new(who);
    let recipe = stack.path("recipe");
    let mut own = std::process::Command::new("chmod");
    Finished::of(own.args(["-R", "a+rwX", &recipe])).success();
    stack
}

#[test]
fn a_build_takes_the_packages_of_the_lock_file_and_gives_the_same_image() {
    for who in everybody() {
        let stack = unlocked(who);
        stack.build(&["stack/1.0"]).success();
        let digest = stack.digest();
        let seen = stack.packages(&["lock"]);
        assert!(
            seen.code == 0
                && seen
                    .stderr
                    .ends_with("wrote [WORLD]/recipe/locks/system/lock.json (1 package)\n"),
            "as {who:?}: {seen:?}"
        );
        stack.remove_build();
        stack.build(&["--until", "concretize"]).success();
        // Asked for again, and still not decided on again.
        stack.build(&["--from", "concretize", "stack/1.0"]).success();
        assert_eq!(stack.called(), ["install", "env"], "as {who:?}");
        assert_eq!(stack.digest(), digest, "as {who:?}");
    }
}

#[test]
fn a_lock_file_is_as_spack_wrote_it_and_is_not_written_twice() {
    let stack = locked(Who::OrdinaryUser);
    let text = stack.read("recipe/locks/system/stack/spack.lock");
    assert!(text.starts_with("{\"_meta\": {\"lockfile-version\": 7}"), "{text}");
    let before = stack.read(LOCK);
    let seen = stack.packages(&["lock"]).success().stderr;
    let expected = "[WORLD]/recipe/locks/system/lock.json is up to date (1 package)\n";
    assert!(seen.ends_with(expected), "{seen}");
    assert_eq!(stack.read(LOCK), before);
    let seen = stack.packages(&["lock", "--check"]);
    let expected = "[WORLD]/recipe/locks/system/lock.json matches the recipe (1 package)\n";
    assert_eq!(seen, finished(0, "", expected));
}

#[test]
fn a_branch_stays_at_its_commit_until_it_is_updated() {
    let stack = locked(Who::OrdinaryUser);
    let first = stack.locked_commit();
    stack.new_spack("1.1");
    stack.build(&["stack/1.0"]).success();
    let built = stack.meta("env.json").to_string();
    assert!(built.contains(&first), "{built}");

    let before = stack.read(LOCK);
    let seen = stack.packages(&["update", "--dry-run"]);
    let table = "package  from  to\nhello    1.0   1.1\n";
    assert_eq!((seen.code, seen.stdout.as_str()), (0, table), "{seen:?}");
    let end = "1 change: [WORLD]/recipe/locks/system/lock.json would be written (1 package)\n";
    assert!(seen.stderr.ends_with(end), "{seen:?}");
    assert_eq!(stack.read(LOCK), before);

    stack.packages(&["update"]).success();
    assert_ne!(stack.locked_commit(), first);
    stack.packages(&["lock", "--check"]).success();
    let lock = stack.read("recipe/locks/system/stack/spack.lock");
    assert!(lock.contains("\"version\": \"1.1\""), "{lock}");
    let seen = stack.packages(&["update"]).success();
    assert!(seen.stderr.contains("has the newest versions already (1 package)"), "{seen:?}");
    let built = stack.build(&["stack/1.1"]).success();
    assert!(built.stderr.contains("concretize"), "{built:?}");
    assert!(!stack.meta("env.json").to_string().contains(&first));
}

#[test]
fn an_edited_recipe_is_locked_again_at_the_same_commits() {
    let stack = locked(Who::OrdinaryUser);
    let first = stack.locked_commit();
    stack.new_spack("1.1");
    stack.edit("recipe/environments.yaml", "[hello]", "[hello, world]");
    let built = stack.build(&["stack/1.0"]);
    let expected = "error: locks/system/lock.json no longer matches the recipe: it was made without \
                    `world` in `tools`\nhint: `cabane lock --system [WORLD]/system --recipe \
                    [WORLD]/recipe` writes it again\n";
    assert_eq!((built.code, built.stderr.as_str()), (7, expected));
    let seen = stack.packages(&["lock", "--check"]);
    let expected = "error: the recipe has no matching lock file: it was made without `world` in \
                    `tools`\nhint: `cabane lock --system [WORLD]/system --recipe [WORLD]/recipe` \
                    writes it\n";
    assert_eq!(seen, finished(9, "", expected));
    stack.packages(&["lock"]).success();
    assert_eq!(stack.locked_commit(), first);
    stack.build(&["stack/1.0"]).success();
}

#[test]
fn what_decides_about_packages_and_has_changed_is_named() {
    let stack = locked(Who::OrdinaryUser);
    let lock = stack.read(LOCK);
    for (file, from, to, why) in [
        (
            "recipe/environments.yaml",
            "[hello]",
            "[other]",
            "it was made without `other` in `tools`",
        ),
        (
            "recipe/environments.yaml",
            "tools:",
            "more:",
            "it was made without the environment `more`",
        ),
        (
            "recipe/environments.yaml",
            "  compiler: [gcc]\n",
            "  compiler: [gcc]\n  unify: false\n",
            "environments.yaml changed",
        ),
        (
            "recipe/config.yaml",
            "  packages:\n",
            "  commit: v1\n  packages:\n",
            "it was made for `spack` at its default branch, and the recipe names v1",
        ),
        (
            "recipe/config.yaml",
            "clones/packages",
            "clones/others",
            "the recipe takes `builtin` from another repository",
        ),
        ("system/packages.yaml", "12.2.0", "12.3.0", "packages.yaml of the system changed"),
        (
            "recipe/locks/system/stack/spack.lock",
            "1.0",
            "1.2",
            "[WORLD]/recipe/locks/system/stack/spack.lock is missing, or was edited",
        ),
        (LOCK, "x86_64", "aarch64", "it is for aarch64, and this is x86_64"),
        (LOCK, "\"format\": 1", "\"format\": 9", "another version of cabane wrote it, in format 9"),
    ] {
        let before = stack.read(file);
        fs::set_permissions(
            stack.cabane.world.path(file),
            std::os::unix::fs::PermissionsExt::from_mode(0o666),
        )
        .unwrap();
        stack.edit(file, from, to);
        let built = stack.build(&["--dry-run"]);
        let expected = format!("no longer matches the recipe: {why}\n");
        assert!(built.code == 7 && built.stderr.contains(&expected), "{file}: {built:?}");
        stack.write(file, &before);
    }
    stack.write(LOCK, &lock[..lock.len() / 2]);
    let built = stack.build(&["--dry-run"]);
    assert!(
        built.stderr.contains("no longer matches the recipe: it cannot be read: "),
        "{built:?}"
    );
    stack.packages(&["lock"]).success();
    assert_eq!(stack.read(LOCK), lock);
}

#[test]
fn what_decides_nothing_can_change() {
    let stack = locked(Who::OrdinaryUser);
    stack.edit("recipe/environments.yaml", "default:", "another:");
    stack.edit("recipe/config.yaml", "name: stack", "name: renamed");
    stack.edit("recipe/compilers.yaml", "gcc:", "# a comment\ngcc:");
    stack.cabane.world.file("system/mirrors.yaml", "# none\n{}\n");
    stack.packages(&["lock", "--check"]).success();
}

#[test]
fn each_system_has_a_lock_file_and_a_copy_of_it_counts_as_the_same() {
    let stack = locked(Who::OrdinaryUser);
    let text = stack.read("system/packages.yaml");
    stack.cabane.world.file("copy/packages.yaml", &text);
    stack.cabane.world.file("other/packages.yaml", &text.replace("12.2.0", "12.3.0"));
    let messages = |system: &str| {
        let (recipe, system) = (stack.path("recipe"), stack.path(system));
        let place = stack.path("build");
        let typed = ["--until", "concretize", "--build-dir", &place, "--system", &system, &recipe];
        let mut command = stack.cabane.command(&[&["build"], &typed[..]].concat());
        command.env("CABANE_SPACK_PYTHON", "/usr/bin/python3");
        let built = stack.cabane.finish(&mut command).success();
        stack.remove_build();
        built.stderr
    };
    let (copy, other) = (messages("copy"), messages("other"));
    let warning = "the recipe has lock files for `system`, and none for this system: `cabane lock \
                   --system [WORLD]/other --recipe [WORLD]/recipe`";
    assert!(!copy.contains("none for this system"), "{copy}");
    assert!(other.contains(warning), "{other}");
}

#[test]
fn what_cannot_be_updated_or_locked_is_refused() {
    let stack = unlocked(Who::OrdinaryUser);
    let seen = stack.packages(&["update"]);
    let expected = "there is no locks/system/lock.json to update";
    assert!(seen.code == 4 && seen.stderr.contains(expected), "{seen:?}");
    let seen = stack.packages(&["update", "hello"]);
    assert!(seen.code == 2 && seen.stderr.contains("cannot update `hello` alone"), "{seen:?}");
    // Before Spack 1.2, a compiler must be there before its packages are decided on.
    stack.cabane.world.file("spack/lib/spack/spack/__init__.py", "__version__ = \"1.1.0\"\n");
    stack.commit("spack");
    stack.write("recipe/compilers.yaml", "gcc:\n  version: '13'\n");
    let seen = stack.packages(&["lock"]);
    let expected = "Spack 1.1 decides about packages only after their compiler is built";
    assert!(seen.code != 0 && seen.stderr.contains(expected), "{seen:?}");
    assert!(!stack.cabane.world.path("recipe/locks").exists());
}

#[test]
fn another_distribution_is_a_warning_and_a_changed_package_of_the_recipe_is_an_error() {
    let stack = unlocked(Who::OrdinaryUser);
    let package = "recipe/repo/packages/mine/package.py";
    let text = "from spack.package import *\n\nclass Mine(Package):\n    version('1')\n";
    stack.cabane.world.file(package, text);
    stack.packages(&["lock"]).success();
    let lock = stack.read(LOCK);
    let mut head: Value = serde_json::from_str(&lock).unwrap();
    head["distribution"] = "debian 1".into();
    stack.write(LOCK, &head.to_string());
    let built = stack.build(&["--until", "concretize"]).success();
    let warning = "the lock file was made on debian 1, and this is ";
    assert!(built.stderr.contains(warning), "{built:?}");
    stack.cabane.world.file(package, &text.replace("'1'", "'2'"));
    let built = stack.build(&["--until", "concretize"]);
    let expected =
        "no longer matches the recipe: a package of the recipe or of the system changed\n";
    assert!(built.code == 7 && built.stderr.contains(expected), "{built:?}");
}

#[test]
fn a_lock_file_stays_in_its_recipe() {
    let stack = locked(Who::OrdinaryUser);
    let outside = stack.cabane.world.directory("home/outside");
    let (place, answer) = ("recipe/locks/system", "recipe/locks/system/stack/spack.lock");
    let (place, answer) = (stack.cabane.world.path(place), stack.cabane.world.path(answer));
    fs::rename(&answer, outside.join("spack.lock")).unwrap();
    symlink(outside.join("spack.lock"), &answer).unwrap();
    let built = stack.build(&["--dry-run"]);
    let expected = "recipe/locks/system/stack/spack.lock is missing, or was edited\n";
    assert!(built.code == 7 && built.stderr.contains(expected), "{built:?}");
    fs::remove_dir_all(&place).unwrap();
    symlink(&outside, &place).unwrap();
    let seen = stack.packages(&["lock"]);
    let expected = "error: [WORLD]/recipe/locks/system is a link that leads out of the recipe\n";
    assert!(seen.code != 0 && seen.stderr.contains(expected), "{seen:?}");
    assert!(!outside.join("lock.json").exists());
}

#[test]
fn with_real_spack_a_lock_file_gives_the_same_image() {
    let real = with_spack!();
    let recipe = small_recipe(&real, "cleanup: runtime\n");
    real.build_with(&recipe, "first", "small/1.0", &[]);
    let system = real.cabane.world.path("system");
    let typed =
        ["lock", "--recipe", recipe.to_str().unwrap(), "--system", system.to_str().unwrap()];
    real.cabane.finish(&mut real.command(&typed)).success();
    real.build_with(&recipe, "second", "small/1.1", &["--from", "concretize"]);
    let text = |name: &str| fs::read_to_string(real.cabane.world.path(name)).unwrap();
    let lock = text("recipe/locks/system/stack/spack.lock");
    assert_eq!(lock, text("second/work/spack/env/stack/spack.lock"));
    assert_eq!(real.digest("small/1.0"), real.digest("small/1.1"));
}
