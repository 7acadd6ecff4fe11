// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What fingers type: options after the verb, words of other tools, and the Tab key.

use std::path::Path;

use cabane_testkit::{Finished, Tree, needs, not_run, squashfs};
use serde_json::json;

use crate::cabane::{APP, Cabane, Who};
use crate::registry::Shared;

fn with_app() -> Cabane {
    Cabane::with_app(Who::OrdinaryUser)
}

#[test]
fn global_options_are_taken_after_the_verb_as_before_it() {
    let cabane = with_app();
    let before = cabane.run(&["--system", "*", "image", "ls", "--json"]).success();
    for arguments in [
        &["image", "ls", "--json", "--system", "*"][..],
        &["image", "--system", "*", "ls", "--json"][..],
        &["image", "ls", "--color=never", "--json", "-v"][..],
    ] {
        assert_eq!(cabane.run(arguments).success().stdout, before.stdout, "{arguments:?}");
    }
    assert_eq!(cabane.run(&["image", "ls", "--no-header", "--system=there"]).success().stdout, "");
    let seen = cabane.run(&["run", "-v", "app", "--", "hello"]).success();
    assert!(seen.stderr.contains("mounting in a user namespace"), "{seen:?}");
    let seen = cabane.run(&["image", "ls", "--system", "a/b"]);
    assert_eq!(seen.code, 2, "{seen:?}");
}

#[test]
fn an_alias_is_the_command_with_its_global_options() {
    let cabane = with_app();
    let [alias, command] =
        ["catalog", "catalogue"].map(|name| cabane.run(&[name, "build", "--help"]));
    assert_eq!((alias.code, alias.stdout), (0, command.stdout));
}

#[test]
fn a_command_follows_its_images_with_and_without_dashes() {
    let cabane = with_app();
    cabane.world.file("app.toml", "images = [\"app\"]\n");
    let environment = cabane.world.path("app.toml");
    let environment = environment.to_str().unwrap();
    let lines = [
        &["run", "app", "echo", "-n", "--view", "x"][..],
        &["run", "app", "--", "echo", "-n", "--view", "x"][..],
        &["run", "--no-default-view", "app", "echo", "-n", "--view", "x"][..],
        &["run", "app", "--no-default-view", "echo", "-n", "--view", "x"][..],
        &["run", "-e", environment, "--", "echo", "-n", "--view", "x"][..],
    ];
    for line in lines {
        assert_eq!(cabane.run(line).success().stdout, "--view x", "{line:?}");
    }
    let seen = cabane.run(&["run", "app", "echo", "a", "--", "b"]).success();
    assert_eq!(seen.stdout, "a -- b\n");
    let seen = cabane.run(&["run", "--", "echo"]);
    let first = seen.stderr.lines().next();
    assert_eq!((seen.code, first), (2, Some("error: no image is named")));
}

#[test]
fn words_of_other_tools_lead_to_the_command_that_is_meant() {
    let cabane = with_app();
    let lines = [
        (&["ls"][..], "image ls"),
        (&["pull", "prgenv-gnu/26.1"], "image pull prgenv-gnu/26.1"),
        (
            &["pull", "docker://ghcr.io/lab/tool:2.1"],
            "import docker://ghcr.io/lab/tool:2.1 tool/2.1",
        ),
        (&["pull", "a.sif", "oras://ghcr.io/lab/tool"], "import oras://ghcr.io/lab/tool tool/1.0"),
        (&["rm", "app", "--yes"], "image rm app --yes"),
        (&["find", "a b"], "image find 'a b'"),
        (&["--system=x", "mount", "app", "--", "id"], "--system=x run app -- id"),
    ];
    for (typed, meant) in lines {
        let seen = cabane.run(typed);
        let word = typed.iter().find(|word| !word.starts_with('-')).unwrap();
        let text = format!("error: there is no command `{word}`\n");
        let hint = format!("hint: type `cabane {meant}`\n");
        assert_eq!((seen.code, seen.stderr), (2, text + &hint), "{typed:?}");
    }
    // The first word alone is a command.
    let seen = cabane.run(&["image", "pull", "ls", "--no-such-option"]);
    assert!(!seen.stderr.contains("there is no command"), "{seen:?}");
}

