// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A recipe to begin with builds as it is.

use std::fs;

use crate::cabane::{Cabane, Who, finished};
use crate::shells::on_terminal;

#[test]
fn a_directory_becomes_an_image_that_runs() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let seen = cabane.run(&["init", "tree", "My_Solver"]);
    let expected = "wrote My_Solver/install/bin/hello\n\
                    wrote My_Solver/config.yaml\n\
                    hint: `cabane build My_Solver my_solver/1.0`\n";
    assert_eq!(seen, finished(0, "", expected));
    let _ = cabane.run(&["build", "My_Solver", "my_solver/1.0"]).success();
    let seen = cabane.run(&["run", "my_solver", "--", "hello"]);
    assert_eq!(seen.stdout, "hello from my_solver\n", "{seen:?}");
}

#[test]
fn each_kind_is_a_recipe_without_mistakes() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    for kind in ["python", "spack", "easybuild", "container", "tree"] {
        let _ = cabane.run(&["init", kind, kind, "--name=analysis"]).success();
        let seen = cabane.run(&["recipe", "check", kind]).success();
        let expected = format!("{kind}: analysis, engine {kind}\n");
        assert!(seen.stderr.starts_with(&expected), "{seen:?}");
    }
}

#[test]
fn an_easyconfig_that_easybuild_may_contain_is_named_with_its_place() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.run(&["init", "easybuild", "tools"]).success();
    fs::remove_file(cabane.world.path("work/tools/hello-1.0.eb")).unwrap();
    let seen = cabane.run(&["recipe", "check", "tools"]).success();
    assert!(seen.stderr.starts_with("warning: tools/config.yaml:"), "{seen:?}");
    assert!(seen.stderr.contains(": `hello-1.0.eb` is not in the recipe. "), "{seen:?}");
}

#[test]
fn the_hint_after_a_recipe_is_quoted_for_the_shell() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let seen = cabane.run(&["init", "python", "bad name"]).success();
    assert!(seen.stderr.ends_with("hint: `cabane build 'bad name' bad-name/1.0`\n"), "{seen:?}");
    let seen = cabane.run(&["init", "python", "bad name"]);
    let hint = "hint: `cabane recipe check 'bad name'` checks it\n";
    assert!(seen.stderr.ends_with(hint), "{seen:?}");
}

#[test]
fn nothing_is_overwritten() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let _ = cabane.world.directory("work/project");
    cabane.world.file("work/project/requirements.txt", "colorama\n");
    let seen = cabane.run(&["init", "python", "project"]);
    let expected = "wrote project/config.yaml\nhint: `cabane build project project/1.0`\n";
    assert_eq!(seen, finished(0, "", expected));
    let text = fs::read_to_string(cabane.world.path("work/project/requirements.txt")).unwrap();
    assert_eq!(text, "colorama\n");
    let seen = cabane.run(&["init", "tree", "project"]);
    let expected = "error: project already contains a recipe\n\
                    hint: `cabane recipe check project` checks it\n";
    assert!(seen.code != 0 && seen.stderr == expected, "{seen:?}");
    assert!(!cabane.world.path("work/project/install").exists());
}

#[test]
fn without_a_kind_it_asks_on_a_terminal_only() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let seen = cabane.run(&["init"]);
    let expected = "error: no kind of recipe is named\n\
                    hint: type `cabane init python`, `spack`, `easybuild`, `container`, or `tree`\n";
    assert_eq!(seen, finished(2, "", expected));
    let shown = on_terminal(&cabane, "/bin/sh", "init", "what\ntree\n");
    assert!(
        shown.contains("type `python`, `spack`, `easybuild`, `container`, or `tree`"),
        "{shown}"
    );
    assert!(cabane.world.path("work/install/bin/hello").exists(), "{shown}");
}
