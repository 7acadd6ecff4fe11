// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane diff`.

use std::os::unix::fs::symlink;

use cabane_testkit::{Tree, squashfs};
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody, finished};

const SITE: &str = "lib/python3.11/site-packages";

/// Two versions of an image: another release of one wheel, a wheel more, another value.
fn two_versions(cabane: &Cabane) -> [String; 2] {
    let mount_point = cabane.mount_point("app");
    let make = |version: &str, more: &[&str]| {
        let mut tree = Tree::new(cabane.world.path(&format!("trees/{version}")))
            .meta("app", &mount_point)
            .file(&format!("{SITE}/tiny-{version}.dist-info/RECORD"), "")
            .file(&format!("{SITE}/same-1.0.dist-info/RECORD"), "")
            .program("bin/app", &format!("echo {version}"))
            .program("bin/same", "true");
        for name in more {
            tree = tree.file(&format!("{SITE}/{name}/RECORD"), "12345");
        }
        tree
    };
    let old = make("1.0", &[]);
    let new = make("2.0", &["extra-0.5.dist-info"]);
    let meta = format!(
        r#"{{"name":"app","description":"an image of the tests","mount":"{mount_point}",
        "default-view":"default","views":{{"default":{{"description":"the default view",
        "root":"{mount_point}","env":{{"version":1,"values":{{"list":{{"PATH":[
        {{"op":"prepend","value":["{mount_point}/bin","{mount_point}/sbin"]}}]}},
        "scalar":{{"CABANE_TEST":"new"}}}}}}}},"develop":{{}}}}}}"#
    );
    let new = new.file("meta/env.json", &meta);
    symlink("app", old.root().join("bin/link")).unwrap();
    symlink("same", new.root().join("bin/link")).unwrap();
    let images = [(old, "old"), (new, "new")];
    images.map(|(tree, name)| {
        let image = cabane.world.path(&format!("{name}.squashfs"));
        squashfs(tree.root(), &image);
        image.to_string_lossy().into_owned()
    })
}

const HEAD: &str = "--- [WORLD]/old.squashfs\n+++ [WORLD]/new.squashfs\n";
const VIEWS: &str = "views
  ~ default
      ~ CABANE_TEST app -> new
      + PATH: prepend [WORLD]/mnt/app/sbin
  + develop
";

#[test]
fn packages_and_views_of_two_images_are_compared() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let [old, new] = two_versions(&cabane);
        let expected = format!("{HEAD}packages\n  + extra 0.5\n  ~ tiny 1.0 -> 2.0\n{VIEWS}");
        let seen = cabane.run(&["diff", &old, &new]);
        assert_eq!(seen, finished(0, &expected, ""), "as {who:?}");
    }
}

#[test]
fn files_are_compared_by_their_content_on_request() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let [old, new] = two_versions(&cabane);
        cabane.run(&["diff", &old, &new, "--files", "--json"]).success();
        let seen = cabane.run(&["diff", &old, &new, "--files"]).success();
        let (_, files) = seen.stdout.split_once("files\n").unwrap();
        let lines: Vec<&str> = files.lines().filter(|line| !line.contains("env.json")).collect();
        let expected = [
            "  ~ bin/app (19 B, executable, other content)".to_owned(),
            "  ~ bin/link (link to app -> link to same)".to_owned(),
            format!("  + {SITE}/extra-0.5.dist-info/ (1 file, 5 B)"),
            format!("  - {SITE}/tiny-1.0.dist-info/ (1 file, 0 B)"),
            format!("  + {SITE}/tiny-2.0.dist-info/ (1 file, 0 B)"),
        ];
        assert_eq!(lines, expected, "as {who:?}");
    }
}

#[test]
fn one_view_of_each_image_is_compared() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let [_, new] = two_versions(&cabane);
        let seen = cabane.run(&["diff", &new, &new, "--view=develop,default"]);
        let expected = "--- [WORLD]/new.squashfs\n+++ [WORLD]/new.squashfs\nviews\n  \
            ~ develop -> default\n      \
            + description the default view\n      + root [WORLD]/mnt/app\n      \
            + CABANE_TEST: set new\n      \
            + PATH: prepend [WORLD]/mnt/app/bin\n      \
            + PATH: prepend [WORLD]/mnt/app/sbin\n";
        assert_eq!(seen, finished(0, expected, ""), "as {who:?}");
    }
}