#[test]
fn lines_of_apptainer_lead_to_the_command_that_is_meant() {
    let cabane = with_app();
    let definition = cabane.world.file("work/tool.def", "Bootstrap: docker\n");
    let definition = definition.to_str().unwrap();
    let image = "docker://ghcr.io/lab/tool:2.1";
    let import = format!("type `cabane import {image} tool/2.1`");
    let saved = "`docker save tool:1 -o image.tar`".to_owned();
    let lines = [
        (&["image", "pull", image][..], &import),
        (&["build", "tool.sif", image], &import),
        (&["run", "docker-daemon:tool:1"], &saved),
        (&["import", "docker-daemon:tool:1", "tool/1"], &saved),
        (
            &["build", "tool.sif", definition],
            &"`apptainer build [WORLD]/work/tool.sif [WORLD]/work/tool.def`, then `cabane import \
              [WORLD]/work/tool.sif tool/1.0`"
                .to_owned(),
        ),
    ];
    for (typed, hint) in lines {
        let seen = cabane.run(typed);
        let hints =
            seen.stderr.lines().filter(|line| line.starts_with("hint: ")).collect::<Vec<_>>();
        assert!(
            seen.code != 0 && hints.len() == 1 && hints[0].contains(hint),
            "{typed:?}: {seen:?}"
        );
    }
}

#[test]
fn help_is_also_a_word() {
    let cabane = with_app();
    let pairs = [
        (&["help"][..], &["--help"][..]),
        (&["help", "image", "ls"][..], &["image", "ls", "--help"][..]),
        (&["image", "help", "ls"][..], &["image", "ls", "--help"][..]),
    ];
    for (typed, meant) in pairs {
        assert_eq!(cabane.run(typed).success().stdout, cabane.run(meant).success().stdout);
    }
    let seen = cabane.run(&["help", "nothing"]);
    let first = seen.stderr.lines().next();
    assert_eq!((seen.code, first), (2, Some("error: there is no help for these words")));
}

/// Runs a script of a shell, with the program as `cabane`.
fn in_shell(cabane: &Cabane, shell: &str, script: &str) -> Finished {
    let path = format!("{}:/usr/bin:/bin", Path::new(cabane.program()).parent().unwrap().display());
    cabane.finish(cabane.other(shell).args(["-c", script]).env("PATH", path)).success()
}

