// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Recipes for the engine `container`: root images, with files of the recipe on top.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use cabane_testkit::{RealRegistry, Tree, needs, squashfs};
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody};
use crate::export::{BASE, STACK, add_base, add_stack, exported, typed};
use crate::import_containers::{Layout, TOOL, content, image_file, layer, layout, root};

const BUILT: &str = "built/1.0:v1@here%x86_64";

/// Writes a recipe that takes an image, with more lines below `container:` and after it.
fn recipe(cabane: &Cabane, from: &str, section: &str, rest: &str) -> String {
    let text =
        format!("name: tool\nengine: container\ncontainer:\n  from: {from}\n{section}{rest}");
    cabane.world.file("recipe/config.yaml", &text);
    cabane.world.path("recipe").display().to_string()
}

fn digest_of(cabane: &Cabane, label: &str) -> String {
    let arguments = ["image", "inspect", "--format={digest}", label];
    cabane.run(&arguments).success().stdout.trim().to_owned()
}

#[test]
fn a_recipe_gives_the_same_bytes_as_an_import() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let layout = layout(&cabane, "first");
        let recipe = recipe(&cabane, &layout.typed(), "", "");
        cabane.run(&["import", &layout.typed(), TOOL]).success();
        let seen = cabane.run(&["build", &recipe, BUILT]).success();
        assert!(seen.stderr.contains("1 file lost its set-user-id"), "{}", seen.stderr);
        assert_eq!(digest_of(&cabane, BUILT), digest_of(&cabane, TOOL), "{who:?}");
        let again = cabane.run(&["build", &recipe, BUILT]).success();
        assert!(again.stderr.contains("nothing has changed"), "{again:?}");
    }
}

#[test]
fn a_recipe_that_had_another_engine_is_built_and_signed() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let key = cabane.world.path("home/build.key").display().to_string();
    cabane.run(&["image", "key", "new", &key]).success();
    let _tree = Tree::new(cabane.world.path("recipe/install")).program("bin/tool", "true");
    let tree = "name: tool\nengine: tree\nstore: /user-environment\ntree: {source: ./install}\n";
    cabane.world.file("recipe/config.yaml", tree);
    let directory = cabane.world.path("recipe").display().to_string();
    let layout = layout(&cabane, "first");
    for _ in 0..2 {
        cabane.run(&["build", &directory, BUILT, "--replace", "--key", &key]).success();
        recipe(&cabane, &layout.typed(), "", "");
    }
}

/// A recipe on a root image with a shell, which changes whatever can be changed.
fn altered(cabane: &Cabane) -> String {
    add_base(cabane, "2.17");
    exported(cabane, &["os", &typed(cabane, "oci", "os:1"), "--force"]);
    let _files = Tree::new(cabane.world.path("recipe/tool"))
        .program("bin/greet", "echo \"$GREETING from $PWD\"")
        .file("share/text", "a text");
    cabane.world.file("recipe/one.conf", "one file");
    recipe(
        cabane,
        "oci:../os:1",
        "  files:\n    /opt/tool: tool\n    /etc/one.conf: one.conf\n  \
         entrypoint: [greet]\n  working-directory: /opt/tool\n",
        "description: a tool\nviews:\n  default:\n    env_vars:\n      prepend_path:\n        \
         - PATH: $@mount@/opt/tool/bin\n      set:\n        - GREETING: hello\n  \
         loud:\n    env_vars:\n      set:\n        - GREETING: HELLO\n",
    )
}

#[test]
fn files_views_and_what_it_starts_are_those_of_the_recipe() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let recipe = altered(&cabane);
        cabane.run(&["build", &recipe, BUILT]).success();
        let seen = cabane.run(&["run", "built"]).success();
        assert_eq!(seen.stdout, "hello from /opt/tool\n", "{who:?}");
        let script = "cat /etc/one.conf /opt/tool/share/text; echo /$GREETING; echo $CABANE_TEST";
        let arguments = ["run", "--view=loud", "built", "--", "sh", "-c", script];
        let seen = cabane.run(&arguments).success();
        assert_eq!(seen.stdout, "one filea text/HELLO\nos\n", "{who:?}");
    }
}