#[test]
fn a_view_that_neither_image_has_is_an_error() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let [old, new] = two_versions(&cabane);
    let seen = cabane.run(&["diff", &old, &new, "--view=devel"]);
    let expected = "error: neither image has a view `devel`\n\
        hint: there are `default`, `develop`\n";
    assert_eq!(seen, finished(4, "", expected));
}

#[test]
fn an_image_does_not_differ_from_itself() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let [old, _] = two_versions(&cabane);
        let seen = cabane.run(&["diff", &old, &old, "--files", "--exit-code"]);
        assert_eq!(seen, finished(0, "", "no difference\n"), "as {who:?}");
    }
}

#[test]
fn a_difference_has_an_exit_code_on_request() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let [old, new] = two_versions(&cabane);
    let codes = [&[][..], &["--exit-code"][..]]
        .map(|more| cabane.run(&[&["diff", &old, &new], more].concat()).code);
    assert_eq!(codes, [0, 9]);
}

#[test]
fn images_of_a_repository_are_compared_by_their_labels_and_lock_files() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let mount_point = cabane.mount_point("app");
        for version in ["1.0", "1.1"] {
            let lock = format!("tiny=={version} \\\n    --hash=sha256:00\n");
            let tree = Tree::new(cabane.world.path(&format!("trees/{version}")))
                .meta("app", &mount_point)
                .file("meta/lock/requirements.txt", &lock);
            let image = cabane.world.path(&format!("{version}.squashfs"));
            squashfs(tree.root(), &image);
            let label = format!("app/{version}:v1@here%x86_64");
            let image = image.to_string_lossy().into_owned();
            cabane.run(&["image", "add", &label, &image]).success();
        }
        let seen = cabane.run(&["diff", "app/1.0", "app/1.1", "--json"]);
        let shown: Value = serde_json::from_str(&seen.success().stdout).unwrap();
        let found = [&shown["to"], &shown["packages"][0]["to"][0]];
        assert_eq!(found, ["app/1.1:v1@here%x86_64", "1.1"], "as {who:?}");
    }
}

#[test]
fn two_environments_are_compared_by_images_views_and_variables() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let app = cabane.image("app", &cabane.mount_point("app"));
        let tools = cabane.image("tools", &cabane.mount_point("tools"));
        let seen = cabane.run(&["diff", &app, &format!("{app},{tools}")]);
        let expected = "--- [WORLD]/app.squashfs\n\
            +++ [WORLD]/app.squashfs,[WORLD]/tools.squashfs\n\
            images\n  + tools [WORLD]/tools.squashfs at [WORLD]/mnt/tools\n\
            ~ views app:default -> app:default, tools:default\n\
            variables\n  + CABANE_TEST: set tools\n  + PATH: prepend [WORLD]/mnt/tools/bin\n";
        assert_eq!(seen, finished(0, expected, ""), "as {who:?}");
    }
}

#[test]
fn environment_files_are_compared_by_what_they_name() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let write = |name: &str, more: &str| {
            let text = format!("images = [\"app\"]\n{more}");
            let path = cabane.world.file(&format!("work/{name}.toml"), &text);
            path.to_string_lossy().into_owned()
        };
        let one = write("one", "");
        let other = write(
            "other",
            "mounts = [\"/usr:/data:ro\"]\nworkdir = \"/data\"\n[env]\nOMP_NUM_THREADS = \"4\"\n",
        );
        let seen = cabane.run(&["diff", &one, &other]);
        let expected = "--- [WORLD]/work/one.toml\n+++ [WORLD]/work/other.toml\n\
            mounts\n  + /data /usr (read-only)\n+ working directory /data\n\
            variables\n  + OMP_NUM_THREADS: set 4\n";
        assert_eq!(seen, finished(0, expected, ""), "as {who:?}");
        cabane.run(&["diff", &one, &other, "--json"]).success();
    }
}

#[test]
fn names_in_an_image_do_not_reach_the_terminal_as_commands() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let [old, _] = two_versions(&cabane);
    let tree = Tree::new(cabane.world.path("trees/evil"))
        .meta("app", &cabane.mount_point("app"))
        .file("bin/e\u{1b}[2Jvil", "");
    let evil = cabane.world.path("evil.squashfs");
    squashfs(tree.root(), &evil);
    let seen = cabane.run(&["diff", &old, &evil.to_string_lossy(), "--files"]);
    let text = seen.success().stdout;
    assert!(text.contains("vil") && !text.contains('\u{1b}'), "{text}");
}