/// Returns what bash offers for a line.
fn offered(cabane: &Cabane, line: &str) -> Vec<String> {
    let script = format!(
        "source <(cabane completion bash); COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}
         _cabane_complete 2>/dev/null; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    in_shell(cabane, "bash", &script).stdout.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_images_views_and_environments() {
    let cabane = with_app();
    let image = cabane.image("tool", &cabane.mount_point("tool"));
    for label in ["tool/1.0:v1@here%x86_64", "tool/2.0:v1@here%x86_64"] {
        cabane.run(&["image", "add", label, &image]).success();
    }
    cabane.world.file("home/.config/cabane/environments/climate.toml", "images = [\"app\"]\n");
    let cases = [
        ("cabane run a", &["app/1.0:v1"][..]),
        ("cabane run to", &["tool/"]),
        ("cabane run tool/", &["tool/1.0:v1", "tool/2.0:v1"]),
        // Bash replaces what follows the last colon.
        ("cabane run tool/1.0:", &["v1"]),
        ("cabane start app,tool/1", &["app,tool/1.0:v1"]),
        ("cabane image inspect ap", &["app/1.0:v1"]),
        ("cabane run app/1.0:v1@", &["here%x86_64"]),
        ("cabane run app --view ", &["default"]),
        ("cabane run app --view=d", &["default"]),
        ("cabane run app,tool/1.0 --view=t", &["tool:default"]),
        ("cabane run -e cl", &["climate"]),
        ("cabane image rm --syst", &["--system"]),
        ("cabane image in", &["inspect"]),
    ];
    for (line, expected) in cases {
        assert_eq!(offered(&cabane, line), expected, "{line}");
    }
    // A name of a file that a shell would read as more than a word is not put into the line.
    for name in ["x$(touch pwned).squashfs", "xa b.squashfs", "xplain.squashfs"] {
        cabane.world.file(&format!("work/{name}"), "");
    }
    assert_eq!(offered(&cabane, "cabane run ./x"), ["./xplain.squashfs"]);
    cabane.world.directory("work/z/zz;touch pwned;");
    assert_eq!(offered(&cabane, "cabane build z/z"), [""]);
    // Without a registry there is nothing to offer.
    assert_eq!(offered(&cabane, "cabane image pull ap"), [""]);
    let full = offered(&cabane, "cabane run app/1.0:v1@here%x86_64,a");
    assert_eq!(full, ["here%x86_64,app/1.0:v1"]);
    assert_eq!(APP, "app/1.0:v1@here%x86_64");
}

#[test]
fn bash_completes_packages_and_their_versions() {
    let cabane = with_app();
    let package =
        |name: &str, version: &str| json!({"name": name, "version": version, "manager": "spack"});
    let packages = [package("hdf5", "1.14.3"), package("hdf5", "1.12"), package("zlib", "1.3")];
    let tree = Tree::new(cabane.world.path("stack"))
        .meta("stack", &cabane.mount_point("stack"))
        .file("meta/packages.json", &json!({"version": 1, "packages": packages}).to_string());
    let image = cabane.world.path("stack.squashfs");
    squashfs(tree.root(), &image);
    cabane.run(&["image", "add", "stack/1:v1@here%x86_64", image.to_str().unwrap()]).success();
    // First no search has read the image, then one has.
    for _ in 0..2 {
        assert_eq!(offered(&cabane, "cabane image ls --package h"), ["hdf5"]);
        assert_eq!(offered(&cabane, "cabane impact --package=hdf5@1.1"), ["1.12", "1.14.3"]);
        let found = cabane.run(&["image", "ls", "--package", "zlib", "--no-header"]).success();
        assert!(found.stdout.starts_with("stack/1:v1"), "{found:?}");
    }
}

#[test]
fn the_repository_that_is_typed_is_searched() {
    let cabane = with_app();
    let other = cabane.world.directory("own").join("other").display().to_string();
    cabane.run(&["repo", "create", &other]).success();
    let image = cabane.image("tool", &cabane.mount_point("tool"));
    cabane.run(&["--repo", &other, "image", "add", "tool/2.0:v1@here%x86_64", &image]).success();
    for option in [format!("--repo={other}"), format!("--repo {other}")] {
        assert_eq!(offered(&cabane, &format!("cabane {option} run t")), ["tool/2.0:v1"]);
        assert_eq!(offered(&cabane, &format!("cabane run {option} t")), ["tool/2.0:v1"]);
    }
    assert_eq!(offered(&cabane, "cabane run t"), [""]);
}

#[test]
fn images_of_a_registry_are_those_that_it_listed_last() {
    needs!("docker-registry");
    let shared = Shared::pushed(Who::OrdinaryUser);
    let cabane = &shared.cabane;
    cabane.run(&["image", "copy", APP, "app/2.0:v1@here%x86_64"]).success();
    cabane.run(&["image", "push", APP, "test::tool/1.0:v1@here%x86_64"]).success();
    shared.forget();
    assert_eq!(offered(cabane, "cabane image pull a"), [""], "no list was read yet");
    cabane.run(&["image", "find"]).success();
    cabane.run(&["image", "find", "test::"]).success();
    // It is not asked again, and need not be there.
    let Shared { cabane, registry } = shared;
    drop(registry);
    let cases = [
        ("cabane image pull a", &["app/"][..]),
        ("cabane image pull app/", &["app/1.0:v1", "app/2.0:v1"]),
        ("cabane image find app/2", &["app/2.0:v1"]),
        ("cabane image copy app/1.0:v1@", &["here%x86_64"]),
        ("cabane image pull test::t", &["tool/1.0:v1"]),
        ("cabane image inspect ap", &[""]),
    ];
    for (line, expected) in cases {
        assert_eq!(offered(&cabane, line), expected, "{line}");
    }
}

#[test]
fn fish_completes_images_with_what_they_are_for() {
    if !Path::new("/usr/bin/fish").exists() {
        not_run!("fish is not installed");
    }
    let cabane = with_app();
    let script = "cabane completion fish | source; complete -C 'cabane run a'";
    let seen = in_shell(&cabane, "/usr/bin/fish", script);
    assert!(seen.stdout.starts_with("app/1.0:v1"), "{seen:?}");
}

#[test]
fn what_cannot_be_completed_is_left_to_the_shell() {
    let cabane = with_app();
    cabane.world.file("home/.config/cabane/config.toml", "this is no setting\n");
    assert_eq!(offered(&cabane, "cabane run a"), [""]);
    // Without a shell that asks, these are words as others.
    let seen = cabane.run(&["--", "cabane", "run"]);
    assert_eq!(seen.code, 2, "{seen:?}");
}