#[test]
fn times_and_modes_of_the_files_of_a_recipe_change_nothing() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let recipe = altered(&cabane);
    cabane.run(&["build", &recipe, BUILT]).success();
    let before = digest_of(&cabane, BUILT);
    let file = cabane.world.path("recipe/tool/share/text");
    let opened = fs::File::options().write(true).open(&file).unwrap();
    opened.set_modified(UNIX_EPOCH + Duration::from_secs(77)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).unwrap();
    let seen = cabane.run(&["build", &recipe, BUILT]).success();
    assert!(!seen.stderr.contains("nothing has changed"), "{seen:?}");
    assert_eq!(digest_of(&cabane, BUILT), before);
    fs::write(&file, "another text").unwrap();
    cabane.run(&["build", &recipe, BUILT]).success();
    assert_ne!(digest_of(&cabane, BUILT), before);
}

#[test]
fn an_import_does_not_take_what_a_recipe_has_changed() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let recipe = altered(&cabane);
    cabane.run(&["build", &recipe, BUILT]).success();
    let from = typed(&cabane, "oci", "os:1");
    cabane.run(&["import", &from, TOOL]).success();
    assert_ne!(digest_of(&cabane, BUILT), digest_of(&cabane, TOOL));
    let names = crate::export::names_in(&cabane, &image_file(&cabane, TOOL), "");
    assert!(!names.contains_key("opt/tool"));
}

#[test]
fn a_stack_is_put_on_an_imported_image() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        add_stack(&cabane, "2.10");
        add_base(&cabane, "2.17");
        let recipe = recipe(
            &cabane,
            "image:os",
            "  images: [stack]\n",
            "views:\n  more:\n    env_vars:\n      set:\n        - MORE: \"1\"\n",
        );
        cabane.run(&["build", &recipe, BUILT]).success();
        // The labels of what it is made of are not needed any more.
        cabane.run(&["image", "rm", STACK]).success();
        cabane.run(&["image", "rm", BASE]).success();
        let seen = cabane.run(&["run", "built"]).success();
        assert_eq!(seen.stdout, "hello from stack\n", "{who:?}");
        let arguments = ["run", "--view=more", "built", "--", "sh", "-c"];
        let script = "hello; echo $MORE; cat /etc/image";
        let seen = cabane.run(&[&arguments[..], &[script]].concat()).success();
        assert_eq!(seen.stdout, "hello from stack\n1\nos", "{who:?}");
    }
}

#[test]
fn images_that_do_not_go_together_are_refused() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    add_stack(&cabane, "2.99");
    add_base(&cabane, "2.17");
    let cases = [
        ("image:os", "stack", "needs the GNU C library 2.99, and the container image has 2."),
        ("image:os", "os", "cannot be put on another one"),
        ("image:stack", "stack", "no root file system of its own"),
        ("image:nothing", "stack", "nothing"),
    ];
    for (from, image, printed) in cases {
        let section = format!("  images: [{image}]\n");
        let recipe = recipe(&cabane, from, &section, "");
        let seen = cabane.run(&["build", &recipe, BUILT]);
        assert!(seen.code == 7 && seen.stderr.contains(printed), "{seen:?}");
    }
}

#[test]
fn a_stack_that_was_built_anew_is_put_in_again() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let tree = add_stack(&cabane, "");
    add_base(&cabane, "2.17");
    let recipe = recipe(&cabane, "image:os", "  images: [stack]\n", "");
    cabane.run(&["build", &recipe, BUILT]).success();
    let seen = cabane.run(&["build", &recipe, BUILT]).success();
    assert!(seen.stderr.contains("nothing has changed"), "{seen:?}");
    fs::write(tree.join("lib/text"), "another text").unwrap();
    let image = cabane.world.path("other.squashfs");
    squashfs(&tree, &image);
    let arguments = ["image", "add", "--force", STACK, image.to_str().unwrap()];
    cabane.run(&arguments).success();
    cabane.run(&["build", &recipe, BUILT]).success();
    let text = content(&cabane, BUILT, "user-environment/lib/text");
    assert_eq!(text, "another text");
}

#[test]
fn a_tag_that_was_moved_is_taken_when_it_is_requested_and_is_reported() {
    let skopeo = needs!("skopeo");
    needs!("docker-registry");
    let cabane = Cabane::new(Who::OrdinaryUser);
    let registry = RealRegistry::start(&cabane.world.path("registry"));
    let push = |text: &str| {
        let to = format!("{}/tool:1", registry.url().replace("http://", "docker://"));
        let mut copy = Command::new(&skopeo);
        copy.args(["copy", "--insecure-policy", "--dest-tls-verify=false"]);
        let output = copy.args([layout(&cabane, text).typed(), to]).output();
        assert!(output.unwrap().status.success());
    };
    push("first");
    let recipe = recipe(&cabane, &format!("{}/tool:1", registry.url()), "", "");
    cabane.run(&["build", &recipe, BUILT]).success();
    push("second");
    // What was locked stays, and the registry gets no request.
    let seen = cabane.run(&["build", &recipe, BUILT]).success();
    assert!(seen.stderr.contains("nothing has changed"), "{seen:?}");
    let seen = cabane.run(&["build", "--from=pack", &recipe, BUILT]).success();
    assert_eq!(content(&cabane, BUILT, "etc/text"), "first", "{seen:?}");
    let check = cabane.run(&["import", "--check", BUILT]);
    assert_eq!(check.code, 9, "{check:?}");
    let seen = cabane.run(&["build", "--from=lock", &recipe, BUILT]).success();
    assert!(seen.stderr.contains("is another image now: it was sha256:"), "{seen:?}");
    assert_eq!(content(&cabane, BUILT, "etc/text"), "second");
}

