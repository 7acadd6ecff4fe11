// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Several images at once, in any order, and beside a virtual environment.

use std::process::Command;

use cabane_testkit::{Tree, squashfs};

use crate::cabane::{Cabane, Who, everybody, finished};

/// A world with two versions of one image, built for two mount points.
fn two_versions(who: Who) -> Cabane {
    let cabane = Cabane::new(who);
    for version in ["1.0", "2.0"] {
        let name = format!("lib{version}");
        let image = cabane.image(&name, &cabane.mount_point(&name));
        let label = format!("lib/{version}:v1@here%x86_64");
        cabane.run(&["image", "add", &label, &image]).success();
    }
    cabane
}

fn path_of(cabane: &Cabane, images: &str, views: &str) -> String {
    let script = "echo $PATH | tr : '\\n' | grep mnt";
    let views = format!("--view={views}");
    let seen = cabane.run(&["run", images, &views, "--", "sh", "-c", script]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    seen.stdout.replace("[WORLD]/mnt/", "")
}

#[test]
fn a_mount_point_inside_anothers_tree_is_seen_in_either_order() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let tools = cabane.image("tools", "/unused");
        let outer = "app:/cabane-outer".to_owned();
        let inner = format!("{tools}:/cabane-outer/inner");
        for images in [[&outer, &inner], [&inner, &outer]] {
            let images = images.map(String::as_str).join(",");
            let arguments =
                ["run", &images, "--", "cat", "/cabane-outer/name", "/cabane-outer/inner/name"];
            let seen = cabane.run(&arguments);
            assert_eq!(
                (seen.code, seen.stdout.as_str()),
                (0, "apptools"),
                "as {who:?}: {}",
                seen.stderr
            );
        }
    }
}

#[test]
fn an_image_can_cover_a_directory_of_another() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let tools = cabane.image("tools", "/unused");
        let images = format!("{tools}:/cabane-outer/bin,app:/cabane-outer");
        let arguments =
            ["run", &images, "--", "cat", "/cabane-outer/bin/name", "/cabane-outer/name"];
        let seen = cabane.run(&arguments);
        assert_eq!(
            (seen.code, seen.stdout.as_str()),
            (0, "toolsapp"),
            "as {who:?}: {}",
            seen.stderr
        );
    }
}

#[test]
fn a_directory_can_be_mounted_inside_an_image() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        cabane.world.file("data/input", "data\n");
        cabane.world.file(
            "work/climate.toml",
            "mounts = [\"../data:/cabane-outer/data\"]\nimages = [\"app:/cabane-outer\"]\n",
        );
        let arguments = [
            "run",
            "./climate.toml",
            "--",
            "cat",
            "/cabane-outer/data/input",
            "/cabane-outer/name",
        ];
        let seen = cabane.run(&arguments);
        assert_eq!(
            (seen.code, seen.stdout.as_str()),
            (0, "data\napp"),
            "as {who:?}: {}",
            seen.stderr
        );
    }
}

#[test]
fn views_of_two_versions_are_distinguished_by_version_and_by_mount_point() {
    for who in everybody() {
        let cabane = two_versions(who);
        let one = cabane.mount_point("lib1.0");
        let views = format!("{one}:default,lib/2.0:default");
        let path = path_of(&cabane, "lib/1.0,lib/2.0", &views);
        assert_eq!(path, "lib2.0/bin\nlib1.0/bin\n", "as {who:?}");
    }
}

#[test]
fn a_view_of_two_versions_is_answered_with_how_to_distinguish_them() {
    let cabane = two_versions(Who::OrdinaryUser);
    let seen = cabane.run(&["run", "lib/1.0,lib/2.0", "--view=lib:default", "--", "true"]);
    let expected = "error: several images have a view `lib:default`\n\
                    hint: write `lib/1.0:default` or `lib/2.0:default`\n";
    assert_eq!(seen, finished(125, "", expected));
}

#[test]
fn the_view_of_an_image_at_another_place_follows_it() {
    for who in everybody() {
        let cabane = two_versions(who);
        let place = cabane.mount_point("elsewhere");
        let images = format!("lib/1.0,lib/2.0:{place}");
        let path = path_of(&cabane, &images, "lib/1.0:default,lib/2.0:default");
        assert_eq!(path, "elsewhere/bin\nlib1.0/bin\n", "as {who:?}");
    }
}

#[test]
fn one_image_at_two_places_has_views_at_both() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let (one, two) = (cabane.mount_point("app"), cabane.mount_point("two"));
        let views = format!("{two}:default,{one}:default");
        let path = path_of(&cabane, &format!("app,app:{two}"), &views);
        assert_eq!(path, "app/bin\ntwo/bin\n", "as {who:?}");
    }
}

#[test]
fn an_environment_entered_again_inside_itself_is_the_same() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let tools = cabane.image("tools", &cabane.mount_point("tools"));
        let images = format!("app,{tools}");
        let program = cabane.program().to_owned();
        let inner = ["run", &images, "--", &program, "status", "--format=views"];
        let arguments = [&["run", &images, "--", program.as_str()], &inner[..]].concat();
        assert_eq!(
            cabane.run(&arguments),
            finished(0, "app:default,tools:default\n", ""),
            "as {who:?}"
        );
    }
}

/// A world with an image that does everything to Python that a view can do, and an
/// active virtual environment with one package `mine`.
fn with_venv(who: Who) -> (Cabane, Command) {
    let cabane = Cabane::new(who);
    let place = cabane.mount_point("py");
    let lists = format!(
        r#"{{"PATH":[{{"op":"prepend","value":["{place}/bin"]}}],"PYTHONPATH":[{{"op":"prepend","value":["{place}/lib"]}}]}}"#
    );
    let scalars = format!(r#"{{"PYTHONHOME":"{place}","VIRTUAL_ENV":"{place}"}}"#);
    let meta = format!(
        r#"{{"name":"py","mount":"{place}","default-view":"default","views":{{"default":{{"env":
        {{"version":1,"values":{{"list":{lists},"scalar":{scalars}}}}}}}}}}}"#
    );
    let tree = Tree::new(cabane.world.path("trees/py"))
        .program("bin/python", "echo the python of the image")
        .file("lib/mine.py", "where = 'image'\n")
        .file("lib/other.py", "where = 'image'\n")
        .file("meta/env.json", &meta);
    squashfs(tree.root(), &cabane.world.path("py.squashfs"));
    let venv = cabane.world.path("work/venv");
    let made = cabane.finish(cabane.other("/usr/bin/python3").args([
        "-m",
        "venv",
        "--without-pip",
        "venv",
    ]));
    made.success();
    let lib = std::fs::read_dir(venv.join("lib")).unwrap().next().unwrap().unwrap();
    std::fs::write(lib.path().join("site-packages/mine.py"), "where = 'venv'\n").unwrap();
    let script = "import sys, mine, other; print(sys.prefix, mine.where, other.where)";
    let mut command = cabane.command(&["run", "../py.squashfs", "--", "python", "-c", script]);
    let path = format!("{}:/usr/bin:/bin:/usr/sbin:/sbin", venv.join("bin").display());
    command.env("VIRTUAL_ENV", &venv).env("PATH", path);
    (cabane, command)
}

#[test]
fn a_virtual_environment_of_the_users_wins_over_the_image() {
    for who in everybody() {
        let (cabane, mut command) = with_venv(who);
        let seen = cabane.finish(&mut command);
        let warning = "warning: a view sets PYTHONHOME; it is left out, as your virtual environment \
                       [WORLD]/work/venv could not start its Python\n";
        let expected = finished(0, "[WORLD]/work/venv venv image\n", warning);
        assert_eq!(seen, expected, "as {who:?}");
    }
}

#[test]
fn a_virtual_environment_that_is_not_active_changes_nothing() {
    let (cabane, mut command) = with_venv(Who::OrdinaryUser);
    command.env_remove("VIRTUAL_ENV");
    assert_eq!(cabane.finish(&mut command), finished(0, "the python of the image\n", ""));
}

#[test]
fn the_python_of_an_inner_image_wins_over_that_of_an_outer_one() {
    for who in everybody() {
        let (cabane, _) = with_venv(who);
        let inner_place = cabane.mount_point("inner");
        let meta = format!(
            r#"{{"name":"inner","mount":"{inner_place}","default-view":"default","views":{{"default":
            {{"env":{{"version":1,"values":{{"list":{{"PATH":[{{"op":"prepend","value":["{inner_place}/bin"]}}]}},
            "scalar":{{"VIRTUAL_ENV":"{inner_place}"}}}}}}}}}}}}"#
        );
        let tree = Tree::new(cabane.world.path("trees/inner"))
            .program("bin/python", "echo the inner python in $VIRTUAL_ENV")
            .file("meta/env.json", &meta);
        squashfs(tree.root(), &cabane.world.path("inner.squashfs"));
        let program = cabane.program().to_owned();
        let arguments =
            ["run", "../py.squashfs", "--", &program, "run", "../inner.squashfs", "--", "python"];
        let expected = "the inner python in [WORLD]/mnt/inner\n";
        assert_eq!(cabane.run(&arguments), finished(0, expected, ""), "as {who:?}");
    }
}

#[test]
fn three_levels_are_seen_in_any_order() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let images = ["one", "two", "three"].map(|name| cabane.image(name, "/unused"));
        let [one, two, three] = &images;
        let places = [
            format!("{three}:/cabane-1/bin/3"),
            format!("{two}:/cabane-1/bin"),
            format!("{one}:/cabane-1"),
        ];
        let names = ["/cabane-1/name", "/cabane-1/bin/name", "/cabane-1/bin/3/name"];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let images = order.map(|one| places[one].as_str()).join(",");
            let seen = cabane.run(&[&["run", &images, "--", "cat"], &names[..]].concat());
            assert_eq!(
                (seen.code, seen.stdout.as_str()),
                (0, "onetwothree"),
                "as {who:?}, {order:?}: {}",
                seen.stderr
            );
        }
    }
}

#[test]
fn an_inner_environment_can_mount_inside_an_image_of_the_outer_one() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let tools = cabane.image("tools", "/unused");
        let inner = format!("{tools}:/cabane-outer/new/deep");
        let arguments = [
            "run",
            "app:/cabane-outer",
            "--",
            cabane.program(),
            "run",
            &inner,
            "--",
            "cat",
            "/cabane-outer/name",
            "/cabane-outer/new/deep/name",
        ];
        let seen = cabane.run(&arguments);
        assert_eq!(
            (seen.code, seen.stdout.as_str()),
            (0, "apptools"),
            "as {who:?}: {}",
            seen.stderr
        );
    }
}

#[test]
fn several_environments_are_saved_as_one() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let tools = cabane.image("tools", &cabane.mount_point("tools"));
        let script = format!(
            "$CABANE run app -- $CABANE run {tools} -- sh -c \
             '$CABANE status >nested && $CABANE status --save nested.toml 2>/dev/null' && \
             $CABANE run ./nested.toml -- $CABANE status >again && cmp nested again"
        );
        let seen = cabane.finish(cabane.other("sh").args(["-c", &script]));
        assert_eq!(seen, finished(0, "", ""), "as {who:?}");
    }
}