#[test]
fn an_image_that_changed_after_it_was_locked_is_refused() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let first = layout(&cabane, "first");
    let recipe = recipe(&cabane, &first.typed(), "", "");
    cabane.run(&["build", "--until=lock", &recipe]).success();
    let second = layout(&cabane, "second");
    fs::remove_dir_all(&first.path).unwrap();
    fs::rename(&second.path, &first.path).unwrap();
    let seen = cabane.run(&["build", &recipe, BUILT]);
    assert!(
        seen.code == 7
            && seen.stderr.contains("is another image now: it should be sha256:")
            && seen.stderr.contains("`cabane build --from lock`"),
        "{seen:?}"
    );
    cabane.run(&["build", "--from=lock", &recipe, BUILT]).success();
    assert_eq!(content(&cabane, BUILT, "etc/text"), "second");
}

#[test]
fn what_a_recipe_takes_for_other_processors_is_labelled_so() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = Layout::new(&cabane, "foreign");
    let image = layout.image(&[layer(&root(&cabane, "first"))], "arm64");
    layout.name(image, "1");
    let section = "  platform: linux/arm64\n";
    let recipe = recipe(&cabane, &layout.typed(), section, "");
    cabane.run(&["build", &recipe, "built/1.0"]).success();
    let seen = cabane.run(&["image", "ls", "--json"]).success();
    assert!(seen.stdout.contains("\"aarch64\""), "{seen:?}");
}

#[test]
fn the_plan_says_what_is_got() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let from = layout(&cabane, "first").typed();
    let recipe = recipe(&cabane, &from, "", "");
    let arguments = ["build", "--dry-run", "--json", &recipe, BUILT];
    let seen = cabane.run(&arguments).success().stdout;
    let plan: Value = serde_json::from_str(&seen).unwrap();
    let steps = plan["steps"].as_array().unwrap();
    let names: Vec<_> = steps.iter().map(|one| one["name"].as_str()).collect();
    assert_eq!(
        (plan["mount_point"].as_str(), names),
        (Some("/"), vec![Some("lock"), Some("pack")])
    );
}

#[test]
fn what_cannot_be_built_is_refused_with_what_to_do() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let from = layout(&cabane, "first").typed();
    let cases = [
        (from.as_str(), "  files: {/opt/a: missing}\n", "missing, which is not"),
        (from.as_str(), "  platform: linux/arm64\n", "is not there for linux/arm64"),
        ("oci:nowhere:1", "", "nowhere"),
        (
            from.as_str(),
            "  files: {/etc: config.yaml}\n",
            "cause: `/etc` is a directory in the image, and no directory here\n\
             hint: a file needs a name of its own there, such as `/etc/NAME`",
        ),
        (
            from.as_str(),
            "  files: {/etc/text/a: config.yaml}\n",
            "`/etc/text` is no directory in the image, and a directory here",
        ),
    ];
    for (from, section, printed) in cases {
        let recipe = recipe(&cabane, from, section, "");
        let seen = cabane.run(&["build", &recipe, BUILT]);
        assert!(seen.code == 7 && seen.stderr.contains(printed), "{seen:?}");
    }
    cabane.run(&["import", from.as_str(), TOOL]).success();
    let recipe = self::recipe(&cabane, "image:tool", "  platform: linux/arm64\n", "");
    let seen = cabane.run(&["build", &recipe, BUILT]);
    let printed = "`image:tool` is for linux/amd64, and the recipe wants linux/arm64";
    assert!(seen.code == 7 && seen.stderr.contains(printed), "{seen:?}");
    let recipe = self::recipe(&cabane, &from, "", "");
    let target = cabane.world.path("installed").display().to_string();
    let seen = cabane.run(&["build", "--install", &target, &recipe]);
    assert!(seen.code == 7 && seen.stderr.contains("--install"), "{seen:?}");
}
